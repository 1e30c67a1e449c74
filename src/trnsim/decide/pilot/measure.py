"""Measurements from the logs of a pilot: the rate of each side, with its error.

A log's name begins with its side, `today` or `there`. Arrays of logits that `numpy.save` wrote
are read beside the logs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim import files
from trnsim.calibrate.logs import RunLog, read
from trnsim.calibrate.logs.measured import LEAST_STEPS, Load, Training, log_sigma
from trnsim.decide.pilot.checks import Log
from trnsim.decide.pilot.plan import Pilot
from trnsim.decide.pilot.sides import SIDES, THERE, TODAY, PilotRun, Side
from trnsim.errors import BadInput
from trnsim.facts import assumed

RUN_SIGMA: Final = assumed(0.01, "one sigma between runs on other machines of one type; no source")
MOST_SIGMA: Final = 0.05
"""Highest relative sigma of a side's rate: a pilot's factor must be known within 5 %."""
MOST_RATE_RATIO: Final = 10.0
"""Measured over predicted rate, or the inverse, above which the unit of the log is in doubt."""
_LOGITS_ENDING: Final = ".npy"


@dataclass(frozen=True)
class Logs:
    """Figures from the logs of both sides.

    Attributes:
        runs: contents of the logs, by side.
        rates: tokens or items a second, by side: geometric mean over the logs.
        sigmas: one sigma of the logarithm of the rate, by side.
        logits: largest difference between the sides' logits over today's largest logit; None
            without both arrays.
    """

    logs: tuple[Log, ...]
    runs: dict[str, tuple[RunLog, ...]]
    rates: dict[str, float]
    sigmas: dict[str, float]
    logits: float | None

    def losses(self, side: str) -> list[float | None]:
        """Loss at the end of each run of a side; None where it is missing or not a number."""
        return [log.loss for log in self.logs if log.side == side]


def read_logs(pilot: Pilot, paths: Sequence[Path]) -> Logs:
    """Figures from the logs at `paths`.

    Raises:
        BadInput: a name is of neither side, a side has no log, or a log cannot be read, is of
            another kind, model, batch or unit, or is too short.
    """
    _check_unique(paths)
    arrays = [path for path in paths if path.suffix.lower() == _LOGITS_ENDING]
    runs: dict[str, tuple[RunLog, ...]] = dict.fromkeys(SIDES, ())
    for path in paths:
        side = side_of(path)
        if path not in arrays:
            runs[side] = (*runs[side], _checked_log(read(path), pilot.run))
    for side in SIDES:
        _check_side(side, runs[side])
    last_steps = _last_steps(runs)
    logs: list[Log] = []
    for side, side_logs in runs.items():
        logs += [_log(log, pilot.run, pilot.sides[side], last_steps) for log in side_logs]
    by_side = {side: [log for log in logs if log.side == side] for side in SIDES}
    return Logs(
        tuple(logs),
        runs,
        {
            side: math.exp(fmean(math.log(log.rate_per_s) for log in by_side[side]))
            for side in SIDES
        },
        {side: _sigma(by_side[side], runs[side]) for side in SIDES},
        _logits({side: [path for path in arrays if side_of(path) == side] for side in SIDES}),
    )


def side_of(path: Path) -> str:
    """The side with which a log's name begins.

    Raises:
        BadInput: it begins with neither side.
    """
    name = path.name.lower()
    for side in SIDES:
        if name.startswith(side) and not name[len(side) : len(side) + 1].isalnum():
            return side
    raise BadInput(
        f"{path}: its name begins with neither today nor there, so its side is not known",
        fix="name it today.log or there.log, with the ending of its format",
    )


def _check_unique(paths: Sequence[Path]) -> None:
    resolved_paths = [path.resolve() for path in paths]
    for path in paths:
        if resolved_paths.count(path.resolve()) > 1:
            raise BadInput(f"{path} is named twice; legal: each log once")


def _checked_log(log: RunLog, run: PilotRun) -> RunLog:
    """The log, if it is of this pilot's run.

    Raises:
        BadInput: it is of another run.
    """
    if (log.kind == "train") != (run.kind == "train"):
        legal = "steps of a training run" if run.kind == "train" else "requests of a load test"
        unit = "seconds a step" if run.kind == "train" else f"{run.unit} a second"
        raise BadInput(f"{log.path}: a log of {log.kind}; legal: {legal}, in {unit}")
    if log.model is not None and _normalised_name(log.model) != _normalised_name(run.model):
        raise BadInput(
            f"{log.path}: of the model {log.model}; the pilot is of {run.model}",
            fix=f"if it is the same, name it {run.model} in the log",
        )
    batch = log.run.sequences if isinstance(log.run, Training) else None
    if batch is not None and batch != run.sequences:
        raise BadInput(f"{log.path}: {batch} sequences a step; legal: {run.sequences}, as written")
    return log


def _normalised_name(model: str) -> str:
    """A model's name in small letters without its owner: some tools log a path, some a name."""
    return model.rstrip("/").rpartition("/")[2].lower()


