"""The ledger of a process's programs: cuts, executions and compilations, with causes.

A program that no earlier cut had is a compilation. The ledger keeps the digest of every program,
and the calls of the latest programs, at most `MOST_KEPT_CALLS`, for comparison with later programs.
"""

from __future__ import annotations

import time
from collections import Counter, OrderedDict, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from trnsim.device.call_time import time_of
from trnsim.xla.cuts.programs import CutProgram
from trnsim.xla.cuts.values import Place

if TYPE_CHECKING:
    from trnsim.device.program_sequence import CutOfProgram
    from trnsim.xla.cuts.causes import Cause
    from trnsim.xla.cuts.compiling import CompiledCut

MOST_KEPT_CALLS: Final = 200_000
"""Maximum number of calls of kept programs; the least recently used program is dropped first."""

MOST_SAMPLES: Final = 1024
"""Maximum number of kept samples of a metric, as in torch_xla."""

CACHED: Final = "CachedCompile"
UNCACHED: Final = "UncachedCompile"
MARK_STEP: Final = "MarkStep"
COMPILE_TIME: Final = "CompileTime"
NS_PER_S: Final = 1e9
EXECUTE_TIME: Final = "ExecuteTime"
FROM_DEVICE: Final = "TransferFromDeviceTime"
TO_DEVICE: Final = "TransferToDeviceTime"
GRAPH_SIZE: Final = "TensorsGraphSize"


@dataclass(eq=False)
class ProgramRecord:
    """A program in the ledger.

    Attributes:
        number: its number, in the order of compilations.
        place: the line of the cut that first had it.
        cause: the first difference from the nearest earlier program; None for the first program.
        compiled: its calls on the device.
        exchanges: the data that ranks compare, by the ranks of a group; None before its first
            execution.
    """

    number: int
    digest: str
    calls: int
    place: Place | None
    kind: str
    cause: Cause | None
    compiled: CompiledCut | None = None
    executions: int = 0
    exchanges: dict[tuple[int, ...], CutOfProgram] | None = None

    def time(self, target: str) -> tuple[float, tuple[str, ...]]:
        """Seconds of an execution on a chip, with the reasons why some calls have none."""
        if self.compiled is None:
            return 0.0, ("it was not compiled",)
        times = [time_of(call, target) for call in self.compiled.calls]
        missing = dict.fromkeys(time.missing_reason for time in times if time.missing_reason)
        return sum(time.device_time_s for time in times), tuple(missing)


@dataclass(eq=False)
class CutRecord:
    """The cuts of one kind at one line.

    Attributes:
        kind: the kind: "sync", "aten::_local_scalar_dense" ...
        place: the line.
        cuts: number of cuts, also of cuts that ran no program.
        executions: number of executions of each program, by the program's number.
        compilations: number of programs that were compiled at these cuts.
    """

    kind: str
    place: Place | None
    cuts: int = 0
    executions: Counter[int] = field(default_factory=Counter[int])
    compilations: int = 0


@dataclass
class Samples:
    """The samples of a metric.

    Attributes:
        latest_samples: the latest samples, as pairs of a Unix time in seconds and the value.
    """

    count: int = 0
    total: float = 0.0
    latest_samples: list[tuple[float, float]] = field(default_factory=list[tuple[float, float]])

    def add(self, value: float) -> None:
        """Add a sample."""
        self.count += 1
        self.total += value
        self.latest_samples.append((time.time(), value))
        del self.latest_samples[:-MOST_SAMPLES]


class Ledger:
    """The programs, the cuts, and torch_xla's counters and metrics.

    Attributes:
        programs: every program by its digest.
        cuts: the cuts by kind and line, in the order of their first occurrence.
        counters: torch_xla's counters.
        metrics: torch_xla's metrics, without the metric of executions.
        execution_counts: executions by program since the metrics were cleared.
    """

    def __init__(self) -> None:
        self.programs: dict[str, ProgramRecord] = {}
        self.cuts: dict[tuple[str, Place | None], CutRecord] = {}
        self.counters: Counter[str] = Counter()
        self.metrics: dict[str, Samples] = {}
        self.execution_counts: Counter[ProgramRecord] = Counter()
        self._latest_executions: deque[tuple[float, ProgramRecord]] = deque(maxlen=MOST_SAMPLES)
        self._programs: OrderedDict[str, CutProgram] = OrderedDict()
        self._kept_calls = 0

    def cut(self, kind: str, place: Place | None) -> CutRecord:
        """Note a cut, and return its record; a cut may run no program."""
        record = self.cuts.setdefault((kind, place), CutRecord(kind, place))
        record.cuts += 1
        return record

    def record_of(self, program: CutProgram, cut: CutRecord) -> tuple[ProgramRecord, bool]:
        """The record of a program, and True if it is new and must be compiled and added."""
        record = self.programs.get(program.digest)
        is_new = record is None
        if record is None:
            from trnsim.xla.cuts.causes import cause_of  # noqa: PLC0415  as the compiler

            earlier_programs = list(self._programs.values())
            record = ProgramRecord(
                len(self.programs),
                program.digest,
                len(program.nodes),
                cut.place,
                cut.kind,
                cause_of(program, earlier_programs),
            )
        return record, is_new

    def add(self, record: ProgramRecord, program: CutProgram, cut: CutRecord) -> None:
        """Add a program that was compiled."""
        self.programs[record.digest] = record
        self.counters[UNCACHED] += 1
        cut.compilations += 1
        self._programs[program.digest] = program
        self._kept_calls += len(program.nodes)
        while self._kept_calls > MOST_KEPT_CALLS and len(self._programs) > 1:
            _, dropped_program = self._programs.popitem(last=False)
            self._kept_calls -= len(dropped_program.nodes)

    def execute(self, record: ProgramRecord, cut: CutRecord, *, is_new: bool) -> None:
        """Note the execution of a program."""
        if not is_new:
            self.counters[CACHED] += 1
            if record.digest in self._programs:
                self._programs.move_to_end(record.digest)
        record.executions += 1
        cut.executions[record.number] += 1
        self.execution_counts[record] += 1
        self._latest_executions.append((time.time(), record))
        self.sample(GRAPH_SIZE, record.calls)

    def forget(self) -> None:
        """Forget all programs, so that the next program has no cause."""
        self.programs.clear()
        self._programs.clear()
        self._kept_calls = 0

    def metric_names(self) -> list[str]:
        """The names of the metrics that have samples."""
        return [*self.metrics, *([EXECUTE_TIME] if self.execution_counts else [])]

    def metric(self, name: str, target: str) -> Samples | None:
        """The samples of a metric; times of executions are times on the chip `target`."""
        if name != EXECUTE_TIME or not self.execution_counts:
            return self.metrics.get(name)
        times_ns = {record: record.time(target)[0] * NS_PER_S for record in self.execution_counts}
        return Samples(
            self.execution_counts.total(),
            sum(count * times_ns[record] for record, count in self.execution_counts.items()),
            [(time_s, times_ns[record]) for time_s, record in self._latest_executions],
        )

    def clear_metrics(self) -> None:
        """Forget the samples of the metrics."""
        self.metrics.clear()
        self.execution_counts.clear()
        self._latest_executions.clear()

    def sample(self, metric: str, value: float) -> None:
        """Add a sample of a metric."""
        self.metrics.setdefault(metric, Samples()).add(value)
