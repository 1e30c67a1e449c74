"""Rows: measured times beside the answers to their questions.

Each question is asked once, without the factors of a site. At most `MOST_QUESTIONS` or
`MOST_LONG_QUESTIONS` questions are asked, evenly spaced: further rows would change no factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trnsim.calibrate.answers import figures_of
from trnsim.calibrate.row import EstimatedFigure, Measurement, Row
from trnsim.errors import BadInput, EmulatorError
from trnsim.place.machine import machine
from trnsim.reader import fault
from trnsim.site import recorded, without

MOST_QUESTIONS: Final = 1500
"""Most questions that a calibration asks of the commands that answer in milliseconds."""
MOST_LONG_QUESTIONS: Final = 200
"""Most of those whose command searches, compiles or runs a program."""
_QUICK: Final = ("plan infer", "plan layer", "plan collective")

Ask = Callable[[str], tuple[str, object]]
"""The schema and the values of the answer to a question."""


def rows_of(
    measurements: Sequence[Measurement], ask: Ask, tell: Callable[[str], None] = lambda _: None
) -> tuple[list[Row], int]:
    """The rows of measurements, and the number of those whose questions were not asked.

    Raises:
        BadInput: a question cannot be asked, or its answer has no such figure, with the line.
    """
    first: dict[str, Measurement] = {}
    for each in measurements:
        first.setdefault(each.question, each)
    quick = [question for question in first if question.startswith(_QUICK)]
    long = [question for question in first if not question.startswith(_QUICK)]
    chosen = [*_spread(quick, MOST_QUESTIONS), *_spread(long, MOST_LONG_QUESTIONS)]
    answers: dict[str, Mapping[str, EstimatedFigure]] = {}
    for count, question in enumerate(chosen):
        tell(f"question {count + 1} of {len(chosen)}")
        answers[question] = answer_of(question, ask, first[question])
    rows = [
        Row(each, _figure(each, answers[each.question]))
        for each in measurements
        if each.question in answers
    ]
    return rows, len(measurements) - len(rows)


def _spread(questions: Sequence[str], most: int) -> list[str]:
    """At most `most` of the questions, evenly spaced."""
    step = max(len(questions) / most, 1.0)
    return [questions[int(at * step)] for at in range(min(len(questions), most))]


def answer_of(
    question: str, ask: Ask, measurement: Measurement | None = None
) -> Mapping[str, EstimatedFigure]:
    """The figures of the answer to a question, without a site.

    Raises:
        BadInput: the question cannot be asked, or nothing of its answer can be measured.
    """
    try:
        with without(), recorded() as asked:
            schema, values = ask(question)
        return figures_of(schema, values, asked)
    except EmulatorError as error:
        if measurement is None:
            raise BadInput(f"question {question!r}: {error.reason}", fix=error.fix) from error
        why = f"question {question!r}: {error.reason}"
        raise fault(measurement.line.file, why, error.fix, measurement.line.line) from error


def _figure(measurement: Measurement, figures: Mapping[str, EstimatedFigure]) -> EstimatedFigure:
    """The figure that was measured.

    Raises:
        BadInput: the answer has no such figure.
    """
    if measurement.figure not in figures:
        legal = ", ".join(figures)
        raise fault(
            measurement.line.file,
            f"the answer to {measurement.question!r} has no figure {measurement.figure}; "
            f"legal: {legal}",
            line=measurement.line.line,
        )
    figure = figures[measurement.figure]
    if measurement.instance:
        _check_chip(measurement, figure)
    return figure


def _check_chip(measurement: Measurement, figure: EstimatedFigure) -> None:
    """Refuse a row of an instance type that has another chip than its question.

    Raises:
        BadInput: the type is not known, or has another chip.
    """
    try:
        chip = machine(measurement.instance).chip.name
    except BadInput as error:
        raise fault(
            measurement.line.file, error.reason, error.fix, measurement.line.line
        ) from error
    if chip != figure.chip:
        raise fault(
            measurement.line.file,
            f"of {measurement.instance}, whose chip is {chip}; the question is of {figure.chip}",
            f"ask with --on {measurement.instance}",
            measurement.line.line,
        )
