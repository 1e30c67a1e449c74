"""Documents of stored profiles: in a few rows, in full, and compared side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.document.answer import (
    Block,
    Column,
    Document,
    Section,
    Table,
    columns,
    label_table,
    records,
)
from trnsim.profile.analysis.data import JsonObject
from trnsim.profile.analysis.diff import Diff
from trnsim.profile.analysis.edges import MOST_INSTRUCTIONS, MOST_TRIED
from trnsim.profile.analysis.model_estimate import model_blocks
from trnsim.profile.analysis.summary import Summary
from trnsim.profile.formats.stored import summary_of
from trnsim.profile.units import percent_text, time_text

SUMMARY_SCHEMA: Final = "profile-summary/1"
_DIFF_SCHEMA: Final = "profile-diff/1"
_NS_PER_S: Final = 1e9
_MOST_SHOWN_LINES: Final = 8
"""Maximum number of source lines that are listed, the ones with the most time first."""
_LINE_COLUMNS: Final = (
    *columns("line | critical path | of it waiting | if free | instructions"),
    Column("", place="page"),
)
_BRIEF_FIGURES: Final[dict[str, Callable[[Summary], str]]] = {
    "time": lambda summary: time_text(summary.total_time_s),
    "P10 to P90": lambda summary: summary.interval_text(),
    "bound by": lambda summary: summary.bound_by,
}
_FULL_FIGURES: Final[dict[str, Callable[[Summary], str]]] = {
    **_BRIEF_FIGURES,
    "assumes": lambda summary: summary.conditions.brief(),
    "device time": lambda summary: time_text(summary.device_time_s),
    "critical path waits": lambda summary: percent_text(summary.waiting_share),
}


def profile_document(profiles: Sequence[JsonObject], *, has_figures: bool = False) -> Document:
    """The profiles of one kernel, by chip, in full; `has_figures` as in `profile_blocks`."""
    sections = [
        Section(profile["title"], profile_blocks(profile, has_figures=has_figures))
        for profile in profiles
    ]
    if len(profiles) > 1:
        sections.append(Section("", [comparison(profiles)]))
    values = [profile_values(profile) for profile in profiles]
    return Document(profiles[0]["kernel"], values, sections, schema=SUMMARY_SCHEMA)


def diff_document(diffs: Sequence[Diff]) -> Document:
    """Comparisons of two reports, by chip."""
    sections = [section for diff in diffs for section in diff.sections()]
    rows = [row for diff in diffs for row in diff.rows()]
    table = records(rows, list(rows[0]))
    values = [diff.as_dict() for diff in diffs]
    titles = dict.fromkeys([diffs[0].before, diffs[0].after])
    title = f"What changed: {', now '.join(titles)}"
    return Document(title, values, sections, rows=table, schema=_DIFF_SCHEMA)


def profile_values(profile: JsonObject) -> dict[str, Any]:
    """A stored profile as plain values, in seconds."""

    def with_lines(rows: Sequence[JsonObject]) -> list[JsonObject]:
        return [{**row, "line": _place(profile, row) if row["line"] >= 0 else None} for row in rows]

    tables: JsonObject = {
        name: with_lines(profile[name]) for name in ("by_line", "gains", "advice")
    }
    if profile.get("edges"):  # reports of an earlier trnsim have none
        tables["edges"] = with_lines(profile["edges"])
    for line, row in zip(tables["by_line"], profile["by_line"], strict=True):
        line["text"] = _line_text(profile, row)
    if "model" in profile:
        tables["model"] = profile["model"]
    unchanged_values = {
        name: profile[name] for name in ("title", "kernel", "target", "summary", "warnings")
    }
    values: dict[str, Any] = unchanged_values | _in_seconds(tables)
    return values


def brief_rows(profile: JsonObject) -> list[tuple[str, str]]:
    """Rows of label and text: the time, its bottleneck, and the change that shortens it most."""
    summary = summary_of(profile)
    bottleneck, is_corrected = _bottleneck(summary), summary.is_corrected
    interval, assumed = summary.interval_text(), summary.conditions.brief()
    median_s = summary.total_time_p50_s if is_corrected else summary.total_time_s
    model = f", {time_text(summary.total_time_s)} by the model" if is_corrected else ""
    time = f"{time_text(median_s)} (P10 to P90: {interval}{model}); assumes {assumed}"
    return [("time", time), ("bound by", bottleneck), next_action_row(profile)]


def next_action_row(profile: JsonObject) -> tuple[str, str]:
    """The row of the advice with the largest gain; without advice, of the line with most time."""
    for item in profile["advice"][:1]:
        action = item["text"].partition(": ")[2].rstrip(".")
        return "try", f"{action}: -{_time(item['gain_ns'])} at {_short_place(profile, item)}"
    for row in profile["by_line"][:1]:
        times = f"{_time(row['critical_ns'])} on the critical path"
        return "longest", f"{_short_place(profile, row)}: {times}; no known change shortens it"
    return "longest", "no instruction"


def profile_blocks(profile: JsonObject, *, has_figures: bool = False) -> list[Block]:
    """A stored profile in full: figures, lines, savings of changes, and advice.

    `has_figures` adds the figures of Neuron Explorer's Summary table.
    """
    blocks = model_blocks(profile["model"]) if "model" in profile else []
    blocks += [summary_of(profile).table(), _lines(profile)]
    changes = [
        ("if", f"{gain['change']}: -{_time(gain['gain_ns'])}")
        for gain in profile["gains"]
        if gain["line"] < 0 and gain["gain_ns"] > 0
    ]
    changes += [("try", f"{item['text']} ({_place(profile, item)})") for item in profile["advice"]]
    changes += [("edge", edge_words(profile, edge)) for edge in profile.get("edges") or ()]
    blocks.append(label_table(changes))
    if has_figures:
        figures, missing = profile["summary"]["metrics"], profile["summary"]["missing"]
        rows = [
            (name, "-" if value is None else f"{value:.6g}", missing.get(name, ""))
            for name, value in figures.items()
        ]
        blocks.append(Table(columns("figure | value | why unknown", numbers_to=2), rows))
    return blocks


def edge_words(profile: JsonObject, edge: JsonObject) -> str:
    """The effect of the edges of a statement in words."""
    count = f" ({edge['edges']} edges)" if edge["edges"] > 1 else ""
    head = f"{edge['form']} at {_place(profile, edge)} ({edge['kind']}), {edge['text']}{count}"
    if edge.get("gain_ns") is None:
        return (
            f"{head}: not tried: the limit is {MOST_TRIED} statements and {MOST_INSTRUCTIONS:,} "
            "instructions"
        )
    gain_ns = edge["gain_ns"]
    times = f"without it {_time(edge['without_ns'])}, with it {_time(edge['with_ns'])}"
    if not gain_ns:
        return f"{head}: {times}: changes nothing"
    return f"{head}: {times}: {'gains' if gain_ns > 0 else 'costs'} {_time(abs(gain_ns))}"


def comparison(profiles: Sequence[JsonObject], *, is_brief: bool = False) -> Table:
    """One kernel on several chips, a column each."""
    summaries = [summary_of(profile) for profile in profiles]
    figures = _BRIEF_FIGURES if is_brief else _FULL_FIGURES
    rows = [[name, *map(words, summaries)] for name, words in figures.items()]
    if not is_brief:
        for engine in dict.fromkeys(use.engine for s in summaries for use in s.engines):
            shares = [{use.engine: use.active_share for use in s.engines} for s in summaries]
            active = [percent_text(share.get(engine, 0.0)) for share in shares]
            rows.append([f"{engine} active", *active])
        rows += [
            [name.upper(), *(s.share_text(name) for s in summaries)] for name in ("mfu", "mbu")
        ]
    names = " | ".join(["", *(profile["target"] for profile in profiles)])
    return Table(columns(names), rows, indent=2 if is_brief else 0)


def _bottleneck(summary: Summary) -> str:
    busiest = [f"{use.engine} {percent_text(use.active_share)} active" for use in summary.engines]
    utilisation = f"MFU {summary.share_text('mfu')}, MBU {summary.share_text('mbu')}"
    waits = f"critical path waits {percent_text(summary.waiting_share)}"
    return "; ".join([summary.bound_by, *busiest[:1], utilisation, waits])


def _lines(profile: JsonObject) -> Table:
    gains_ns = {gain["line"]: gain["gain_ns"] for gain in profile["gains"] if gain["line"] >= 0}
    rows = [
        (
            _short_place(profile, row),
            _time(row["critical_ns"]),
            _time(row["waiting_ns"]),
            f"-{_time(gains_ns[row['line']])}" if row["line"] in gains_ns else "",
            f"{row['instructions']:,}",
            _line_text(profile, row),
        )
        for row in profile["by_line"][:_MOST_SHOWN_LINES]
    ]
    return Table(
        _LINE_COLUMNS,
        rows,
        row_notes={index: [row[-1]] for index, row in enumerate(rows) if row[-1]},
    )


def _place(profile: JsonObject, row: JsonObject) -> str:
    """The source line of a row as FILE:LINE."""
    if row["line"] < 0:
        return "no line"
    line = profile["lines"][row["line"]]
    return f"{line['file']}:{line['line']}"


def _short_place(profile: JsonObject, row: JsonObject) -> str:
    """File and line of a row, without the folder."""
    return Path(_place(profile, row)).name


def _line_text(profile: JsonObject, row: JsonObject) -> str:
    text: str = profile["lines"][row["line"]]["text"] if row["line"] >= 0 else ""
    return text


def _time(time_ns: float) -> str:
    return time_text(time_ns / _NS_PER_S)


def _in_seconds(value: Any) -> Any:
    """`value` with each field NAME_ns as NAME_s."""
    if isinstance(value, list):
        return [_in_seconds(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        name.removesuffix("_ns") + "_s" if name.endswith("_ns") else name: (
            _time_in_seconds(item) if name.endswith("_ns") else _in_seconds(item)
        )
        for name, item in value.items()
    }


def _time_in_seconds(time_ns: Any) -> Any:
    """Seconds of a time, or of each of a list; what is no time, as in a file of others, stays."""
    if isinstance(time_ns, list):
        return list(map(_time_in_seconds, time_ns))
    return time_ns / _NS_PER_S if isinstance(time_ns, int | float) else time_ns
