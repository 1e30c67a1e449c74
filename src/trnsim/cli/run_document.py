"""The answer of `trnsim run`: kernels, ranks and a training step, in six lines or in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from trnsim.cli import array_files
from trnsim.document.answer import (
    Block,
    Document,
    Note,
    PageLink,
    Section,
    Words,
    label_table,
    records,
)
from trnsim.document.values import picked, with_schema
from trnsim.formatting import counted
from trnsim.profile.analysis.data import JsonObject
from trnsim.profile.document import (
    SUMMARY_SCHEMA,
    brief_rows,
    comparison,
    next_action_row,
    profile_blocks,
    profile_values,
)
from trnsim.runs import Run

if TYPE_CHECKING:
    from trnsim.device.step_report import StepReport
    from trnsim.profile.analysis.world import WorldSummary

RANKS_SCHEMA: Final = "run-ranks/1"
_SCHEMA: Final = "run/1"
_TABLE_COLUMNS: Final = ("kind", "name", "target", "time_s", "p10_s", "p90_s")
_TIME_NAMES: Final = "total_time_s total_time_p10_s total_time_p90_s"
_ON_OPTION: Final = "--on"

_Row = tuple[str, Words]
Files = dict[str, Path]
"""The paths of reports by kind: "report" is the page."""


@dataclass(frozen=True)
class RunPart:
    """A part of the answer: a kernel, a run on ranks, or a training step.

    Attributes:
        kind: the JSON's list with the part: "kernels", "ranks" or "steps".
        groups: the text, as groups of blocks with a blank line between.
        values: the part's items of the JSON's list.
        figures: its rows for spreadsheets, with the columns `_TABLE_COLUMNS`.
        files: the paths of its reports.
    """

    kind: str
    groups: list[list[Block]]
    values: list[Any]
    figures: list[tuple[Any, ...]]
    files: Files


def run_document(
    parts: Sequence[RunPart], script: str, chips: Sequence[str], reason: str, note: str
) -> Document:
    """The answer for a script that ran on `chips`, chosen for `reason`; `note` stands last."""
    values: dict[str, Any] = {"script": script, "chips": chips, "reason": reason}
    for kind in ("kernels", "ranks", "steps"):
        values[kind] = [item for part in parts if part.kind == kind for item in part.values]
    values["files"] = [path for part in parts for path in part.files.values()]
    rows: list[dict[str, Any]] = [
        dict(zip(_TABLE_COLUMNS, row, strict=True)) for part in parts for row in part.figures
    ]
    groups = [blocks for part in parts for blocks in part.groups]
    if note:
        groups.append([Note(note)])
    sections = [Section("", blocks) for blocks in groups]
    return Document(script, values, sections, rows=records(rows, _TABLE_COLUMNS), schema=_SCHEMA)


def kernel_part(
    runs: Sequence[Run],
    profiles: Sequence[JsonObject],
    files: Files,
    reason: str,
    *,
    is_verbose: bool,
) -> RunPart:
    """One kernel: its runs, one per chip, and the stored profile of each."""
    outputs = array_files.leaves(runs[0].outputs)
    output = ("output", ", ".join(map(_array_text, outputs)) or "none")
    summaries = [profile_values(profile) for profile in profiles]
    figures = [
        ("kernel", run.title, run.target.name, *picked(run.summary, _TIME_NAMES).values())
        for run in runs
    ]
    value = {
        "name": runs[0].title,
        "nki": picked(runs[0].version, "reason", version=runs[0].version.version.name),
        "outputs": [_array_values(values) for values in outputs],
        "profiles": [with_schema(summary, SUMMARY_SCHEMA) for summary in summaries],
    }
    groups_of = _kernel_in_full if is_verbose else _kernel_in_brief
    groups = groups_of(runs, profiles, output, files, reason)
    return RunPart("kernels", groups, [value], figures, files)


def _kernel_in_brief(
    runs: Sequence[Run], profiles: Sequence[JsonObject], output: _Row, files: Files, reason: str
) -> list[list[Block]]:
    """The text in six lines for one chip, or with a column for each of several chips."""
    is_one = len(runs) == 1
    rows: list[_Row] = [
        *_version_rows(runs),
        *_warnings(runs),
        *(brief_rows(profiles[0]) if is_one else [next_action_row(profiles[0])]),
        output,
        *_brief_file_rows(files),
    ]
    tables = [] if is_one else [comparison(profiles, is_brief=True)]
    return [[_heading(runs, _brief(reason)), *tables, label_table(rows, indent=2)]]


def _kernel_in_full(
    runs: Sequence[Run], profiles: Sequence[JsonObject], output: _Row, files: Files, reason: str
) -> list[list[Block]]:
    """The text with all figures of each chip, a comparison of chips, and every file."""
    groups = [
        [
            _heading([run], reason),
            *(
                Note(f"{label}: {text}", indent=2)
                for label, text in [*_version_rows([run]), *_warnings([run])]
            ),
            *profile_blocks(profile),
        ]
        for run, profile in zip(runs, profiles, strict=True)
    ]
    if len(runs) > 1:
        groups.append([comparison(profiles)])
    return [*groups, [label_table([output, *_file_rows(files)], indent=2)]]


def _version_rows(runs: Sequence[Run]) -> list[_Row]:
    """The row of the version of NKI, if that was chosen or is not the latest."""
    return [("version", runs[0].version.note)] if runs[0].version.note else []


def ranks_part(
    summary: WorldSummary, files: Files, *, is_verbose: bool, unused_ranks: int | None = None
) -> RunPart:
    """A run on ranks that exchange tensors.

    `unused_ranks` is the number of --ranks where the program itself stated another.
    """
    rows: list[_Row] = [*(summary.rows() if is_verbose else summary.rows(collectives=1))]
    if unused_ranks is not None:
        text = f"--ranks {unused_ranks} has no effect here: the program states its own ranks"
        rows.insert(0, ("warning", text))
    rows += _file_rows(files) if is_verbose else _brief_file_rows(files)
    head = Note(f"{summary.title}: {summary.time_words}")
    figures = [("ranks", summary.title, "", summary.total_s, *summary.interval_s)]
    values = [with_schema(summary.as_dict(), RANKS_SCHEMA)]
    return RunPart("ranks", [[head, label_table(rows, indent=2)]], values, figures, files)


def step_part(report: StepReport, files: Files, *, is_verbose: bool) -> RunPart:
    """A step on a framework's device."""
    document, name = report.document, f": {report.name}" if report.name else ""
    groups: list[list[Block]]
    if is_verbose:
        groups = [[*section.blocks] for section in document.sections if section.place != "page"]
        groups.append([label_table(_file_rows(files), indent=2)])
    else:
        head = f"step on {report.target}{_reason_in_brackets(_brief(report.reason))}{name}"
        groups = [[Note(head), label_table([*report.brief(), *_brief_file_rows(files)], indent=2)]]
    figures = [
        (
            "step",
            report.name,
            step.target,
            step.device_time_s,
            *map(step.estimate.quantile_s, ("p10", "p90")),
        )
        for step in report.steps
    ]
    return RunPart("steps", groups, with_schema(document.values, document.schema), figures, files)


