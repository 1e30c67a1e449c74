"""Reports on disk; each file is written completely or not at all."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from trnsim.files import write, write_together
from trnsim.profile.analysis.data import JsonObject, ProfiledRun
from trnsim.profile.formats.chrome import chrome
from trnsim.profile.formats.perfetto import perfetto
from trnsim.profile.formats.stored import as_text
from trnsim.profile.report_page.html import html
from trnsim.profile.tables import explorer_tables
from trnsim.profile.tables.parquet import is_available, write_tables

_PAGE: Final = "report.html"


def write_page(report: JsonObject, folder_or_file: Path | str) -> Path:
    """Write the HTML page of a report; return the page's path.

    A path that ends in ".html" is the page's own; any other is a folder, for `report.html`.

    Raises:
        BadInput: the path cannot be written.
    """
    path = Path(folder_or_file)
    if path.suffix.lower() != ".html" or path.is_dir():
        path /= _PAGE
    return write(path, html(report), parents=True)


def write_report(report: JsonObject, folder: Path | str, name: str) -> Path:
    """Write a kernel's page NAME.html and stored report NAME.json; return the page's path.

    Raises:
        BadInput: the folder cannot be written.
    """
    contents = {f"{name}.json": as_text(report), f"{name}.html": html(report)}
    return write_together(folder, contents)[-1]


def write_traces(
    run: ProfiledRun, folder: Path | str, name: str, tell: Callable[[str], None] = lambda _: None
) -> dict[str, Path]:
    """Write Perfetto's and Chrome's traces and Parquet tables of a run; return the paths by kind.

    Without pyarrow the tables are left out.

    Args:
        run: the run.
        folder: the folder for the files.
        name: the files' name: NAME.perfetto-trace, NAME.trace.json, and the folder NAME-tables.
        tell: called with each file before it is written.

    Raises:
        BadInput: the folder cannot be written.
    """
    folder, title = Path(folder), f"{run.title} on {run.target.name}"
    paths: dict[str, Path] = {}
    for kind, suffix, make in (
        ("trace", "perfetto-trace", perfetto),
        ("chrome", "trace.json", chrome),
    ):
        path = folder / f"{name}.{suffix}"
        tell(str(path))
        paths[kind] = write(path, make(run.timelines, title), parents=True)
    if is_available():
        path = folder / f"{name}-tables"
        tell(str(path))
        tables = explorer_tables(run.timelines, run.summary, title, run.warnings)
        paths["tables"] = write_tables(tables, path)
    return paths
