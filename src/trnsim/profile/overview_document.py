"""Documents of overviews of stored answers, and of two answers compared."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.document.answer import (
    Block,
    Document,
    Drawing,
    Items,
    Note,
    Section,
    Table,
    columns,
    label_table,
    records,
)
from trnsim.document.drawing import Parts, legend, parts_chart
from trnsim.document.figure import pointer
from trnsim.document.lanes import Lane, lanes
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.profile.analysis.overview import Action, Overview
from trnsim.profile.analysis.step_program import StepGain
from trnsim.profile.units import percent_text, time_text

GAINS_HEADING: Final = "gains, each timed again"
"""Heading of possible changes; each gain is the difference after timing the step with it."""

_SUMMARY_SCHEMA: Final = "profile-overview/1"
_DIFF_SCHEMA: Final = "profile-overview-diff/1"
_KINDS: Final = ("forward", "backward", "optimizer", "work", "launch", "exchange", "exposed")
"""Kinds of spans on lanes, in the order of the legend."""
_MOST_ROWS: Final = 12
_MOST_NAMES: Final = 3
"""Maximum number of names of a title."""
_EQUAL_CHANGE: Final = 0.001


def advice_text(action: Action) -> str:
    """A change with its gain: "...: -13.7 ms at most"."""
    return f"{action.text}: -{time_text(action.gain_s)} at most"


def gain_text(gain: StepGain) -> str:
    """A change with its gain: "the host twice as fast: -13.7 ms"."""
    return f"{gain.change}: -{time_text(gain.gain_s)}"


def title(overviews: Sequence[Overview]) -> str:
    """The subjects and machines of an answer: "step of llama-3.1-8b on trn2 and p5en"."""
    subjects = list(dict.fromkeys(overview.subject for overview in overviews))
    machines = list(dict.fromkeys(overview.machine for overview in overviews if overview.machine))
    suffix = f" on {_first_names(machines)}" if machines else ""
    return f"{_first_names(subjects)}{suffix}"


def _first_names(names: Sequence[str]) -> str:
    """The first `_MOST_NAMES` names in words, and the number of the others."""
    hidden_count = len(names) - _MOST_NAMES
    words = [*names[:_MOST_NAMES], f"{hidden_count} more"] if hidden_count > 0 else names
    return enumerated(words, "and")


def overview_document(overviews: Sequence[Overview]) -> Document:
    """Overviews of an answer, such as a step on each chip, or a plan on each platform."""
    sections = [
        Section(_heading(overview), _blocks(overview, index), heading_place="everywhere")
        for index, overview in enumerate(overviews)
    ]
    values = [_values(overview) for overview in overviews]
    return Document(title(overviews), values, sections, schema=_SUMMARY_SCHEMA)


def _heading(overview: Overview) -> str:
    suffix = f" on {overview.machine}" if overview.machine else ""
    return f"{overview.subject}{suffix}"


def _time(overview: Overview) -> str:
    if overview.interval_s is None:
        return time_text(overview.time_s)
    low, high = map(time_text, overview.interval_s)
    return f"{time_text(overview.time_s)} (P10 to P90: {low} to {high})"


def _blocks(overview: Overview, index: int) -> list[Block]:
    """The blocks of an overview, which is number `index` of the document's values."""
    head = label_table([("time", _time(overview)), ("bound by", overview.bound or "-")])
    blocks: list[Block] = [head]
    if overview.parts_s:
        blocks.append(Drawing(_parts_chart(overview, index)))
        blocks.append(_table("part", overview.parts_s, overview.time_s))
    if overview.lanes:
        blocks += _over_time(overview)
    if overview.actions:
        blocks.append(Note("advice, by what it saves at most:"))
        blocks.append(Items([advice_text(action) for action in overview.actions], indent=2))
    if overview.gains:
        total_text = time_text(overview.launched_s)
        blocks.append(Note(f"{GAINS_HEADING}, of {total_text} from the first launch on:"))
        blocks.append(Items([gain_text(gain) for gain in overview.gains], indent=2))
    blocks += [
        _table(name, group, overview.time_s) for name, group in overview.groups_s.items() if group
    ]
    return blocks


def _over_time(overview: Overview) -> list[Block]:
    """The legend of the colours that occur, and below it the lanes over time."""
    rows = [lane for lane in overview.lanes if isinstance(lane, Lane)]
    spans = [span for lane in rows for span in (*lane.spans, *lane.lower)]
    kinds = [kind for kind in _KINDS if any(span.kind == kind for span in spans)]
    total_s = max((span.start_s + span.length_s for span in spans), default=0.0)
    lane_drawing = lanes("Over time", overview.lanes, total_s)
    return [
        Drawing(legend([(kind, kind) for kind in kinds]), is_wide=True),
        Drawing(lane_drawing, is_wide=True),
    ]


def _parts_chart(overview: Overview, index: int) -> str:
    values_pointer = pointer(index, "parts_s")
    row = Parts("", overview.parts_s, time_text(overview.time_s), values_pointer)
    return parts_chart("Where the time goes", [row])


def _table(name: str, times_s: Mapping[str, float], total_s: float) -> Table:
    ordered_rows = sorted(times_s.items(), key=lambda row: -row[1])
    rows = [(row, time_text(time_s), _share(time_s, total_s)) for row, time_s in ordered_rows]
    return Table(columns(f"{name} | time | share"), rows, row_limit=_MOST_ROWS)


def _share(time_s: float, total_s: float) -> str:
    """A share of the total; "-" for concurrent work, such as launches, that lasts longer."""
    return percent_text(time_s / total_s) if 0 < total_s >= time_s else "-"


