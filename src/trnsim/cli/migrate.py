"""`trnsim migrate`: a file of kernels from one version of NKI to a later one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trnsim import files
from trnsim.behaviours import LATEST, version_named
from trnsim.cli.migrate_document import migrate_document
from trnsim.cli.options import parser
from trnsim.cli.report_files import answering
from trnsim.document.answer import Document
from trnsim.errors import BadInput
from trnsim.nki.migrate.report import report_of

_File = Annotated[Path, typer.Argument(help="A Python file of kernels.", metavar="FILE")]
_To = Annotated[
    str,
    typer.Option(
        "--to",
        help="The version of NKI to migrate to.",
        metavar="VERSION",
        show_default=LATEST.name,
    ),
]
_From = Annotated[
    str | None,
    typer.Option(
        "--from",
        help="The version of NKI that the kernels are written for. Without, a line `# nki: 0.4` "
        "of the file, or for each kernel the newest version that has all that it uses.",
        metavar="VERSION",
    ),
]

app = parser()


@app.command()
@answering
def migrate(path: _File, to: _To = LATEST.name, origin: _From = None) -> Document:
    """Say what later versions of NKI refuse or change in a file of kernels.

    Each statement is a row of the table of behaviours that `trnsim run --nki` follows, with its
    line and AWS's reason. "perhaps" marks what the text alone does not tell. Files that the file
    imports are files of their own.

    Example: trnsim migrate kernels.py --to 0.6
    """
    report = report_of(_text(path), str(path), version_named(to, "--to"), origin)
    return migrate_document(report)


def _text(path: Path) -> str:
    """The text of a file.

    Raises:
        BadInput: there is none, or it is no text.
    """
    fix = "name a Python file of kernels"
    if path.is_dir() or not path.exists():
        raise BadInput(f"{path} is not a file", fix=fix)
    try:
        return files.read_bytes(path, fix).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not valid Python: {error}", fix=fix) from error
