"""The answer of `trnsim migrate`: kernels with their versions, statements by line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.document.answer import (
    Block,
    Cell,
    Column,
    Document,
    Figure,
    Mark,
    Note,
    Section,
    Table,
    records,
)
from trnsim.document.values import picked
from trnsim.nki.migrate.report import Report, Statement
from trnsim.nki.migrate.trial import Trial
from trnsim.nki.migrate.writing import RewrittenFile, manual_reason

_COLUMNS: Final = (
    Column("line", is_number=True, is_right=True),
    Column("NKI"),
    Column("effect"),
    Column("from then on"),
    Column("instead", place="page"),
    Column("source", place="page"),
)
_KERNEL_NAMES: Final = (
    "name line version=version.name sdk=version.sdk oldest=oldest.name reason is_chosen"
)
_ROWS: Final[tuple[str, ...]] = (
    "line",
    "nki",
    "effect",
    "behaviour",
    "kernels",
    "says",
    "instead",
    "source",
)


def migrate_document(
    report: Report,
    trials: Sequence[Trial] = (),
    rewriting: RewrittenFile | None = None,
    path: Path | None = None,
) -> Document:
    """The answer for a file: its statements, its kernels' trials, and the rewritten file."""
    heading = Note(_heading(report))
    sections = [
        Section("", [heading, *_kernels(report)]),
        Section(f"What changes until {report.target}", _statements(report)),
    ]
    if not report.statements:
        sections.pop()
    if trials:
        sections.append(_trials(report, trials))
    if rewriting is not None:
        sections.append(Section("", [Note(_rewriting(rewriting))]))
    values = {
        "file": report.path,
        "target": report.target.name,
        "kernels": [picked(kernel, _KERNEL_NAMES) for kernel in report.kernels],
        "statements": [_statement_values(report, statement) for statement in report.statements],
        "trials": [
            picked(
                trial,
                "kernel end says",
                inputs=[{"name": name, "is": text} for name, text in trial.inputs.items()],
                behaviours=[row.name for row in trial.causes],
            )
            for trial in trials
        ],
        "written": None
        if rewriting is None
        else {
            "file": str(path),
            "rewritten": rewriting.rewrite_count,
            "comments": len(rewriting.commented_statements),
        },
    }
    rows: list[dict[str, Any]] = [
        dict(zip(_ROWS, _row(statement), strict=True)) for statement in report.statements
    ]
    return Document(
        f"Migration of {report.path} to {report.target}",
        values,
        sections,
        rows=records(rows, _ROWS),
        schema="migrate/1",
    )


def _heading(report: Report) -> str:
    """A sentence on the number of changing places, by effect."""
    if not report.statements:
        return f"{report.path}: nothing changes until {report.target}."
    counts: dict[str, int] = {}
    for statement in report.statements:
        counts[statement.effect] = counts.get(statement.effect, 0) + 1
    parts = ", ".join(f"{effect} ({count})" for effect, count in counts.items())
    return f"{report.path}: places that change until {report.target}: {parts}."


def _trials(report: Report, trials: Sequence[Trial]) -> Section:
    """How each kernel of the old and the new file ended on the same inputs."""
    rows = [
        (
            trial.kernel,
            Mark(trial.end, "strong"),
            trial.says or ", ".join(f"{name} {text}" for name, text in trial.inputs.items()),
        )
        for trial in trials
    ]
    row_notes = {
        number: [f"{row.name}: {row.rule}, or {row.otherwise} ({row.span})" for row in trial.causes]
        for number, trial in enumerate(trials)
        if trial.causes
    }
    heading = f"The old file, and the one for {report.target}, on the same inputs"
    return Section(
        heading, [Table([Column("kernel"), Column("end"), Column("")], rows, row_notes=row_notes)]
    )


def _rewriting(rewriting: RewrittenFile) -> str:
    """A sentence on the places that were rewritten, and those left to the user."""
    lines = dict.fromkeys(statement.line for statement in rewriting.commented_statements)
    if not lines:
        return f"{_places(rewriting.rewrite_count)} rewritten; no comment was needed."
    comments = _places(len(rewriting.commented_statements))
    return (
        f"{_places(rewriting.rewrite_count)} rewritten; {comments} for you, below a comment: "
        f"line {', '.join(map(str, lines))}."
    )


def _places(count: int) -> str:
    return "1 place" if count == 1 else f"{count} places"


def _kernels(report: Report) -> list[Block]:
    rows = [
        (
            kernel.name,
            Figure(kernel.line, str(kernel.line), f"/kernels/{number}/line"),
            str(kernel.version),
            kernel.reason,
        )
        for number, kernel in enumerate(report.kernels)
    ]
    names = (Column("kernel"), Column("line", True, "", "everywhere", True), Column("written for"))
    blocks: list[Block] = [Table([*names, Column("because")], rows)]
    if any(not k.is_chosen and k.version is not k.oldest for k in report.kernels):
        blocks.append(
            Note(
                "A version that is found is the newest that has all forms of a kernel. If it was "
                "written for an older one, say --from VERSION."
            )
        )
    return blocks


def _statements(report: Report) -> list[Block]:
    """A table with one row for all places of a behaviour that have the same text."""
    groups: dict[object, list[int]] = {}
    for number, statement in enumerate(report.statements):
        key = statement.row.name, statement.version, statement.effect, _fix(report, statement)
        groups.setdefault(key, []).append(number)
    rows: list[tuple[Cell, ...]] = []
    row_notes: dict[int, list[str]] = {}
    for first, *further_numbers in groups.values():
        statement = report.statements[first]
        lines = [report.statements[number].line for number in further_numbers]
        row_notes[len(rows)] = [
            *([f"also in line {', '.join(map(str, lines))}"] if lines else []),
            f"fix: {_fix(report, statement)}",
            f"source: {statement.row.source}",
        ]
        rows.append(
            (
                Figure(statement.line, str(statement.line), f"/statements/{first}/line"),
                statement.version.name,
                Mark(statement.effect, "strong"),
                statement.says,
                statement.row.instead,
                statement.row.source,
            )
        )
    return [Table(_COLUMNS, rows, row_notes=row_notes)]


def _fix(report: Report, statement: Statement) -> str:
    """The replacement, and whether --write makes it."""
    instead, reason = statement.row.instead, _reason_by_hand(report, statement)
    if not statement.holds_in(report.target):
        return f"{instead}, or leave it as it is: legal again in {report.target}"
    if reason == instead:
        return instead
    return f"{instead} (--write does it)" if not reason else f"{instead} (by hand: {reason})"


def _reason_by_hand(report: Report, statement: Statement) -> str:
    """Why a statement has to be rewritten by hand; "" if --write does it, or nobody has to."""
    return manual_reason(report, statement) if statement.holds_in(report.target) else ""


def _row(statement: Statement) -> tuple[Any, ...]:
    row = statement.row
    names = " ".join(statement.kernels)
    place = (statement.line, statement.version.name, statement.effect, row.name, names)
    return (*place, statement.says, row.instead, row.source)


def _statement_values(report: Report, statement: Statement) -> dict[str, Any]:
    row = statement.row
    lines = report.file.text.splitlines()
    return {
        "behaviour": row.name,
        "line": statement.line,
        "code": lines[statement.line - 1].strip(),
        **picked(statement, "kernels version=version.name last=last.name"),
        **picked(statement, "effect=row.effect.value is_certain=trace.is_certain says"),
        **picked(row, "instead source", by_hand=_reason_by_hand(report, statement) or None),
    }