def _values(overview: Overview) -> dict[str, Any]:
    low_s, high_s = overview.interval_s or (None, None)
    return {
        **picked(overview, "subject machine time_s", p10_s=low_s, p90_s=high_s),
        **picked(overview, "bound parts_s"),
        "advice": [picked(action, "text gain_s") for action in overview.actions],
        "gains": [picked(gain, "change gain_s") for gain in overview.gains],
        "groups_s": overview.groups_s,
    }


def machine_pairs(
    before: Sequence[Overview], after: Sequence[Overview], paths: tuple[Path, Path]
) -> list[tuple[Overview, Overview]]:
    """Pairs of overviews of the same machine, in the order of `before`.

    If each side has a single overview, these are a pair, whatever their machines are.

    Raises:
        BadInput: no machine is in both.
    """
    if len(before) == len(after) == 1:
        return [(before[0], after[0])]
    by_occurrence = dict(zip(_occurrences(after), after, strict=True))
    pairs = [
        (overview, by_occurrence[occurrence])
        for occurrence, overview in zip(_occurrences(before), before, strict=True)
        if occurrence in by_occurrence
    ]
    if pairs:
        return pairs
    names = [", ".join(overview.machine for overview in side) for side in (before, after)]
    raise BadInput(
        f"{paths[0]} and {paths[1]} have no machine in common: {names[0]} and {names[1]}",
        fix="write both for the same machines, with --on",
    )


def _occurrences(overviews: Sequence[Overview]) -> list[tuple[str, int]]:
    """(machine, number of earlier overviews of that machine) of each overview."""
    counts = Counter[str]()
    occurrences: list[tuple[str, int]] = []
    for overview in overviews:
        occurrences.append((overview.machine, counts[overview.machine]))
        counts[overview.machine] += 1
    return occurrences


def overview_diff(pairs: Sequence[tuple[Overview, Overview]]) -> Document:
    """Two answers compared, part by part and group by group, the largest change first."""
    sections, values, rows = [], list[Any](), list[dict[str, Any]]()
    for before, after in pairs:
        tables = _changes(before, after)
        headings = dict.fromkeys([_heading(before), _heading(after)])
        sections.append(Section(", now ".join(headings), _diff_blocks(before, after, tables)))
        values.append(
            {
                "machine": after.machine,
                "before": _values(before),
                "after": _values(after),
                "difference_s": after.time_s - before.time_s,
                "changes": tables,
            }
        )
        rows += [row for table in tables.values() for row in table]
    names = ["name", "before_s", "after_s"]
    titles = dict.fromkeys(title([pair[side] for pair in pairs]) for side in (0, 1))
    heading = f"What changed: {', now '.join(titles)}"
    return Document(heading, values, sections, rows=records(rows, names), schema=_DIFF_SCHEMA)


def _changes(before: Overview, after: Overview) -> dict[str, list[dict[str, Any]]]:
    """Rows of seconds before and after, by table; None for a part that a side does not have."""
    tables = {"part": (before.parts_s, after.parts_s)}
    for name in dict.fromkeys([*before.groups_s, *after.groups_s]):
        tables[name] = before.groups_s.get(name, {}), after.groups_s.get(name, {})
    return {
        name: sorted(
            (
                {"name": part, "before_s": first.get(part), "after_s": second.get(part)}
                for part in dict.fromkeys([*first, *second])
            ),
            key=lambda row: -abs((row["after_s"] or 0.0) - (row["before_s"] or 0.0)),
        )
        for name, (first, second) in tables.items()
        if first or second
    }


def _diff_blocks(
    before: Overview, after: Overview, tables: Mapping[str, Sequence[Mapping[str, Any]]]
) -> list[Block]:
    rows = [
        ("before", _time(before)),
        ("after", _time(after)),
        ("verdict", _verdict(before, after)),
    ]
    if before.bound != after.bound:
        rows.append(("bound by", f"{before.bound or '-'}, now {after.bound or '-'}"))
    blocks: list[Block] = [label_table(rows)]
    for name, changes in tables.items():
        cells = []
        for row in changes:
            times = (
                "-" if time_s is None else time_text(time_s)
                for time_s in (row["before_s"], row["after_s"])
            )
            cells.append((row["name"], *times, _change(row)))
        blocks.append(
            Table(columns(f"{name} | before | after | change"), cells, row_limit=_MOST_ROWS)
        )
    return blocks


def _change(row: Mapping[str, Any]) -> str:
    before_s, after_s = row["before_s"], row["after_s"]
    if before_s is None or after_s is None:
        return "new" if before_s is None else "gone"
    change_s = after_s - before_s
    if abs(change_s) <= _EQUAL_CHANGE * abs(before_s):
        return "="
    return f"{'-' if change_s < 0 else '+'}{time_text(abs(change_s))}"


def _verdict(before: Overview, after: Overview) -> str:
    """The ratio of the times, and whether the intervals overlap."""
    if not before.time_s or not after.time_s:
        return "one side has no time"
    ratio = before.time_s / after.time_s
    if abs(ratio - 1) <= _EQUAL_CHANGE:
        return "as fast"
    words = f"{ratio:.3g} times as fast"
    if before.interval_s is None or after.interval_s is None:
        return words
    overlap = before.interval_s[0] <= after.interval_s[1] and (
        after.interval_s[0] <= before.interval_s[1]
    )
    return f"{words}; {'the intervals overlap' if overlap else 'the intervals are apart'}"
