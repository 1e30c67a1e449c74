"""Changes between the lines of a program and of its earlier version, and the cost of each change.

    cost of a line = time - time if its instructions took as long as they did before

The program is scheduled anew, with the costs of the line's instructions scaled to their former
sum, or to zero for a new line. Costs of several lines do not add up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from pathlib import PurePath
from typing import Final

from trnsim.gate.kernel_time import KernelLineTime, in_file_order
from trnsim.timing import EnginePlacement, Timeline, recorded_placements

_MOST_TRIED_LINES: Final = 8
_MOST_TRIED_INSTRUCTIONS: Final = 200_000
"""Maximum number of placements in all trials together: long programs try fewer lines."""
_US_PER_S: Final = 1e6


@dataclass(frozen=True)
class LineChange:
    """A line before and after.

    Attributes:
        line: the present line; the former line, if it is gone.
        change_us: the change of its part of the critical path.
        busy_change_us: the change of its engines' busy time.
        cost_us: the time that its additional work costs; 0 where that was not tried.
        was: its former text, where that changed; "" for a new or an unchanged line.
        is_new: whether there was no such line.
        is_gone: whether the line is gone.
    """

    line: KernelLineTime
    change_us: float
    busy_change_us: float
    cost_us: float = 0.0
    was: str = ""
    is_new: bool = False
    is_gone: bool = False


def line_changes(
    before: Sequence[KernelLineTime], after: Sequence[KernelLineTime]
) -> tuple[LineChange, ...]:
    """The changes of all lines, largest increase on the critical path first.

    Lines are matched by file and text in order; an edited line is matched by its place.
    """
    changes: list[LineChange] = []
    for file in sorted({line.file for line in (*before, *after)}):
        old_lines = in_file_order([line for line in before if line.file == file])
        new_lines = in_file_order([line for line in after if line.file == file])
        changes += _match_lines(old_lines, new_lines)
    return tuple(sorted(changes, key=lambda change: -change.change_us))


def _match_lines(
    old_lines: Sequence[KernelLineTime], new_lines: Sequence[KernelLineTime]
) -> list[LineChange]:
    """The changes of the lines of a file."""
    old_texts, new_texts = ([line.text for line in side] for side in (old_lines, new_lines))
    changes: list[LineChange] = []
    matcher = SequenceMatcher(None, old_texts, new_texts, autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        pairs = min(j - i, m - k)
        for was, line in zip(old_lines[i : i + pairs], new_lines[k : k + pairs], strict=True):
            words = was.text if tag == "replace" else ""
            changes.append(
                LineChange(
                    line,
                    line.critical_us - was.critical_us,
                    line.busy_us - was.busy_us,
                    was=words,
                )
            )
        changes += [
            LineChange(line, line.critical_us, line.busy_us, is_new=True)
            for line in new_lines[k + pairs : m]
        ]
        changes += [
            LineChange(line, -line.critical_us, -line.busy_us, is_gone=True)
            for line in old_lines[i + pairs : j]
        ]
    return changes


def costly_lines(
    timeline: Timeline, changes: Sequence[LineChange], least_us: float, *, is_split: bool = False
) -> tuple[LineChange, ...]:
    """Changes with the cost of each line that has more work than before, the costliest first.

    Without a line whose work costs more than `least_us`, the order is that of the critical path.
    With `is_split` the model changed as well, and with it the work of every line; then only edited
    lines are tried, if there are any.
    """
    tries = max(1, min(_MOST_TRIED_LINES, _MOST_TRIED_INSTRUCTIONS // max(len(timeline), 1)))
    candidates = [
        change for change in changes if change.busy_change_us > least_us and not change.is_gone
    ]
    if is_split:
        candidates = [change for change in candidates if change.is_new or change.was] or candidates
    candidates.sort(key=lambda change: -change.busy_change_us)
    costs = {change: _cost_us(timeline, change) for change in candidates[:tries]}
    priced_changes = [replace(change, cost_us=costs.get(change, 0.0)) for change in changes]

    def costliest_first(change: LineChange) -> tuple[float, float]:
        cost_us = change.cost_us if change.cost_us > least_us else 0.0
        return -cost_us, -change.change_us

    return tuple(sorted(priced_changes, key=costliest_first))


def _cost_us(timeline: Timeline, change: LineChange) -> float:
    """The time that the additional work of a line costs."""
    program, line = timeline.program, change.line
    line_instructions = {
        number
        for number, place in enumerate(program.lines)
        if place.line == line.line and PurePath(place.file).name == line.file
    }
    share = max(0.0, 1 - change.busy_change_us / line.busy_us)
    placements = recorded_placements(program)
    former_placements = [
        EnginePlacement(
            engine,
            replace(
                cost,
                interval_s=share * cost.interval_s,
                latency_s=share * cost.latency_s,
                issue_s=share * cost.issue_s,
                held_load_s=share * cost.held_load_s,
            ),
        )
        for engine, cost in placements
    ]
    which, line_of = program.which, program.line_of
    without_s = timeline.new_order_time_s(
        lambda index: (former_placements if line_of[index] in line_instructions else placements)[
            which[index]
        ]
    )
    return _US_PER_S * (timeline.undisturbed_new_order_s - without_s)
