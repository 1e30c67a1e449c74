"""Instruction, Flow, SemaphoreUpdate, ActiveTime, Throttle, OpcodeSummary.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst, the tables of that name.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.core import Core, ns
from trnsim.profile.measures.intervals import union
from trnsim.profile.measures.schema import Table
from trnsim.profile.measures.semaphores import updates, waits
from trnsim.profile.measures.traffic import Traffic
from trnsim.program import Checked
from trnsim.timing.occupancy import Integers

_MOVED_BYTES_COLUMNS: Final = (
    "hbm_read_bytes",
    "hbm_write_bytes",
    "sbuf_read_bytes",
    "sbuf_write_bytes",
    "psum_read_bytes",
    "psum_write_bytes",
)
_PERCENT: Final = 100.0
_RAMP_PARTS: Final = 8
_LIMIT_STEPS: Final = 32


def instructions(core: Core) -> Table:
    """One row per instruction of a compute engine, from its start until its result can be read."""
    spans, program, index = core.spans, core.program, core.compute_indices
    which = spans.which[index]
    start, end = ns(spans.start_s[index]), ns(spans.end_s[index])
    program_counters, waited_s = _order(core)
    facts = [
        _facts(c, traffic)
        for c, traffic in zip(program.checked, core.totals.by_distinct, strict=True)
    ]
    moved_bytes = {name: core.totals.column(name)[which].tolist() for name in _MOVED_BYTES_COLUMNS}
    lines = [str(line) for line in program.lines]
    line_of = spans.line_of[index].tolist()
    rows = which.tolist()
    return {
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "pcore_idx": core.rank_column(len(index)),
        "id": core.ids(index),
        "pc": program_counters.tolist(),
        "evt_wait_time_ns": ns(waited_s),
        "nki_source_location": [lines[line] if line >= 0 else None for line in line_of],
        **moved_bytes,
        **{name: [facts[row][name] for row in rows] for name in (facts[0] if facts else {})},
    }


def _facts(checked: Checked, traffic: Traffic) -> dict[str, Any]:
    """The columns that are the same for equal instructions."""
    kind = None
    if traffic.flops:
        kind = "TRANSPOSE" if traffic.transpose_flops else "REGULAR"
    is_activation = checked.opcode.startswith(("activate", "activation"))
    function = getattr(checked.instruction, "op", None) if is_activation else None
    return {
        "engine": checked.engine.name,
        "opcode": checked.opcode,
        "operands": checked.describe(),
        "spill_save_bytes": 0,
        "spill_reload_bytes": 0,
        "psum_read_sbuf_write_bytes": traffic.psum_to_sbuf_bytes,
        "tensor_instruction_type": kind,
        "raw_flops": traffic.flops,
        "adjusted_flops": round(traffic.flops * traffic.bf16_weight),
        "flops_transpose": traffic.transpose_flops,
        "adjusted_flops_transpose": round(traffic.transpose_flops * traffic.bf16_weight),
        "scalar_activation_fn": str(function) if function is not None else None,
    }


def _order(core: Core) -> tuple[Integers, Any]:
    """Index of each compute instruction on its engine, and the engine's idle time before it."""
    spans, index = core.spans, core.compute_indices
    engines = core.engine_of[index]
    positions = np.zeros(len(index), np.int64)
    waited_s = np.zeros(len(index))
    for engine in np.unique(engines):
        mask = engines == engine
        free_s = np.append(0.0, spans.busy_until_s[index][mask][:-1])
        positions[mask] = np.arange(mask.sum())
        waited_s[mask] = spans.start_s[index][mask] - free_s
    return positions, np.maximum(waited_s, 0.0)


def flows(core: Core) -> Table:
    """One row per dependence: `out` waits for `in`."""
    dependences = waits(core.program)
    spans = core.spans
    gap_s = spans.start_s[dependences.later] - spans.end_s[dependences.earlier]
    is_dma = core.engine_of == Engine.dma.value
    tables = np.where(is_dma, "dma_block", "instruction")
    return {
        "in_id": core.ids(dependences.earlier),
        "out_id": core.ids(dependences.later),
        "in_table": tables[dependences.earlier].tolist(),
        "out_table": tables[dependences.later].tolist(),
        "gap_time": ns(gap_s),
    }


