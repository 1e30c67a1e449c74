"""Logs of training: lines of torchtitan and NeMo, lines or the state of Hugging Face's Trainer.

    step: 10  loss:  7.1234  memory: 10.2GiB(12.9%)  tps: 1,234  tflops: 56.7  mfu: 18.1%
    Training epoch 0, iteration 9/99 | ... | global_batch_size: 32 | global_step: 9 |
        reduced_train_loss: 7.9 | train_step_timing in s: 2.1
    {'loss': 7.1, 'epoch': 0.1} ... {'train_runtime': 90.1, 'train_steps_per_second': 1.2, ...}

Sources: github.com/pytorch/torchtitan, docs/metrics.md (tps is tokens a second of one accelerator);
docs.nvidia.com, NeMo Framework (its progress printer); huggingface.co/docs/transformers, Trainer
(trainer_state.json, whose last record has the mean rate of all steps). Colours of a terminal are
taken out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from trnsim.calibrate.logs.measured import LoggedStep, RunLog, training
from trnsim.reader import ForeignRecord, SourcePlace, declared, fault, record

_COLOUR_PATTERN: Final = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER_PATTERN: Final = r"([-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?|nan|inf|-inf)"
_COUNT_PATTERN: Final = r"\d{1,15}"
"""A whole number; longer ones are no count of steps or sequences."""
_TITAN_STEP_PATTERN: Final = re.compile(
    rf"step:\s*({_COUNT_PATTERN})\s+.*?loss:\s*{_NUMBER_PATTERN}\b.*?"
    rf"\b(?:tps|tokens/s):\s*{_NUMBER_PATTERN}"
)
_STAMP: Final = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d")
_NEMO_STEP: Final = re.compile(rf"global_step:\s*({_COUNT_PATTERN})\b")
_NEMO_TIME: Final = re.compile(r"train_step_timing in (s|ms):\s*" + _NUMBER_PATTERN)
_NEMO_LOSS: Final = re.compile(r"reduced_train_loss:\s*" + _NUMBER_PATTERN)
_MOST_STEPS: Final = 1_000_000
_HISTORY: Final = "log_history"
_RUNTIME: Final = "train_runtime"
_SEPARATOR: Final = r"['\"]?\s*:\s*['\"]?"
_TRAINER_RATE: Final = re.compile(rf"train_steps_per_second{_SEPARATOR}" + _NUMBER_PATTERN)
_TRAINER_RUNTIME: Final = re.compile(rf"{_RUNTIME}{_SEPARATOR}" + _NUMBER_PATTERN)
_TRAINER_LOSS: Final = re.compile(rf"['\"]loss{_SEPARATOR}" + _NUMBER_PATTERN)
_NEMO_BATCH: Final = re.compile(rf"global_batch_size:\s*({_COUNT_PATTERN})\b")


def _check_clock(path: str, text: str) -> None:
    """Refuse lines of steps that are not in the order of time.

    Raises:
        BadInput: with the line.
    """
    last_stamp = ""
    for number, line in enumerate(text.splitlines(), 1):
        stamp = _STAMP.search(line)
        if stamp is None or not (_TITAN_STEP_PATTERN.search(line) or _NEMO_TIME.search(line)):
            continue
        stamp_text = stamp[0].replace("T", " ")
        if stamp_text < last_stamp:
            raise fault(
                path,
                f"written at {stamp_text}, and the step above at {last_stamp}: the clock ran "
                "backwards",
                "leave out what was logged before the clock was set",
                number,
            )
        last_stamp = stamp_text


def is_torchtitan(text: str) -> bool:
    """True if a line of `text` is torchtitan's."""
    return _TITAN_STEP_PATTERN.search(_COLOUR_PATTERN.sub("", text)) is not None


def torchtitan(path: str, text: str) -> RunLog:
    """The run that torchtitan logged.

    Raises:
        BadInput: it has too few steps, or a number is not legal.
    """
    text = _COLOUR_PATTERN.sub("", text)
    _check_clock(path, text)
    steps = [
        LoggedStep(int(number), _value(loss), tokens_per_s=_value(rate))
        for number, loss, rate in _TITAN_STEP_PATTERN.findall(text)
    ]
    return RunLog(path, "torchtitan", training(path, steps))


def is_nemo(text: str) -> bool:
    """True if a line of `text` is NeMo's."""
    return _NEMO_TIME.search(text) is not None


