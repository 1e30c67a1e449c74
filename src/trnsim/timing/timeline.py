"""Timelines: spans on engines, the cause of each wait, and the total time with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from trnsim.arch import NeuronCore
from trnsim.arch.draws import stack_cores
from trnsim.errors import SourceLine
from trnsim.fabric.collective_time import constants_of
from trnsim.facts import Evidence, Fact, Interval
from trnsim.isa import Collective, Engine
from trnsim.program import Program, fit_programs
from trnsim.program.edges import Edge, apply_edges
from trnsim.timing.changed import changed_schedule, halves_at_once
from trnsim.timing.compiler_policy import DEFAULT, Policy
from trnsim.timing.interval import interval
from trnsim.timing.order import Order, choose_alone, choose_order
from trnsim.timing.schedule import (
    WAITED_FOR_NOTHING,
    EnginePlacement,
    Schedule,
    device_times_s,
    recorded_placements,
    replay,
    schedule_alone,
)


@dataclass(frozen=True, slots=True)
class Span:
    """An instruction on the timeline.

    Attributes:
        index: its place in the program.
        opcode: the instruction's name in nki.isa.
        busy_until_s: the time when its engine was free again.
        end_s: the time when its result could be read.
        line: the user's line that issued it.
        waited_for: the last instruction that it waited for, or None.
    """

    index: int
    opcode: str
    engine: Engine
    start_s: float
    busy_until_s: float
    end_s: float
    line: SourceLine | None
    operands: str
    waited_for: int | None


class _Timing:
    """The order and the schedules of cores that ran `programs` together, computed at first use.

    Programs that are run for their values alone are never scheduled.
    """

    def __init__(
        self, programs: Sequence[Program], policy: Policy, cores_per_rank: int, ranks: Sequence[int]
    ) -> None:
        """The arguments are those of `timelines`."""
        self.cores_per_rank, self.ranks = cores_per_rank or len(programs), ranks
        self._programs = programs
        self._policy = policy

    @cached_property
    def _tables(self) -> list[list[EnginePlacement]]:
        return [recorded_placements(program) for program in self._programs]

    @cached_property
    def order(self) -> Order:
        """The order in which their instructions start."""
        programs, core = self._programs, self._programs[0].core
        if len(programs) == 1 and not self.ranks:
            return choose_alone(programs[0], self._tables[0], core, self._policy)
        return choose_order(
            programs, core, self._policy, self._tables, self.cores_per_rank, self.ranks
        )

    @cached_property
    def schedules(self) -> list[Schedule]:
        """The schedule of each core."""
        return replay(self._programs, self._programs[0].core, self.order, self._tables)


class Timeline:
    """The times of all instructions of a program."""

    def __init__(self, programs: Sequence[Program], rank: int, timing: _Timing) -> None:
        """The timeline of the core with index `rank` among those that ran `programs` together."""
        self.program = programs[rank]
        self._timing = timing
        self._cores_per_rank, self._ranks = timing.cores_per_rank, timing.ranks
        self._programs = programs
        self._rank = rank

    @property
    def order(self) -> Order:
        """The order in which the instructions of all cores start."""
        return self._timing.order

    @property
    def _schedule(self) -> Schedule:
        return self._timing.schedules[self._rank]

    def __len__(self) -> int:
        return len(self.program)

    def for_program(self, program: Program) -> Timeline:
        """This timeline with `program`, whose instructions start and end at the same times."""
        if program is self.program:
            return self
        programs = [*self._programs[: self._rank], program, *self._programs[self._rank + 1 :]]
        return Timeline(programs, self._rank, self._timing)

    @property
    def launch_s(self) -> float:
        """Time to start a kernel."""
        return float(self.program.core.launch_s)

    @property
    def device_time_s(self) -> float:
        """The time from the first instruction to the last result."""
        return self._schedule.device_time_s

    @property
    def total_time_s(self) -> float:
        """`launch_s` + `device_time_s`."""
        return self.launch_s + self.device_time_s

    def span(self, index: int) -> Span:
        """Instruction `index` on the timeline."""
        program, schedule = self.program, self._schedule
        checked = program.instruction(index)
        waited_for = schedule.waited_for[index]
        return Span(
            index,
            checked.opcode,
            checked.engine,
            schedule.start_s[index],
            schedule.busy_until_s[index],
            schedule.end_s[index],
            program.line(index),
            checked.describe(),
            None if waited_for == WAITED_FOR_NOTHING else waited_for,
        )

    def spans(self) -> Iterator[Span]:
        """Every instruction in issue order."""
        return (self.span(index) for index in range(len(self)))

    def meeting_wait_s(self, index: int) -> float:
        """The time for which instruction `index`, a meeting with other cores, waited for them."""
        return self._schedule.meeting_waits_s.get(index, 0.0)

    def busy_s(self) -> dict[Engine, float]:
        """Busy time of each engine that worked."""
        busy: dict[Engine, float] = {}
        schedule = self._schedule
        for index, which in enumerate(self.program.which):
            engine = self.program.checked[which].engine
            duration_s = schedule.busy_until_s[index] - schedule.start_s[index]
            busy[engine] = busy.get(engine, 0.0) + duration_s
        return busy

    def queue_issue_s(self) -> float:
        """The issue time of the DMA queue that issued longest."""
        program, queue_of = self.program, self.order.queues[self._rank]
        issue_s_by_queue: dict[int, float] = {}
        for index, queue in queue_of.items():
            issue_s_by_queue[queue] = (
                issue_s_by_queue.get(queue, 0.0) + program.instruction(index).cost.issue_s
            )
        return max(issue_s_by_queue.values(), default=0.0)

    def throttled_periods(self, parts: int) -> list[tuple[float, float, float]]:
        """The Tensor Engine's throttled periods: (start, duration, mean fraction of full speed).

        Times are in seconds. A ramp from one speed to another is divided into `parts` periods.
        """
        return self.order.limits[self._rank].ramp_steps(parts)

    def critical_path(self) -> list[int]:
        """The critical path: instructions that each waited for the preceding, first to last."""
        if not len(self):
            return []
        index = int(np.argmax(np.asarray(self._schedule.end_s)))
        path = [index]
        while (index := self._schedule.waited_for[index]) != WAITED_FOR_NOTHING:
            path.append(index)
        return path[::-1]

    def interval(self) -> Interval:
        """P10, P50 and P90 of the total time (`timing.interval`); P50 is the total time."""
        return interval(self)

    def device_times_on_s(self, cores: Sequence[NeuronCore]) -> npt.NDArray[np.float64]:
        """The device time with the constants of each of `cores`, in the same order."""
        return device_times_s(self._programs, stack_cores(cores), self.order, self._rank)

    def same_order_time_s(self, placement: Callable[[int], EnginePlacement]) -> float:
        """`undisturbed_s` with `placement(i)` for instruction i, in the order of this timeline."""
        program = self.program
        return schedule_alone(
            program, program.core, self.order, self._rank, placement
        ).device_time_s

    def new_order_time_s(
        self, placement: Callable[[int], EnginePlacement], *, keeps_memory_reuse: bool = True
    ) -> float:
        """`undisturbed_s` with `placement(i)` for instruction i, in an order chosen for these.

        `keeps_memory_reuse` False is for changes that move tensors: waits for reused memory
        (`program.memory_reuse`) and spills, which would change too, are left out.
        """
        program = self.program if keeps_memory_reuse else self.program.issued
        return changed_schedule(program, self.order.policy, placement).device_time_s

    def device_time_without_s(self, is_left_out: Callable[[Edge], bool]) -> float:
        """The device time without some of the edges of all cores, in an order chosen again."""
        edgeless = [program.issued.without_edges or program.issued for program in self._programs]
        programs = [
            apply_edges(program, [edge for edge in program.ordering.edges if not is_left_out(edge)])
            for program in edgeless
        ]
        if any(program.as_issued is not None for program in self._programs):
            parts = range(0, len(programs), self._cores_per_rank)
            fits = [
                fit_programs(programs[at : at + self._cores_per_rank], "spill")[0] for at in parts
            ]
            programs = [program for fit in fits for program in fit]
        new_timelines = timelines(programs, self.order.policy, self._cores_per_rank, self._ranks)
        return new_timelines[self._rank].device_time_s

    def overlapped_halves_s(self) -> float:
        """`undisturbed_s` if the program's second half ran beside its first (`halves_at_once`)."""
        return halves_at_once(self.program, self.order.policy).device_time_s

    @cached_property
    def undisturbed_s(self) -> float:
        """The device time if the core waited for its neighbours at no meeting."""
        program = self.program
        if len(self._programs) == 1:
            return self.device_time_s
        table = recorded_placements(program)
        return self.same_order_time_s(lambda index: table[program.which[index]])

    @cached_property
    def undisturbed_new_order_s(self) -> float:
        """The device time in an order that is chosen for this core without its neighbours."""
        if len(self._programs) == 1:
            return self.device_time_s
        table = recorded_placements(self.program)
        return self.new_order_time_s(lambda index: table[self.program.which[index]])

    def facts(self) -> dict[Evidence, list[tuple[str, Fact]]]:
        """The facts on which the estimate rests, by kind of evidence: those of the core.

        For a program with collectives, also those of the links, engines and latencies of its ranks.
        """
        by_kind: dict[Evidence, list[tuple[str, Fact]]] = {kind: [] for kind in Evidence}
        facts: dict[str, Fact] = dict(self.program.core.facts())
        for checked in self.program.checked:
            if isinstance(checked.instruction, Collective):
                facts |= constants_of(checked.instruction.setting.fabric)
        for name, fact in facts.items():
            by_kind[fact.provenance.kind].append((name, fact))
        return by_kind


def timelines(
    programs: Sequence[Program],
    policy: Policy = DEFAULT,
    cores_per_rank: int = 0,
    ranks: Sequence[int] = (),
) -> tuple[Timeline, ...]:
    """The timelines of cores that ran a kernel together, by core, in the order of `policy`.

    A single program waits at no meeting: another core, if there is one, runs the same program. Each
    rank has `cores_per_rank` cores; by default all cores are of one rank. If the programs of
    some ranks stand for all, as their times are the same (`program.likeness`), `ranks` has the
    numbers of these ranks.
    """
    timing = _Timing(programs, policy, cores_per_rank, ranks)
    return tuple(Timeline(programs, rank, timing) for rank in range(len(programs)))
