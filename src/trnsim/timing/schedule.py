"""Scheduling: when each instruction starts and ends, and what it waited for.

Each compute engine takes its instructions in issue order. An instruction starts when its engine is
free and its predecessors' results can be read; a predecessor on another engine costs a semaphore on
top. The engine is busy for the initiation interval, the Scalar Engine before it for loading a table
that it does not hold; the result can be read a latency later.

The 16 DMA engines are one resource with their joint bandwidth. A transfer that is ready takes the
first gap that is long enough, whatever was issued before it. `compiler_policy` lists
the choices that the compiler would make.

Cores that run one kernel have a schedule each, synchronized at meetings: core_barrier and sendrecv
start on all cores of a group when the last of them is ready (`replay_together`).

The Tensor Engine runs slower after a pause (`throttle`). Before v3 two engines that share a port to
a memory take turns.

Not modelled yet: banks of PSUM, the order within a DMA queue, the compiler's reordering, a bound on
how many buffers of one loop live at once.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from typing import TYPE_CHECKING

from trnsim.errors import InternalError
from trnsim.isa import Cost, Engine
from trnsim.isa.language.meeting import group_of
from trnsim.timing.compiler_policy import DEFAULT, Policy
from trnsim.timing.throttle import UtilizationLimit

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.arch import NeuronCore
    from trnsim.isa.language.meeting import Meeting
    from trnsim.memory import Memory
    from trnsim.program import Checked, Program

WAITED_FOR_NOTHING = -1


class SharedBandwidth:
    """A resource used by one user at a time, each in the first gap that is long enough."""

    def __init__(self) -> None:
        self._starts_s: list[float] = []
        self._ends_s: list[float] = []
        self._users: list[int] = []
        self._without_gap_s: dict[float, tuple[float, float]] = {}

    def reserve(self, ready_s: float, length_s: float, user: int) -> tuple[float, int]:
        """Start time of `user`, not before `ready_s`, and the user that delayed it (-1: none)."""
        starts_s, ends_s = self._starts_s, self._ends_s
        start_s, waited_for = ready_s, WAITED_FOR_NOTHING
        # Gaps never grow, so later searches skip what an earlier one has ruled out.
        since_s, until_s = self._without_gap_s.get(length_s, (ready_s, ready_s))
        is_ruled_out = since_s <= ready_s < until_s
        if is_ruled_out:
            start_s = until_s
        place = bisect_right(ends_s, start_s)
        if is_ruled_out:
            waited_for = self._users[place - 1]
        while place < len(starts_s) and starts_s[place] < start_s + length_s:
            start_s, waited_for = ends_s[place], self._users[place]
            place += 1
        self._insert(place, start_s, start_s + length_s, user)
        if ready_s <= until_s:
            self._without_gap_s[length_s] = (min(since_s, ready_s), start_s + length_s)
        return start_s, waited_for

    def _insert(self, place: int, start_s: float, end_s: float, user: int) -> None:
        """Insert a busy interval, merged with a neighbour that it touches."""
        if place and self._ends_s[place - 1] == start_s:
            self._ends_s[place - 1] = end_s
            self._users[place - 1] = user
        else:
            self._starts_s.insert(place, start_s)
            self._ends_s.insert(place, end_s)
            self._users.insert(place, user)


class Scheduler:
    """Gives instructions their times as they are issued (a `program.Observer`).

    Attributes:
        start_s: when each instruction started.
        busy_until_s: when its engine was free again.
        end_s: when its result could be read.
        waited_for: the last instruction that each one waited for, or -1.
        limit: the Tensor Engine's utilization limit.
    """

    def __init__(self, core: NeuronCore, policy: Policy = DEFAULT) -> None:
        self._semaphore_s = float(core.engine_semaphore_s)
        self.start_s = array("d")
        self.busy_until_s = array("d")
        self.end_s = array("d")
        self.waited_for = array("l")
        self._engine: list[Engine] = []
        self._free_s: dict[Engine, float] = {}
        self._last: dict[Engine, int] = {}
        self._table = ""
        self._port: dict[Memory, tuple[float, int]] = {}
        self._dma = SharedBandwidth()
        self._policy = policy
        self.limit = UtilizationLimit(core)

    def issued(self, index: int, checked: Checked, predecessors: Sequence[int]) -> None:
        """Schedule an instruction at its cost on the core that it was checked for."""
        self.place(index, checked.engine, checked.cost, predecessors)

    def place(
        self,
        index: int,
        engine: Engine,
        cost: Cost,
        predecessors: Sequence[int],
        not_before_s: float = 0.0,
    ) -> None:
        """Schedule instruction `index` after all that it waits for, not before a given time."""
        start_s, waited_for = self.ready(engine, predecessors)
        start_s = max(start_s, not_before_s)
        taken_s = cost.interval_s
        if engine is Engine.dma or cost.ports:
            turn_s, user = self._turn(index, engine, cost, start_s)
            if turn_s > start_s:
                start_s, waited_for = turn_s, user
        elif engine is Engine.tensor:
            taken_s = self.limit.work(start_s, taken_s)
        if cost.table and cost.table != self._table:
            self._table = cost.table
            taken_s += cost.table_load_s
        busy_until_s = start_s + taken_s
        self.start_s.append(start_s)
        self.busy_until_s.append(busy_until_s)
        self.end_s.append(busy_until_s + cost.latency_s)
        self.waited_for.append(waited_for)
        self._engine.append(engine)
        for port in cost.ports:
            self._port[port] = busy_until_s, index
        self._free_s[engine] = busy_until_s
        self._last[engine] = index

    def ready(self, engine: Engine, predecessors: Sequence[int]) -> tuple[float, int]:
        """The time when `engine` is free and `predecessors` have ended, and the last of these."""
        start_s, waited_for = 0.0, WAITED_FOR_NOTHING
        if engine in self._last and not (engine is Engine.dma and self._policy.transfers_overtake):
            start_s, waited_for = self._free_s[engine], self._last[engine]
        for earlier in predecessors:
            ready_s = self.end_s[earlier]
            if self._engine[earlier] is not engine:
                ready_s += self._semaphore_s
            if ready_s > start_s:
                start_s, waited_for = ready_s, earlier
        return start_s, waited_for

    def _turn(self, index: int, engine: Engine, cost: Cost, ready_s: float) -> tuple[float, int]:
        """The time when shared bandwidth and ports are free, and the instruction that held them."""
        if engine is Engine.dma:
            return self._dma.reserve(ready_s, cost.interval_s, index)
        held = [self._port[port] for port in cost.ports if port in self._port]
        return max(held, default=(ready_s, WAITED_FOR_NOTHING))


def replay(program: Program, core: NeuronCore) -> Scheduler:
    """The program's schedule, priced again with the constants of `core`."""
    (scheduler,) = replay_together([program], core)
    return scheduler


