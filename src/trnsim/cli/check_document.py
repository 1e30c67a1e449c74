"""The answer of `trnsim check`: the verdict, a table of kernels, the findings of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from trnsim.arch import Target
from trnsim.document.answer import Block, Document, Items, Note, Section, Table, columns, records
from trnsim.document.values import picked
from trnsim.gate.baselines import Key
from trnsim.gate.checking import (
    CheckLimits,
    GateFinding,
    KernelCheck,
    increase_us,
    line_words,
    signed_us,
)
from trnsim.gate.difference import KernelTimeDifference, TimeShift
from trnsim.gate.line_changes import LineChange
from trnsim.profile.measures.lines import time_by_line
from trnsim.profile.units import time_text
from trnsim.runs import Run

_US: Final = 1e-6
_COLUMNS: Final = columns(
    "kernel | on | time | P10 to P90 | before | change | verdict", numbers_from=2, numbers_to=3
)
_KEYS: Final = "kernel=key.kernel file=key.owner chip=key.chip passed=is_passed"
"""Attributes of a check that its JSON and its row for spreadsheets begin with."""
_ROW_NAMES: Final = (
    *("kernel", "file", "chip", "passed", "time_s", "p10_s", "p90_s", "before_s"),
    *("change_s", "change_p10_s", "change_p90_s", "line"),
)


@dataclass(frozen=True)
class CheckedFiles:
    """The files that a command checked, and the checks of their kernels.

    Attributes:
        files: the files whose kernels were checked.
        chips: the chips on which they were checked.
        limits: the limits that the checks had to keep.
        checks: the check of each kernel on each chip.
        unchecked: kernels for which no inputs are declared, as FILE: NAME.
        stale_keys: keys of baselines of kernels that the files no longer have.
    """

    files: Sequence[Path]
    chips: Sequence[Target]
    limits: CheckLimits
    checks: Sequence[KernelCheck]
    unchecked: Sequence[str]
    stale_keys: Sequence[Key]


def check_document(checked: CheckedFiles) -> Document:
    """Checked kernels as a document."""
    failure_count = sum(not check.is_passed for check in checked.checks)
    count = len(checked.checks)
    verdict = f"{count} check{'s' if count != 1 else ''}, {failure_count or 'none'} failed"
    sections = [
        Section("", [Note(verdict, kind="strong")]),
        Section("", [Table(_COLUMNS, [_row(check) for check in checked.checks])]),
        *(Section("", blocks) for check in checked.checks if (blocks := _blocks(check))),
        *(Section("", [note]) for note in _notes(checked)),
    ]
    values = {
        "files": [path.as_posix() for path in checked.files],
        "chips": [chip.name for chip in checked.chips],
        "max_s": checked.limits.max_s,
        "passed": not failure_count,
        "kernels": [_values(check) for check in checked.checks],
        "unchecked": list(checked.unchecked),
        "gone": [str(key) for key in checked.stale_keys],
    }
    rows = records([_record(check) for check in checked.checks], _ROW_NAMES)
    return Document("Checked kernels", values, sections, rows=rows, schema="check/1")


def _row(check: KernelCheck) -> list[str]:
    verdict = "pass" if check.is_passed else _first_failure(check)
    name = f"{check.key.kernel} ({check.key.owner})"
    if check.run is None:
        return [name, check.key.chip, "-", "-", "-", "-", verdict]
    summary, shift = check.run.summary, check.difference
    times = [time_text(summary.total_time_p50_s), summary.interval_text()]
    if shift is None:
        return [name, check.key.chip, *times, "-", "-", verdict]
    change = _change_words(shift.total) if shift.total.change_us else "="
    return [name, check.key.chip, *times, time_text(shift.before.time_us * _US), change, verdict]


def _change_words(part: TimeShift) -> str:
    """A difference of times with its P10 and P90, as text."""
    low, high = part.interval_us.p10, part.interval_us.p90
    return f"{signed_us(part.change_us)} ({signed_us(low)} to {signed_us(high)})"


def _first_failure(check: KernelCheck) -> str:
    kinds = dict.fromkeys(finding.kind for finding in check.findings if finding.is_failure)
    return f"FAIL: {', '.join(kinds)}"


def _blocks(check: KernelCheck) -> list[Block]:
    if not check.findings:
        return []
    title = Note(f"{check.key.kernel} on {check.key.chip}", kind="strong")
    return [title, Items([_words(finding) for finding in check.findings], indent=2)]


def _words(finding: GateFinding) -> str:
    """A finding as text: its kind, reason, fix, source and line."""
    mark = "FAIL " if finding.is_failure else ""
    parts = [f"{mark}{finding.kind}: {finding.text}"]
    if finding.fix:
        parts.append(f"fix: {finding.fix}")
    if finding.source:
        parts.append(f"source: {finding.source}")
    if finding.line is not None:
        parts.append(f"at {path_text(finding.line.file)}:{finding.line.line}")
    return "; ".join(parts)


def path_text(path: Path | str) -> str:
    """A file as baselines and answers name it: below the working folder relative, with slashes."""
    resolved, folder = Path(path).resolve(), Path.cwd()
    return (
        resolved.relative_to(folder) if resolved.is_relative_to(folder) else Path(path)
    ).as_posix()


def _notes(checked: CheckedFiles) -> list[Block]:
    notes: list[Block] = []
    if checked.unchecked:
        text = f"not checked, as NAME_inputs() is missing: {', '.join(checked.unchecked)}"
        notes.append(Note(text))
    if checked.stale_keys:
        text = "baselines of kernels that are gone (--update drops them): "
        notes.append(Note(text + ", ".join(map(str, checked.stale_keys))))
    return notes


def _values(check: KernelCheck) -> dict[str, Any]:
    run = check.run
    summary = None if run is None else run.summary
    return {
        **picked(check, _KEYS),
        "time_s": summary
        and picked(summary, "p10=total_time_p10_s p50=total_time_p50_s p90=total_time_p90_s"),
        "instructions": None if run is None else len(run.program),
        "bound_by": None if summary is None else summary.bound_by,
        "values": [picked(error, "result error tolerance at=index why") for error in check.values],
        "findings": [_finding_values(finding) for finding in check.findings],
        "difference": None if check.difference is None else _difference_values(check.difference),
        "lines": [] if run is None else _line_times(run),
    }


def _line_times(run: Run) -> list[dict[str, Any]]:
    """The time of each line of a run, most of the critical path first."""
    return [
        {
            "file": path_text(row.line.file),
            **picked(row, "line=line.line instructions critical_s waiting_s busy_s"),
        }
        for row in time_by_line(run.timeline)
        if row.line is not None
    ]


def _finding_values(finding: GateFinding) -> dict[str, Any]:
    return picked(
        finding,
        "kind failure=is_failure text fix source",
        file=None if finding.line is None else path_text(finding.line.file),
        line=None if finding.line is None else finding.line.line,
    )


def _difference_values(shift: KernelTimeDifference) -> dict[str, Any]:
    return {
        "before_s": shift.before.time_us * _US,
        "after_s": shift.after.time_us * _US,
        "total": shift_values(shift.total),
        "kernel": shift_values(shift.kernel),
        "upgrade": shift_values(shift.upgrade),
        **picked(shift, "same_source=is_same_source"),
        **picked(shift, "trnsim_before=before.model trnsim_after=after.model"),
        "constants": [picked(change, "name before after") for change in shift.constants],
        "lines": [
            _line_values(line) for line in shift.lines if line.change_us or line.busy_change_us
        ],
    }


def shift_values(part: TimeShift) -> dict[str, Any]:
    """A difference of times as JSON."""
    return {
        "change_s": part.change_us * _US,
        "p10_s": part.interval_us.p10 * _US,
        "p90_s": part.interval_us.p90 * _US,
        "counts": part.is_significant,
    }


def _line_values(change: LineChange) -> dict[str, Any]:
    return picked(
        change,
        "file=line.file line=line.line text=line.text was new=is_new gone=is_gone",
        critical_change_s=change.change_us * _US,
        busy_change_s=change.busy_change_us * _US,
        cost_s=change.cost_us * _US,
    )


def _record(check: KernelCheck) -> dict[str, Any]:
    """The row of a check for spreadsheets."""
    shift = check.difference
    first_line = shift.lines[0] if shift is not None and shift.lines else None
    is_slower = first_line is not None and increase_us(first_line) > 0
    times = "time_s=total_time_p50_s p10_s=total_time_p10_s p90_s=total_time_p90_s"
    return {
        **picked(check, _KEYS),
        **picked(None if check.run is None else check.run.summary, times),
        "before_s": None if shift is None else shift.before.time_us * _US,
        "change_s": None if shift is None else shift.total.change_us * _US,
        "change_p10_s": None if shift is None else shift.total.interval_us.p10 * _US,
        "change_p90_s": None if shift is None else shift.total.interval_us.p90 * _US,
        "line": line_words(first_line) if first_line is not None and is_slower else None,
    }
