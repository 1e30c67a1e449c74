"""Rows of a calibration: each measured time with the estimate of the same figure.

A question is a command of trnsim, such as "plan layer llama.json --on trn1", whose answer has the
estimate. Each question is asked once, without the corrections of a site (`trnsim.site`). At most
`MOST_QUESTIONS` and `MOST_SLOW_QUESTIONS` questions are asked, evenly spaced over the log: further
rows would change no factor.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from trnsim.calibrate.answers import figures_of
from trnsim.calibrate.row import EstimatedFigure, Measurement, Row, evenly_spaced
from trnsim.errors import BadInput, EmulatorError
from trnsim.place.machine import machine
from trnsim.reader import fault
from trnsim.site import recorded_families, without

MOST_QUESTIONS: Final = 1500
"""Maximum number of questions to commands that answer in milliseconds."""
MOST_SLOW_QUESTIONS: Final = 200
"""Maximum number of questions to commands that search, compile or run a program."""
_QUICK: Final = ("plan infer", "plan layer", "plan collective")

QuestionAnswerer = Callable[[str], tuple[str, object]]
"""A function of a question that returns the schema and the values of its answer."""


def rows_of(
    measurements: Sequence[Measurement],
    ask: QuestionAnswerer,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[list[Row], int]:
    """The rows of measurements, and the number of those whose questions were not asked.

    Args:
        measurements: the measured times.
        ask: answers a question.
        tell: shows a line of progress.

    Raises:
        BadInput: a question cannot be asked, or its answer has no such figure, with the line.
    """
    by_question: dict[str, Measurement] = {}
    """The first measurement of each question."""
    for measurement in measurements:
        by_question.setdefault(measurement.question, measurement)
    quick_questions = [question for question in by_question if question.startswith(_QUICK)]
    slow_questions = [question for question in by_question if not question.startswith(_QUICK)]
    asked_questions = evenly_spaced(quick_questions, MOST_QUESTIONS) + evenly_spaced(
        slow_questions, MOST_SLOW_QUESTIONS
    )
    answers: dict[str, Mapping[str, EstimatedFigure]] = {}
    for count, question in enumerate(asked_questions):
        tell(f"question {count + 1} of {len(asked_questions)}")
        answers[question] = figures_of_question(question, ask, by_question[question])
    rows = [
        Row(measurement, _figure(measurement, answers[measurement.question]))
        for measurement in measurements
        if measurement.question in answers
    ]
    return rows, len(measurements) - len(rows)


def figures_of_question(
    question: str, ask: QuestionAnswerer, measurement: Measurement | None = None
) -> Mapping[str, EstimatedFigure]:
    """The figures of the answer to a question, without the corrections of a site.

    Args:
        question: the question.
        ask: answers it.
        measurement: the measurement of the question, whose line a refusal names.

    Raises:
        BadInput: the question cannot be asked, or nothing of its answer can be measured.
    """
    try:
        with without(), recorded_families() as families:
            schema, values = ask(question)
        return figures_of(schema, values, families)
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
            f"the chip of {measurement.instance} is {chip}; the question is of {figure.chip}",
            f"ask with --on {measurement.instance}",
            measurement.line.line,
        )
