"""Edges: orders between instructions that the kernel asks for, beside those of its data.

A waiting edge is a semaphore: its consumer starts when its producer has ended. Any other edge is an
order of issue: the consumer starts no earlier than the producer, at no cost, and may overlap it on
another engine. An edge may point backwards, to a producer that the kernel issues later:
`apply_edges` then issues the consumer after it. Values are those of the kernel's own order, since
an edge that contradicts the data is refused as a cycle.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from trnsim.errors import SourceLine
from trnsim.isa import Instruction
from trnsim.memory.storage import next_serial
from trnsim.program.dependencies import Before

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.program.program import Program

_OPEN: Final = 1 << 62

Turns = tuple[tuple[int, int], ...]
"""The device loops around an instruction, outermost first: (loop, turn) of each.

Loops are numbered in the turn around them, so an instruction of a loop's body has the same loops in
every turn.
"""


class Edge(NamedTuple):
    """An order between two instructions of a program.

    Attributes:
        consumer: the later instruction.
        producer: the earlier instruction.
        waits: true for a semaphore, false for an order of issue.
        form: the kernel's way to ask for it: "depends_on" or "with_schedule".
        line: the user's line that asks for it.
        text: consumer and producer in words, the same for all edges of a statement.
    """

    consumer: int
    producer: int
    waits: bool
    form: str
    line: SourceLine | None
    text: str


@dataclass
class Ordering:
    """The edges of a program, and its blocks of instructions that keep their order.

    Attributes:
        edges: the edges in the order in which the kernel asked for them.
        blocks: [first, end) of the instructions of each outermost `nl.no_reorder`, in order.
    """

    edges: list[Edge] = field(default_factory=list[Edge])
    blocks: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    _producers: defaultdict[int, list[int]] = field(
        default_factory=lambda: defaultdict(list), compare=False
    )
    # (-producer, consumer) of the edges that point back, in order.
    _back: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]], compare=False)

    def add(self, edge: Edge) -> None:
        """Add an edge that closes no cycle (`cycle`)."""
        self.edges.append(edge)
        self._producers[edge.consumer].append(edge.producer)
        if edge.producer > edge.consumer:
            insort(self._back, (-edge.producer, edge.consumer))

    @contextmanager
    def block(self, count_issued: Callable[[], int]) -> Generator[None]:
        """A running block; `count_issued` is the number of instructions so far."""
        place, first = len(self.blocks), count_issued()
        self.blocks.append((first, _OPEN))
        try:
            yield
        finally:
            self.blocks[place] = first, count_issued()

    @property
    def points_back(self) -> bool:
        """True if the producer of an edge is issued after its consumer."""
        return bool(self._back)

    def cycle(self, program: Program, consumer: int, producer: int) -> list[int]:
        """The cycle that an edge would close: instructions that each come after the next.

        From `producer` back to `consumer`; empty if there is none.
        """
        if producer < consumer and not self.points_back:
            return []
        lowest = self._lowest_predecessor(consumer)
        before = _Predecessors(program, self)
        follower = {producer: producer}
        pending = [producer]
        while pending:
            index = pending.pop()
            if index == consumer:
                path = [index]
                while path[-1] != producer:
                    path.append(follower[path[-1]])
                return path[::-1]
            for earlier in before.of(index):
                if earlier >= lowest and earlier not in follower:
                    follower[earlier] = index
                    pending.append(earlier)
        return []

    def _lowest_predecessor(self, consumer: int) -> int:
        """The first instruction from which edges that point back may lead to `consumer`."""
        lowest = consumer
        for negative_producer, earlier in self._back:
            if -negative_producer < lowest:
                break
            lowest = min(lowest, earlier)
        return lowest

    def renumbered(self, place: Sequence[int]) -> Ordering:
        """The edges in a program where instruction i has become instruction `place[i]`."""
        return Ordering(
            [
                edge._replace(consumer=place[edge.consumer], producer=place[edge.producer])
                for edge in self.edges
            ]
        )

    def producers(self, consumer: int) -> Sequence[int]:
        """The producers of the edges of `consumer`."""
        return self._producers.get(consumer, ())

    def block_before(self, index: int) -> int:
        """The instruction before `index` in its block, or -1."""
        at = bisect_right(self.blocks, (index, _OPEN)) - 1
        if at < 0:
            return -1
        first, end = self.blocks[at]
        return index - 1 if first < index < end else -1


class _Predecessors:
    """All instructions that an instruction must come after."""

    def __init__(self, program: Program, ordering: Ordering) -> None:
        self._program, self._ordering = program, ordering
        are_meetings = [
            type(checked.instruction).meeting is not Instruction.meeting
            for checked in program.checked
        ]
        # A core comes to its meetings with others in the order of issue.
        self._meetings: list[int] = []
        if any(are_meetings):
            self._meetings = np.flatnonzero(
                np.array(are_meetings)[np.array(program.which)]
            ).tolist()

    def of(self, index: int) -> Iterator[int]:
        """The instructions that `index` must come after."""
        program, ordering = self._program, self._ordering
        yield from program.waits_for(index)
        yield from program.follows(index)
        yield from ordering.producers(index)
        earlier = ordering.block_before(index)
        if earlier >= 0:
            yield earlier
        at = bisect_right(self._meetings, index) - 1
        if at > 0 and self._meetings[at] == index:
            yield self._meetings[at - 1]


def apply_edges(program: Program, edges: Sequence[Edge] | None = None) -> Program:
    """`program` with the dependences of its `edges`, by default of all; reordered where needed."""
    if program.without_edges is not None or not program.ordering.edges:
        return program
    chosen_edges = program.ordering.edges if edges is None else list(edges)
    ordering = Ordering(blocks=program.ordering.blocks)
    for edge in chosen_edges:
        ordering.add(edge)
    base = program
    if ordering.points_back:
        order = _issue_order(program, ordering)
        place = array("l", [0]) * len(program)
        for at, index in enumerate(order):
            place[index] = at
        base = _reordered(program, order, place)
        chosen_edges = ordering.renumbered(place).edges
    semaphores: defaultdict[int, set[int]] = defaultdict(set)
    orders: defaultdict[int, set[int]] = defaultdict(set)
    for edge in chosen_edges:
        (semaphores if edge.waits else orders)[edge.consumer].add(edge.producer)
    before: dict[int, Before] = {}
    for index in {*semaphores, *orders}:
        waits_for = semaphores[index].union(base.waits_for(index))
        follows = orders[index].union(base.follows(index)) - waits_for
        before[index] = Before(sorted(waits_for), sorted(follows))
    result = base.with_before(sorted(before.items()))
    result.without_edges, result.ordering = program, Ordering(chosen_edges)
    return result


def _issue_order(program: Program, ordering: Ordering) -> list[int]:
    """The instructions in an order that obeys all edges, the earliest issued first."""
    before = _Predecessors(program, ordering)
    missing = array("l", [0]) * len(program)
    after: defaultdict[int, list[int]] = defaultdict(list)
    for index in range(len(program)):
        for earlier in before.of(index):
            after[earlier].append(index)
            missing[index] += 1
    ready = [index for index in range(len(program)) if not missing[index]]
    order: list[int] = []
    while ready:
        index = heappop(ready)
        order.append(index)
        for later in after[index]:
            missing[later] -= 1
            if not missing[later]:
                heappush(ready, later)
    return order


def _reordered(program: Program, order: Sequence[int], place: Sequence[int]) -> Program:
    """`program`, issued in another order that keeps its dependences: `place` is its inverse."""
    renumbered = program.without_instructions()
    for index in order:
        waits_for, follows = (
            sorted(place[earlier] for earlier in predecessors)
            for predecessors in (program.waits_for(index), program.follows(index))
        )
        renumbered.append(program.which[index], Before(waits_for, follows), program.line(index))
        renumbered.tensor_of.append(program.tensor_of[index])
        renumbered.touches.append(program.touches.tiles_of(index))
    first: dict[int, int] = {}
    last = {serial: at for at, serial in enumerate(renumbered.tensor_of)}
    for at in range(len(order)):
        for serial, _, _ in renumbered.touches.tiles_of(at):
            first.setdefault(serial, at)
            last[serial] = at
    for serial, use in program.uses.items():
        first_write = place[use.first_write] if use.first_write >= 0 else -1
        renumbered.uses[serial] = replace(
            use,
            first_write=first.get(serial, first_write),
            last_use=max(last.get(serial, 0), place[use.last_use]),
        )
    return renumbered


class Nesting:
    """The device loops that run around the next instruction.

    Attributes:
        turns: the loops and their turns.
        since: lower bound of the serial numbers of storages allocated in the outermost loop.
        is_read: true once Python has read a register in the outermost loop, so that its turns may
            differ.
    """

    def __init__(self) -> None:
        self.turns: Turns = ()
        self.since = 0
        self.is_read = False
        self._starts: list[int] = []  # below the serial numbers of each loop's running turn
        self._loop_numbers: dict[Turns, int] = {}  # of the last loop in each turn
        self._note_counts: dict[Turns, dict[str, int]] = {}
        self._notes: dict[tuple[tuple[int, ...], str, int], object] = {}
        self._lengths: dict[tuple[int, ...], int] = {}

    def earlier(self, kind: str, note: object) -> object:
        """The note of an earlier turn at this place of the body; in the first turn `note` itself.

        The n-th note of a kind in a turn has the n-th place, as all turns issue the same
        instructions. None if a complete turn had fewer notes.
        """
        loops = loops_of(self.turns)
        counts = self._note_counts.setdefault(self.turns, {})
        place = counts[kind] = counts.get(kind, 0) + 1
        if place > self._lengths.get(loops, place):
            return None
        return self._notes.setdefault((loops, kind, place), note)

    def ends_alike(self, kind: str) -> bool:
        """True if the turn that ends has as many notes of a kind as the turns before it."""
        count = self._note_counts.get(self.turns, {}).get(kind, 0)
        return self._lengths.setdefault(loops_of(self.turns), count) == count

    def depth(self, serial: int) -> int:
        """Number of the running turns in which a storage was allocated: 0 if in an earlier turn."""
        return sum(serial > start for start in self._starts)

    @contextmanager
    def loop(self) -> Generator[Callable[[], None]]:
        """A running device loop, as a context; the function that it yields begins a turn."""
        outer_turns = self.turns
        number = self._loop_numbers[outer_turns] = self._loop_numbers.get(outer_turns, -1) + 1
        turn = -1
        if not outer_turns:
            self.since, self.is_read = next_serial(), False
        starts = self._starts

        def begin() -> None:
            nonlocal turn
            if turn >= 0:
                self._note_counts.pop(self.turns, None)
            starts[len(outer_turns) :] = [next_serial()]
            turn += 1
            self.turns = (*outer_turns, (number, turn))

        try:
            yield begin
        finally:
            if turn >= 0:
                self._note_counts.pop(self.turns, None)
            if len(self.turns) > len(outer_turns):  # else a loop around it has ended before
                del starts[len(outer_turns) :]
                self.turns = outer_turns


def loops_of(turns: Turns) -> tuple[int, ...]:
    """The loops of `turns`, without the turns."""
    return tuple(loop for loop, _ in turns)
