"""Stored reports: one JSON file per kernel, with a profile for each target.

A stored report opens without the kernel, since it holds the source lines that it names. The format
has a version, and files of another version are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final, cast

from trnsim import reader
from trnsim.document.values import compact_json
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.profile.analysis.data import JsonObject, ProfiledRun, profile_data
from trnsim.profile.analysis.model_estimate import ModelEstimate
from trnsim.profile.analysis.overview import readable_schemas
from trnsim.profile.analysis.summary import Summary
from trnsim.profile.formats.stored_profile import check_profile
from trnsim.reader import FileContent, record
from trnsim.version import VERSION as TRNSIM_VERSION

FORMAT: Final = "trnsim report"
VERSION: Final = 3
_TYPE_BY_FIELD: Final = {
    "title": str,
    "target": str,
    "summary": dict,
    "lines": list,
    "by_line": list,
    "gains": list,
    "advice": list,
    "opcodes": list,
}
_FIRST_BYTES: Final = f'{{"format":"{FORMAT}"'.encode()
"""First bytes of a stored report; other JSON files beside it begin otherwise."""
_PAGES: Final = (".html", ".htm")
_FIX: Final = "write one with trnsim run SCRIPT --report DIR"


def report_of(runs: Sequence[ProfiledRun], models: Sequence[ModelEstimate] = ()) -> JsonObject:
    """The report of one kernel: a profile for each of its runs, one per target.

    `models` has, by run, the estimate of the model that the run is a part of, or None.
    """
    return {
        "format": FORMAT,
        "version": VERSION,
        "trnsim": TRNSIM_VERSION,
        "title": runs[0].title if len(runs) > 1 else f"{runs[0].title} on {runs[0].target.name}",
        "profiles": [
            profile_data(run) | ({"model": model.as_data()} if model is not None else {})
            for run, model in zip_longest(runs, models)
        ],
    }


def as_text(report: JsonObject) -> str:
    """The content of a stored report's file."""
    return compact_json(report) + "\n"


def load(path: Path | str) -> JsonObject:
    """The report stored at `path`, or the only report in that folder.

    Raises:
        BadInput: no such file, none or several in the folder, another kind of file, or a report of
            another version.
    """
    path = _file(Path(path))
    _refuse_page(path)
    document = reader.load(path, _FIX)
    content = document.parsed.content
    report = cast("JsonObject", content) if isinstance(content, dict) else {}
    profiles = report.get("profiles")
    is_list = isinstance(profiles, list) and all(isinstance(profile, dict) for profile in profiles)
    if report.get("format") != FORMAT or not profiles or not is_list:
        message, fix = _other_kind(path, content)
        raise BadInput(message, fix=fix)
    if report.get("version") != VERSION:
        raise BadInput(
            f"{path} is a report of version {report.get('version')}, by trnsim "
            f"{report.get('trnsim')}; this trnsim reads version {VERSION}",
            fix="run the kernel again, or read the report with the trnsim that wrote it",
        )
    for number, profile in enumerate(report["profiles"]):
        missing_names = [
            name for name, kind in _TYPE_BY_FIELD.items() if not isinstance(profile.get(name), kind)
        ]
        if missing_names:
            raise BadInput(f"{path}: a profile has no {', '.join(missing_names)}", fix=_FIX)
        check_profile(document.root.inner("profiles").inner(number))
    if not isinstance(report.get("title"), str):
        raise document.root.inner("title").refused("legal: text")
    return report


def _other_kind(path: Path, content: Any) -> tuple[str, str]:
    """The refusal's message and fix for a file of JSON that is no report of a kernel."""
    first_entry = content[0] if isinstance(content, list) and content else content
    schema = first_entry.get("schema") if isinstance(first_entry, dict) else None
    legal = "legal: NAME.json of a kernel, and answers of " + enumerated(readable_schemas(), "and")
    if not isinstance(schema, str):
        return f"{path} is not a report that trnsim stored; {legal}", _FIX
    if schema in readable_schemas():
        return (
            f"{path}: 'schema' is not its first field, by which an answer is known",
            "name the file as trnsim wrote it, or put 'schema' in front",
        )
    kinds = {readable.partition("/")[0] for readable in readable_schemas()}
    if schema.partition("/")[0] in kinds:
        return f"{path} is an answer of {schema}, of another trnsim; {legal}", "run it again"
    message = f"{path} is an answer of {schema}, which has no single time to show; {legal}"
    return message, "name the .json of a kernel, step or ranks beside it; or " + _FIX


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    reports = sorted(child for child in path.glob("*.json") if is_kernel_report(child))
    if len(reports) == 1:
        return reports[0]
    names = ", ".join(child.name for child in reports) or "none"
    raise BadInput(
        f"{path} is a folder with these reports: {names}",
        fix=f"name one of them, for example {reports[0]}" if reports else _FIX,
    )


def _refuse_page(path: Path) -> None:
    """Refuse an HTML page of a report.

    Raises:
        BadInput: it is a page.
    """
    if path.suffix.lower() not in _PAGES:
        return
    stored_path = path.with_suffix(".json")
    fix = f"name {stored_path}" if stored_path.is_file() else _FIX
    raise BadInput(f"{path} is a page; legal: the .json that is written beside it", fix=fix)


def is_kernel_report(file: Path) -> bool:
    """True if a file begins as a stored report of a kernel does."""
    with suppress(OSError), file.open("rb") as stream:
        return stream.read(len(_FIRST_BYTES)) == _FIRST_BYTES
    return False


def summary_of(profile: JsonObject) -> Summary:
    """The summary in a stored profile."""
    return record(Summary, FileContent.of(profile["summary"], "the summary of a profile").root)
