"""The cuts of a program in the report of its step: by line, and the cause of each recompilation."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from trnsim.document.answer import Block, Column, Note, Table
from trnsim.profile.units import time_text
from trnsim.xla.cuts.ledger import CutRecord, Ledger, ProgramRecord
from trnsim.xla.cuts.values import Place

_MOST_ROWS: Final = 32
_NO_LINE: Final = "(no line)"
_CUT_COLUMNS: Final = (
    Column("cut at"),
    Column("kind"),
    *(
        Column(name, is_number=True, is_right=True)
        for name in ("cuts", "executions", "compilations", "chip time")
    ),
)
_CAUSE_COLUMNS: Final = (Column("recompiled at"), Column("change"), Column("change at"))


class CutReport:
    """The part of a step's report on the cuts of a ledger."""

    heading = "Cuts and compilations"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger

    def rows(self) -> list[tuple[str, str]]:
        """Rows of a label and text for a summary; none without a cut."""
        programs = [*self.ledger.programs.values()]
        if not programs:
            return []
        executions = sum(record.executions for record in programs)
        rows = [("cuts", f"{executions} executions of {len(programs)} compiled programs")]
        causes = [record for record in programs if record.cause is not None]
        if causes:
            others_text = f"; {len(causes) - 1} more" if len(causes) > 1 else ""
            _, change, line = _cause_row(causes[-1])
            rows.append(("compiled again", f"{change} ({line}){others_text}"))
        return rows

    def blocks(self, target: str) -> Sequence[Block]:
        """Tables of the cuts and of the recompilations; nothing without a cut."""
        programs = [*self.ledger.programs.values()]
        if not programs:
            return ()
        times_s = {record.number: record.time(target)[0] for record in programs}
        cuts = self._cuts_with_programs()
        rows = [_cut_row(cut, times_s) for cut in cuts]
        blocks: list[Block] = [Table(_CUT_COLUMNS, rows[:_MOST_ROWS])]
        causes = [record for record in programs if record.cause is not None]
        if causes:
            blocks.append(Note("What changed against the nearest earlier program:"))
            blocks.append(Table(_CAUSE_COLUMNS, list(map(_cause_row, causes[:_MOST_ROWS]))))
        hidden_rows = max(len(rows), len(causes)) - _MOST_ROWS
        if hidden_rows > 0:
            blocks.append(Note(f"{hidden_rows} more are not shown"))
        blocks += [
            Note(f"program {record.number} is timed as its operators one after another: {reason}")
            for record in programs
            if record.compiled is not None
            for reason in record.compiled.missing[:1]
        ]
        return blocks

    def values(self, target: str) -> dict[str, Any]:
        """All cuts and recompilations; {} without a cut."""
        programs = [*self.ledger.programs.values()]
        if not programs:
            return {}
        times_s = {record.number: record.time(target)[0] for record in programs}
        return {
            "cuts": [
                {
                    "line": _line_text(cut.place),
                    "kind": cut.kind,
                    "cuts": cut.cuts,
                    "executions": cut.executions.total(),
                    "compilations": cut.compilations,
                    "device_time_s": _total_s(cut, times_s),
                }
                for cut in self._cuts_with_programs()
            ],
            "recompilations": [
                dict(zip(("line", "change", "change_line"), _cause_row(record), strict=True))
                for record in programs
                if record.cause is not None
            ],
        }

    def _cuts_with_programs(self) -> list[CutRecord]:
        """The cuts that ran a program."""
        return [cut for cut in self.ledger.cuts.values() if cut.executions]


def _total_s(cut: CutRecord, times_s: dict[int, float]) -> float:
    """Seconds of all executions of a line's cuts."""
    return sum(count * times_s[number] for number, count in cut.executions.items())


def _cut_row(cut: CutRecord, times_s: dict[int, float]) -> tuple[str, ...]:
    return (
        _line_text(cut.place),
        cut.kind,
        str(cut.cuts),
        str(cut.executions.total()),
        str(cut.compilations),
        time_text(_total_s(cut, times_s)),
    )


def _cause_row(record: ProgramRecord) -> tuple[str, ...]:
    """The line of the recompilation, the change that caused it, and the line of the change."""
    cause = record.cause
    text, place = ("", None) if cause is None else (cause.text, cause.place)
    return _line_text(record.place), text, _line_text(place)


def _line_text(place: Place | None) -> str:
    return _NO_LINE if place is None else f"{Path(place[0]).name}:{place[1]}"
