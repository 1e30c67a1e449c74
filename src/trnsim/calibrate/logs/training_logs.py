"""Lines of training logs: torchtitan's and NeMo's.

    step: 10  loss:  7.1234  memory: 10.2GiB(12.9%)  tps: 1,234  tflops: 56.7  mfu: 18.1%
    Training epoch 0, iteration 9/99 | ... | global_batch_size: 32 | global_step: 9 |
        reduced_train_loss: 7.9 | train_step_timing in s: 2.1

Sources: github.com/pytorch/torchtitan, docs/metrics.md (tps is tokens a second of one accelerator);
docs.nvidia.com, NeMo Framework (its progress printer). Colours of a terminal are taken out.
"""

from __future__ import annotations

import re
from typing import Final

from trnsim.calibrate.logs.measured import LoggedStep, RunLog, training
from trnsim.reader import fault

_COLOUR_PATTERN: Final = re.compile(r"\x1b\[[0-9;]*m")
_NUMBER_PATTERN: Final = r"([-+]?[\d,]*\.?\d+(?:[eE][-+]?\d+)?|nan|inf|-inf)"
_TITAN_STEP_PATTERN: Final = re.compile(
    rf"step:\s*(\d+)\s+.*?loss:\s*{_NUMBER_PATTERN}\b.*?\b(?:tps|tokens/s):\s*{_NUMBER_PATTERN}"
)
_NEMO_STEP: Final = re.compile(r"global_step:\s*(\d+)")
_NEMO_TIME: Final = re.compile(r"train_step_timing in (s|ms):\s*" + _NUMBER_PATTERN)
_NEMO_LOSS: Final = re.compile(r"reduced_train_loss:\s*" + _NUMBER_PATTERN)
_NEMO_BATCH: Final = re.compile(r"global_batch_size:\s*(\d+)")


def is_torchtitan(text: str) -> bool:
    """True if a line of `text` is torchtitan's."""
    return _TITAN_STEP_PATTERN.search(_COLOUR_PATTERN.sub("", text)) is not None


def torchtitan(path: str, text: str) -> RunLog:
    """The run that torchtitan logged.

    Raises:
        BadInput: it has too few steps, or a number is not legal.
    """
    steps = [
        LoggedStep(int(number), _value(loss), tokens_per_s=_value(rate))
        for number, loss, rate in _TITAN_STEP_PATTERN.findall(_COLOUR_PATTERN.sub("", text))
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
    for line in _COLOUR_PATTERN.sub("", text).splitlines():
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


def _value(text: str) -> float:
    """The number in a log, whose commas separate thousands."""
    return float(text.replace(",", ""))
