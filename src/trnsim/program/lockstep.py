"""Two NeuronCores run one kernel (LNC=2), in deterministic lockstep.

Each core's program runs in a greenlet of its own and hands over after every instruction, so a run
repeats exactly, whatever the host does. A core that waits for the other (a barrier, an exchange)
hands over until what it waits for has happened; when all wait, that is a deadlock, and an error
says who waits for whom.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING

from greenlet import getcurrent, greenlet

from trnsim.errors import Deadlock, SourceLine, user_line

if TYPE_CHECKING:
    from trnsim.dtypes import Array
    from trnsim.memory import Tile

    Wait = tuple[str, SourceLine | None]


class Lockstep:
    """Runs one function a core, an instruction at a time in turn."""

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self._hub: greenlet | None = None
        self._turns: list[greenlet] = []
        self._waits: dict[int, Wait] = {}

    def run(self, bodies: list[Callable[[], object]]) -> list[object]:
        """The results of `bodies`, one a core.

        Raises:
            Deadlock: when every core waits for another.
        """
        self._hub = getcurrent()
        self._turns = [greenlet(body) for body in bodies]
        for turn in self._turns:
            turn.gr_context = copy_context()  # a greenlet starts in an empty one
        results: list[object] = [None] * len(bodies)
        try:
            while alive := self._alive():
                waiting_before = dict(self._waits)
                for core in alive:
                    results[core] = self._turns[core].switch()
                if self._alive() == alive:
                    self._refuse_deadlock(alive, waiting_before)
        finally:
            self._unwind()
        return results

    def _unwind(self) -> None:
        """End the cores that still run after another failed; what they raise then is no news."""
        for turn in self._turns:
            if not turn.dead:
                with suppress(Exception):
                    turn.throw()

    def hand_over(self) -> None:
        """Let the other cores take their turn."""
        if self._hub is not None:
            self._hub.switch()

    def wait_until(self, core: int, happened: Callable[[], bool], what: str) -> None:
        """Hand over until `happened`; `what` says in an error what the core waits for."""
        if not happened():
            self._waits[core] = (what, user_line())
            while not happened():
                self.hand_over()
            self._waits.pop(core, None)

    def _alive(self) -> list[int]:
        return [core for core, turn in enumerate(self._turns) if not turn.dead]

    def _refuse_deadlock(self, alive: list[int], waiting_before: dict[int, Wait]) -> None:
        """Every core that still runs has waited for the whole of a round."""
        if any(
            core not in self._waits or self._waits[core] is not waiting_before.get(core)
            for core in alive
        ):
            return
        ended = [core for core in range(self.cores) if core not in alive]
        who = [f"core {core} waits {what} at {line}" for core, (what, line) in self._waits.items()]
        who += [f"core {core} has ended" for core in ended]
        raise Deadlock(
            f"the cores wait for each other for ever: {'; '.join(who)}",
            fix="let both cores issue the same barriers and exchanges in the same order",
            source="nki.isa.core_barrier, nki.isa.sendrecv",
            line=next(iter(self._waits.values()))[1],
        )


class Meeting:
    """Barriers and exchanges between the cores of a logical core; `meets` hears of each arrival."""

    def __init__(
        self, lockstep: Lockstep, meets: Callable[[int, Hashable, Tile | None], None]
    ) -> None:
        self._lockstep = lockstep
        self._meets = meets
        self._arrived = [0] * lockstep.cores
        self._mail: dict[tuple[int, int, int, int], Array] = {}
        self._sent: dict[tuple[int, int], int] = {}

    def link(self, core: int) -> Link:
        """The other cores as `core` sees them."""
        return Link(self, core)

    def barrier(self, core: int, data: Tile) -> None:
        """Wait until every core has arrived as often as this one."""
        self._arrived[core] += 1
        here = self._arrived[core]
        self._meets(core, ("barrier", here), data)
        self._lockstep.wait_until(core, lambda: min(self._arrived) >= here, "at a core_barrier")

    def exchange(self, core: int, pipe: int, to_rank: int, from_rank: int, bits: Array) -> Array:
        """Send `bits` and wait for what `from_rank` sends on the same pipe, in order."""
        turn = self._sent.get((core, pipe), 0)
        self._sent[core, pipe] = turn + 1
        self._mail[core, to_rank, pipe, turn] = bits
        self._meets(core, ("pipe", pipe, turn), None)
        wanted = (from_rank, core, pipe, turn)
        self._lockstep.wait_until(
            core, lambda: wanted in self._mail, f"for core {from_rank} to send on pipe {pipe}"
        )
        return self._mail.pop(wanted)


class Link:
    """One core's view of the others (an `isa.machine.CoreLink`)."""

    def __init__(self, meeting: Meeting, core: int) -> None:
        self._meeting = meeting
        self._core = core

    def barrier(self, data: Tile) -> None:
        """Wait until the other core is here too; `data` is what both then see."""
        self._meeting.barrier(self._core, data)

    def exchange(self, pipe: int, to_rank: int, from_rank: int, bits: Array) -> Array:
        """Send `bits` to a rank and give what a rank sent on the same pipe."""
        return self._meeting.exchange(self._core, pipe, to_rank, from_rank, bits)
