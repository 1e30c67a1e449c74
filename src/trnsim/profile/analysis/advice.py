"""Advice by rules: changes that would shorten a program, by how much, and on which line.

Each rule finds instructions with a known flaw, changes them, and schedules the whole program again;
its gain is the difference of the two device times. A rule without a gain says nothing, so advice
never asks for what the program already does. Gains are estimates, and do not add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.analysis import what_if
from trnsim.profile.units import bytes_text, percent_text, time_text
from trnsim.timing import Placement
from trnsim.timing.occupancy import Columns, Integers, columns, critical_steps

if TYPE_CHECKING:
    from trnsim.errors import SourceLine
    from trnsim.isa import Instruction
    from trnsim.program import Checked
    from trnsim.timing import Timeline

_GUIDE: Final = "aws-neuron-sdk nki/deep-dives/nki_perf_guide.rst"
_TRN2: Final = "aws-neuron-sdk nki/guides/architecture/trainium2_arch.rst"
_MIN_GAIN: Final = 0.01
"""Share of the device time below which a gain is not worth a sentence."""
_DMA_TARGET_BYTES: Final = 4096
"""Bytes a partition that saturate the DMA engines. Source: nki-dma-bandwidth-guide.rst."""


@dataclass(frozen=True, slots=True)
class Advice:
    """One recommendation.

    Attributes:
        finding: the flaw, with figures.
        action: the change to make.
        line: the source line with the largest part of the flaw's cost, or None.
        gain_s: estimated shortening of the device time.
        source: the document that states the rule.
        rule: the rule's name.
    """

    finding: str
    action: str
    line: SourceLine | None
    gain_s: float
    source: str
    rule: str

    @property
    def text(self) -> str:
        """Finding and action in a sentence."""
        return f"{self.finding}: {self.action}."


@dataclass(frozen=True, slots=True)
class Repair:
    """The effect of repairing a flaw in a program.

    Attributes:
        affected: the instructions that have the flaw.
        device_time_s: estimated device time without it.
        figures: values for the placeholders of the rule's texts.
    """

    affected: Integers
    device_time_s: float
    figures: dict[str, Any]


class Examination:
    """A timeline under examination, with quantities that several rules use."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.program = timeline.program
        self.core = timeline.program.core
        self.device_time_s = timeline.undisturbed_s

    @cached_property
    def spans(self) -> Columns:
        """The timeline in columns."""
        return columns(self.timeline)

    @cached_property
    def busy_s(self) -> dict[Engine, float]:
        """Time for which each engine was busy."""
        return self.timeline.busy_s()

    @cached_property
    def counts(self) -> Integers:
        """Number of issues of each distinct instruction."""
        return np.bincount(self.spans.which, minlength=len(self.program.checked))

    def issued(self, whiches: list[int]) -> Integers:
        """Indices of the issued instructions whose distinct instruction is in `whiches`."""
        return np.flatnonzero(np.isin(self.spans.which, whiches))

    def with_costs(self, changed: dict[int, Placement]) -> float:
        """The device time with the placements in `changed`, by distinct instruction."""
        placements = what_if.recorded(self.program)
        for which, placement in changed.items():
            placements[which] = placement
        which_of = self.program.which
        return self.timeline.device_time_if_s(lambda index: placements[which_of[index]])

    def costliest_line(self, indices: Integers) -> SourceLine | None:
        """The line whose instructions among `indices` take longest, latency included."""
        line_of = self.spans.line_of[indices]
        taken_s = self.spans.end_s[indices] - self.spans.start_s[indices]
        known = line_of >= 0
        if not known.any():
            return None
        return self.program.lines[int(np.argmax(np.bincount(line_of[known], taken_s[known])))]


@dataclass(frozen=True, slots=True)
class Rule:
    """A known flaw, and the change that repairs it.

    Attributes:
        name: one word.
        threshold: the value at which the flaw starts; {threshold} in the texts.
        source: the document that states it.
        finding: the flaw, a format string over the change's figures.
        action: the change to make, likewise a format string.
        change: the function that repairs the flaw; it returns None where there is none.
    """

    name: str
    threshold: float
    source: str
    finding: str
    action: str
    change: Callable[[Examination, float], Repair | None]


def advise(timeline: Timeline) -> list[Advice]:
    """Advice for a program, largest gain first; empty where no rule finds a flaw."""
    examined = Examination(timeline)
    found: list[Advice] = []
    for rule in RULES:
        change = rule.change(examined, rule.threshold)
        if change is None:
            continue
        gain_s = examined.device_time_s - change.device_time_s
        if gain_s < _MIN_GAIN * examined.device_time_s or gain_s <= 0:
            continue
        finding, action = (s.format(**change.figures) for s in (rule.finding, rule.action))
        line = examined.costliest_line(change.affected)
        found.append(Advice(finding, action, line, gain_s, rule.source, rule.name))
    return sorted(found, key=lambda advice: -advice.gain_s)


# The rules' changes, in the order of the table below


