"""Worlds of ranks: several launches of a kernel, each on its own cores, that meet at collectives.

Each rank runs in its own greenlet until it waits for others, as ranks share no memory; within a
rank the cores go on in lockstep. The core that completes a group computes the results of all
members; each member stores them in its own tensors when it goes on. So values do not depend on the
order in which ranks run, and runs repeat exactly. If every rank that still runs waits, that is a
deadlock, and the error names the ranks and the collectives that they wait in.

Without values a rank may run for a class of equivalent ranks (`program.likeness`). It meets only
the ranks that run, which is right if each group has ranks of a single class, or all ranks of
several. Otherwise, or if the kernel reads the number of its rank, the world sets `differs`, and its
results are invalid.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, NamedTuple

from greenlet import getcurrent, greenlet

from trnsim.dtypes import Array
from trnsim.errors import Deadlock, EmulatorError, SourceLine, user_line
from trnsim.fabric.fabric import Fabric
from trnsim.isa.collectives.setting import Groups, in_words
from trnsim.isa.language.meeting import Exchange
from trnsim.program.likeness import keeps_classes
from trnsim.program.lockstep import do_nothing, unwind

if TYPE_CHECKING:
    Arrays = Sequence[Array]


class Wait(NamedTuple):
    """The collective or meeting that a core waits in, as text, and its source line."""

    text: str
    line: SourceLine | None


class Ranks:
    """Runs a function per rank, and completes their exchanges.

    Attributes:
        order: the order in which the ranks take turns.
        differs: true if ranks of a class may differ after all.
    """

    def __init__(
        self, fabric: Fabric, count: int, classes: Sequence[tuple[int, ...]] | None = None
    ) -> None:
        """A world of `count` ranks; the first rank of each class runs, by default every rank."""
        self.fabric = fabric
        self.count = count
        self.order: Sequence[int] = range(count)
        self.differs = False
        self._classes = list(classes or ((rank,) for rank in range(count)))
        self._class_of = {ranks[0]: ranks for ranks in self._classes}
        self._running: dict[tuple[tuple[int, ...], Groups], tuple[int, ...]] = {}
        self._hub: greenlet | None = None
        self._turns: dict[int, greenlet] = {}
        self._waiting: dict[int, tuple[Exchange, Wait]] = {}
        self._received: dict[int, Arrays] = {}
        self._members: dict[int, Member] = {}
        self._completed = 0

    def member(self, rank: int) -> Member:
        """The membership of `rank` in the world, for its team."""
        return self._members.setdefault(rank, Member(self, rank))

    def run(self, bodies: Sequence[Callable[[], object]]) -> list[object]:
        """Run `bodies`, a function per running rank; returns their results.

        Raises:
            Deadlock: if every rank that still runs waits for another.
        """
        self._hub = getcurrent()
        self._turns = dict(zip(self._class_of, map(greenlet, bodies), strict=True))
        for turn in self._turns.values():
            turn.gr_context = copy_context()
        results: dict[int, object] = {}
        try:
            while alive := self._alive():
                completed = self._completed
                for rank in alive:
                    results[rank] = self._turn(rank)
                if completed == self._completed and self._alive() == alive:
                    self._refuse_deadlock(alive)
        finally:
            unwind(self._turns.values())
        return [results[rank] for rank in self._class_of]

    def hand_over(self) -> None:
        """Yield to the other ranks."""
        if self._hub is not None:
            self._hub.switch()

    def arrive(self, core: int, exchange: Exchange) -> bool:
        """Core `core` (over all ranks) joins an exchange; True if its group is complete."""
        lnc = self.fabric.lnc
        self._waiting[core] = exchange, Wait(exchange.label, user_line())
        cores = range(lnc) if exchange.is_joint else (core % lnc,)
        ranks = self._running_members(exchange)
        members = [rank * lnc + local_core for rank in ranks for local_core in cores]
        if not all(self._has_reached(member, exchange) for member in members):
            return False
        offers = [
            self._waiting[members[at]][0].offered_arrays()
            for at in range(0, len(members), len(cores))
        ]
        try:
            results = exchange.results(offers)
        except EmulatorError as error:  # the group's fault, not that of the rank that came last
            error.add_note(f"on {_ranks_text(exchange.ranks)} of {self.count}")
            raise
        for rank, arrays in zip(ranks, results, strict=True):
            if exchange.is_joint:
                self._members[rank].on_join()
            for local_core in cores:
                self._received[rank * lnc + local_core] = arrays
                self._waiting.pop(rank * lnc + local_core)
        self._completed += 1
        return True

    def has_received(self, core: int) -> bool:
        """True if the group of a core that joined is complete."""
        return core in self._received

    def take(self, core: int) -> Arrays:
        """Take the arrays that a core receives."""
        return self._received.pop(core)

    def is_among(self, rank: int, ranks: Container[int]) -> bool:
        """True if `rank` is in `ranks`; `differs` is set if only a part of its class is."""
        memberships = {member in ranks for member in self._class_of[rank]}
        self.differs |= len(memberships) > 1
        return rank in ranks

    def number_was_read(self, rank: int) -> None:
        """Record that the kernel has read the number of `rank`, which its class does not share."""
        self.differs |= len(self._class_of[rank]) > 1

    def _running_members(self, exchange: Exchange) -> tuple[int, ...]:
        """The running ranks of an exchange's group."""
        if len(self._classes) == self.count:
            return exchange.ranks
        key = exchange.ranks, exchange.groups
        if key not in self._running:
            self.differs |= not keeps_classes(self._classes, exchange.groups)
            self._running[key] = tuple(rank for rank in exchange.ranks if rank in self._class_of)
        return self._running[key]

    def _has_reached(self, member: int, exchange: Exchange) -> bool:
        """True if a core has come to the same exchange."""
        entry = self._waiting.get(member)
        if entry is None:
            return False
        member_exchange = entry[0]
        return member_exchange.label == exchange.label and member_exchange.ranks == exchange.ranks

    def _alive(self) -> list[int]:
        turns = self._turns
        return [rank for rank in self.order if rank in turns and not turns[rank].dead]

    def _turn(self, rank: int) -> object:
        """Let `rank` run until it waits or ends.

        An error names the rank, even a Python error of the kernel.
        """
        try:
            return self._turns[rank].switch()
        except Exception as error:
            if self.count > 1 and not hasattr(error, "__notes__"):
                error.add_note(f"on rank {rank} of {self.count}")
            raise

    def _refuse_deadlock(self, alive: Sequence[int]) -> None:
        """Raise `Deadlock`: every rank that runs has waited for a whole round."""
        by_wait: dict[Wait, list[int]] = {}
        for rank in sorted(alive):
            for wait in self._members[rank].waits():
                by_wait.setdefault(wait, []).append(rank)
        states = [
            f"{_ranks_text(ranks)} wait{'s' if len(ranks) == 1 else ''} in {wait.text} "
            f"at {wait.line}"
            for wait, ranks in by_wait.items()
        ]
        ended_ranks = [rank for rank in self._turns if rank not in alive]
        if ended_ranks:
            states.append(
                f"{_ranks_text(ended_ranks)} {'has' if len(ended_ranks) == 1 else 'have'} ended"
            )
        raise Deadlock(
            f"the ranks wait for each other for ever: {'; '.join(states)}",
            fix="let the ranks of a group issue the same collectives, with equal groups, shapes, "
            "dtypes and operators, in the same order, on every core of a rank",
            source="neuron-runtime/about/collectives.rst",
            line=next(iter(by_wait)).line,
        )

    def waits(self, rank: int) -> list[Wait]:
        """The waits of the cores of `rank` in collectives."""
        lnc = self.fabric.lnc
        cores = range(rank * lnc, (rank + 1) * lnc)
        waits = [self._waiting[core][1] for core in cores if core in self._waiting]
        return list(dict.fromkeys(waits))


