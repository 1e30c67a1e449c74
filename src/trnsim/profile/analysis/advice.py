"""Advice by rules: changes that would shorten a program, by how much, and on which line.

Each rule finds instructions with a known flaw, changes them, and schedules the whole program again,
in a new order; its gain is the difference of the two device times. A rule without a gain gives no
advice, so advice never recommends what the program already does. Gains are estimates, and do not
add up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trnsim.errors import SourceLine
from trnsim.isa import Engine, Instruction
from trnsim.profile.analysis import what_if
from trnsim.profile.analysis.examination import Examination, Repair
from trnsim.profile.analysis.sharing import one_engine_alone
from trnsim.profile.analysis.tiles import part_of_array, short_streams
from trnsim.profile.units import bytes_text, percent_text, time_text
from trnsim.timing import EnginePlacement, Timeline
from trnsim.timing.occupancy import critical_steps

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
        line: the source line with the largest part of the flaw's cost, or None.
        gain_s: estimated shortening of the device time.
        source: the document that states the rule.
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
class AdviceRule:
    """A known flaw, and the change that repairs it.

    Attributes:
        name: one word.
        threshold: the value at which the flaw starts; {threshold} in the texts.
        source: the document that states it.
        finding: the flaw, a format string over the change's figures.
        action: the change to make, a format string over the same figures.
        change: the function that repairs the flaw; it returns None without advice.
    """

    name: str
    threshold: float
    source: str
    finding: str
    action: str
    change: Callable[[Examination, float], Repair | None]


def advise(timeline: Timeline) -> list[Advice]:
    """Advice for a program, largest gain first; empty where no rule finds a flaw."""
    examination = Examination(timeline)
    advice: list[Advice] = []
    for rule in RULES:
        repair = rule.change(examination, rule.threshold)
        if repair is None:
            continue
        gain_s = examination.base_time_s - repair.device_time_s
        if gain_s < _MIN_GAIN * examination.base_time_s or gain_s <= 0:
            continue
        finding, action = (s.format(**repair.figures) for s in (rule.finding, rule.action))
        line = examination.costliest_line(repair.affected_indices)
        advice.append(Advice(finding, action, line, gain_s, rule.source, rule.name))
    return sorted(advice, key=lambda recommendation: -recommendation.gain_s)


# The rules' changes, in the order of the table below


def _small_transfers(examination: Examination, threshold_bytes: float) -> Repair | None:
    placements_by_kind: dict[int, EnginePlacement] = {}
    least_bytes = int(threshold_bytes)
    for kinds in examination.same_shape_groups:
        checked = examination.program.checked[kinds[0]]
        row_bytes = _row_bytes(checked.instruction) if checked.engine is Engine.dma else 0
        if not 0 < row_bytes < threshold_bytes:
            continue
        issued_indices = examination.issued_indices(kinds).tolist()
        factor = min(-(-_DMA_TARGET_BYTES // row_bytes), len(issued_indices))
        placement = what_if.merge(checked.instruction, examination.core, factor, None)
        if factor > 1 and placement is not None:
            is_load = checked.instruction.accesses()[1][0].memory.is_on_chip
            placements_by_kind |= what_if.place_in_groups(
                issued_indices, factor, placement, first=is_load
            )
            least_bytes = min(least_bytes, row_bytes)
    if not placements_by_kind:
        return None
    figures = {"n": len(placements_by_kind), "smallest": bytes_text(least_bytes)}
    return Repair(
        np.array(list(placements_by_kind)),
        examination.time_after_s({}, placements_by_kind),
        figures,
    )


def _row_bytes(instruction: Instruction) -> int:
    """Bytes per partition of the largest on-chip tile; 0 without such a tile."""
    tiles = [tile for _, tile in instruction.tiles() if tile.memory.is_on_chip]
    return max((tile.nbytes // tile.partitions for tile in tiles), default=0)


def _wide_on(engine: Engine) -> Callable[[Examination, float], Repair | None]:
    """The function that repairs float32 instructions of `engine`: they get bfloat16 operands."""

    def change(examination: Examination, threshold_bytes: float) -> Repair | None:
        placements_by_kind: dict[int, EnginePlacement] = {}
        for which, checked in enumerate(examination.program.checked):
            nbytes = max((t.dtype.itemsize for _, t in checked.instruction.tiles()), default=0)
            if checked.engine is not engine or nbytes < threshold_bytes:
                continue
            placement = what_if.narrow(checked.instruction, examination.core)
            if placement is not None and placement.cost.interval_s < checked.cost.interval_s:
                placements_by_kind[which] = placement
        before_s = sum(
            examination.program.checked[w].cost.interval_s * examination.counts[w]
            for w in placements_by_kind
        )
        after_s = sum(
            placement.cost.interval_s * examination.counts[w]
            for w, placement in placements_by_kind.items()
        )
        times = f"{before_s / after_s:.2g}" if after_s else ""
        return _costs_change(examination, placements_by_kind, times=times)

    return change


def _serial_chain(examination: Examination, threshold_share: float) -> Repair | None:
    """The repair of a serial chain: both halves of the program run at once, on two tiles in flight.

    It is an upper bound, as the halves may depend on each other in ways that the schedule lacks.
    """
    steps = critical_steps(examination.timeline)
    busiest_s = max(examination.timeline.queue_issue_s(), *examination.busy_s.values(), 0.0)
    waiting_s = float(steps.waiting_s.sum())
    if not len(steps.index) or busiest_s > threshold_share * examination.base_time_s:
        return None
    figures = {
        "waiting": time_text(waiting_s),
        "share": percent_text(waiting_s / examination.base_time_s),
        "n": len(steps.index),
        "busy": percent_text(busiest_s / examination.base_time_s),
    }
    waits = steps.index[steps.waiting_s > 0]
    return Repair(waits, examination.timeline.overlapped_halves_s(), figures)


def _costs_change(
    examination: Examination, placements_by_kind: dict[int, EnginePlacement], **figures: Any
) -> Repair | None:
    """The repair that changes costs of distinct instructions; None if none changes."""
    if not placements_by_kind:
        return None
    affected_indices = examination.issued_indices(list(placements_by_kind))
    opcodes = sorted({examination.program.checked[which].opcode for which in placements_by_kind})
    figures |= {"n": len(affected_indices), "opcodes": ", ".join(opcodes)}
    return Repair(affected_indices, examination.time_after_s(placements_by_kind), figures)


RULES: Final = (
    AdviceRule(
        "small DMA transfers",
        2048,
        "aws-neuron-sdk nki-dma-bandwidth-guide.rst: payloads of 4 KiB and more saturate HBM; "
        "nki-dma-overview.rst, figure: 81 % of full throughput at 2 KiB a partition",
        "{n:,} DMA transfers move less than 2 KiB a partition (down to {smallest}), so fixed costs "
        "dominate",
        "move 4 KiB or more a partition at once",
        _small_transfers,
    ),
    AdviceRule(
        "float32 matmul",
        4,
        f"{_TRN2}: FP32 runs at a quarter of the BF16 rate",
        "{n:,} {opcodes} instructions read float32 operands, which takes the Tensor Engine {times} "
        "times as long",
        "use bfloat16 operands in SBUF, to which dma_copy casts; PSUM still accumulates in float32",
        _wide_on(Engine.tensor),
    ),
    AdviceRule(
        "float32 on the Vector Engine",
        4,
        f"{_TRN2}: Vector Engine performance mode",
        "{n:,} {opcodes} instructions work on float32 tiles in SBUF, which keeps the Vector "
        "Engine out of its performance mode ({times} times as fast)",
        "use bfloat16 tiles in SBUF, to which dma_copy casts, where accuracy allows it",
        _wide_on(Engine.vector),
    ),
    AdviceRule(
        "short matmuls",
        512,
        f"{_GUIDE}: Opt #5a, use sufficiently large input tiles in free dimension",
        "{n:,} {opcodes} instructions stream as few as {shortest} columns",
        "stream 512 (one PSUM bank) through each stationary tile{around}",
        short_streams,
    ),
    AdviceRule(
        "part of the array",
        0.5,
        f"{_GUIDE}: Opt #5b, use sufficiently large input tiles in partition dimension; "
        "neuron-explorer overview-summary-page.rst: model FLOPs under 50 % of active",
        "{n:,} {opcodes} instructions fill as little as {share} of the Tensor Engine's array "
        "({at})",
        "pack up to 128 rows of K and 128 columns of M into each{around}",
        part_of_array,
    ),
    AdviceRule(
        "one engine alone",
        0.5,
        f"{_GUIDE}: Opt #3, overlap execution across compute engines",
        "The {busiest} is busy {share} of the time and the {other} {other_share}",
        "give {n:,} of {movable:,} instructions ({opcodes}) engine={name}{how}",
        one_engine_alone,
    ),
    AdviceRule(
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
