"""A table of questions, commands of trnsim, each with the seconds that were measured.

    question,seconds
    plan infer examples/bert-large.json --on inf2.xlarge --batch 4,0.0093

A question of `plan serve` has two figures: ``figure`` says which one the seconds are of.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final, Literal

from trnsim.calibrate.logs.numbers import with_numbers
from trnsim.calibrate.row import Measurement
from trnsim.reader import FileContent, FileRecord, declared, fault, rows

QUESTION: Final = "question"
_SECONDS: Final = "seconds"
_PROGRAM: Final = "trnsim "


@dataclass(frozen=True, kw_only=True)
class QuestionRow(FileRecord):
    """A measured time of a question."""

    question: str = declared(help="a command of trnsim that has one answer")
    seconds: float = declared(help="what was measured", unit="s", exclusive_minimum=0)
    figure: Literal["time", "ttft", "tpot"] = declared(
        "time", help="which figure of the answer; time is the only one, or TPOT of a server"
    )
    instance: str = declared("", help="the instance type that ran it, to be compared with --on")


def is_questions(document: FileContent) -> bool:
    """True if rows have questions."""
    if QUESTION in (document.parsed.columns or ()):
        return True
    content = document.parsed.content
    if isinstance(content, dict) and len(content) == 1:  # TOML has lists below names alone
        content = next(iter(content.values()))
    return isinstance(content, list) and any(
        isinstance(row, dict) and QUESTION in row for row in content
    )


def questions(document: FileContent) -> list[Measurement]:
    """The measurements in a table of questions.

    Raises:
        BadInput: a row is not legal or asks for a Python program, or the two columns are swapped.
    """
    if not document.parsed.content:
        raise fault(document.file, "no rows", "give one question and its seconds a line")
    _check_order(document)
    measured = [
        Measurement(
            _normalized(row.question), row.figure, row.seconds, row.line, instance=row.instance
        )
        for row in rows(QuestionRow, with_numbers(document, (_SECONDS,)))
    ]
    for measurement in measured:
        if _runs_program(measurement.question):
            raise fault(
                measurement.line.file,
                f"question {measurement.question!r} runs a Python program, which a table may not; "
                "legal: plan ..., compile of a config.json or an exported program",
                f"name it yourself, with its own log: --question {measurement.question!r}",
                measurement.line.line,
            )
    return measured


def _normalized(question: str) -> str:
    """A question with single spaces and without the program's name."""
    return " ".join(question.split()).removeprefix(_PROGRAM)


def _runs_program(question: str) -> bool:
    """True if the answer to a question takes the running of Python code that it names."""
    try:
        command, *words = shlex.split(question)
    except ValueError:  # it cannot be parsed or is empty, which is an error when it is asked
        return False
    return command == "run" or (command == "compile" and any(map(_names_code, words)))


def _names_code(word: str) -> bool:
    return ".py" in word.lower() or word.startswith("--import")


def _check_order(document: FileContent) -> None:
    """Refuse a table whose questions are numbers and whose seconds are questions.

    Raises:
        BadInput: naming both columns.
    """
    content: Any = document.parsed.content
    if not isinstance(content, list):
        return
    for index, row in enumerate(content):
        if not isinstance(row, dict):
            continue
        question_text, seconds_text = str(row.get(QUESTION, "")), str(row.get(_SECONDS, ""))
        if _is_number(question_text) and seconds_text and not _is_number(seconds_text):
            line = document.root.inner(index).line.line
            raise fault(
                document.file,
                f"{QUESTION} is {question_text[:60]!r} and {_SECONDS} is {seconds_text[:60]!r}: "
                "the columns are swapped",
                fix=f"name the first column {_SECONDS} and the second one {QUESTION}",
                line=line,
            )


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
