"""Measurements in a log of a run: the times that a command of trnsim estimates.

| log | figures |
|---|---|
| load test | ttft and tpot, at P50 |
| training | time of a step, or tokens a second of one accelerator |
| a bill | tokens or items a second of one instance |
| others | time |
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from trnsim.calibrate.answers import INSTANCE_RATE, RATE, TIME, TPOT, TTFT
from trnsim.calibrate.logs.measured import Load, RunLog, log_sigma
from trnsim.calibrate.logs.questions import is_questions, questions
from trnsim.calibrate.logs.reading import json_content, read_any
from trnsim.calibrate.logs.timed import TimedLog
from trnsim.calibrate.row import Measurement
from trnsim.errors import SourceLine
from trnsim.reader import FileContent, fault, load

_P50: Final = 50
_SERVING: Final = "plan serve MODEL --on trn2 ..."
_TABLES: Final = (".csv", ".yaml", ".yml", ".toml", ".json", ".jsonl")


@dataclass(frozen=True)
class MeasuredLog:
    """A log with its measurements."""

    file: str
    format: str
    measurements: tuple[Measurement, ...]


def measurements(path: Path, question: str | None = None) -> MeasuredLog:
    """The measurements in the log at `path`.

    Args:
        path: the log.
        question: the command that estimates its times; None for a table whose rows have commands.

    Raises:
        BadInput: it cannot be read, is of no known kind, or lacks its question.
    """
    document = _table(path)
    if document is not None:
        if question is not None:
            raise fault(path, "its rows have questions of their own", "leave --question out")
        return MeasuredLog(str(path), "questions", tuple(questions(document)))
    log = read_any(path)
    if question is None:
        raise fault(
            path,
            f"a log of {log.format}, which does not name the command that estimates its times",
            fix=f"add --question '{_example(log)}'",
        )
    command = question.removeprefix("trnsim ")
    values = (
        _tool_measurements(log, command)
        if isinstance(log, TimedLog)
        else _run_measurements(log, command)
    )
    return MeasuredLog(str(path), log.format, values)


def _example(log: RunLog | TimedLog) -> str:
    """A command that estimates times like those of a log."""
    if isinstance(log, TimedLog):
        is_collective = log.format == "nccom-test"
        return "plan collective all_reduce --on trn2.48xlarge ..." if is_collective else _SERVING
    return _SERVING if isinstance(log.run, Load) else "plan train MODEL --on trn2 ..."


def _table(path: Path) -> FileContent | None:
    """The table of questions at `path`; None for any other log."""
    suffix = path.suffix.lower()
    if suffix not in _TABLES:
        return None
    is_json = suffix in (".json", ".jsonl")
    document = json_content(path) if is_json else load(path, is_table=True)
    return document if is_questions(document) else None


def _tool_measurements(log: TimedLog, question: str) -> tuple[Measurement, ...]:
    """The times in the log of a tool, each with its own options added to the command."""
    return tuple(
        Measurement(
            f"{question} {value.options}".rstrip(),
            INSTANCE_RATE if value.is_rate else TIME,
            value.value,
            value.line,
            instance=value.instance,
        )
        for value in log.values
    )


def _run_measurements(log: RunLog, question: str) -> tuple[Measurement, ...]:
    """The figures of a load test or a training run."""
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
