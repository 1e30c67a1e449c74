"""`trnsim migrate`: a file of kernels from one version of NKI to a later one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

from trnsim import files
from trnsim.behaviours import LATEST, version_named
from trnsim.cli.migrate_document import migrate_document
from trnsim.cli.options import parser
from trnsim.cli.report_files import AsJson, PrintedAnswer, Report, answer, check, check_output
from trnsim.errors import BadInput
from trnsim.nki.migrate.report import report_of
from trnsim.nki.migrate.writing import rewritten

_PYTHON: Final = ".py"

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

_Write = Annotated[
    bool,
    typer.Option(
        "--write",
        help="Rewrite the file: what is mechanical; the rest gets a comment `# nki 0.7: ...`.",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        help="Write the rewritten file to a file that ends in .py, and leave the old one as it "
        "is; or the answer as .json, .csv, .txt or .html.",
        metavar="FILE",
    ),
]

app = parser()


@app.command()
def migrate(
    path: _File,
    to: _To = LATEST.name,
    origin: _From = None,
    is_written: _Write = False,
    output: _Output = None,
    report: Report = None,
    as_json: AsJson = False,
) -> None:
    """Say what later versions of NKI refuse or change in a file of kernels.

    Each statement is a row of the table of behaviours that `trnsim run --nki` follows, with its
    line and AWS's reason. "perhaps" marks what the text alone does not tell. Files that the file
    imports are files of their own.

    With --write the file is rewritten where that is mechanical, comments and formatting kept.

    Example: trnsim migrate kernels.py --to 0.6 --output new.py
    """
    new = (
        output if output is not None and output.suffix == _PYTHON else path if is_written else None
    )
    answer_file = None if output is not None and output.suffix == _PYTHON else output
    _check_files(path, new, answer_file, report)
    told = report_of(_text(path), str(path), version_named(to, "--to"), origin)
    written = None
    if new is not None:
        written = rewritten(told)
        files.write(new, written.text)
    document = migrate_document(told, written, new)
    answer(
        PrintedAnswer(document, files=[new] if new else []), report, answer_file, as_json=as_json
    )


def _check_files(path: Path, new: Path | None, output: Path | None, report: Path | None) -> None:
    """Refuse files that cannot be written before work begins."""
    if new is not None and new != path:
        files.check_writable(new)
    check_output(output)
    if report is not None:
        check(report)


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
