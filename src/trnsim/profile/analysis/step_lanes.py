"""Lanes of a step over time: its kernels, the host's launches, and the HBM in use.

A kernel is drawn at the time when the device runs it, its launch when the host starts it; kernels
without gaps show that the host is ahead.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

import numpy as np

from trnsim.document.lanes import CurveLane, Lane, LaneSpan
from trnsim.profile.analysis.step_program import StepProgram
from trnsim.profile.units import bytes_text, time_text

PHASES: Final = ("forward", "backward", "optimizer")
"""The phases of a step, each with a colour of the page."""


def step_lanes(
    program: StepProgram, pages: Mapping[str, str] = MappingProxyType({})
) -> list[Lane | CurveLane]:
    """The lanes of a program; `pages` has the file of a kernel's own page, by its name."""
    ends_s = program.ends_s.tolist()
    launch_ends_s = np.cumsum(program.launches_s).tolist()
    kernels: list[LaneSpan] = []
    launches: list[LaneSpan] = []
    for which, end_s, launch_end_s in zip(program.order, ends_s, launch_ends_s, strict=True):
        row = program.kernels[which]
        kind = row.phase if row.phase in PHASES else "work"
        place = f", {row.module}" if row.module else ""
        words = f"{row.name}{place}: {time_text(row.time_s)}"
        page = pages.get(row.name, "")
        kernels.append(LaneSpan(end_s - row.time_s, row.time_s, kind, words, page))
        words = f"launch of {row.name}: {time_text(row.launch_s)}"
        launches.append(LaneSpan(launch_end_s - row.launch_s, row.launch_s, "launch", words))
    curve = [(ends_s[run - 1] if run else 0.0, live_bytes) for run, live_bytes in program.hbm]
    peak_bytes = max((live_bytes for _, live_bytes in program.hbm), default=0)
    use = f"{bytes_text(peak_bytes)} at most of {bytes_text(program.hbm_bytes)}"
    return [
        Lane("kernels", kernels, time_text(float(program.times_s.sum()))),
        Lane("launches", launches, time_text(float(program.launches_s.sum()))),
        CurveLane("HBM in use", curve, use),
    ]