def nemo(path: str, text: str) -> RunLog:
    """The run that NeMo logged.

    Raises:
        BadInput: times are not in seconds, the batch changes, or it has too few steps.
    """
    steps: list[LoggedStep] = []
    batches: set[int] = set()
    text = _COLOUR_PATTERN.sub("", text)
    _check_clock(path, text)
    for line in text.splitlines():
        time, number, loss = (regex.search(line) for regex in (_NEMO_TIME, _NEMO_STEP, _NEMO_LOSS))
        if not (time and number and loss):
            continue
        if time[1] != "s":
            raise fault(
                path,
                f"train_step_timing is in {time[1]}; legal: s",
                fix="log it as NeMo does",
            )
        steps.append(LoggedStep(int(number[1]), _value(loss[1]), time_s=_value(time[2])))
        batches.update(int(size) for size in _NEMO_BATCH.findall(line))
    if len(batches) > 1:
        sizes = ", ".join(str(size) for size in sorted(batches))
        raise fault(path, f"global_batch_size is {sizes} in turn; legal: one of a run")
    return RunLog(path, "nemo", training(path, steps, next(iter(batches), None)))


@dataclass(frozen=True, kw_only=True)
class TrainerSummary(ForeignRecord):
    """The last record of Hugging Face's Trainer: the rate of all steps."""

    train_runtime: float = declared(help="time of the run", unit="s", exclusive_minimum=0)
    train_steps_per_second: float = declared(help="steps a second", exclusive_minimum=0)


@dataclass(frozen=True, kw_only=True)
class TrainerRecord(ForeignRecord):
    """A record of Hugging Face's Trainer."""

    step: int = declared(help="its number", minimum=0)
    loss: float = declared(help="mean loss since the record before")


def is_trainer(value: Any) -> bool:
    """True if `value` is the state of Hugging Face's Trainer."""
    return isinstance(value, dict) and isinstance(value.get(_HISTORY), list)


def trainer(place: SourcePlace) -> RunLog:
    """The run in trainer_state.json.

    Raises:
        BadInput: it did not end, steps run backwards, or a figure is not legal.
    """
    history = place.inner(_HISTORY)
    places = [history.inner(at) for at in range(len(history.value))]
    ends = [end for end in places if isinstance(end.value, dict) and _RUNTIME in end.value]
    if not ends:
        why = f": no record has {_RUNTIME}, which the Trainer writes at its end"
        raise history.field_error(why, "let the run end, or give a CSV of steps")
    end = record(TrainerSummary, ends[-1])
    losses: dict[int, float] = {}
    last_step = 0
    for record_place in places:
        if isinstance(record_place.value, dict) and "loss" in record_place.value:
            row = record(TrainerRecord, record_place)
            if row.step < last_step:
                raise row.refused("step", f"less than {last_step} of the record before")
            last_step = row.step
            losses[row.step] = row.loss
    return _of_trainer(place.document.file, losses, end.train_runtime, end.train_steps_per_second)


def is_trainer_text(text: str) -> bool:
    """True if a line of `text` is the last one of Hugging Face's Trainer."""
    return _TRAINER_RATE.search(text) is not None


def trainer_text(path: str, text: str) -> RunLog:
    """The run in the lines that Hugging Face's Trainer prints.

    The lines do not say their steps: the printed losses are placed at equal distances.

    Raises:
        BadInput: a figure is not a positive number.
    """
    rate, runtime = _TRAINER_RATE.search(text), _TRAINER_RUNTIME.search(text)
    if rate is None or runtime is None:
        raise fault(path, f"a line of the Trainer without {_RUNTIME}", "give the whole log")
    runtime_s, steps_per_s = _value(runtime[1]), _value(rate[1])
    losses = [_value(loss) for loss in _TRAINER_LOSS.findall(text)]
    steps_per_loss = _step_count(path, runtime_s, steps_per_s) / max(len(losses), 1)
    by_step = {max(round(place * steps_per_loss), 1): loss for place, loss in enumerate(losses, 1)}
    return _of_trainer(path, by_step, runtime_s, steps_per_s)


def _of_trainer(
    path: str, losses: Mapping[int, float], runtime_s: float, steps_per_s: float
) -> RunLog:
    """A run of equal steps, of the Trainer's mean time; `losses` are by number of step, from 1."""
    loss = math.nan
    steps: list[LoggedStep] = []
    for number in range(1, _step_count(path, runtime_s, steps_per_s) + 1):
        loss = losses.get(number, loss)
        steps.append(LoggedStep(number, loss, time_s=1 / steps_per_s))
    return RunLog(path, "trainer", training(path, steps))


def _step_count(path: str, runtime_s: float, steps_per_s: float) -> int:
    """The number of steps of a run, at least 1.

    Raises:
        BadInput: there are none, or more than a log may have.
    """
    total = runtime_s * steps_per_s
    if not 0 < total <= _MOST_STEPS:
        raise fault(
            path,
            f"{runtime_s:g} s at {steps_per_s:g} steps a second; legal: above 0, and up to "
            f"{_MOST_STEPS:,} steps",
        )
    return max(round(total), 1)


def _value(text: str) -> float:
    """The number in a log, whose commas separate thousands."""
    return float(text.replace(",", ""))