def _check_side(side: str, runs: Sequence[RunLog]) -> None:
    if not runs:
        raise BadInput(
            f"no log of {side}; legal: one or more of each side",
            fix=f"give a log whose name begins with {side}",
        )
    formats = sorted({log.format for log in runs})
    if len(formats) > 1:
        raise BadInput(
            f"logs of {side} are of {' and '.join(formats)}; legal: one format on a side",
            fix="two formats measure at different points; leave one out",
        )


def _log(log: RunLog, run: PilotRun, side: Side, last_steps: Sequence[int]) -> Log:
    """Figures of a log.

    Raises:
        BadInput: its rate is far from the prediction, as in another unit.
    """
    rate = _rate(log, run, side)
    ratio = rate / side.rate_per_s.p50
    if not 1 / MOST_RATE_RATIO <= ratio <= MOST_RATE_RATIO:
        raise BadInput(
            f"{log.path}: {rate:.4g} {run.unit} a second of {side.instances} x {side.instance}, "
            f"{ratio:.3g} times the predicted {side.rate_per_s.p50:.4g}; legal: up to "
            f"{MOST_RATE_RATIO:g} times more or less",
            fix="look at its units: seconds a step, or tokens a second of one accelerator",
        )
    content = log.run
    count = len(content.steady_steps) if isinstance(content, Training) else content.requests
    return Log(log.path, side.name, log.format, count, rate, _loss(log, last_steps))


def _rate(log: RunLog, run: PilotRun, side: Side) -> float:
    """Rate in tokens or items a second of all instances of a side."""
    if isinstance(log.run, Load):
        return log.run.output_tokens_per_s
    if log.run.step_s is not None:
        return (run.sequences or 1) * (run.sequence or 1) / log.run.step_s
    return (log.run.tokens_per_s or 0.0) * side.ranks


def _last_steps(runs: dict[str, tuple[RunLog, ...]]) -> list[int]:
    """Numbers of the last quarter of the steps that all training logs have.

    Raises:
        BadInput: too few steps are in all logs.
    """
    steps_by_log = [
        {step.number for step in log.run.steady_steps}
        for side_logs in runs.values()
        for log in side_logs
        if isinstance(log.run, Training)
    ]
    if not steps_by_log:
        return []
    common_steps = sorted(set.intersection(*steps_by_log))
    if len(common_steps) < LEAST_STEPS:
        raise BadInput(
            f"the logs have {len(common_steps)} steps in common; legal: {LEAST_STEPS} or more",
            fix="log the same steps on both sides, each one",
        )
    return common_steps[-max(len(common_steps) // 4, 1) :]


def _loss(log: RunLog, last_steps: Sequence[int]) -> float | None:
    """Mean loss of the last steps; None without a loss, or if it is not a number."""
    if not isinstance(log.run, Training):
        return None
    loss = fmean(step.loss for step in log.run.steady_steps if step.number in last_steps)
    return loss if math.isfinite(loss) else None


def _sigma(logs: Sequence[Log], runs: Sequence[RunLog]) -> float:
    """One sigma of the logarithm of a side's rate.

    ``sqrt(max(spread within runs, spread between runs)^2 + RUN_SIGMA^2) / sqrt(runs)``

    Raises:
        BadInput: it is above `MOST_SIGMA`.
    """
    within_sigma = fmean([log_sigma(log) for log in runs])
    rates = [math.log(log.rate_per_s) for log in logs]
    between_sigma = stdev(rates) if len(rates) > 1 else 0.0
    sigma = math.hypot(max(within_sigma, between_sigma), float(RUN_SIGMA)) / math.sqrt(len(logs))
    if sigma > MOST_SIGMA:
        raise BadInput(
            f"{', '.join(log.path for log in logs)}: the rate is known within {sigma:.1%}; legal: "
            f"within {MOST_SIGMA:.0%}",
            fix="too few steps or requests, or too much noise: run longer, or several times",
        )
    return sigma


def _logits(paths: dict[str, list[Path]]) -> float | None:
    """Largest difference of the two sides' logits over the largest of today's.

    Raises:
        BadInput: there are several of a side, their shapes differ, or they hold no real numbers.
    """
    for side, side_paths in paths.items():
        if len(side_paths) > 1:
            raise BadInput(f"{len(side_paths)} arrays of logits of {side}; legal: one")
    if not all(paths.values()):
        return None
    arrays = {side: _real_numbers(side_paths[0]) for side, side_paths in paths.items()}
    today, there = arrays[TODAY], arrays[THERE]
    if today.shape != there.shape or not today.size:
        raise BadInput(
            f"logits are of the shapes {today.shape} today and {there.shape} there; legal: equal",
            fix="write those of the same prompts on both sides",
        )
    with np.errstate(invalid="ignore"):  # a logit that is no number makes the result no number
        largest_logit, difference = float(abs(today).max()), float(abs(today - there).max())
    return difference / largest_logit if largest_logit else math.nan


def _real_numbers(path: Path) -> NDArray[np.float64]:
    """The array at a path, as float64."""
    array = files.read_array(path)
    if array.dtype.kind not in "fiub":
        raise BadInput(
            f"{path}: an array of {array.dtype}; legal: floating-point numbers or integers",
            fix="save it in float32: numpy.save has no bfloat16",
        )
    return array.astype(np.float64)
