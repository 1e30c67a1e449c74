"""``trnsim why``: the difference of two answers, or of an answer and a log, term by term."""

from __future__ import annotations

import io
import shlex
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from trnsim import files
from trnsim.calibrate import logs
from trnsim.cli import COMMANDS
from trnsim.cli import app as commands
from trnsim.cli.options import parser
from trnsim.cli.parsing import USAGE_ERROR
from trnsim.cli.report_files import answering
from trnsim.cli.usage_errors import refusal
from trnsim.cli.why_document import why_document
from trnsim.decide.why import KINDS, AnswersOrLog, answers, comparable_answers, explain
from trnsim.document.answer import Document
from trnsim.errors import BadInput, EmulatorError
from trnsim.formatting import clipped
from trnsim.reader import FileContent, parse

_STDIN: Final = "-"
_PROGRAM: Final = "trnsim"
_JSON_OPTION: Final = "--json"
_MOST_TEXT_CHARS: Final = 60
_FIX: Final = (
    "name what a command wrote with --json, - for the standard input, a log, or quote a command: "
    '"plan infer CONFIG.json --on trn2"'
)
_SIDE_HELP = "JSON of a command, - for stdin, a command in quotes, or a measured log."

app = parser()


@app.command("why")
@answering
def why(
    first: Annotated[str, typer.Argument(help=_SIDE_HELP, metavar="A")],
    second: Annotated[str, typer.Argument(help="The other answer, given as A is.", metavar="B")],
) -> Document:
    """Say why two answers differ, term by term, the largest first.

    A and B are each what compile, assess or plan infer, serve, train, layer or collective wrote
    with --json; one of these commands in quotes, which is then run; or a measured log (vLLM's
    benchmark, guidellm, torchtitan, NeMo, CSV), whose steps, TTFT or TPOT stand beside a plan's.

    Example: trnsim why "plan infer bert.json --on trn2" "plan infer bert.json --on trn1"

    Two batch sizes: trnsim why "plan infer bert.json --on trn2" "plan infer bert.json --on trn2
    --batch 8"

    A compiled program beside a plan: trnsim why "compile bert.json --on trn2 --batch 8" plan.json

    A plan beside what was measured: trnsim why plan.json bench.json
    """
    if first == second == _STDIN:
        raise BadInput(
            "A and B are both the standard input; legal: one of them",
            fix="write the other answer to a file, and name that",
        )
    names = _name("A", first), _name("B", second)
    sides = _answers_or_log(names[0], first), _answers_or_log(names[1], second)
    comparison = explain(*comparable_answers(*sides, names), names)
    texts = clipped(first, _MOST_TEXT_CHARS * 2), clipped(second, _MOST_TEXT_CHARS * 2)
    return why_document(comparison, texts)


def _name(side: str, text: str) -> str:
    """The name of a side in messages."""
    return f"{side} ({clipped(text, _MOST_TEXT_CHARS)})"


def _answers_or_log(name: str, text: str) -> AnswersOrLog:
    """A side of the comparison: answers, or a log.

    Raises:
        BadInput: `text` is neither.
    """
    if text == _STDIN:
        return _of_json(parse(sys.stdin.buffer.read(), name, _FIX, form="json"))
    words = _words(name, text)
    if words is not None:
        return answers(_command_json(name, words), name, _options(words))
    path = Path(text)
    if path.suffix.lower() == ".csv":
        return logs.read(path)
    content = files.read_bytes(path, _FIX)
    if path.suffix.lower() == ".json" or content.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] in (b"{", b"["):
        return _of_json(parse(content, path, _FIX, form="json"))
    return logs.read(path)


def _of_json(content: FileContent) -> AnswersOrLog:
    log = logs.of_json(content.root)
    return answers(content.parsed.content, content.file) if log is None else log


def _words(name: str, text: str) -> list[str] | None:
    """The words of a command line without "trnsim"; None if `text` names a file.

    Raises:
        BadInput: `text` is a command that does not answer with a time.
    """
    first_word, *other_words = text.split(maxsplit=1) or [""]
    if not other_words or (first_word != _PROGRAM and first_word not in COMMANDS):
        return None
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BadInput(f"{name}: {error}", fix="close the quotes") from None
    words = words[1:] if words[0] == _PROGRAM else words
    if not any(words[: len(kind.split())] == kind.split() for kind in KINDS):
        raise BadInput(
            f"{name} is no command that answers with a time; legal: {', '.join(KINDS)}", fix=_FIX
        )
    return words


def _command_json(name: str, words: list[str]) -> Any:
    """The JSON that a command prints; it runs in this process.

    Raises:
        EmulatorError: the command's, whose reason then begins with `name`.
    """
    arguments = words if _JSON_OPTION in words else [*words, _JSON_OPTION]
    try:
        with redirect_stdout(io.StringIO()) as stdout:
            commands(args=arguments, standalone_mode=False, prog_name=_PROGRAM)
    except EmulatorError as error:
        error.reason = f"{name}: {error.reason}"
        raise
    except USAGE_ERROR as error:
        reason, fix = refusal(error)
        raise BadInput(f"{name}: {reason}", fix=fix) from None
    except SystemExit as error:
        raise BadInput(f"{name}: the command ended with status {error.code}") from error
    fix = "leave out what prints no JSON"
    return parse(stdout.getvalue().encode(), name, fix, form="json").parsed.content


def _options(words: list[str]) -> dict[str, str]:
    """Values of a command line by option, "yes" for a flag, and by "argument 1" and so on."""
    options: dict[str, str] = {}
    name = ""
    for word in words[2 if words[0] == "plan" else 1 :]:
        if word.startswith("--"):
            name, _, value = word.partition("=")
            options[name] = value or "yes"
            name = "" if value else name
        elif name:
            options[name], name = word, ""
        else:
            options[f"argument {sum(not name.startswith('-') for name in options) + 1}"] = word
    options.pop(_JSON_OPTION, None)
    return options
