"""Orders: the sequence in which the instructions of a launch start, chosen once.

AWS's compiler schedules a kernel: it may start an instruction before an earlier one of the same
engine that has to wait, unless `nl.no_reorder` forbids it. Its rules are not public. `choose_order`
is a list scheduler: time goes forward, and each engine takes the earliest instruction of its window
that is ready. The window is bounded, because instructions that run ahead occupy memory.

The order is chosen with the nominal constants and kept for every other set of constants (intervals,
hypothetical changes): a schedule in a kept order never becomes longer by faster hardware.
"""

from __future__ import annotations

from array import array
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import pairwise
from math import inf

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.errors import InternalError
from trnsim.isa import Collective, Engine, Instruction
from trnsim.isa.language.meeting import Meeting, group_of, meeting_of
from trnsim.program import Program
from trnsim.timing.compiler_policy import DEFAULT, Policy
from trnsim.timing.contention import with_contention
from trnsim.timing.schedule import EnginePlacement, priced_placements
from trnsim.timing.throttle import UtilizationLimit


@dataclass(frozen=True, slots=True)
class Order:
    """The order in which the instructions of all cores of a launch start.

    Attributes:
        policy: the policy by which it was chosen.
        ranks: for each step, the index of the core among the programs.
        indices: for each step, the instruction.
        group_sizes: for each step, the number of instructions that start with it: at the first step
            of a meeting its members, at its other steps 0, elsewhere 1.
        stretches: for each core and instruction, the factor on its interval: for matmuls by the
            Tensor Engine's utilization limit, for transfers by collectives (`timing.contention`).
        limits: for each core, the Tensor Engine's utilization limit over time.
        loads: for each core, the instructions before which their engine loads a table or a tile.
        queues: for each core, transfer -> the DMA queue that issues it.
    """

    policy: Policy
    ranks: array[int]
    indices: array[int]
    group_sizes: array[int]
    stretches: list[array[float]]
    limits: list[UtilizationLimit]
    loads: list[set[int]]
    queues: list[dict[int, int]]


