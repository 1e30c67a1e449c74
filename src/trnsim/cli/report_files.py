"""The three files of a report for people: page.html, figures.json, table.csv."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from trnsim import files
from trnsim.foreign_text import table_row

if TYPE_CHECKING:
    from collections.abc import Sequence

PAGE: Final = "page.html"
FIGURES: Final = "figures.json"
TABLE: Final = "table.csv"

Report = Annotated[
    Path | None,
    typer.Option(
        "--report", help="Write page.html, figures.json and table.csv there.", metavar="DIR"
    ),
]


def check(folder: Path) -> None:
    """Raise `BadInput` for a folder that a report cannot be written to.

    Raises:
        BadInput: it, or one of the three files, cannot be written.
    """
    files.check_folder(folder)
    if folder.is_dir():
        for name in (PAGE, FIGURES, TABLE):
            files.check_writable(folder / name)


def write(folder: Path, page: str, figures: Any, rows: Sequence[Sequence[str]]) -> list[Path]:
    """Write a report, all of its files or none.

    Raises:
        BadInput: one cannot be written.
    """
    table = io.StringIO()
    csv.writer(table, lineterminator="\n").writerows(map(table_row, rows))
    contents = {
        PAGE: page,
        FIGURES: json.dumps(figures, indent=1, allow_nan=False) + "\n",
        TABLE: table.getvalue(),
    }
    return files.write_together(folder, contents)
