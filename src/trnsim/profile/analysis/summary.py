"""The summary of a timeline: time, bottleneck, use of engines and memories, facts.

It also has the figures of Neuron Explorer's Summary table: `summary["mfu_estimated_percent"]`.
All figures are estimates; nothing here was measured on hardware.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any, Final

from trnsim.document.answer import Document, Section, Table, label_table
from trnsim.document.text import section_text
from trnsim.errors import BadInput
from trnsim.facts import Evidence
from trnsim.formatting import counted
from trnsim.isa import Engine
from trnsim.memory import Memory, capacity_bytes
from trnsim.profile.analysis.faster import faster_gains_s
from trnsim.profile.analysis.own_kernels import YOURS, own_interval
from trnsim.profile.measures.metrics import Value, Values, measure
from trnsim.profile.measures.traffic import Totals
from trnsim.profile.units import bytes_text, percent_text, rate_text, time_text
from trnsim.program import Program
from trnsim.timing import Timeline
from trnsim.timing.conditions import Conditions, conditions
from trnsim.timing.expectation import unseen_error
from trnsim.timing.interval import publication_of
from trnsim.timing.occupancy import critical_steps, occupancy

LAUNCH: Final = "launch"
LATENCY: Final = "latency"
ISSUE: Final = "DMA issue"
_LEAST_BUSY_SHARE: Final = 0.5
_PERCENT: Final = 100


@dataclass(frozen=True, slots=True)
class EngineUse:
    """The busy time of an engine.

    Attributes:
        engine: its label ("Vector Engine").
        active_s: time in which it could take no other instruction.
        active_share: `active_s` as a share of the device time, 0 to 1.
        instructions: number of instructions executed.
    """

    engine: str
    active_s: float
    active_share: float
    instructions: int


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """The cost of a program on one NeuronCore. Times in seconds; shares from 0 to 1.

    Attributes:
        target: the core's name.
        total_time_s: launch plus device time.
        total_time_p10_s: tenth percentile of its distribution (`Timeline.interval`).
        total_time_p50_s: median: the estimate.
        total_time_p90_s: ninetieth percentile.
        unseen_error: how far estimates of such kernels were off, in words.
        order: the policy that ordered the instructions: "compiler" or "issued".
        conditions: the conditions that the time assumes.
        launch_s: fixed cost of starting a kernel.
        device_time_s: time from the first instruction to the last result.
        bound_by: the bottleneck: "launch" or "latency", as the function `bound_by` gives them, or
            the engine that would shorten the kernel most if it were twice as fast.
        waiting_share: share of the critical path in which no engine on it worked.
        engines: the engines that worked, busiest first.
        instructions: number of instructions issued.
        opcodes: instructions by opcode, most frequent first.
        sbuf_peak_bytes: maximum bytes in use at once in a partition of SBUF.
        sbuf_bytes: capacity of a partition.
        psum_peak_bytes: maximum bytes in use at once in a partition of PSUM.
        psum_bytes: capacity of a partition.
        facts: number of the core's facts by kind ("documented" ...).
        assumed: names of the assumed facts.
        metrics: the 101 figures of Neuron Explorer's Summary table; None where unknown.
        missing: the reason for each figure that is None.
    """

    target: str
    total_time_s: float
    total_time_p10_s: float
    total_time_p50_s: float
    total_time_p90_s: float
    unseen_error: str
    order: str
    conditions: Conditions
    launch_s: float
    device_time_s: float
    bound_by: str
    waiting_share: float
    engines: tuple[EngineUse, ...]
    instructions: int
    opcodes: dict[str, int]
    sbuf_peak_bytes: int
    sbuf_bytes: int
    psum_peak_bytes: int
    psum_bytes: int
    facts: dict[str, int]
    assumed: tuple[str, ...]
    metrics: Values
    missing: dict[str, str]

    def __getitem__(self, name: str) -> Value:
        """A figure of Neuron Explorer's Summary table; None for a figure in `missing`.

        Raises:
            BadInput: for a name that the table does not have.
        """
        if name in self.metrics:
            return self.metrics[name]
        matches = ", ".join(get_close_matches(name, self.metrics)) or "none"
        raise BadInput(
            f"the summary has no {name!r}; names like it: {matches}",
            fix="use a name of Neuron Explorer's Summary table; summary.metrics has all",
            source="neuron-explorer profile-schema-reference.rst, Summary",
        )

    def _repr_html_(self) -> str:
        """The summary's table, embedded in a notebook."""
        from trnsim.document.html import html, inline  # noqa: PLC0415  a kernel alone needs none

        page = Document(f"Summary on {self.target}", None, [Section("", [self.table()])])
        return inline(str(self), html(page))

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON: plain dictionaries, lists and numbers."""
        lists = {"engines": [asdict(use) for use in self.engines], "assumed": list(self.assumed)}
        return {**asdict(self), **lists}

    def table(self) -> Table:
        """The summary, a row for each figure, with the facts on which it rests."""
        rows = [
            ("estimated time", f"{time_text(self.total_time_s)} on {self.target}"),
            ("P10 to P90", self.interval_text()),
            ("expected error", self.unseen_error),
            ("assumes", self.conditions.text()),
            ("launch", time_text(self.launch_s)),
            ("device time", time_text(self.device_time_s)),
            ("bound by", self.bound_by),
            ("critical path waits", percent_text(self.waiting_share)),
            *[(use.engine, _engine_text(use)) for use in self.engines],
            ("HBM", _hbm_text(self)),
            ("Tensor Engine FLOPs", _flop_text(self)),
            ("SBUF peak", _peak_text(self.sbuf_peak_bytes, self.sbuf_bytes)),
            ("PSUM peak", _peak_text(self.psum_peak_bytes, self.psum_bytes)),
            ("instructions", _opcode_text(self)),
            ("rests on", ", ".join(f"{n} {kind}" for kind, n in self.facts.items()) + " facts"),
            ("assumed", ", ".join(self.assumed) or "none"),
        ]
        return label_table(rows)

    @property
    def is_corrected(self) -> bool:
        """True if the user's own measurements moved its interval."""
        return self.unseen_error.startswith(YOURS)

    def __str__(self) -> str:
        time = f"{time_text(self.total_time_s)} ({self.interval_text()})"
        return f"{time}, bound by {self.bound_by}"

    def __repr__(self) -> str:
        return f"<Summary: {self}>"

    def interval_text(self) -> str:
        """P10 and P90 of the time, in words."""
        return f"{time_text(self.total_time_p10_s)} to {time_text(self.total_time_p90_s)}"

    def share_text(self, name: str) -> str:
        """A figure of Neuron Explorer's table that is a percentage, in words; 0 if unknown."""
        return percent_text((self[f"{name}_estimated_percent"] or 0.0) / _PERCENT)

    def text(self) -> str:
        """The summary as aligned lines for a terminal."""
        return section_text("", [self.table()])


