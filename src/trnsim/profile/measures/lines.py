"""Time by source line of the user's program."""

from __future__ import annotations

import linecache
from dataclasses import dataclass

import numpy as np

from trnsim.errors import SourceLine
from trnsim.timing import Timeline
from trnsim.timing.occupancy import columns, critical_steps


@dataclass(frozen=True, slots=True)
class LineTime:
    """The time of one source line.

    Attributes:
        line: the line, or None for instructions that no line issued.
        text: the line's text, or "" where its file cannot be read.
        instructions: number of instructions that it issued.
        busy_s: busy time of their engines, added up over engines.
        critical_s: the line's part of the critical path; over all lines, the device time.
        waiting_s: the part of `critical_s` in which the engine was done and its result awaited.
    """

    line: SourceLine | None
    text: str
    instructions: int
    busy_s: float
    critical_s: float
    waiting_s: float


def line_text(line: SourceLine | None) -> str:
    """The source line without its indentation, or "" where the file cannot be read."""
    return "" if line is None else linecache.getline(line.file, line.line).strip()


def time_by_line(timeline: Timeline) -> list[LineTime]:
    """Every line that issued an instruction, most of the critical path first."""
    spans, steps = columns(timeline), critical_steps(timeline)
    lines = timeline.program.lines
    # The last slot is for instructions without a line.
    slots = len(lines) + 1
    slot_of = np.where(spans.line_of < 0, len(lines), spans.line_of)
    step_slots = slot_of[steps.index]
    issued_counts = np.bincount(slot_of, minlength=slots)
    busy_s = np.bincount(slot_of, spans.busy_until_s - spans.start_s, slots)
    critical_s = np.bincount(step_slots, steps.busy_s + steps.waiting_s, slots)
    waiting_s = np.bincount(step_slots, steps.waiting_s, slots)
    rows = [
        LineTime(
            line,
            line_text(line),
            int(issued_counts[slot]),
            float(busy_s[slot]),
            float(critical_s[slot]),
            float(waiting_s[slot]),
        )
        for slot, line in enumerate([*lines, None])
        if issued_counts[slot]
    ]
    return sorted(rows, key=lambda row: (-row.critical_s, -row.busy_s))