class Member:
    """A rank's membership in the world.

    Attributes:
        on_join: called when the cores of all ranks of a group have come to a joint collective.
        inner_waits: returns the waits of its cores outside collectives.
    """

    def __init__(self, ranks: Ranks, rank: int) -> None:
        self.rank = rank
        self.on_join: Callable[[], None] = do_nothing
        self.inner_waits: Callable[[], list[Wait]] = list
        self._ranks = ranks

    def link(self, core: int, wait: WaitFunction) -> WorldLink:
        """The link of a core of the rank, which waits by calling `wait`."""
        return WorldLink(self._ranks, self.rank, core, wait)

    def hand_over(self) -> None:
        """Yield to the other ranks."""
        self._ranks.hand_over()

    def wait_alone(self, has_happened: Callable[[], bool], describe: Callable[[], str]) -> None:
        """Yield to the other ranks until `has_happened()`: the wait of a rank's only core.

        It yields at least once. So the ranks of a group go on in their order, and the first rank
        produces the record with which the others are compared.
        """
        del describe
        self.hand_over()
        while not has_happened():
            self.hand_over()

    def waits(self) -> list[Wait]:
        """The waits of its cores."""
        return self._ranks.waits(self.rank) + self.inner_waits()


WaitFunction = Callable[[Callable[[], bool], Callable[[], str]], None]
"""Yields until the first function returns true; the second describes the wait."""


class WorldLink:
    """A core's view of the other ranks (an `isa.machine.RankLink`)."""

    def __init__(self, ranks: Ranks, rank: int, core: int, wait: WaitFunction) -> None:
        self.rank = rank
        self.ranks = ranks.count
        self.core = core
        self.fabric = ranks.fabric
        self._world = ranks
        self._wait = wait
        self._number = rank * ranks.fabric.lnc + core

    def exchange(self, exchange: Exchange) -> Arrays:
        """Wait until the group is complete; returns the arrays that this core receives."""
        world, number = self._world, self._number
        world.arrive(number, exchange)
        self._wait(lambda: world.has_received(number), lambda: exchange.label)
        return world.take(number)

    def is_among(self, ranks: Container[int]) -> bool:
        """True if this rank is in `ranks`."""
        return self._world.is_among(self.rank, ranks)

    def number_was_read(self) -> None:
        """Record that the kernel has read a value that depends on the number of the rank."""
        self._world.number_was_read(self.rank)


def _ranks_text(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {in_words(sorted(set(ranks)))}"