def summarize(timeline: Timeline) -> Summary:
    """The summary of `timeline`."""
    program, core = timeline.program, timeline.program.core
    total_s, device_s = timeline.total_time_s, timeline.device_time_s
    expected_error = unseen_error(core, total_s, publication_of(program))
    interval, queue_issue_s = timeline.interval(), timeline.queue_issue_s()
    waits_s = critical_steps(timeline).waiting_s
    order, assumptions, facts = timeline.order, conditions(timeline), timeline.facts()
    peaks = {
        memory: occupancy(timeline, memory).peak_bytes for memory in (Memory.SBUF, Memory.PSUM)
    }
    sbuf_bytes, psum_bytes = (capacity_bytes(core, memory) for memory in peaks)
    interval, expected_error = own_interval(core, total_s, interval, expected_error)
    metrics = measure(timeline)
    engines = _engine_uses(timeline, metrics.values)
    return Summary(
        target=core.name,
        total_time_s=total_s,
        total_time_p10_s=interval.p10,
        total_time_p50_s=interval.p50,
        total_time_p90_s=interval.p90,
        unseen_error=expected_error,
        order=order.policy.name,
        conditions=assumptions,
        launch_s=timeline.launch_s,
        device_time_s=device_s,
        bound_by=_bottleneck(timeline, engines, queue_issue_s),
        waiting_share=_share(float(waits_s.sum()), device_s),
        engines=engines,
        instructions=len(program),
        opcodes=_opcodes(program),
        sbuf_peak_bytes=peaks[Memory.SBUF],
        sbuf_bytes=sbuf_bytes,
        psum_peak_bytes=peaks[Memory.PSUM],
        psum_bytes=psum_bytes,
        facts={kind.value: len(facts[kind]) for kind in Evidence},
        assumed=tuple(name for name, _ in facts[Evidence.ASSUMED]),
        metrics=metrics.values,
        missing=metrics.missing,
    )


