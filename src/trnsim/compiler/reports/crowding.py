"""A sentence on results that do not fit in SBUF."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim import arch
from trnsim.compiler.program_times import ProgramFigures
from trnsim.profile.units import bytes_text, percent_text, time_text

_REPORTED_SHARE: Final = 0.05
"""Least share of a program's time for which the traffic of spilled results is reported."""


def crowding_note(programs: Sequence[ProgramFigures], target: str) -> str:
    """A sentence on results that do not fit in SBUF, and a remedy; "" if their traffic is small.

    Results grow with the tokens or images of a step, so the share of tokens or images that would
    fit is taken to be the share of the bytes.
    """
    core = arch.target(target).core
    parts = [part for figures in programs for part in figures.work.values()]
    crossing_bytes = sum(part.hbm_bytes.get("spills", 0.0) for part in parts)
    crossing_s = crossing_bytes / float(core.dma_bytes_per_s)
    if crossing_s <= _REPORTED_SHARE * sum(figures.device_time_s for figures in programs):
        return ""
    fullest = max(programs, key=lambda figures: figures.wanted_bytes)
    room_bytes = core.sbuf_partition_bytes - fullest.schedule.passing_bytes
    wanted_bytes = max(fullest.wanted_bytes, room_bytes)
    return (
        f"room in SBUF: results want {bytes_text(wanted_bytes)} of a partition at once and have "
        f"{bytes_text(room_bytes)}, so {bytes_text(crossing_bytes)} a core cross HBM "
        f"({time_text(crossing_s)}); about {percent_text(room_bytes / wanted_bytes)} of the tokens "
        "or images would fit: give a step fewer, or more ranks"
    )