def semaphore_updates(core: Core) -> Table:
    """One row per semaphore update, at the time when the awaited instruction is complete."""
    dependences = updates(core.program)
    order = np.argsort(core.spans.end_s[dependences.earlier], kind="stable")
    earlier, later = dependences.earlier[order], dependences.later[order]
    counts: dict[str, int] = {}
    names: list[str] = []
    values: list[int] = []
    for source, target in zip(earlier.tolist(), later.tolist(), strict=True):
        name = f"{_engine(core, source)} to {_engine(core, target)}"
        counts[name] = counts.get(name, 0) + 1
        names.append(name)
        values.append(counts[name])
    sources = [_engine(core, source) for source in earlier.tolist()]
    return {
        "timestamp": ns(core.spans.end_s[earlier]),
        "id": names,
        "value": values,
        # "AXI indicates the update came from the AXI bus", which is where DMA engines are.
        "update_source": ["AXI" if source == "DMA" else source for source in sources],
        "double_set_or_clear": [False] * len(names),
        "update_operation_type": ["sem_inc"] * len(names),
        "update_trigger_timing": ["complete"] * len(names),
        "pcore_idx": core.rank_column(len(names)),
    }


def _engine(core: Core, index: int) -> str:
    """The engine of an instruction, by the first word of its label: "Tensor", "DMA"."""
    return core.program.instruction(index).engine.label.split(" ", maxsplit=1)[0]


def active_times(core: Core) -> Table:
    """One row per stretch of time in which a compute engine is active."""
    starts: list[int] = []
    ends: list[int] = []
    engines: list[str] = []
    for engine in Engine:
        if engine is Engine.dma:
            continue
        mask = core.engine_of == engine.value
        active = union(core.spans.start_s[mask], core.spans.busy_until_s[mask])
        starts += ns(active.start_s).tolist()
        ends += ns(active.end_s).tolist()
        engines += [engine.name] * len(active.start_s)
    return {
        "start_ts": starts,
        "end_ts": ends,
        "engine": engines,
        "pcore_idx": core.rank_column(len(starts)),
        "duration_ns": [end - start for start, end in zip(starts, ends, strict=True)],
    }


def throttles(core: Core) -> Table:
    """One row per eighth of each clock ramp of the Tensor Engine: k / n is the clock's limit."""
    stretches = core.timeline.throttled_periods(_RAMP_PARTS)
    starts = ns(np.array([start_s for start_s, _, _ in stretches], np.float64)).tolist()
    return {
        "timestamp": starts,
        "duration": ns(np.array([length_s for _, length_s, _ in stretches], np.float64)).tolist(),
        "k": [round(limit * _LIMIT_STEPS) for _, _, limit in stretches],
        "n": [_LIMIT_STEPS] * len(stretches),
        "type": ["di/dt"] * len(stretches),
        "pcore_idx": core.rank_column(len(stretches)),
    }


def opcodes(core: Core) -> Table:
    """One row per engine and opcode."""
    spans, program = core.spans, core.program
    kinds = sorted({(c.engine.name, c.opcode) for c in program.checked if c.engine.name != "dma"})
    rows: list[tuple[str, str, int, int, int, float]] = []
    for engine, opcode in kinds:
        is_opcode = [(c.engine.name, c.opcode) == (engine, opcode) for c in program.checked]
        mask = np.array(is_opcode, np.bool_)[spans.which]
        duration_ns = int(ns(spans.end_s[mask] - spans.start_s[mask]).sum())
        active_s = union(spans.start_s[mask], spans.end_s[mask]).total_s
        share = active_s / core.timeline.device_time_s
        row = (engine, opcode, int(mask.sum()), duration_ns, int(ns(np.array(active_s))))
        rows.append((*row, _PERCENT * share))
    names = ("engine", "opcode", "instruction_count", "instruction_time_ns", "active_time_ns")
    columns = zip(*rows, strict=True) if rows else [()] * (len(names) + 1)
    return dict(zip((*names, "active_time_percent"), map(list, columns), strict=True))
