"""The comparison of two stored profiles: changes, and where they are.

Kernels are compared by quantity, engine, opcode and source line: lines are matched by file name and
text, not by number; equal texts are matched in order. Models are compared by quantity, operation,
engine, reason for traffic with HBM, and module: modules are matched by their paths.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, Final

from trnsim.document.answer import Block, Column, Document, Note, Section, Table, columns
from trnsim.document.text import text
from trnsim.document.values import picked
from trnsim.errors import BadInput
from trnsim.formatting import plural
from trnsim.profile.analysis.data import JsonObject
from trnsim.profile.units import bytes_text, count_text, percent_text, time_text

_NS_PER_S: Final = 1e9
_MOST_SHOWN_ROWS: Final = 12
"""Rows of a table that the text shows, largest change first."""
_EQUAL_CHANGE: Final = 0.001
"""Relative change below which values are treated as equal: stored values are rounded."""
Format = Callable[[float], str]


@dataclass(frozen=True, slots=True)
class Change:
    """One quantity before and after.

    Attributes:
        name: the quantity, or the place.
        before: value before; None if the quantity is new.
        after: value after; None if the quantity is gone.
        format: the function that formats a value.
        note: further text.
    """

    name: str
    before: float | None
    after: float | None
    format: Format
    note: str = ""

    @property
    def difference(self) -> float:
        """After minus before, with zero for a missing value."""
        return (self.after or 0.0) - (self.before or 0.0)

    @property
    def is_same(self) -> bool:
        """True if both values are there, and equal up to rounding in the file."""
        if self.before is None or self.after is None:
            return False
        return abs(self.difference) <= _EQUAL_CHANGE * abs(self.before)

    @property
    def text(self) -> str:
        """The difference with its sign, and its share of the value before."""
        if self.before is None or self.after is None:
            return "new" if self.before is None else "gone"
        if self.is_same:
            return "="
        sign = "-" if self.difference < 0 else "+"
        change = f"{sign}{self.format(abs(self.difference))}"
        if not self.before:
            return change
        return f"{change} ({sign}{percent_text(abs(self.difference) / self.before)})"


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes between two profiles.

    Attributes:
        before: title of the first profile.
        after: title of the second profile.
        whole: quantities of the whole program, its time first.
        bound_by: bottleneck of the first and of the second profile.
        tables: times and bytes by engine, opcode and so on, largest change first; the last is by
            place in the user's program.
    """

    before: str
    after: str
    whole: tuple[Change, ...]
    bound_by: tuple[str, str]
    tables: dict[str, tuple[Change, ...]]

    @property
    def places(self) -> tuple[Change, ...]:
        """Changes by the place in the user's program."""
        return list(self.tables.values())[-1]

    def sections(self) -> list[Section]:
        """A section of quantities, then one for each table, without rows that did not change."""
        sides = [Note(f"before   {self.before}"), Note(f"after    {self.after}")]
        whole = [_row(change)[:-1] for change in self.whole]
        whole.append(["bound by", *self.bound_by, "=" if len(set(self.bound_by)) == 1 else ""])
        return [
            Section("", [*sides, Note(self.verdict())]),
            Section("", [Table(_WHOLE_COLUMNS, whole)]),
            *(Section("", _blocks(head, changes)) for head, changes in self.tables.items()),
        ]

    def rows(self) -> list[dict[str, Any]]:
        """All changes for spreadsheets: seconds, bytes and shares, of the second profile."""
        tables = {"whole": self.whole, **self.tables}
        return [
            {"profile": self.after, "table": head, **picked(change, _CHANGE_FIELDS)}
            for head, changes in tables.items()
            for change in changes
        ]

    def text(self) -> str:
        """The changes as aligned tables for a terminal."""
        return text(Document(self.verdict(), None, self.sections()))

    def as_dict(self) -> dict[str, Any]:
        """The changes as JSON: seconds, bytes, shares; None for a value that one side lacks."""
        return {
            "before": self.before,
            "after": self.after,
            "verdict": self.verdict(),
            "bound_by": list(self.bound_by),
            "whole": [picked(change, _CHANGE_FIELDS) for change in self.whole],
            **{
                head: [picked(change, _CHANGE_FIELDS) for change in rows]
                for head, rows in self.tables.items()
            },
        }

    def verdict(self) -> str:
        """Faster or slower, and at which place most."""
        total = self.whole[0]
        before, after = total.before or 0.0, total.after or 0.0
        if total.is_same or not after:
            return "verdict  as fast"
        is_faster = total.difference < 0
        words = f"verdict  {before / after:.2f} times as fast"
        same_way = [c for c in self.places if (c.difference < 0) == is_faster and c.difference]
        if not same_way:
            return words
        largest = max(same_way, key=lambda change: abs(change.difference))
        sign = "-" if largest.difference < 0 else "+"
        difference = largest.format(abs(largest.difference))
        return f"{words}; most at {largest.name}: {sign}{difference} {largest.note}".rstrip()


