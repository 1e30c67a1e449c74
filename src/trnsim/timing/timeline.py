"""Timelines: spans on engines, what each one waited for, and the total time with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnsim.facts import Evidence, Interval
from trnsim.isa import Engine
from trnsim.timing.schedule import WAITED_FOR_NOTHING, Scheduler, replay_together

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from trnsim.errors import SourceLine
    from trnsim.facts import Fact
    from trnsim.program import Program

_SAMPLES = 33
_MAX_SAMPLED_INSTRUCTIONS = 200_000


@dataclass(frozen=True, slots=True)
class Span:
    """One instruction on the timeline.

    Attributes:
        index: its place in the program.
        opcode: its name in nki.isa.
        engine: the engine that executed it.
        start_s: when it started.
        busy_until_s: when its engine was free again.
        end_s: when its result could be read.
        line: the user's line that issued it.
        operands: its operands in words.
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


class Timeline:
    """The times of all instructions of one program."""

    def __init__(self, program: Program, schedule: Scheduler, team: Sequence[Program] = ()) -> None:
        """The timeline of `program`; `team` has the programs of all cores that ran with it."""
        self.program = program
        self._schedule = schedule
        self._team = team or (program,)

    def __len__(self) -> int:
        return len(self.program)

    @property
    def launch_s(self) -> float:
        """The fixed cost of starting a kernel."""
        return float(self.program.core.launch_s)

    @property
    def device_time_s(self) -> float:
        """From the first instruction to the last result."""
        return max(self._schedule.end_s, default=0.0)

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

    def busy_s(self) -> dict[Engine, float]:
        """Busy time of each engine that worked."""
        busy: dict[Engine, float] = {}
        schedule = self._schedule
        for index, which in enumerate(self.program.which):
            engine = self.program.checked[which].engine
            taken = schedule.busy_until_s[index] - schedule.start_s[index]
            busy[engine] = busy.get(engine, 0.0) + taken
        return busy

    def throttled(self, parts: int) -> list[tuple[float, float, float]]:
        """(start, duration, mean limit below 1) of each throttled period of the Tensor Engine.

        Times are seconds; each ramp is divided into `parts`.
        """
        return self._schedule.limit.steps(parts)

    def critical_path(self) -> list[int]:
        """The critical path: instructions that each waited for the one before, first to last."""
        if not len(self):
            return []
        index = int(np.argmax(np.asarray(self._schedule.end_s)))
        path = [index]
        while (index := self._schedule.waited_for[index]) != WAITED_FOR_NOTHING:
            path.append(index)
        return path[::-1]

    def interval(self) -> Interval:
        """P10, P50 and P90 of the total time, from the spread of every rate of the core.

        The program is scheduled again with rates drawn from a lognormal around each fact (seeded;
        33 draws, fewer for long programs): the spread due to the inputs. The core's
        `unmodelled_factor` adds the spread due to what the model leaves out.
        """
        program = self.program
        rank = next(rank for rank, other in enumerate(self._team) if other is program)
        samples = max(5, min(_SAMPLES, _MAX_SAMPLED_INSTRUCTIONS // max(len(self), 1)))
        times: list[float] = []
        for draw in range(samples):
            core = program.core.sampled(draw)
            together = replay_together(self._team, core)
            device_s = max(together[rank].end_s, default=0.0)
            times.append(core.launch_s + device_s * core.unmodelled_factor)
        p10, p50, p90 = np.percentile(times, [10, 50, 90])
        return Interval(float(p10), float(p50), float(p90))

    def facts(self) -> dict[Evidence, list[tuple[str, Fact]]]:
        """The facts on which the estimate rests: those of the core, by kind."""
        by_kind: dict[Evidence, list[tuple[str, Fact]]] = {kind: [] for kind in Evidence}
        for name, fact in self.program.core.facts().items():
            by_kind[fact.provenance.kind].append((name, fact))
        return by_kind
