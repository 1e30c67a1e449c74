"""The answer of `trnsim run --nki all`: one program under every version of NKI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from trnsim.behaviours import Behaviour
from trnsim.behaviours.chosen import VersionChoice
from trnsim.cli.script import Ending
from trnsim.document.answer import Block, Document, Note, Section, Table, columns, records
from trnsim.document.values import picked
from trnsim.errors import BadInput, EmulatorError
from trnsim.nki.across import End, VersionEnd, outcomes_by_version

ALL: Final = "all"
"""The word for every version."""
_SCHEMA: Final = "run-versions/1"
_END_NAMES: Final = "version=version.name sdk=version.sdk end=end.value"
"""Attributes of a version's end that its JSON and its row for spreadsheets begin with."""
_TABLE_COLUMNS: Final = ("version", "sdk", "end", "reason", "causes")


def versions_document(
    script: str, chip: str, run: Callable[[], Ending], tell: Callable[[str], None]
) -> Document:
    """A program's end under each version, beside its end under its own.

    Args:
        script: the file's name.
        chip: the name of the chip.
        run: function that runs the program once.
        tell: function that shows progress.

    Raises:
        BadInput: the program launches no kernel, or kernels of several versions.
        Exception: the program's, under its own version.
    """
    tell("its own version")
    ending = _checked_ending(run())
    if not ending.runs:
        raise BadInput(
            f"{script} launched no kernel, so no version is compared",
            fix="call a kernel in the script, or give arrays: --input a.npy b.npy",
        )
    choices = {run.program.core.nki: run.version for run in ending.runs}
    if len(choices) > 1:
        names = ", ".join(version.name for version in choices)
        raise BadInput(
            f"{script} launches kernels of several versions of NKI: {names}; legal: of one",
            fix="name one of them with --nki, or compare each kernel: --kernel NAME --input ...",
        )
    ((reference, own_choice),) = choices.items()
    ends = outcomes_by_version(
        lambda: [kernel.outputs for kernel in _checked_ending(run()).runs], reference, tell
    )
    return _document(script, chip, own_choice, ends)


def _checked_ending(ending: Ending) -> Ending:
    """An ending without an error; the error of any other is raised."""
    if ending.error is not None and not ending.has_succeeded:
        raise ending.error
    return ending


def _document(
    script: str, chip: str, own_choice: VersionChoice, ends: Sequence[VersionEnd]
) -> Document:
    rows = [
        (end.version.name, end.version.sdk, end.end.value, _words(end, own_choice)) for end in ends
    ]
    values = {
        "script": script,
        "chip": chip,
        "reference": {"version": own_choice.version.name, "reason": own_choice.reason},
        "versions": [_values(end) for end in ends],
    }
    table_rows: list[dict[str, Any]] = [
        picked(
            end,
            _END_NAMES,
            reason=_reason(end.error),
            causes=" ".join(row.name for row in end.causes),
        )
        for end in ends
    ]
    head = f"{script} on {chip} under each version of NKI, beside NKI {own_choice.version.name}"
    blocks: list[Block] = [
        Note(f"{head} ({own_choice.reason})"),
        Table(columns("NKI | SDK | end | why", numbers_from=4), rows, indent=2),
    ]
    return Document(
        f"{script}: versions of NKI",
        values,
        [Section("", blocks)],
        rows=records(table_rows, _TABLE_COLUMNS),
        schema=_SCHEMA,
    )


def _words(end: VersionEnd, own_choice: VersionChoice) -> str:
    """Why a version's end differs from that of the program's own version, in words."""
    if end.version is own_choice.version:
        return "the program's own version"
    if end.end is End.other:
        return "; ".join(_cause(row, end) for row in end.causes)
    return _reason(end.error)


def _cause(row: Behaviour, end: VersionEnd) -> str:
    """A behaviour by which values differ: what holds in that version, in words."""
    holds = end.version.follows(row)
    return f"{row.name}: {row.rule if holds else row.otherwise} ({row.source})"


def _reason(error: BaseException | None) -> str:
    if error is None:
        return ""
    if isinstance(error, EmulatorError):
        place = "" if error.line is None else f"{error.line}: "
        return f"{place}{error.reason}" + (f"; instead: {error.fix}" if error.fix else "")
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}{': ' + lines[0] if lines else ''}"


def _values(end: VersionEnd) -> dict[str, Any]:
    error = end.error if isinstance(end.error, EmulatorError) else None
    return {
        **picked(end, _END_NAMES),
        "reason": error.reason if error else _reason(end.error),
        "fix": error.fix if error else "",
        "source": error.source if error else "",
        "line": str(error.line) if error and error.line else "",
        "causes": [
            picked(row, "name since until rule otherwise source") | {"until": row.until or ""}
            for row in end.causes
        ],
    }
