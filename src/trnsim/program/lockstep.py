"""Lockstep execution: several NeuronCores run one kernel, deterministically interleaved.

Each core's program runs in its own greenlet and yields after every instruction, so runs repeat
exactly on any host. A core that waits for its group (a barrier, an exchange) yields until the group
is complete, while cores of other groups go on. If every core still running waits, that is a
deadlock, and the error names each core and the core that it waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from contextvars import copy_context
from typing import TYPE_CHECKING, Final

import numpy as np
from greenlet import getcurrent, greenlet

from trnsim.dtypes import Array
from trnsim.errors import Deadlock, SourceLine, user_line
from trnsim.isa.language.meeting import Meeting, group_of
from trnsim.memory import Tile

if TYPE_CHECKING:
    Wait = tuple[Callable[[], str], SourceLine | None, bool]

_NOTHING: Final = np.empty(0, np.void)


def do_nothing(*_: object) -> None:
    """Do nothing: the callback of an event without an observer."""


def unwind(turns: Iterable[greenlet]) -> None:
    """Stop the greenlets that still run after another failed, ignoring their errors."""
    for turn in turns:
        if not turn.dead:
            with suppress(Exception):
                turn.throw()


class Lockstep:
    """Runs a function per core, switching between them after every instruction.

    Attributes:
        yield_to_ranks: yields to other ranks; None in a world of a single rank.
    """

    def __init__(self, cores: int) -> None:
        self.cores = cores
        self.yield_to_ranks: Callable[[], None] | None = None
        self._hub: greenlet | None = None
        self._turns: list[greenlet] = []
        self._waits: dict[int, Wait] = {}

    def run(self, bodies: list[Callable[[], object]]) -> list[object]:
        """Run `bodies`, a function per core; returns their results.

        Raises:
            Deadlock: if every core waits for another.
        """
        self._hub = getcurrent()
        self._turns = [greenlet(body) for body in bodies]
        for turn in self._turns:
            turn.gr_context = copy_context()  # a greenlet starts in an empty context
        results: list[object] = [None] * len(bodies)
        try:
            alive, turns, waits = self._alive(), self._turns, self._waits
            while alive:
                waiting_before = dict(waits) if waits else {}
                has_ended = False
                for core in alive:
                    turn = turns[core]
                    results[core] = turn.switch()
                    has_ended = has_ended or turn.dead
                if has_ended:
                    alive = self._alive()
                elif waits:
                    self._all_wait(alive, waiting_before)
        finally:
            unwind(self._turns)
            self._turns, self._hub = [], None  # they refer to the cores, which refer to them
        return results

    def hand_over(self) -> None:
        """Yield to the other cores."""
        if self._hub is not None:
            self._hub.switch()

    def wait_until(
        self,
        core: int,
        has_happened: Callable[[], bool],
        describe: Callable[[], str],
        *,
        is_outside: bool = False,
    ) -> None:
        """Yield until `has_happened()`; `describe()` describes the wait in an error.

        With `is_outside`, other ranks cause the event.
        """
        if not has_happened():
            self._waits[core] = (describe, user_line(), is_outside)
            while not has_happened():
                self.hand_over()
            self._waits.pop(core, None)

    def _alive(self) -> list[int]:
        return [core for core, turn in enumerate(self._turns) if not turn.dead]

    def inner_waits(self) -> list[tuple[str, SourceLine | None]]:
        """The waits of cores for cores of the same rank, as text and source line."""
        waits = sorted(self._waits.items())
        return [
            (f"core {core}: {describe()}", line)
            for core, (describe, line, is_outside) in waits
            if not is_outside
        ]

    def _all_wait(self, alive: list[int], waiting_before: dict[int, Wait]) -> None:
        """Yield to other ranks if every running core has waited for a whole round.

        Raises:
            Deadlock: if none of them waits for another rank.
        """
        if any(
            core not in self._waits or self._waits[core] is not waiting_before.get(core)
            for core in alive
        ):
            return
        if self.yield_to_ranks is not None and any(self._waits[core][2] for core in alive):
            self.yield_to_ranks()
            return
        ended_cores = [core for core in range(self.cores) if core not in alive]
        waits = sorted(self._waits.items())
        states = [
            f"core {core} waits {describe()} at {line}" for core, (describe, line, _) in waits
        ]
        states += [f"core {core} has ended" for core in ended_cores]
        raise Deadlock(
            f"the cores wait for each other for ever: {'; '.join(states)}",
            fix="let the cores of a group issue the same barriers and exchanges in the same order",
            source="nki.isa.core_barrier, nki.isa.sendrecv",
            line=next(iter(self._waits.values()))[1],
        )


class Meetings:
    """The meetings of a launch's cores; `on_meeting` is called for each complete group."""

    def __init__(
        self, lockstep: Lockstep, on_meeting: Callable[[Sequence[int], Sequence[Tile]], None]
    ) -> None:
        self._lockstep = lockstep
        self._on_meeting = on_meeting
        # By core: the meeting that it waits in, the data that it sends, the tensor that a barrier
        # names, and the data that it receives.
        self._meetings: dict[int, Meeting] = {}
        self._offers: dict[int, Array] = {}
        self._data: dict[int, Tile] = {}
        self._results: dict[int, Array] = {}

    def link(self, core: int) -> LockstepLink:
        """The link of `core` to the other cores."""
        return LockstepLink(self, core, self._lockstep.cores)

    def meet(self, core: int, meeting: Meeting, bits: Array, data: Tile | None) -> Array:
        """Wait until the whole group of `core` has come; returns the data of the core before it."""
        self._meetings[core], self._offers[core] = meeting, bits
        if data is not None:
            self._data[core] = data
        group, missing = group_of(core, self._meetings)
        if missing is None:
            self._complete(group)
        self._lockstep.wait_until(
            core, lambda: core in self._results, lambda: self._wait_text(core)
        )
        return self._results.pop(core)

    def _complete(self, group: Sequence[int]) -> None:
        """Release a group of which all cores have come."""
        self._on_meeting(group, [self._data.pop(core) for core in group if core in self._data])
        previous = {core: self._meetings.pop(core).sender for core in group}
        offers = {core: self._offers.pop(core) for core in group}
        self._results.update({core: offers[previous[core]] for core in group})

    def _wait_text(self, core: int) -> str:
        """The core that `core` waits for, and the instruction, as text."""
        return f"for core {group_of(core, self._meetings)[1]} in {self._meetings[core].label}"


class LockstepLink:
    """A core's view of the other cores (an `isa.machine.CoreLink`)."""

    def __init__(self, meetings: Meetings, core: int, cores: int) -> None:
        self.core = core
        self.cores = cores
        self._meetings = meetings

    def meet(self, meeting: Meeting, bits: Array = _NOTHING, data: Tile | None = None) -> Array:
        """Wait until the whole group has come; returns the data of the core before this one."""
        return self._meetings.meet(self.core, meeting, bits, data)


class Mirror:
    """The link to a core that issues the same instructions at the same time.

    It comes to every meeting together with this core, so no core waits. Its data have no values.
    """

    core = 0
    cores = 2

    def meet(self, meeting: Meeting, bits: Array = _NOTHING, data: Tile | None = None) -> Array:
        """Data without values, in the shape of the data sent."""
        del meeting, data
        return bits