def replay_together(programs: Sequence[Program], core: NeuronCore) -> list[Scheduler]:
    """The schedules of cores that run one kernel, priced again with the constants of `core`.

    At a meeting a core waits for the cores of its group only.

    Args:
        programs: the programs of all cores of the launch, by rank.
        core: the NeuronCore whose constants are used.
    """
    walks = [_CoreReplay(program, core, rank) for rank, program in enumerate(programs)]
    waiting: dict[int, Meeting] = {}
    going = list(range(len(walks)))
    while going:
        rank = going.pop()
        meeting = walks[rank].to_next_meeting()
        if meeting is None:
            continue
        waiting[rank] = meeting
        group, missing = group_of(rank, waiting)
        if missing is None:
            ready_s = max(walks[member].ready_s() for member in group)
            for member in group:
                walks[member].meet(ready_s)
                del waiting[member]
            going += group
    if waiting:
        raise InternalError(f"cores that wait for others for ever were to be timed: {waiting}")
    return [walk.scheduler for walk in walks]


class _CoreReplay:
    """The scheduling of one core's program, from meeting to meeting.

    Attributes:
        scheduler: the instructions scheduled so far.
    """

    def __init__(self, program: Program, core: NeuronCore, rank: int) -> None:
        self.scheduler = Scheduler(core)
        self._program = program
        self._costs = [checked.instruction.price(core, checked.dims) for checked in program.checked]
        self._engines = [checked.engine for checked in program.checked]
        self._meetings = [checked.instruction.meeting(rank) for checked in program.checked]
        self._next = 0

    def to_next_meeting(self) -> Meeting | None:
        """Schedule everything before the next meeting, which is returned; None at the end."""
        place, predecessors = self.scheduler.place, self._program.predecessors
        which = self._program.which
        for index in range(self._next, len(which)):
            kind = which[index]
            meeting = self._meetings[kind]
            if meeting is not None:
                self._next = index
                return meeting
            place(index, self._engines[kind], self._costs[kind], predecessors(index))
        self._next = len(which)
        return None

    def ready_s(self) -> float:
        """The time at which this core is ready for its meeting."""
        index = self._next
        engine = self._engines[self._program.which[index]]
        return self.scheduler.ready(engine, self._program.predecessors(index))[0]

    def meet(self, ready_s: float) -> None:
        """Schedule the meeting: its whole group is ready at `ready_s`."""
        index, self._next = self._next, self._next + 1
        kind = self._program.which[index]
        predecessors = self._program.predecessors(index)
        self.scheduler.place(index, self._engines[kind], self._costs[kind], predecessors, ready_s)
