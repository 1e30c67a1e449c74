"""The answers of trnsim's commands as values, without printing them."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from tempfile import TemporaryDirectory
from typing import Any, Final

import typer

from trnsim.cli.parsing import USAGE_ERROR
from trnsim.cli.report_files import collecting_answers
from trnsim.cli.usage_errors import refusal
from trnsim.document.values import SCHEMA, plain
from trnsim.errors import BadInput

COMMANDS: Final = ("plan", "compile", "run")
"""Commands whose answers have times."""
_RUN: Final = "run"
_ERROR: Final = "error: "


def ask(question: str) -> tuple[str, Any]:
    """The schema and the values of a command's answer; `question` is the command without "trnsim".

    Raises:
        BadInput: `question` is none of `COMMANDS`, or cannot be parsed.
        EmulatorError: the command's own errors.
    """
    try:
        words = shlex.split(question)
    except ValueError as error:
        raise BadInput(
            f"it cannot be parsed: {error}", fix="close each quotation, and end in no backslash"
        ) from None
    if not words or words[0] not in COMMANDS:
        legal = ", ".join(f"{name} ..." for name in COMMANDS)
        raise BadInput(
            f"it begins with {words[0] if words else ''!r}; legal: {legal}",
            fix="for example plan infer examples/bert-large.json --on inf2.xlarge",
        )
    if words[0] == _RUN:
        return _run_answer(words[1:])
    with collecting_answers() as answers:
        try:
            _command(words[0]).main(
                words[1:], prog_name=f"trnsim {words[0]}", standalone_mode=False
            )
        except USAGE_ERROR as error:
            reason, fix = refusal(error)
            raise BadInput(reason, fix=fix) from None
    if len(answers) != 1:
        raise BadInput("it has no answer of values", fix="leave out what prints something else")
    document = answers[0]
    return document.schema, plain(document.values)


def _run_answer(words: Sequence[str]) -> tuple[str, Any]:
    """The schema and the values of ``trnsim run``'s answer, from a process of its own.

    Raises:
        BadInput: the command's exit status is not 0.
    """
    with TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "trnsim", _RUN, "--json", "--report", folder, *words]
        process = subprocess.run(  # noqa: S603  the user's own program, in no shell
            command, capture_output=True, text=True, errors="replace", check=False
        )
    if process.returncode:
        stderr_lines = [line for line in process.stderr.splitlines() if line.strip()]
        refusals = [line.partition(_ERROR)[2] for line in stderr_lines if _ERROR in line]
        reason = refusals[0] if refusals else (stderr_lines or ["nothing on stderr"])[-1]
        raise BadInput(f"it ended with status {process.returncode}: {reason}")
    values = json.loads(process.stdout)
    return str(values[SCHEMA]), values


@cache
def _command(name: str) -> Any:
    return typer.main.get_command(import_module(f"trnsim.cli.{name}").app)