_CHANGE_FIELDS: Final = "name before after"
_WHOLE_COLUMNS: Final = columns(" | before | after | change")
ENGINES: Final = "engine, active"
OPCODES: Final = "opcode, busy"
LINES: Final = "line, on the critical path"
MODULES: Final = "module, on the critical path"
OPERATIONS: Final = "operation, on the critical path"
MODEL_ENGINES: Final = "engine, on the critical path"
TRAFFIC: Final = "HBM, read and written"


def compare(before: JsonObject, after: JsonObject) -> Diff:
    """The changes from one stored profile to another: two kernels, or two models.

    Raises:
        BadInput: one is of a kernel and the other of a model.
    """
    models = [report for report in (before, after) if "model" in report]
    if len(models) == 1:
        kernel = after if models[0] is before else before
        raise BadInput(
            f"{models[0]['title']} is the report of a model and {kernel['title']} that of a "
            "kernel, which have nothing to compare",
            fix="compare two models, or two kernels",
        )
    return _model_diff(before, after) if models else _kernel_diff(before, after)


def _kernel_diff(before: JsonObject, after: JsonObject) -> Diff:
    return Diff(
        before["title"],
        after["title"],
        _quantity_changes(_KERNEL_QUANTITIES, before["summary"], after["summary"]),
        (before["summary"]["bound_by"], after["summary"]["bound_by"]),
        {
            ENGINES: _changes(_engine_times(before), _engine_times(after)),
            OPCODES: _changes(_opcode_times(before), _opcode_times(after)),
            LINES: _line_changes(before, after),
        },
    )


def _model_diff(before: JsonObject, after: JsonObject) -> Diff:
    first, second = before["model"], after["model"]
    bound_by = [
        model["engines"][0]["engine"] if model["engines"] else "" for model in (first, second)
    ]
    return Diff(
        before["title"],
        after["title"],
        _quantity_changes(_MODEL_QUANTITIES, first, second),
        (bound_by[0], bound_by[1]),
        {
            OPERATIONS: _changes(
                _critical_times(first, "operations"), _critical_times(second, "operations")
            ),
            MODEL_ENGINES: _changes(
                _critical_times(first, "engines"), _critical_times(second, "engines")
            ),
            TRAFFIC: _changes(_traffic_bytes(first), _traffic_bytes(second), bytes_text),
            MODULES: _changes(
                _critical_times(first, "modules"), _critical_times(second, "modules")
            ),
        },
    )


_COLUMNS_BY_MODEL_TABLE: Final = {
    "operations": ("name", "time_ns"),
    "engines": ("engine", "critical_ns"),
    "modules": ("path", "own_ns"),
}
"""The columns of a model's tables that have the name, and the time of the critical path."""


def _critical_times(model: Mapping[str, Any], table: str) -> dict[str, tuple[float, str]]:
    """(seconds, largest contributor) by name, for the rows that take time."""
    name, time_column = _COLUMNS_BY_MODEL_TABLE[table]
    return {
        row[name]: (row[time_column] / _NS_PER_S, row.get("bound_by", ""))
        for row in model[table]
        if row[time_column]
    }


def _traffic_bytes(model: JsonObject) -> dict[str, tuple[float, str]]:
    return {row["reason"]: (row["bytes"], "") for row in model["traffic"]}


def _instructions(model: Mapping[str, Any]) -> float:
    return float(sum(row["instructions"] for row in model["operations"]))


_Quantity = tuple[str, Format, Callable[[Mapping[str, Any]], float | None]]
"""The name of a quantity, the format of its values, and its value in the data of a report."""
_MODEL_QUANTITIES: Final[tuple[_Quantity, ...]] = (
    ("estimated time", time_text, lambda m: m["time_ns"] / _NS_PER_S),
    ("device time", time_text, lambda m: m["device_ns"] / _NS_PER_S),
    ("exchanges", time_text, lambda m: m["exchanges_ns"] / _NS_PER_S),
    ("physical bound", time_text, lambda m: m["bound_ns"] / _NS_PER_S),
    (
        "times the bound",
        "{:.2f}".format,
        lambda m: m["time_ns"] / m["bound_ns"] if m["bound_ns"] else None,
    ),
    ("instructions", count_text, _instructions),
    ("MFU", percent_text, lambda m: m["mfu"]),
    ("MBU", percent_text, lambda m: m["mbu"]),
)


def _quantity_changes(
    quantities: Sequence[_Quantity], before: JsonObject, after: JsonObject
) -> tuple[Change, ...]:
    return tuple(
        Change(name, value(before), value(after), words) for name, words, value in quantities
    )


def _metric_reader(name: str, scale: float = 1.0) -> Callable[[Mapping[str, Any]], float | None]:
    def value(summary: Mapping[str, Any]) -> float | None:
        figure: float | None = summary["metrics"].get(name)
        return None if figure is None else figure / scale

    return value