def choose_order(
    programs: Sequence[Program],
    core: NeuronCore,
    policy: Policy = DEFAULT,
    tables: Sequence[Sequence[EnginePlacement]] | None = None,
    cores_per_rank: int = 0,
    ranks: Sequence[int] = (),
) -> Order:
    """The order in which `policy` starts the instructions of cores that run a kernel together.

    Args:
        programs: the programs of all cores of the launch, by rank.
        core: the NeuronCore whose constants are used.
        policy: how far an instruction may overtake others.
        tables: the `priced_placements` of each program, if already computed.
        cores_per_rank: the number of cores of a rank; by default all cores are of the same rank.
        ranks: the numbers of the ranks whose programs are given, if other ranks have the same
            times (`program.likeness`); by default the programs are those of all ranks.
    """
    tables = tables or [priced_placements(program, core) for program in programs]
    cores_per_rank = cores_per_rank or len(programs)
    numbers = [
        rank * cores_per_rank + local_core
        for rank in ranks or range(len(programs) // cores_per_rank)
        for local_core in range(cores_per_rank)
    ]
    meetings = _meetings(programs, numbers, cores_per_rank)
    order = _ListScheduler(programs, tables, core, policy, meetings).run()
    return with_contention(programs, core, order, tables)


def choose_alone(
    program: Program, placements: Sequence[EnginePlacement], core: NeuronCore, policy: Policy
) -> Order:
    """The order for a single core, without the meetings at which it would wait for others.

    Args:
        program: its program.
        placements: the engine and cost of each distinct instruction.
        core: the NeuronCore whose constants are used where a placement has none.
        policy: how far an instruction may overtake others.
    """
    return _ListScheduler([program], [placements], core, policy, [[None] * len(placements)]).run()


class _Queue:
    """The instructions of an engine, and which of them may start next.

    Attributes:
        free_s: the time from which it is idle.
        window: the number of next instructions that it chooses from.
        members: all its instructions, in the order of issue.
        started_count: the number of members that have started.
        future: a heap of (ready time, instruction) for instructions in the window whose
            predecessors have all started.
        ready: a heap of the instructions whose ready time has passed.
    """

    __slots__ = ("engine", "free_s", "future", "members", "ready", "started_count", "window")

    def __init__(self, engine: Engine, window: float) -> None:
        self.engine = engine
        self.free_s = 0.0
        self.window = window
        self.members = array("l")
        self.started_count = 0
        self.future: list[tuple[float, int]] = []
        self.ready: list[int] = []

    def next_s(self) -> float:
        """The time at which it can start an instruction.

        Infinite if all instructions in the window wait for predecessors.
        """
        if self.ready:
            return self.free_s
        if self.future:
            return max(self.free_s, self.future[0][0])
        return inf

    def take(self, time_s: float) -> int:
        """Remove and return the earliest instruction that is ready at `time_s`."""
        future, ready = self.future, self.ready
        while future and future[0][0] <= time_s:
            heappush(ready, heappop(future)[1])
        return heappop(ready)


class _Core:
    """One core's instructions while their order is chosen."""

    def __init__(
        self,
        program: Program,
        placements: Sequence[EnginePlacement],
        meetings: Sequence[Meeting | None],
        core: NeuronCore,
        policy: Policy,
    ) -> None:
        self.program = program
        self.semaphore_s = float(core.engine_semaphore_s)
        self.engines = [engine for engine, _ in placements]
        self.costs = [cost for _, cost in placements]
        self.meetings = meetings
        self.limit = UtilizationLimit(core)
        count = len(program)
        self.stretch = array("d", [1.0]) * count
        self.end_s = array("d", [0.0]) * count
        self.queues = {
            engine: _Queue(engine, policy.window(engine)) for engine in dict.fromkeys(self.engines)
        }
        self.port_s: dict[object, float] = {}
        self.loads: set[int] = set()
        self.queue_of: dict[int, int] = {}
        self._loaded_operands: dict[Engine, Hashable] = {}
        self._reads = [
            0 if cost.held_read is None else len(checked.instruction.accesses()[0])
            for cost, checked in zip(self.costs, program.checked, strict=True)
        ]
        self._issued_s = [0.0] * int(core.dma_queues)
        self._moved_s = 0.0
        # An instruction is ready once it is in its engine's window and its last predecessor starts.
        self._ready_s = array("d", [0.0]) * count
        self._waiters = program.waiters()
        self._followers = program.followers()
        self._missing = array("l", [0]) * count
        self._queue_index = array("l", [0]) * count
        # By instruction that meets other cores, the next of its kind: one at a time.
        self._next_meeting: dict[int, int] = {}
        self._enqueue_all()

    def _enqueue_all(self) -> None:
        """Enqueue all instructions; those without predecessors are ready."""
        which = np.asarray(self.program.which)
        missing = self._waiters.counts + self._followers.counts
        for is_collective in (False, True):
            kinds = [
                meeting is not None and (engine is Engine.collective) == is_collective
                for meeting, engine in zip(self.meetings, self.engines, strict=True)
            ]
            if any(kinds):
                meetings = np.flatnonzero(np.array(kinds)[which])
                missing[meetings[1:]] += 1
                self._next_meeting.update(pairwise(meetings.tolist()))
        self._missing = array("l", missing.tobytes())
        for queue in self.queues.values():
            is_member = np.array([engine is queue.engine for engine in self.engines], np.bool_)
            members = np.flatnonzero(is_member[which])
            queue.members = array("l", members.astype("l").tobytes())
            np.asarray(self._queue_index)[members] = np.arange(len(members))
            for index in queue.members[: int(min(queue.window, len(members)))]:
                if not self._missing[index]:
                    heappush(queue.future, (0.0, index))

    def mark_started(self, index: int, start_s: float, busy_until_s: float) -> None:
        """Record that `index` occupies its engine from `start_s` until `busy_until_s`."""
        which = self.program.which[index]
        engine = self.engines[which]
        end_s = busy_until_s + self.costs[which].latency_s
        self.end_s[index] = end_s
        queue = self.queues[engine]
        queue.free_s = min(self._issued_s) if engine is Engine.dma else busy_until_s
        queue.started_count += 1
        last = queue.started_count + queue.window - 1
        if last < len(queue.members):
            newest = queue.members[int(last)]
            if not self._missing[newest]:
                heappush(queue.future, (self._ready_s[newest], newest))
        followers = self._followers.of(index)
        if followers:
            self._release(followers, engine, start_s, start_s)
        meeting = self._next_meeting.get(index)
        if meeting is not None:
            self._release([meeting], engine, start_s, start_s)
        self._release(self._waiters.of(index), engine, end_s, end_s + self.semaphore_s)

    def free_s(self, index: int) -> float:
        """The time when the engine of instruction `index` can start it."""
        engine = self.engines[self.program.which[index]]
        free_s = self.queues[engine].free_s
        return max(free_s, self._moved_s) if engine is Engine.dma else free_s

    def occupy(self, index: int, start_s: float) -> tuple[float, float]:
        """The start and end of instruction `index` on its engine, if it can start at `start_s`.

        A transfer waits for a queue that issues it, then for the engines.
        """
        which = self.program.which[index]
        cost, engine = self.costs[which], self.engines[which]
        taken_s = cost.interval_s
        if engine is Engine.dma:
            queue = self._issued_s.index(min(self._issued_s))
            issue_s = max(start_s, self._issued_s[queue])
            self._issued_s[queue] = issue_s + cost.issue_s
            self.queue_of[index] = queue
            start_s = max(issue_s, self._moved_s)
            self._moved_s = start_s + taken_s
        for port in cost.ports:
            start_s = max(start_s, self.port_s.get(port, 0.0))
        if engine is Engine.tensor and taken_s:
            limited_s = self.limit.record_work(start_s, taken_s)
            self.stretch[index] = limited_s / taken_s
            taken_s = limited_s
        operand = cost.table or (None if cost.held_read is None else self._operand_tile(index))
        if operand is not None and self._loaded_operands.get(engine) != operand:
            self._loaded_operands[engine] = operand
            self.loads.add(index)
            taken_s += cost.held_load_s
        for port in cost.ports:
            self.port_s[port] = start_s + taken_s
        return start_s, start_s + taken_s

    def _operand_tile(self, index: int) -> Hashable:
        """The tile that the engine must hold for instruction `index`, or None.

        An unknown tile is named by `index`, so that it equals no other.
        """
        which = self.program.which[index]
        operand = self.costs[which].held_read
        if operand is None:
            return None
        return self.program.touches.read_tile(index, operand, self._reads[which]) or index

    def _release(
        self, dependents: Iterable[int], engine: Engine, own_s: float, other_s: float
    ) -> None:
        """Resolve a dependence of each of the instructions `dependents`.

        It permits the start of instructions on `engine` at `own_s`, of others at `other_s`.
        """
        which, engines, missing, earliest_s = (
            self.program.which,
            self.engines,
            self._missing,
            self._ready_s,
        )
        for later in dependents:
            later_engine = engines[which[later]]
            ready_s = own_s if later_engine is engine else other_s
            if ready_s < earliest_s[later]:
                ready_s = earliest_s[later]
            else:
                earliest_s[later] = ready_s
            missing[later] -= 1
            if not missing[later]:
                queue = self.queues[later_engine]
                if self._queue_index[later] < queue.started_count + queue.window:
                    heappush(queue.future, (ready_s, later))


def _meetings(
    programs: Sequence[Program], numbers: Sequence[int], cores_per_rank: int
) -> list[list[Meeting | None]]:
    """The meeting of each core's distinct instructions with other cores, or None.

    Args:
        programs: the programs of the cores.
        numbers: the numbers of these cores among those of all ranks.
        cores_per_rank: the number of cores of a rank.
    """
    places = {number: place for place, number in enumerate(numbers)}
    return [
        [
            _meeting_of(number, checked.instruction, cores_per_rank, places)
            for checked in program.checked
        ]
        for number, program in zip(numbers, programs, strict=True)
    ]


def _meeting_of(
    number: int, instruction: Instruction, cores_per_rank: int, places: Mapping[int, int]
) -> Meeting | None:
    """The meeting of core `number` in `instruction`; its members are indices in the launch."""
    place = places[number]
    if isinstance(instruction, Collective):
        members = instruction.members(number)
        label = instruction.label(instruction.group_of(number // cores_per_rank))
        launch_members = [places[member] for member in members if member in places]
        return meeting_of(launch_members, place, label) if len(members) > 1 else None
    core_meeting = instruction.meeting(place % cores_per_rank)
    meeting = (
        None if core_meeting is None else core_meeting.numbered_from(place - place % cores_per_rank)
    )
    return None if meeting is None or meeting.receiver == place else meeting


class _QueueChoice:
    """The choice of the queue that starts the next instruction: the one that can start first.

    Of several such queues, it is the first in order. A rank is here the index of a core.

    Attributes:
        now_s: the current time.
    """

    def __init__(self, cores: Sequence[Sequence[_Queue]]) -> None:
        self.now_s = 0.0
        self._queues = [(rank, queue) for rank, queues in enumerate(cores) for queue in queues]
        self._of_core: list[list[int]] = [[] for _ in cores]
        for place, (rank, _) in enumerate(self._queues):
            self._of_core[rank].append(place)
        self._next_s = [inf] * len(self._queues)
        # Queues that can start an instruction now, and (time, queue) of others; some are outdated.
        self._ready: list[int] = []
        self._future: list[tuple[float, int]] = []
        for rank in range(len(cores)):
            self.renew(rank)

    def renew(self, rank: int) -> None:
        """Update the times at which the queues of a core can start an instruction."""
        for place in self._of_core[rank]:
            next_s = self._queues[place][1].next_s()
            if next_s != self._next_s[place]:
                self._next_s[place] = next_s
                if next_s <= self.now_s:  # an engine may have been free before
                    heappush(self._ready, place)
                elif next_s < inf:
                    heappush(self._future, (next_s, place))

    def next(self) -> tuple[int, _Queue] | None:
        """Advance time to the next queue that can start an instruction; its core and the queue.

        None if no queue can start an instruction.
        """
        ready, future, next_s = self._ready, self._future, self._next_s
        while future and future[0][0] <= self.now_s:
            heappush(ready, heappop(future)[1])
        while ready and next_s[ready[0]] > self.now_s:
            heappop(ready)
        if ready:
            return self._queues[ready[0]]
        while future and next_s[future[0][1]] != future[0][0]:
            heappop(future)
        if not future:
            return None
        self.now_s = future[0][0]
        return self._queues[future[0][1]]


class _ListScheduler:
    """A list scheduler: it starts the instructions of all cores, earliest first.

    A rank is here the index of a core.
    """

    def __init__(
        self,
        programs: Sequence[Program],
        tables: Sequence[Sequence[EnginePlacement]],
        core: NeuronCore,
        policy: Policy,
        meetings: Sequence[Sequence[Meeting | None]],
    ) -> None:
        self._policy = policy
        self._cores = [
            _Core(program, table, core_meetings, core, policy)
            for program, table, core_meetings in zip(programs, tables, meetings, strict=True)
        ]
        self._ranks = array("l")
        self._indices = array("l")
        self._group_sizes = array("l")
        # By kind (False for meetings of cores within a rank, True for collectives of ranks) and by
        # core: the meeting in which the core waits, and the core's instruction of it.
        self._meetings: dict[bool, dict[int, Meeting]] = {False: {}, True: {}}
        self._instructions: dict[bool, dict[int, int]] = {False: {}, True: {}}

    def run(self) -> Order:
        """Start every instruction."""
        queue_choice = _QueueChoice([list(core.queues.values()) for core in self._cores])
        remaining = sum(len(core.program) for core in self._cores)
        while remaining:
            next_queue = queue_choice.next()
            if next_queue is None:
                raise InternalError(f"cores wait for each other forever: {self._meetings}")
            rank, queue = next_queue
            started_ranks = self._start(rank, queue.take(queue_choice.now_s), queue_choice.now_s)
            remaining -= len(started_ranks)
            queue_choice.renew(rank)
            for other in started_ranks:
                if other != rank:
                    queue_choice.renew(other)
        cores = self._cores
        return Order(
            self._policy,
            self._ranks,
            self._indices,
            self._group_sizes,
            [core.stretch for core in cores],
            [core.limit for core in cores],
            [core.loads for core in cores],
            [core.queue_of for core in cores],
        )

    def _start(self, rank: int, index: int, time_s: float) -> Sequence[int]:
        """Start an instruction, or its group if that is complete; returns the started cores."""
        core = self._cores[rank]
        which = core.program.which[index]
        meeting = core.meetings[which]
        if meeting is None:
            self._start_one(rank, index, time_s, 1)
            return (rank,)
        is_collective = core.engines[which] is Engine.collective
        meetings, instructions = self._meetings[is_collective], self._instructions[is_collective]
        meetings[rank], instructions[rank] = meeting, index
        group, missing = group_of(rank, meetings)
        if missing is not None:
            return ()
        members = [(member, instructions.pop(member)) for member in group]
        starts_s = [self._cores[r].free_s(i) for r, i in members]
        start_s = max(time_s, *starts_s)
        for number, (member, member_index) in enumerate(members):
            del meetings[member]
            self._start_one(member, member_index, start_s, 0 if number else len(members))
        return group

    def _start_one(self, rank: int, index: int, ready_s: float, group_size: int) -> None:
        """Start an instruction that is ready, and append it to the order."""
        core = self._cores[rank]
        start_s, busy_until_s = core.occupy(index, ready_s)
        self._ranks.append(rank)
        self._indices.append(index)
        self._group_sizes.append(group_size)
        core.mark_started(index, start_s, busy_until_s)
