"""The roofline: the FLOP rate that HBM and the Tensor Engine allow at a program's FLOPs per byte.

The program is a point; so is each opcode that multiplies, at the rate that it reaches while it
occupies the engine. The distance between them is the engine's idle time.

Source: neuron-explorer profile-schema-reference.rst, mfu_max_achievable_estimated_percent.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Any

import numpy as np

from trnsim.arch.peaks import hbm_stack_bytes_per_s, peak_flop_per_s
from trnsim.profile.analysis.summary import Summary
from trnsim.profile.measures.traffic import Totals
from trnsim.timing import Timeline
from trnsim.timing.occupancy import columns


def roofline(timeline: Timeline, summary: Summary) -> dict[str, Any]:
    """The roof and the points under it; `flop_per_byte` is None without HBM traffic."""
    core = timeline.program.core
    peak, bytes_per_s = peak_flop_per_s(core), hbm_stack_bytes_per_s(core)
    intensity = summary["mm_arithmetic_intensity"]
    device_s = timeline.device_time_s
    return {
        "peak_flop_per_s": peak,
        "hbm_bytes_per_s": bytes_per_s,
        "flop_per_byte": intensity,
        "flop_per_s": (summary["model_flops"] or 0) / device_s if device_s else 0.0,
        "best_flop_per_s": min(peak, (intensity or 0.0) * bytes_per_s),
        "opcodes": _opcode_rates(timeline),
    }


def _opcode_rates(timeline: Timeline) -> list[dict[str, Any]]:
    """For each opcode that multiplies, its FLOPs per second while it occupies the Tensor Engine."""
    spans, program = columns(timeline), timeline.program
    totals = Totals(program)
    busy_s = np.bincount(
        spans.which, spans.busy_until_s - spans.start_s, len(program.checked)
    ).tolist()
    flops: Counter[str] = Counter()
    occupied_s: dict[str, float] = defaultdict(float)
    rows = zip(program.checked, totals.by_distinct, totals.counts.tolist(), busy_s, strict=True)
    for checked, traffic, count, opcode_s in rows:
        if traffic.flops > traffic.transpose_flops:
            flops[checked.opcode] += count * traffic.flops
            occupied_s[checked.opcode] += opcode_s
    return [{"opcode": name, "flop_per_s": flops[name] / occupied_s[name]} for name in flops]