_PERCENT: Final = 100.0
_KERNEL_QUANTITIES: Final[tuple[_Quantity, ...]] = (
    ("estimated time", time_text, lambda s: s["total_time_s"]),
    ("device time", time_text, lambda s: s["device_time_s"]),
    ("critical path waits", time_text, lambda s: s["waiting_share"] * s["device_time_s"]),
    ("HBM read", bytes_text, _metric_reader("hbm_read_bytes")),
    ("HBM written", bytes_text, _metric_reader("hbm_write_bytes")),
    ("DMA transfers", count_text, _metric_reader("dma_transfer_count")),
    ("instructions", count_text, lambda s: s["instructions"]),
    ("MFU", percent_text, _metric_reader("mfu_estimated_percent", _PERCENT)),
    ("MBU", percent_text, _metric_reader("mbu_estimated_percent", _PERCENT)),
    ("SBUF peak", bytes_text, lambda s: s["sbuf_peak_bytes"]),
    ("PSUM peak", bytes_text, lambda s: s["psum_peak_bytes"]),
)


def _engine_times(profile: JsonObject) -> dict[str, tuple[float, str]]:
    return {
        use["engine"]: (
            use["active_s"],
            f"{use['instructions']:,} {plural(use['instructions'], 'instruction')}",
        )
        for use in profile["summary"]["engines"]
    }


def _opcode_times(profile: JsonObject) -> dict[str, tuple[float, str]]:
    return {
        f"{row['opcode']}, {row['engine']}": (row["busy_ns"] / _NS_PER_S, f"{row['count']:,}")
        for row in profile["opcodes"]
    }


def _changes(
    before: Mapping[str, tuple[float, str]],
    after: Mapping[str, tuple[float, str]],
    words: Format = time_text,
) -> tuple[Change, ...]:
    """Changes by name, largest first, with the notes before and after."""
    changes: list[Change] = []
    for name in dict.fromkeys([*before, *after]):
        old, new = before.get(name), after.get(name)
        counts = [side[1] for side in (old, new) if side is not None]
        note = " -> ".join(dict.fromkeys(filter(None, counts)))
        first, second = (side[0] if side is not None else None for side in (old, new))
        changes.append(Change(name, first, second, words, note))
    return tuple(sorted(changes, key=lambda change: -abs(change.difference)))


_Key = tuple[str, str, int]


def _line_changes(before: JsonObject, after: JsonObject) -> tuple[Change, ...]:
    old, new = _keyed_line_rows(before), _keyed_line_rows(after)
    changes: list[Change] = []
    for key in dict.fromkeys([*old, *new]):
        rows = [side.get(key) for side in (old, new)]
        present = [row for row in rows if row is not None]
        times = [row["critical_ns"] / _NS_PER_S if row is not None else None for row in rows]
        waits = [row["waiting_ns"] / _NS_PER_S for row in present]
        note = f"(waiting {' -> '.join(map(time_text, waits))})  {key[1]}"
        changes.append(Change(present[-1]["where"], times[0], times[1], time_text, note.rstrip()))
    return tuple(sorted(changes, key=lambda change: -abs(change.difference)))


def _keyed_line_rows(profile: JsonObject) -> dict[_Key, JsonObject]:
    """Each line's times by file name, text, and its number among equal texts."""
    lines = profile["lines"]
    rows = sorted(
        (row for row in profile["by_line"] if row["line"] >= 0),
        key=lambda row: (lines[row["line"]]["file"], lines[row["line"]]["line"]),
    )
    counts: Counter[tuple[str, str]] = Counter()
    rows_by_line: dict[_Key, JsonObject] = {}
    for row in rows:
        line = lines[row["line"]]
        name = PurePath(line["file"]).name
        text = line["text"] or f"line {line['line']}"
        rows_by_line[name, text, counts[name, text]] = {**row, "where": f"{name}:{line['line']}"}
        counts[name, text] += 1
    return rows_by_line


def _blocks(head: str, changes: Iterable[Change]) -> list[Block]:
    """A table of the largest changes; nothing where there are none."""
    rows = [_row(change) for change in changes if not change.is_same]
    if not rows:
        return []
    hidden_count = len(rows) - _MOST_SHOWN_ROWS
    value_columns = columns(f"{head} | before | after | change")
    row_notes = {}
    if head == LINES:  # a source line is longer than a cell
        row_notes = {index: [row[-1]] for index, row in enumerate(rows[:_MOST_SHOWN_ROWS])}
    note = Column("", place="page" if row_notes else "everywhere")
    table = Table((*value_columns, note), rows[:_MOST_SHOWN_ROWS], row_notes=row_notes)
    return [table, *([Note(f"and {hidden_count} smaller changes")] if hidden_count > 0 else [])]


def _row(change: Change) -> list[str]:
    values = ("-" if v is None else change.format(v) for v in (change.before, change.after))
    return [change.name, *values, change.text, change.note]