def _heading(runs: Sequence[Run], reason: str) -> Note:
    chips = ", ".join(run.target.name for run in runs)
    count = counted(runs[0].summary.instructions, "instruction")
    return Note(f"{runs[0].title} on {chips}{_reason_in_brackets(reason)}: {count}")


def _brief(reason: str) -> str:
    """The first clause of a reason."""
    return reason.partition(";")[0]


def _reason_in_brackets(reason: str) -> str:
    """The reason for the chip in brackets; "" if the user named the chip."""
    return "" if reason == _ON_OPTION else f" ({reason})"


def _warnings(runs: Sequence[Run]) -> list[tuple[str, str]]:
    texts = dict.fromkeys(text for run in runs for text in run.overfull)
    return [("warning", text) for text in texts]


def _file_rows(files: Files) -> list[_Row]:
    return [(kind, _link(path)) for kind, path in files.items()]


def _brief_file_rows(files: Files) -> list[_Row]:
    """The row that links the report's page and lists the kinds of the other files."""
    if "report" not in files:
        return []
    kinds = dict.fromkeys(kind.partition(" ")[0] for kind in files if kind != "report")
    beside = f"; beside it: {', '.join(kinds)}" if len(kinds) > 1 else ""
    return [("report", (_link(files["report"]), beside, "; more: trnsim run -v"))]


def _link(path: Path) -> Words:
    return PageLink(str(path), path.name)


def _array_values(output: Any) -> Mapping[str, Any]:
    shape, dtype = getattr(output, "shape", None), getattr(output, "dtype", None)
    if shape is None:
        return {"value": repr(output)}
    return {"shape": list(shape), "dtype": str(dtype)}


def _array_text(output: Any) -> str:
    values = _array_values(output)
    return f"{values['shape']} {values['dtype']}" if "shape" in values else values["value"]
