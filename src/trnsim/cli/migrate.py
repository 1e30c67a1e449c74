"""`trnsim migrate`: a file of kernels from one version of NKI to a later one."""

from __future__ import annotations

from codecs import BOM_UTF8
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.behaviours import LATEST, version_named
from trnsim.cli import array_files
from trnsim.cli.migrate_document import migrate_document
from trnsim.cli.options import KernelInputs, KernelName, Seed, parser
from trnsim.cli.parsing import Command
from trnsim.cli.report_files import (
    ENDINGS,
    AsJson,
    PrintedAnswer,
    answer,
    check_output,
    check_report,
)
from trnsim.cli.report_files import Report as Folder
from trnsim.errors import BadInput
from trnsim.nki.migrate.inputs import shapes_of
from trnsim.nki.migrate.report import Report, report_of
from trnsim.nki.migrate.trial import trials_of
from trnsim.nki.migrate.writing import rewritten_file

_PYTHON: Final = ".py"
_ARRAY: Final = ".npy"
_INPUT: Final = "--input"

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
        help="The version of NKI that the kernels are written for; default: that of a line "
        "`# nki: 0.4` of the file, or for each kernel the newest that has every name it uses.",
        metavar="VERSION",
    ),
]

_Write = Annotated[
    bool,
    typer.Option(
        "--write",
        help="Rewrite the file where the change is mechanical; other lines get a comment "
        "`# nki 0.7: ...`.",
    ),
]
_Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        help="Write the rewritten file to a file that ends in .py, and leave the old one as it "
        "is; or the answer as .json, .csv, .txt, .md or .html.",
        metavar="FILE",
    ),
]
_Shapes = Annotated[
    list[str] | None,
    typer.Option(
        "--shape",
        help="Shape and dtype of a kernel's argument, for random values: x=128x512:bfloat16.",
        metavar="NAME=SHAPE",
    ),
]

app = parser()


class MigrateCommand(Command):
    """The parser of `trnsim migrate`: ``--input a.npy b.npy`` is one option."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, with an --input before each array."""
        parser_words: list[str] = []
        is_input = False
        for argument in args:
            if is_input and argument.endswith(_ARRAY) and parser_words[-1] != _INPUT:
                parser_words.append(_INPUT)
            is_input = argument == _INPUT or (is_input and argument.endswith(_ARRAY))
            parser_words.append(argument)
        return super().parse_args(ctx, parser_words)


@app.command(cls=MigrateCommand)
def migrate(
    path: _File,
    to: _To = LATEST.name,
    source_version: _From = None,
    is_written: _Write = False,
    inputs: KernelInputs = None,
    shapes: _Shapes = None,
    kernel: KernelName = None,
    seed: Seed = 0,
    output: _Output = None,
    folder: Folder = None,
    as_json: AsJson = False,
) -> None:
    """Say what later versions of NKI refuse or change in a file of kernels.

    Each finding is a row of the table of behaviours that `trnsim run --nki` follows, with its line
    and AWS's reason. "perhaps" marks a finding that the text alone cannot decide. Imported files
    are not read: migrate each of them too.

    With --write the file is rewritten where that is mechanical, comments and formatting kept. Both
    versions run on the same inputs, random ones where annotations (nki.typing) or --shape give the
    shapes. The answer says whether their results are equal, and if not, by which behaviour.

    Example: trnsim migrate kernels.py --to 0.6 --output new.py
    """
    is_program = output is not None and output.suffix == _PYTHON
    new_path = output if is_program else path if is_written else None
    answer_file = None if is_program else output
    if is_written and new_path != path:
        raise BadInput(
            f"--write rewrites {path}, and --output {new_path} leaves it as it is; legal: one of "
            "them",
            fix=f"leave out --write for {new_path}, or --output to rewrite {path}",
        )
    _check_files(path, new_path, answer_file, folder)
    bom, text = _bom_and_text(path)
    report = report_of(text, str(path), version_named(to, "--to"), source_version)
    _check_kernel(report, kernel, inputs)
    migration = rewritten_file(report)
    arrays = [array_files.load(file) for file in inputs or []]
    shape_by_argument = shapes_of(shapes or [])
    _check_arguments(report, list(shape_by_argument))
    is_tried = bool(report.statements or arrays or shape_by_argument or kernel)
    trials = (
        trials_of(report, migration.text, shape_by_argument, arrays, kernel, seed)
        if is_tried
        else []
    )
    if new_path is not None:
        files.write(
            new_path, bom + migration.text.encode()
        )  # a program keeps its control characters
    document = migrate_document(
        report, trials, migration if new_path is not None else None, new_path
    )
    new_files = [] if new_path is None else [new_path]
    answer(PrintedAnswer(document, files=new_files), folder, answer_file, as_json=as_json)


def _check_kernel(report: Report, kernel: str | None, inputs: list[Path] | None) -> None:
    """Refuse a --kernel that the file has not, and arrays without --kernel for several kernels.

    Raises:
        BadInput: in either case.
    """
    names = [kernel_file.name for kernel_file in report.file.kernels]
    legal = ", ".join(names) or "none"
    if kernel is not None and kernel not in {function.name for function in report.file.functions}:
        raise BadInput(
            f"--kernel {kernel}, and {report.path} has the kernels: {legal}",
            fix="name one of them with --kernel, or leave it out",
        )
    if inputs and kernel is None and len(names) != 1:
        raise BadInput(
            f"no --kernel was given, and {report.path} has the kernels: {legal}",
            fix="name one of them with --kernel",
        )


def _check_arguments(report: Report, names: list[str]) -> None:
    """Refuse a --shape of an argument that no function of the file has.

    Raises:
        BadInput: it names the arguments of the file's kernels.
    """
    legal, all_names = (
        [
            argument.arg
            for function in functions
            for argument in (
                *function.args.posonlyargs,
                *function.args.args,
                *function.args.kwonlyargs,
            )
        ]
        for functions in (report.file.kernels, report.file.functions)
    )
    for name in names:
        if name not in all_names:
            raise BadInput(
                f"--shape names {name}, which no kernel of {report.path} takes; legal: "
                f"{', '.join(dict.fromkeys(legal)) or 'none'}",
                fix="name an argument of a kernel",
            )


def _check_files(
    path: Path, new_path: Path | None, output: Path | None, folder: Path | None
) -> None:
    """Refuse files that cannot be written before work begins."""
    if new_path is not None and (
        new_path != path or path.is_file()
    ):  # else it is named as unreadable
        files.check_writable(new_path)
    if output is not None and output.suffix.lower() not in ENDINGS:
        raise BadInput(
            f"--output {output}; legal endings: {_PYTHON} for the rewritten file, and for the "
            f"answer {', '.join(ENDINGS)}",
            fix=f"for example --output {output.stem or 'new'}{_PYTHON}",
        )
    check_output(output)
    if folder is not None:
        check_report(folder)


def _bom_and_text(path: Path) -> tuple[bytes, str]:
    """The UTF-8 byte order mark at the start of a file, or b"", and the file's text.

    Raises:
        BadInput: the file cannot be read, or is no text.
    """
    fix = "name a Python file of kernels"
    try:
        content = files.read_bytes(path, fix)
        bom = BOM_UTF8 if content.startswith(BOM_UTF8) else b""
        return bom, content.removeprefix(bom).decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not valid Python: {error}", fix=fix) from error
