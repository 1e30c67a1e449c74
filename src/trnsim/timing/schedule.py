"""Schedules: start, end and cause of waiting of each instruction, in a kept order.

An instruction starts when its predecessor on its engine releases the engine and the results that it
waits for can be read; a result of another engine costs a semaphore on top. The engine is busy
for the initiation interval; the result can be read a latency later.
An edge that is an order of issue (`program.edges`) delays its consumer to its producer's start.

A transfer occupies the queue that issues it for the time of its issue, and from its start on takes
its share of the joint time of the 16 DMA engines. The Scalar Engine loads a table before a function
that needs another, and the Tensor Engine a stationary tile before a matmul with another. Cores that
run a kernel together are synchronized at meetings: core_barrier and sendrecv start on all cores of
a group when the last of them is ready, and a transfer is issued only then. So do collectives, on
the cores of all ranks of a group. A core takes part in a single meeting of each of the two kinds at
a time: the next starts no earlier. Before v3 two engines that share a port to a memory take turns.

Every time is a maximum of sums of costs, as the order is kept (`timing.order`), so no time grows
when a cost shrinks.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.arch import NeuronCore
from trnsim.isa import Cost, Engine
from trnsim.memory import Memory
from trnsim.program import Program

if TYPE_CHECKING:
    from trnsim.timing.order import Order

WAITED_FOR_NOTHING: Final = -1
_NOT_ISSUED: Final = (0.0, WAITED_FOR_NOTHING)


class EnginePlacement(NamedTuple):
    """The engine that executes an instruction, and its cost."""

    engine: Engine
    cost: Cost


class Schedule:
    """The times of the instructions of a core.

    Attributes:
        start_s: the time when each instruction started to occupy its engine.
        busy_until_s: the time when its engine was free again.
        end_s: the time when its result could be read.
        waited_for: the last instruction that each instruction waited for, or -1.
        issued_s: the time when the queue of a transfer had issued it; 0 for other instructions.
        meeting_waits_s: meeting -> the time for which its instruction waited for other cores.
    """

    def __init__(self, program: Program, core: NeuronCore, order: Order, rank: int) -> None:
        count = len(program)
        self.start_s = array("d", [0.0]) * count
        self.busy_until_s = array("d", [0.0]) * count
        self.end_s = array("d", [0.0]) * count
        self.waited_for = array("l", [WAITED_FOR_NOTHING]) * count
        self.issued_s = array("d", [0.0]) * count
        self.meeting_waits_s: dict[int, float] = {}
        self._program = program
        self._semaphore_s = float(core.engine_semaphore_s)
        self._stretch = order.stretches[rank]
        self._loads, self._queue_of = order.loads[rank], order.queues[rank]
        self._engine = [Engine.unknown] * count
        self._last: dict[Engine, int] = {}
        self._port: dict[Memory, int] = {}
        self._issued: dict[int, tuple[float, int]] = {}
        self._issue_from_s = 0.0
        self._issued_after = _issued_after(program)

    @property
    def device_time_s(self) -> float:
        """The time from the first instruction to the last result."""
        return max(self.end_s, default=0.0)

    def ready(
        self, index: int, placement: EnginePlacement, *, may_be_moved: bool = False
    ) -> tuple[float, int]:
        """The time when instruction `index` can start, and the instruction that it waited for.

        With `may_be_moved`, placements may be on other engines than those recorded: it then also
        waits for instructions that it followed on its engine and that are now on another.
        """
        engine, cost = placement
        start_s, waited_for = self._earliest_start(index, engine, may_be_moved=may_be_moved)
        if engine is Engine.dma:
            issued_s, issuer = self._issued.get(self._queue_of.get(index, 0), _NOT_ISSUED)
            if issued_s > start_s:
                start_s, waited_for = issued_s, issuer
            self._issue_from_s = start_s
        users = [self._last.get(engine), *map(self._port.get, cost.ports)]
        for earlier in users:
            if earlier is not None and self.busy_until_s[earlier] >= start_s:
                start_s, waited_for = self.busy_until_s[earlier], earlier
        return start_s, waited_for

    def _earliest_start(
        self, index: int, engine: Engine, *, may_be_moved: bool
    ) -> tuple[float, int]:
        """The time when the dependences and edges of `index` permit its start.

        Also the predecessor that permits it last, or -1.
        """
        start_s, waited_for = 0.0, WAITED_FOR_NOTHING
        engine_of, program = self._engine, self._program
        waits_for = program.waits_for(index)
        if may_be_moved:
            issue_engine = program.instruction(index).engine
            moved_predecessors = (
                i
                for i in program.follows(index)
                if engine_of[i] is not engine and program.instruction(i).engine is issue_engine
            )
            waits_for = [*waits_for, *moved_predecessors]
        for earlier in waits_for:
            ready_s = self.end_s[earlier]
            if engine_of[earlier] is not engine:
                ready_s += self._semaphore_s
            if ready_s > start_s:
                start_s, waited_for = ready_s, earlier
        if self._issued_after:
            for earlier in self._issued_after.get(index, ()):
                if self.start_s[earlier] > start_s:
                    start_s, waited_for = self.start_s[earlier], earlier
        return start_s, waited_for

    def place(
        self, index: int, placement: EnginePlacement, start_s: float, waited_for: int
    ) -> None:
        """Start instruction `index` at `start_s`."""
        engine, cost = placement
        taken_s = cost.interval_s * self._stretch[index]
        if index in self._loads:
            taken_s += cost.held_load_s
        busy_until_s = start_s + taken_s
        self.start_s[index] = start_s
        self.busy_until_s[index] = busy_until_s
        self.end_s[index] = busy_until_s + cost.latency_s
        self.waited_for[index] = waited_for
        self._engine[index] = engine
        self._last[engine] = index
        if engine is Engine.dma:
            issued_s = self.issued_s[index] = self._issue_from_s + cost.issue_s
            self._issued[self._queue_of.get(index, 0)] = issued_s, index
        for port in cost.ports:
            self._port[port] = index

    def meet(self, index: int, placement: EnginePlacement, start_s: float, waited_for: int) -> None:
        """Start instruction `index` at `start_s` with those of other cores."""
        self._issue_from_s = start_s
        self.place(index, placement, start_s, waited_for)


def _issued_after(program: Program) -> dict[int, list[int]]:
    """For each instruction, the producers of those of its edges that are an order of issue."""
    after: dict[int, list[int]] = {}
    for edge in program.ordering.edges:
        if not edge.waits:
            after.setdefault(edge.consumer, []).append(edge.producer)
    return after


def replay(
    programs: Sequence[Program],
    core: NeuronCore,
    order: Order,
    tables: Sequence[Sequence[EnginePlacement]] | None = None,
) -> list[Schedule]:
    """The schedules of cores that run a kernel together, priced with the constants of `core`.

    `tables` has the `priced_placements` of each program on that core, if already computed.
    """
    placements = tables or [priced_placements(program, core) for program in programs]
    return _schedule_all(
        programs, core, order, lambda rank, index: placements[rank][programs[rank].which[index]]
    )


def recorded_placements(program: Program) -> list[EnginePlacement]:
    """The placement of each distinct instruction, as priced for the core that recorded it."""
    return [EnginePlacement(checked.engine, checked.cost) for checked in program.checked]


def priced_placements(program: Program, core: NeuronCore) -> list[EnginePlacement]:
    """The placement of each distinct instruction, priced with the constants of `core`."""
    return [
        EnginePlacement(checked.engine, checked.instruction.price(core, checked.dims))
        for checked in program.checked
    ]


def _schedule_all(
    programs: Sequence[Program],
    core: NeuronCore,
    order: Order,
    placement: Callable[[int, int], EnginePlacement],
) -> list[Schedule]:
    """The schedules of all cores in a kept order; `placement` is called with core and index."""
    schedules = [Schedule(p, core, order, rank) for rank, p in enumerate(programs)]
    if len(schedules) == 1:  # a single core meets no other
        for index in order.indices:
            own_placement = placement(0, index)
            schedules[0].place(index, own_placement, *schedules[0].ready(index, own_placement))
        return schedules
    last_s = {kind: [0.0] * len(programs) for kind in (False, True)}
    for members in start_groups(order):
        if len(members) == 1:
            ((rank, index),) = members
            own_placement, schedule = placement(rank, index), schedules[rank]
            schedule.place(index, own_placement, *schedule.ready(index, own_placement))
            continue
        ready = [schedules[rank].ready(index, placement(rank, index)) for rank, index in members]
        met_s = last_s[placement(*members[0]).engine is Engine.collective]
        start_s = max(*(time_s for time_s, _ in ready), *(met_s[rank] for rank, _ in members))
        for (rank, index), (ready_s, waited_for) in zip(members, ready, strict=True):
            schedules[rank].meeting_waits_s[index] = start_s - max(ready_s, met_s[rank])
            met_s[rank] = start_s
            schedules[rank].meet(index, placement(rank, index), start_s, waited_for)
    return schedules


def start_groups(order: Order) -> Iterator[list[tuple[int, int]]]:
    """Groups of (core, instruction) that start together, in order: several only at a meeting."""
    ranks, indices = order.ranks, order.indices
    start = 0
    for size in order.group_sizes:
        if size:
            yield [(ranks[i], indices[i]) for i in range(start, start + size)]
            start += size


def schedule_alone(
    program: Program,
    core: NeuronCore,
    order: Order,
    rank: int,
    placement: Callable[[int], EnginePlacement],
) -> Schedule:
    """The schedule of a core whose neighbours keep step, instruction i placed by `placement`."""
    schedule = Schedule(program, core, order, rank)
    for step_rank, index in zip(order.ranks, order.indices, strict=True):
        if step_rank == rank:
            own_placement = placement(index)
            schedule.place(
                index, own_placement, *schedule.ready(index, own_placement, may_be_moved=True)
            )
    return schedule


def device_times_s(
    programs: Sequence[Program], cores: NeuronCore, order: Order, rank: int
) -> npt.NDArray[np.float64]:
    """The device time of core `rank` for each set of constants in `cores` (`stack_cores`)."""
    schedules = [_SampledSchedule(p, cores, order, place) for place, p in enumerate(programs)]
    last_s = {kind: [np.zeros_like(cores.launch_s)] * len(programs) for kind in (False, True)}
    for members in start_groups(order):
        if len(members) == 1:
            ((place, index),) = members
            core = schedules[place]
            core.place(index, core.ready(index))
            continue
        met_s = last_s[schedules[members[0][0]].engine_of(members[0][1]) is Engine.collective]
        ready_s = [np.maximum(met_s[at], schedules[at].ready(index)) for at, index in members]
        start_s = np.max(ready_s, axis=0)
        for place, index in members:
            met_s[place] = start_s
            schedules[place].meet(index, start_s)
    return schedules[rank].device_s


class _SampledSchedule:
    """A core's schedule for many sets of constants at once: each time is an array."""

    def __init__(self, program: Program, cores: NeuronCore, order: Order, rank: int) -> None:
        table = priced_placements(program, cores)
        costs = [cost for _, cost in table]
        self._engines = [engine for engine, _ in table]
        self._ports = [cost.ports for cost in costs]
        self._intervals = [cost.interval_s for cost in costs]
        self._latencies = [cost.latency_s for cost in costs]
        self._issues = [cost.issue_s for cost in costs]
        self._held_loads = [cost.held_load_s for cost in costs]
        self._semaphore_s = cores.engine_semaphore_s
        self._program = program
        self._stretch = order.stretches[rank]
        self._loads, self._queue_of = order.loads[rank], order.queues[rank]
        self._zero_s = np.zeros_like(cores.launch_s)
        self._end_s: dict[int, npt.NDArray[np.float64]] = {}
        self._issued_after = _issued_after(program)
        self._issuers = {index for before in self._issued_after.values() for index in before}
        self._start_s: dict[int, npt.NDArray[np.float64]] = {}
        self._free_s: dict[Engine | Memory, npt.NDArray[np.float64]] = {}
        self._issued_s: dict[int, npt.NDArray[np.float64]] = {}
        self._issue_from_s = self._zero_s
        self.device_s = np.zeros_like(cores.launch_s)

    def engine_of(self, index: int) -> Engine:
        """The engine of instruction `index`."""
        return self._engines[self._program.which[index]]

    def ready(self, index: int) -> npt.NDArray[np.float64]:
        """The times when instruction `index` can start."""
        which = self._program.which
        kind = which[index]
        engine = self._engines[kind]
        start_s = self._zero_s
        for earlier in self._program.waits_for(index):
            ready_s = self._end_s[earlier]
            if self._engines[which[earlier]] is not engine:
                ready_s = ready_s + self._semaphore_s
            start_s = np.maximum(start_s, ready_s)
        for earlier in self._issued_after.get(index, ()):
            start_s = np.maximum(start_s, self._start_s[earlier])
        if engine is Engine.dma:
            issued_s = self._issued_s.get(self._queue_of.get(index, 0), self._zero_s)
            start_s = np.maximum(start_s, issued_s)
            self._issue_from_s = start_s
        users: list[Engine | Memory] = [engine, *self._ports[kind]]
        for user in users:
            free_s = self._free_s.get(user)
            if free_s is not None:
                start_s = np.maximum(start_s, free_s)
        return start_s

    def place(self, index: int, start_s: npt.NDArray[np.float64]) -> None:
        """Start instruction `index` at `start_s`."""
        if index in self._issuers:
            self._start_s[index] = start_s
        kind = self._program.which[index]
        engine, taken_s, stretch = self._engines[kind], self._intervals[kind], self._stretch[index]
        if stretch != 1.0:
            taken_s = taken_s * stretch
        if index in self._loads:
            taken_s = taken_s + self._held_loads[kind]
        busy_until_s = start_s + taken_s
        end_s = self._end_s[index] = busy_until_s + self._latencies[kind]
        self._free_s[engine] = busy_until_s
        if engine is Engine.dma:
            self._issued_s[self._queue_of.get(index, 0)] = self._issue_from_s + self._issues[kind]
        for port in self._ports[kind]:
            self._free_s[port] = busy_until_s
        np.maximum(self.device_s, end_s, out=self.device_s)

    def meet(self, index: int, start_s: npt.NDArray[np.float64]) -> None:
        """Start instruction `index` at `start_s` with those of other cores."""
        self._issue_from_s = start_s
        self.place(index, start_s)
