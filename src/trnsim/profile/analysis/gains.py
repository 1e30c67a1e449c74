"""Gains of two hypothetical changes: a line that costs nothing, an engine twice as fast.

Each is tried by scheduling the recorded program again, in the same order, with the changed costs,
so a line that another one hides gains nothing, and a change that makes the program slower has no
gain. Gains do not add up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.errors import SourceLine
from trnsim.profile.analysis.faster import faster_gains_s
from trnsim.profile.measures.lines import time_by_line
from trnsim.timing import EnginePlacement, Timeline, recorded_placements

_MOST_TRIED_LINES: Final = 8
_TRIED_INSTRUCTIONS: Final = 200_000
"""Maximum number of placements in all trials together: long programs try fewer lines."""


@dataclass(frozen=True, slots=True)
class Gain:
    """The gain of one hypothetical change.

    Attributes:
        line: the line that would cost nothing, or None for an engine.
        gain_s: estimated shortening of the device time.
    """

    change: str
    line: SourceLine | None
    gain_s: float


def gains(timeline: Timeline) -> list[Gain]:
    """Gains of each busy engine twice as fast and of each costly line at no cost, largest first.

    Changes without a gain are left out.
    """
    if not len(timeline):
        return []
    tries = max(1, min(_MOST_TRIED_LINES, _TRIED_INSTRUCTIONS // len(timeline)))
    lines = [row.line for row in time_by_line(timeline) if row.line is not None and row.critical_s]
    candidates = [_gain_if_free(timeline, line) for line in lines[:tries]]
    for engine, gain_s in faster_gains_s(timeline).items():
        candidates.append(Gain(f"{engine.label} twice as fast", None, gain_s))
    return sorted((g for g in candidates if g.gain_s > 0), key=lambda gain: -gain.gain_s)


def _gain_if_free(timeline: Timeline, line: SourceLine) -> Gain:
    """The gain if the line's instructions took no time."""
    program = timeline.program
    line_index = program.lines.index(line)
    placements = recorded_placements(program)
    free_placements = [
        EnginePlacement(
            engine,
            replace(cost, interval_s=0.0, latency_s=0.0, issue_s=0.0, held_load_s=0.0),
        )
        for engine, cost in placements
    ]
    which, line_of = program.which, program.line_of
    time_s = timeline.same_order_time_s(
        lambda i: (free_placements if line_of[i] == line_index else placements)[which[i]]
    )
    gain_s = timeline.undisturbed_s - time_s
    return Gain(f"{line} for nothing", line, gain_s)