def bound_by(
    launch_s: float, device_time_s: float, engines: tuple[EngineUse, ...], queue_issue_s: float
) -> str:
    """The bottleneck; `engines` are busiest first, and `queue_issue_s` is a DMA queue's issue time.

    "launch" where the launch takes longer than the device; else "latency" where no engine or queue
    is busy for more than half of the device time, so that all wait for results most of the time;
    else "DMA issue" where the queue is busier than any engine; else the label of the busiest one.
    """
    if launch_s > device_time_s or not engines:
        return LAUNCH
    busiest = engines[0]
    if max(busiest.active_s, queue_issue_s) <= _LEAST_BUSY_SHARE * device_time_s:
        return LATENCY
    return ISSUE if queue_issue_s > busiest.active_s else busiest.engine


def _bottleneck(timeline: Timeline, engines: tuple[EngineUse, ...], queue_issue_s: float) -> str:
    """`bound_by`; of several busy engines, the one whose speed matters most."""
    bottleneck = bound_by(timeline.launch_s, timeline.device_time_s, engines, queue_issue_s)
    # A collective is as fast as links are, not as an engine.
    if bottleneck in (LAUNCH, LATENCY, ISSUE, Engine.collective.label) or len(engines) == 1:
        return bottleneck
    gains_s = {engine.label: gain_s for engine, gain_s in faster_gains_s(timeline).items()}
    first_use = max(engines, key=lambda use: gains_s[use.engine])
    is_issue = first_use.engine == Engine.dma.label and queue_issue_s > first_use.active_s
    return ISSUE if is_issue else first_use.engine


_FIGURE_PREFIXES: Final = {Engine.dma: "dma", Engine.collective: "cc_op"}
"""Prefixes of the names of an engine's figures that are not the engine's own name."""


def _engine_uses(timeline: Timeline, metrics: Values) -> tuple[EngineUse, ...]:
    device_s = timeline.device_time_s
    program = timeline.program
    executed_counts = Counter(program.checked[which].engine for which in program.which)
    uses: list[EngineUse] = []
    for engine, instructions in executed_counts.items():
        prefix = _FIGURE_PREFIXES.get(engine, f"{engine.name}_engine")
        active_s = metrics[f"{prefix}_active_time"] or 0.0
        uses.append(EngineUse(engine.label, active_s, _share(active_s, device_s), instructions))
    return tuple(sorted(uses, key=lambda use: -use.active_s))


def _opcodes(program: Program) -> dict[str, int]:
    opcodes: Counter[str] = Counter()
    for checked, times in zip(program.checked, Totals(program).counts, strict=True):
        opcodes[checked.opcode] += int(times)
    return dict(opcodes.most_common())


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


def _engine_text(use: EngineUse) -> str:
    return (
        f"{time_text(use.active_s)} active, {percent_text(use.active_share)} of the device time, "
        + counted(use.instructions, "instruction")
    )


def _hbm_text(summary: Summary) -> str:
    read_bytes, written_bytes = summary["hbm_read_bytes"] or 0, summary["hbm_write_bytes"] or 0
    mbu = summary.share_text("mbu")
    return f"{bytes_text(read_bytes)} read, {bytes_text(written_bytes)} written, MBU {mbu}"


def _flop_text(summary: Summary) -> str:
    shares = [f"{name.upper()} {summary.share_text(name)}" for name in ("mfu", "hfu")]
    return f"{rate_text(summary['hardware_flops'] or 0, 'FLOP')}, {', '.join(shares)}"


def _peak_text(used_bytes: int, capacity_bytes: int) -> str:
    return f"{bytes_text(used_bytes)} of {bytes_text(capacity_bytes)} a partition"


def _opcode_text(summary: Summary) -> str:
    opcodes = ", ".join(f"{n} {opcode}" for opcode, n in summary.opcodes.items())
    return f"{summary.instructions}: {opcodes}" if opcodes else "0"