def _small_transfers(examined: Examination, threshold_bytes: float) -> Repair | None:
    changed: dict[int, Placement] = {}
    smallest = int(threshold_bytes)
    for which, checked in enumerate(examined.program.checked):
        row_bytes = _row_bytes(checked.instruction) if checked.engine is Engine.dma else 0
        factor = min(-(-_DMA_TARGET_BYTES // max(row_bytes, 1)), int(examined.counts[which]))
        if not 0 < row_bytes < threshold_bytes or factor < _SEVERAL:
            continue
        placement = what_if.merged(checked.instruction, examined.core, factor, None)
        if placement is not None:
            changed[which] = placement
            smallest = min(smallest, row_bytes)
    return _costs_change(examined, changed, smallest=bytes_text(smallest))


def _row_bytes(instruction: Instruction) -> int:
    """Bytes a partition of the largest on-chip tile, or 0 where there is none."""
    tiles = [tile for _, tile in instruction.tiles() if tile.memory.is_on_chip]
    return max((tile.nbytes // tile.partitions for tile in tiles), default=0)


def _wide_on(engine: Engine) -> Callable[[Examination, float], Repair | None]:
    """The change that gives the float32 instructions of `engine` bfloat16 operands."""

    def change(examined: Examination, threshold_bytes: float) -> Repair | None:
        changed: dict[int, Placement] = {}
        for which, checked in enumerate(examined.program.checked):
            widest = max((t.dtype.itemsize for _, t in checked.instruction.tiles()), default=0)
            if checked.engine is not engine or widest < threshold_bytes:
                continue
            placement = what_if.narrowed(checked.instruction, examined.core)
            if placement is not None and placement.cost.interval_s < checked.cost.interval_s:
                changed[which] = placement
        before_s = sum(
            examined.program.checked[w].cost.interval_s * examined.counts[w] for w in changed
        )
        after_s = sum(
            placement.cost.interval_s * examined.counts[w] for w, placement in changed.items()
        )
        times = f"{before_s / after_s:.2g}" if after_s else ""
        return _costs_change(examined, changed, times=times)

    return change


def _short_streams(examined: Examination, threshold_elements: float) -> Repair | None:
    changed: dict[int, Placement] = {}
    shortest = int(threshold_elements)
    for which, checked in enumerate(examined.program.checked):
        N = _matmul_axes(checked)[2]
        factor = min(int(threshold_elements) // max(N, 1), int(examined.counts[which]))
        if N == 0 or factor < _SEVERAL:
            continue
        placement = what_if.merged(checked.instruction, examined.core, factor, "N")
        if placement is not None:
            changed[which] = placement
            shortest = min(shortest, N)
    return _costs_change(examined, changed, shortest=shortest)


def _part_of_array(examined: Examination, threshold_share: float) -> Repair | None:
    changed: dict[int, Placement] = {}
    core = examined.core
    emptiest, at = threshold_share, ""
    for which, checked in enumerate(examined.program.checked):
        K, M, N = _matmul_axes(checked)
        share = K * M / (core.pe_rows * core.pe_columns)
        if N == 0 or share >= threshold_share or examined.counts[which] < _SEVERAL:
            continue
        packed = max(share, 1 / int(examined.counts[which]))
        cost = what_if.scaled(checked.cost, packed)
        changed[which] = Placement(checked.engine, cost)
        if share < emptiest:
            emptiest, at = share, f"K={K}, M={M}"
    return _costs_change(examined, changed, at=at, share=percent_text(emptiest))


def _matmul_axes(checked: Checked) -> tuple[int, int, int]:
    """K, M and N of an instruction that contracts over them, else zeros."""
    dims = checked.dims
    if checked.engine is not Engine.tensor or not {"K", "M", "N"} <= dims.keys():
        return 0, 0, 0
    return dims["K"], dims["M"], dims["N"]


def _one_engine_alone(examined: Examination, threshold_share: float) -> Repair | None:
    if not examined.busy_s:
        return None
    busiest = max(examined.busy_s, key=examined.busy_s.__getitem__)
    if examined.busy_s[busiest] < threshold_share * examined.device_time_s:
        return None
    best: Repair | None = None
    for other in (Engine.vector, Engine.scalar, Engine.gpsimd):
        if examined.busy_s.get(other, 0.0) > threshold_share * examined.busy_s[busiest]:
            continue
        change = _shared_with(examined, busiest, other)
        if change and (best is None or change.device_time_s < best.device_time_s):
            best = change
    return best


def _shared_with(examined: Examination, busiest: Engine, other: Engine) -> Repair | None:
    """Move each movable instruction of `busiest` to the engine that finishes it first."""
    own = what_if.recorded(examined.program)
    elsewhere = {
        which: placement
        for which, checked in enumerate(examined.program.checked)
        if checked.engine is busiest
        and (placement := what_if.moved(checked.instruction, examined.core, other)) is not None
    }
    loads_s = dict.fromkeys((busiest, other), 0.0)
    placements: list[Placement] = []
    moved: list[int] = []
    for index, which in enumerate(examined.program.which):
        placement, option = own[which], elsewhere.get(which)
        if option is not None:
            stays_s = loads_s[busiest] + placement.cost.interval_s
            if loads_s[other] + option.cost.interval_s < stays_s:
                placement = option
                moved.append(index)
        if placement.engine in loads_s:
            loads_s[placement.engine] += placement.cost.interval_s
        placements.append(placement)
    if not moved:
        return None
    names = sorted({examined.program.instruction(index).opcode for index in moved})
    movable = int(sum(examined.counts[which] for which in elsewhere))
    figures = {
        "busiest": busiest.label,
        "share": percent_text(examined.busy_s[busiest] / examined.device_time_s),
        "other": other.label,
        "other_share": percent_text(examined.busy_s.get(other, 0.0) / examined.device_time_s),
        "n": len(moved),
        "movable": movable,
        "opcodes": ", ".join(names),
        "name": f"nisa.engine.{other.name}",
    }
    affected = examined.issued(list(elsewhere))
    return Repair(affected, examined.timeline.device_time_if_s(placements.__getitem__), figures)


def _serial_chain(examined: Examination, threshold_share: float) -> Repair | None:
    """Two tiles in flight: half of the time at best, but not less than the busiest engine's."""
    steps = critical_steps(examined.timeline)
    busiest_s = max(examined.timeline.issuing_s(), *examined.busy_s.values(), 0.0)
    waiting_s = float(steps.waiting_s.sum())
    if not len(steps.index) or busiest_s > threshold_share * examined.device_time_s:
        return None
    figures = {
        "waiting": time_text(waiting_s),
        "share": percent_text(waiting_s / examined.device_time_s),
        "n": len(steps.index),
        "busy": percent_text(busiest_s / examined.device_time_s),
    }
    waits = steps.index[steps.waiting_s > 0]
    return Repair(waits, max(busiest_s, examined.device_time_s / _TILES_IN_FLIGHT), figures)


_SEVERAL: Final = 2
_TILES_IN_FLIGHT: Final = 2


def _costs_change(
    examined: Examination, changed: dict[int, Placement], **figures: Any
) -> Repair | None:
    """The repair that changes costs of distinct instructions; None where `changed` is empty."""
    if not changed:
        return None
    affected = examined.issued(list(changed))
    opcodes = sorted({examined.program.checked[which].opcode for which in changed})
    figures |= {"n": len(affected), "opcodes": ", ".join(opcodes)}
    return Repair(affected, examined.with_costs(changed), figures)


RULES: Final = (
    Rule(
        "small DMA transfers",
        2048,
        "aws-neuron-sdk nki-dma-bandwidth-guide.rst: payloads of 4 KiB and more saturate HBM; "
        "nki-dma-overview.rst, figure: 81 % of full throughput at 2 KiB a partition",
        "{n:,} DMA transfers move less than 2 KiB a partition (down to {smallest}), so fixed costs "
        "dominate",
        "move 4 KiB or more a partition at once",
        _small_transfers,
    ),
    Rule(
        "float32 matmul",
        4,
        f"{_TRN2}: FP32 runs at a quarter of the BF16 rate",
        "{n:,} {opcodes} instructions read float32 operands, which takes the Tensor Engine {times} "
        "times as long",
        "use bfloat16 operands; PSUM still accumulates in float32",
        _wide_on(Engine.tensor),
    ),
    Rule(
        "float32 on the Vector Engine",
        4,
        f"{_TRN2}: Vector Engine performance mode",
        "{n:,} {opcodes} instructions work on float32 tiles in SBUF, which keeps the Vector "
        "Engine out of its performance mode ({times} times as fast)",
        "use bfloat16 tiles where accuracy allows it",
        _wide_on(Engine.vector),
    ),
    Rule(
        "short matmuls",
        512,
        f"{_GUIDE}: Opt #5a, use sufficiently large input tiles in free dimension",
        "{n:,} {opcodes} instructions stream as few as {shortest} columns",
        "stream 512 (one PSUM bank) through each stationary tile",
        _short_streams,
    ),
    Rule(
        "part of the array",
        0.5,
        f"{_GUIDE}: Opt #5b, use sufficiently large input tiles in partition dimension; "
        "neuron-explorer overview-summary-page.rst: model FLOPs under 50 % of active",
        "{n:,} {opcodes} instructions fill as little as {share} of the Tensor Engine's array "
        "({at})",
        "pack up to 128 rows of K and 128 columns of M into each",
        _part_of_array,
    ),
    Rule(
        "one engine alone",
        0.5,
        f"{_GUIDE}: Opt #3, overlap execution across compute engines",
        "The {busiest} is busy {share} of the time and the {other} {other_share}",
        "give {n:,} of {movable:,} instructions ({opcodes}) engine={name}",
        _one_engine_alone,
    ),
    Rule(
        "serial chain",
        0.5,
        f"{_GUIDE}: Opt #3 and #4, avoid engine idle gaps",
        "No engine is busy for more than {busy} of the time; the critical path of {n:,} "
        "instructions waits {waiting} ({share}) for results",
        "keep two independent tiles in flight (the gain is an upper bound)",
        _serial_chain,
    ),
)
"""Thresholds: bytes a partition, bytes an element, elements, or shares of the device time."""
