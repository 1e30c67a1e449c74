"""The 101 figures of Neuron Explorer's Summary table, each by its definition.

An instruction lasts from its start until its result can be read; its engine is active while it can
take no other instruction. Neither the launch nor anything on the host counts. A figure that the
timing model cannot give is None, and `missing` says why.

Source of every definition: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst,
Summary.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt

from trnsim.arch.peaks import hbm_stack_bytes_per_s, peak_flop_per_s
from trnsim.isa import Engine
from trnsim.memory import Memory
from trnsim.profile.measures.core import Core
from trnsim.profile.measures.intervals import union
from trnsim.profile.measures.schema import summary_names
from trnsim.profile.measures.semaphores import count_updates
from trnsim.profile.measures.transfers import HARDWARE, SOFTWARE, STATIC, UNKNOWN, transfers
from trnsim.timing import Timeline

Number = int | float
Value = Number | None
Values = dict[str, Value]

_PERCENT: Final = 100.0
_INSTRUCTION_ENGINES: Final = (
    Engine.tensor,
    Engine.vector,
    Engine.scalar,
    Engine.sync,
    Engine.gpsimd,
)
_NO_COLLECTIVES: Final = "the program has no collectives"
_NO_STEPS: Final = "a collective is timed as a whole, not by the instructions of CC-Cores"
_NO_CLOCK: Final = "AWS publishes no NeuronCore base clock for this generation"
_NO_HBM: Final = "the program neither reads nor writes HBM"
_NO_TRANSFERS: Final = "the program has no DMA transfers"
_NO_QUEUE_KINDS: Final = "a kernel has no input, output and weight queues; it issues its own DMA"
_MISSING_REASONS: Final = {
    "total_row_count": "counts rows of Neuron Explorer's own database",
    "weight_size_bytes": "a kernel's arguments do not say which of them are weights",
    **dict.fromkeys(("input_queue_bytes", "output_queue_bytes"), _NO_QUEUE_KINDS),
    "weight_queue_bytes": _NO_QUEUE_KINDS,
    **dict.fromkeys((name for name in summary_names() if name.startswith("cc_cores_")), _NO_STEPS),
}


@dataclass(frozen=True)
class Metrics:
    """The figures of the Summary table.

    Attributes:
        values: all 101 by name, in the table's order; times in seconds, shares in percent.
        missing: by name, the reason why a figure is None.
    """

    values: Values
    missing: dict[str, str] = field(default_factory=dict[str, str])


def measure(timeline: Timeline) -> Metrics:
    """The 101 figures of `timeline`."""
    work = _Work(timeline)
    figures: Values = {}
    missing_reasons = dict(_MISSING_REASONS)
    for section in _SECTION_MEASURES:
        values, reasons = section(work)
        figures |= values
        missing_reasons |= reasons
    values = {name: figures.get(name) for name in summary_names()}
    return Metrics(
        values, {name: missing_reasons[name] for name, value in values.items() if value is None}
    )


_Section = tuple[Values, dict[str, str]]


class _Work:
    """Quantities of a timeline that several sections use."""

    def __init__(self, timeline: Timeline) -> None:
        self.timeline = timeline
        self.program = timeline.program
        self.core = timeline.program.core
        self.total_s = timeline.device_time_s
        core = Core(timeline, 0)
        self.spans, self.totals, self.engine_of = core.spans, core.totals, core.engine_of

    @cached_property
    def hbm_bytes(self) -> int:
        """Bytes read from and written to HBM."""
        return self.totals.of("hbm_read_bytes") + self.totals.of("hbm_write_bytes")

    def active_s(self, mask: npt.NDArray[np.bool_]) -> float:
        """Time in which at least one of the instructions of `mask` occupies its engine."""
        return union(self.spans.start_s[mask], self.spans.busy_until_s[mask]).total_s

    def total_duration_s(self, mask: npt.NDArray[np.bool_]) -> float:
        """Durations of the instructions of `mask`, added up."""
        return float((self.spans.end_s - self.spans.start_s)[mask].sum())

    def percent(self, part: float) -> float:
        """`part` of the total time, in percent."""
        return _percent(part, self.total_s)


def _percent(part: float, total: float) -> float:
    return _PERCENT * part / total if total else 0.0


def _time_figures(work: _Work) -> _Section:
    spans = work.spans
    all_instructions = np.ones(len(spans.start_s), np.bool_)
    execution_s = float(spans.end_s.max() - spans.start_s.min()) if len(all_instructions) else 0.0
    active_s = work.active_s(all_instructions)
    events = count_updates(work.program)
    packets = int(transfers(work.timeline).packets.sum())
    clock_hz = work.core.features.base_clock_hz
    figures: Values = {
        "total_time": work.total_s,
        "total_exec_time": execution_s,
        "total_active_time": active_s,
        "total_active_time_percent": _percent(active_s, execution_s),
        "event_count": events,
        "trace_count": len(work.program) + events + packets,
    }
    if clock_hz is None:
        return figures, dict.fromkeys(("neuroncore_cycle_count", "dma_active_cycles"), _NO_CLOCK)
    dma_s = work.active_s(work.engine_of == Engine.dma.value)
    figures["neuroncore_cycle_count"] = round(work.total_s * clock_hz)
    figures["dma_active_cycles"] = round(dma_s * clock_hz)
    return figures, {}


def _flop_figures(work: _Work) -> _Section:
    totals = work.totals
    ratio = peak_flop_per_s(work.core) / hbm_stack_bytes_per_s(work.core)
    figures: Values = {
        "model_flops": work.totals.model_flops,
        "hardware_flops": totals.of("flops"),
        "transpose_flops": totals.of("transpose_flops"),
        "adjusted_hardware_flops": totals.weighted("flops"),
        "adjusted_transpose_flops": totals.weighted("transpose_flops"),
        "peak_flops_bandwidth_ratio": ratio,
    }
    intensities = (
        "mm_arithmetic_intensity",
        "mfu_max_achievable_estimated_percent",
        "mfu_inst_max_achievable_estimated_percent",
    )
    if not work.hbm_bytes:
        return figures, dict.fromkeys(intensities, _NO_HBM)
    intensity = work.totals.model_flops / work.hbm_bytes
    # The definition has no ceiling: above 100 % the program is not bound by HBM.
    best = _PERCENT * intensity / ratio
    return figures | dict(zip(intensities, (intensity, best, best), strict=True)), {}


def _utilisation_figures(work: _Work) -> _Section:
    available = peak_flop_per_s(work.core) * work.total_s
    mfu = _percent(work.totals.model_flops, available)
    figures: Values = {
        "mfu_estimated_percent": mfu,
        "mfu_inst_estimated_percent": mfu,
        # "This will be 0 if HLO stats are missing, which is the case for NKI kernels."
        "mfu_hlo_estimated_percent": 0.0,
        "mfu_hlo_max_achievable_estimated_percent": 0.0,
        "hfu_estimated_percent": _percent(work.totals.of("flops"), available),
    }
    return figures, {}


def _memory_figures(work: _Work) -> _Section:
    totals = work.totals
    hbm_uses = [use for use in work.program.uses.values() if use.memory is Memory.HBM]
    spills = [use for use in hbm_uses if use.is_spill]
    hbm_uses = [use for use in hbm_uses if not use.is_spill]
    inputs = sum(use.nbytes for use in hbm_uses if use.first_write < 0)
    # A tensor that the kernel writes and reads again is its scratch space.
    outputs = sum(use.nbytes for use in hbm_uses if use.first_write >= 0 and not use.reads)
    available = hbm_stack_bytes_per_s(work.core) * work.total_s
    to_sbuf = totals.column("psum_to_sbuf_bytes")
    names = ("hbm_read_bytes", "hbm_write_bytes", "sbuf_read_bytes", "sbuf_write_bytes")
    figures: Values = {name: totals.of(name) for name in names}
    figures |= {
        "psum_read_bytes": totals.of("psum_read_bytes"),
        "psum_write_bytes": totals.of("psum_write_bytes"),
        "psum_read_sbuf_write_bytes": totals.of("psum_to_sbuf_bytes"),
        "psum_read_sbuf_write_count": int(totals.counts[to_sbuf > 0].sum()),
        "spill_save_bytes": sum(use.written_bytes for use in spills),
        "spill_reload_bytes": sum(use.read_bytes for use in spills),
        "inputs_and_weights_size_bytes": inputs,
        "inputs_outputs_weights_size_bytes": inputs + outputs,
        "mbu_estimated_percent": _percent(work.hbm_bytes, available),
        "mbu_min_read_util_percent": _percent(inputs, available),
    }
    return figures, {}


def _transfer_figures(work: _Work) -> _Section:
    dma = transfers(work.timeline)
    lengths_s = dma.end_s - dma.start_s
    active_s = union(dma.start_s, dma.end_s).total_s
    nbytes, count = int(dma.bytes.sum()), len(dma.index)
    figures: Values = {
        "dma_active_time": active_s,
        "dma_active_time_percent": work.percent(active_s),
        "dma_packet_time": float((lengths_s * dma.packets).sum()),
        "dma_transfer_time": float(lengths_s.sum()),
        "dma_transfer_count": count,
        "dma_transfer_total_bytes": nbytes,
        "dma_queue_count": len(dma.queues),
    }
    if not count:
        return figures, {"dma_transfer_average_bytes": _NO_TRANSFERS}
    return figures | {"dma_transfer_average_bytes": nbytes / count}, {}


def _dma_by_type(work: _Work) -> _Section:
    """Figures by type of descriptor; "unknown" where the compiler would decide."""
    dma = transfers(work.timeline)
    unknowns = int(dma.of_type(UNKNOWN).sum())
    prefixes = {
        "static_dma": (STATIC,),
        "software_dynamic_dma": (SOFTWARE,),
        "hardware_dynamic_dma": (HARDWARE,),
        "dynamic_dma": (SOFTWARE, HARDWARE),
    }
    figures: Values = {}
    for prefix, types in prefixes.items():
        mask = np.logical_or.reduce([dma.of_type(kind) for kind in types])
        active_s = union(dma.start_s[mask], dma.end_s[mask]).total_s
        packets, nbytes = int(dma.packets[mask].sum()), int(dma.bytes[mask].sum())
        figures |= {
            f"{prefix}_active_time": active_s,
            f"{prefix}_active_time_percent": work.percent(active_s),
            f"{prefix}_packet_count": packets,
            f"{prefix}_packet_percent": _percent(packets, int(dma.packets.sum())),
            f"{prefix}_size": nbytes,
            f"{prefix}_size_percent": _percent(nbytes, int(dma.bytes.sum())),
        }
    if not unknowns:
        return figures, {}
    reason = (
        f"{unknowns:,} of {len(dma.index):,} transfers leave their descriptors to the compiler "
        "(dge_mode unknown)"
    )
    return {}, dict.fromkeys(figures, reason)


def _collective_figures(work: _Work) -> _Section:
    mask = work.engine_of == Engine.collective.value
    names = ("cc_op_time", "cc_op_active_time", "cc_op_active_time_percent", "cc_op_count")
    if not mask.any():
        return {}, dict.fromkeys(names, _NO_COLLECTIVES)
    active_s = work.active_s(mask)
    figures = (work.total_duration_s(mask), active_s, work.percent(active_s), int(mask.sum()))
    return dict(zip(names, figures, strict=True)), {}


def _engine_figures(work: _Work) -> _Section:
    figures: Values = {}
    for engine in _INSTRUCTION_ENGINES:
        mask = work.engine_of == engine.value
        prefix, active_s = f"{engine.name}_engine", work.active_s(mask)
        figures |= {
            f"{prefix}_instruction_time": work.total_duration_s(mask),
            f"{prefix}_active_time": active_s,
            f"{prefix}_active_time_percent": work.percent(active_s),
            f"{prefix}_instruction_count": int(mask.sum()),
        }
    checked = work.program.checked
    activates = np.array(
        [c.opcode.startswith(("activate", "activation")) for c in checked], np.bool_
    )
    activates = activates[work.spans.which]
    figures |= {
        "activate_instruction_time": work.total_duration_s(activates),
        "activate_instruction_count": int(activates.sum()),
        "matmul_instruction_count": work.totals.of("matmuls"),
    }
    return figures, {}


_SECTION_MEASURES: Final = (
    _time_figures,
    _flop_figures,
    _utilisation_figures,
    _memory_figures,
    _transfer_figures,
    _dma_by_type,
    _collective_figures,
    _engine_figures,
)
