"""Measurements in logs: the times of a question that a run of it gave.

| log | figures |
|---|---|
| load test | ttft and tpot, at P50 |
| training | time of a step, or tokens a second of one accelerator |
| others | time |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from trnsim.calibrate.answers import RATE, TIME, TPOT, TTFT
from trnsim.calibrate.logs.measured import Load, RunLog, log_sigma
from trnsim.calibrate.logs.questions import is_questions, questions
from trnsim.calibrate.logs.reading import read
from trnsim.calibrate.row import Measurement
from trnsim.errors import SourceLine
from trnsim.reader import fault, load

_TABLES = (".csv", ".yaml", ".yml", ".json", ".jsonl", ".toml")
_P50 = 50


@dataclass(frozen=True)
class MeasuredLog:
    """A log with its measurements.

    Attributes:
        file: the log.
        format: its kind.
        measurements: its times.
    """

    file: str
    format: str
    measurements: tuple[Measurement, ...]


def measurements(path: Path, question: str | None = None) -> MeasuredLog:
    """The measurements in the log at `path`.

    Args:
        path: the log.
        question: the command whose time it has; None for a log that has its own.

    Raises:
        BadInput: it cannot be read, is of no known kind, or lacks its question.
    """
    if path.suffix.lower() in _TABLES:
        document = load(path, is_table=True)
        if is_questions(document.parsed.content):
            if question is not None:
                raise fault(path, "its rows have questions of their own", "leave --question out")
            return MeasuredLog(str(path), "questions", tuple(questions(document)))
    log = read(path)
    if question is None:
        raise fault(
            path,
            f"a log of {log.format}, which does not say of what command its times are",
            fix="add --question 'plan serve MODEL --on trn2 ...'",
        )
    return MeasuredLog(str(path), log.format, _of_run(log, question.removeprefix("trnsim ")))


def _of_run(log: RunLog, question: str) -> tuple[Measurement, ...]:
    """The figures of a run."""
    line, sigma = SourceLine(log.path, 1), log_sigma(log)
    run = log.run
    if isinstance(run, Load):
        figures = {TTFT: run.ttft_s.get(_P50), TPOT: run.tpot_s.get(_P50)}
    else:
        figures = {TIME: run.step_s} if run.step_s is not None else {RATE: run.tokens_per_s}
    return tuple(
        Measurement(question, figure, value, line, sigma)
        for figure, value in figures.items()
        if value is not None
    )
