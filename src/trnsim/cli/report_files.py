"""Documents printed, and as the three files of a report: page.html, figures.json, table.csv."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from trnsim import files
from trnsim.cli.terminal import echo, width
from trnsim.document.html import html
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text
from trnsim.document.values import document_json

if TYPE_CHECKING:
    from trnsim.document.answer import Document

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


def write(folder: Path, document: Document) -> list[Path]:
    """Write a report, all of its files or none.

    Raises:
        BadInput: one cannot be written.
    """
    contents = {
        PAGE: html(document),
        FIGURES: document_json(document) + "\n",
        TABLE: spreadsheet(document),
    }
    return files.write_together(folder, contents)


def answer(document: Document, report: Path | None = None, *, as_json: bool = False) -> None:
    """Print a document as text or JSON, and write its report where there is to be one."""
    echo(document_json(document) if as_json else text(document, width()))
    if report is not None:
        write(report, document)
        if not as_json:
            echo(f"wrote {report / PAGE}")
