"""The answer of a command: printed as text or JSON, and written where its options say.

--json                 JSON on the standard output, and nothing else there
--output FILE          the answer as .json, .csv, .txt, .md or .html
--report DIR           page.html, figures.json and table.csv
--report FILE.html     FILE.html, FILE.json and FILE.csv
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.cli.terminal import echo, emphasis, width
from trnsim.document.answer import Document, Note, Section
from trnsim.document.html import html
from trnsim.document.markdown import markdown
from trnsim.document.spreadsheet import spreadsheet
from trnsim.document.text import text
from trnsim.document.values import document_json
from trnsim.errors import BadInput
from trnsim.formatting import enumerated
from trnsim.site.current import take_used

PAGE: Final = "page.html"
FIGURES: Final = "figures.json"
TABLE: Final = "table.csv"
ENDINGS: Final = (".json", ".csv", ".txt", ".md", ".html")
_FILE_PRINTERS: Final = ("emit", "template")
"""Options with which a command prints a file in place of its answer."""

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "--out",
        help="Also write the answer to a file, which ends in .json, .csv, .txt, .md or .html.",
        metavar="FILE",
    ),
]
Report = Annotated[
    Path | None,
    typer.Option(
        "--report",
        help="Also write a page with its figures and its table: page.html, figures.json and "
        "table.csv in a folder, or FILE.html, FILE.json and FILE.csv.",
        metavar="DIR|FILE.html",
    ),
]


_collections: Final[list[list[Document]]] = []
"""The lists of the `collecting_answers` blocks that run now, the innermost last."""


@contextmanager
def collecting_answers() -> Generator[list[Document]]:
    """A context with the list of the answers of commands run in it, which are not printed."""
    answers: list[Document] = []
    _collections.append(answers)
    try:
        yield answers
    finally:
        _collections.pop()


@dataclass(frozen=True)
class PrintedAnswer:
    """A document, and what a command prints or writes with it.

    Attributes:
        json: the JSON to print instead of the document's own; "" for the document's.
        files: files that the command wrote, which are named below the text.
        status: exit status of the command.
    """

    document: Document
    json: str = ""
    files: Sequence[Path] = ()
    status: int = 0

    @property
    def as_json(self) -> str:
        """The answer as JSON, without a line end."""
        return self.json or document_json(self.document)


def _check_alone(name: str, answer_options: dict[str, object]) -> None:
    """Refuse options of an answer beside one that prints a file instead.

    Raises:
        BadInput: one of them is given.
    """
    option = next((flag for flag, value in answer_options.items() if value), None)
    if option is not None:
        raise BadInput(
            f"--{name} prints a file, and {option} is for an answer",
            fix=f"leave {option} out; '> FILE' behind the command stores what --{name} prints",
        )


def answering(function: Callable[..., Document | PrintedAnswer | None]) -> Callable[..., None]:
    """A decorator that gives a function's command the options --json, --output and --report.

    Files that cannot be written are refused before the function runs. The function returns the
    answer, or None if it printed something else, such as a template.
    """

    def run(*, as_json: bool, output: Path | None, report: Path | None, **arguments: Any) -> None:
        for name in filter(arguments.get, _FILE_PRINTERS):
            _check_alone(name, {"--json": as_json, "--output": output, "--report": report})
        check_output(output)
        if report is not None:
            check_report(report)
        result = function(**arguments)
        if result is not None:
            answer(result, report, output, as_json=as_json)
        elif output is not None or report is not None:
            raise BadInput("there is no answer for --output or --report", fix="leave them out")

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    own_signature = signature(function, eval_str=True)
    kind = Parameter.KEYWORD_ONLY
    own_parameters = [
        parameter.replace(kind=kind) for parameter in own_signature.parameters.values()
    ]
    answer_parameters = [
        Parameter("as_json", kind, default=False, annotation=AsJson),
        Parameter("output", kind, default=None, annotation=Output),
        Parameter("report", kind, default=None, annotation=Report),
    ]
    full_signature = own_signature.replace(
        parameters=[*own_parameters, *answer_parameters], return_annotation=None
    )
    vars(run)["__signature__"] = full_signature  # of which typer makes options
    return run


def check_output(file: Path | None) -> None:
    """Raise `BadInput` for a file that --output cannot write.

    Raises:
        BadInput: its ending is not in `ENDINGS`, or it cannot be written.
    """
    if file is None:
        return
    files.check_writable(file)
    if file.suffix.lower() not in ENDINGS:
        legal = ", ".join(ENDINGS[:-1])
        raise BadInput(
            f"--output {file}; legal endings: {legal} and {ENDINGS[-1]}",
            fix=f"for example --output {file.stem or 'answer'}.json",
        )


def _paths(report: Path) -> tuple[Path, tuple[str, str, str]]:
    """The folder of a report, and the names of its page, figures and table."""
    if report.suffix.lower() != ".html" or report.is_dir():
        return report, (PAGE, FIGURES, TABLE)
    return report.parent, (report.name, f"{report.stem}.json", f"{report.stem}.csv")


def check_report(report: Path) -> None:
    """Raise `BadInput` for a folder or page that a report cannot be written to.

    Raises:
        BadInput: the folder, or one of the three files, cannot be written.
    """
    folder, names = _paths(report)
    files.check_folder(folder)
    if folder.is_dir():
        for name in names:
            files.check_writable(folder / name)


def write_report(report: Path, document: Document) -> list[Path]:
    """Write a report, all of its files or none.

    Raises:
        BadInput: a file cannot be written.
    """
    folder, names = _paths(report)
    contents = (html(document), document_json(document) + "\n", spreadsheet(document))
    return files.write_together(folder, dict(zip(names, contents, strict=True)))


def write_output(file: Path, result: PrintedAnswer) -> Path:
    """Write an answer in the form that the file's ending says.

    Raises:
        BadInput: the answer has no table for .csv, or the file cannot be written.
    """
    document = result.document
    match file.suffix.lower():
        case ".json":
            content = f"{result.as_json}\n"
        case ".csv":
            content = spreadsheet(document)
            if not content:
                raise BadInput(
                    f"--output {file}: the answer has no table", fix="end it in .json or .txt"
                )
        case ".txt":
            content = f"{text(document)}\n"
        case ".md":
            content = markdown(document)
        case _:
            content = html(document)
    return files.write(file, content)


def _with_provenance(result: PrintedAnswer) -> PrintedAnswer:
    """The answer with a note on the user's measurements that entered its times, if any did."""
    words = take_used()
    if not words:
        return result
    note = Section("", [Note(f"times: {enumerated(words, 'and')} (trnsim calibrate)")])
    document = result.document
    return replace(result, document=replace(document, sections=[*document.sections, note]))


def answer(
    result: Document | PrintedAnswer,
    report: Path | None = None,
    output: Path | None = None,
    *,
    as_json: bool = False,
) -> None:
    """Print an answer as text or JSON, and write its files, which a text names at its end.

    Raises:
        SystemExit: the answer's status is not 0.
    """
    if isinstance(result, Document):
        result = PrintedAnswer(result)
    if _collections:
        _collections[-1].append(result.document)
        return
    result = _with_provenance(result)
    document = result.document
    if as_json:
        echo(result.as_json)
    elif document.sections:  # a command that writes files may have no more to say
        echo(text(document, width(), emphasis()), is_safe=True)
    paths = list(result.files)
    if output is not None:
        paths.append(write_output(output, result))
    if report is not None:
        paths.append(write_report(report, document)[0])
    for path in () if as_json else paths:
        echo(f"wrote {path}")
    if result.status:
        raise SystemExit(result.status)
