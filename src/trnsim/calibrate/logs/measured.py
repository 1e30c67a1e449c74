"""Content of a run's log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median, stdev
from typing import Final

from trnsim.reader import fault

WARMUP_STEPS: Final = 5
"""First steps, which figures leave out: compilation, and caches that fill."""
LEAST_STEPS: Final = 10
"""Minimum number of steps after the first `WARMUP_STEPS`."""
LEAST_REQUESTS: Final = 50
"""Minimum number of finished requests; their P99 rests on one or two of them."""

_MEDIAN_LOSS: Final = math.sqrt(math.pi / 2)
"""Standard error of a median over that of a mean, of normal values."""


@dataclass(frozen=True)
class LoggedStep:
    """A logged step of training.

    Attributes:
        time_s: time of the step; None if the log has the rate alone.
        tokens_per_s: rate of one accelerator; None if the log has the time alone.
    """

    number: int
    loss: float
    time_s: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True)
class Training:
    """A training run.

    Attributes:
        sequences: sequences of a step, or None if the log does not say.
    """

    steps: tuple[LoggedStep, ...]
    sequences: int | None = None

    @property
    def steady_steps(self) -> tuple[LoggedStep, ...]:
        """The steps behind the first `WARMUP_STEPS`."""
        return self.steps[WARMUP_STEPS:]

    @property
    def step_s(self) -> float | None:
        """Median time of a steady step, or None if no step has one."""
        times_s = [step.time_s for step in self.steady_steps if step.time_s is not None]
        return median(times_s) if times_s else None

    @property
    def tokens_per_s(self) -> float | None:
        """Median rate of an accelerator, or None if no step has one."""
        rates = [step.tokens_per_s for step in self.steady_steps if step.tokens_per_s is not None]
        return median(rates) if rates else None


@dataclass(frozen=True)
class Load:
    """A load test of a server.

    Attributes:
        requests: number of finished requests.
        failed: number of failed requests.
        output_tokens_per_s: tokens generated a second.
        ttft_s: time to the first token, by percentile.
        tpot_s: time between the further tokens, by percentile.
    """

    requests: int
    failed: int
    duration_s: float
    output_tokens_per_s: float
    ttft_s: dict[int, float]
    tpot_s: dict[int, float]


@dataclass(frozen=True)
class RunLog:
    """A log of a run.

    Attributes:
        format: format of the log, by the program that writes it.
        model: name of the model in the log, or None.
    """

    path: str
    format: str
    run: Training | Load
    model: str | None = None

    @property
    def kind(self) -> str:
        """Kind of the run: "train" or "serve"."""
        return "train" if isinstance(self.run, Training) else "serve"


def training(path: str, steps: list[LoggedStep], sequences: int | None = None) -> Training:
    """A training run of `steps`, checked.

    Of a step that was logged twice, as after a restart, the last record counts.

    Raises:
        BadInput: there are too few steps, or a figure is not a positive number.
    """
    by_number = {step.number: step for step in steps}
    minimum = WARMUP_STEPS + LEAST_STEPS
    if len(by_number) < minimum:
        raise fault(
            path,
            f"{len(by_number)} steps; legal: {minimum} or more, of which the first "
            f"{WARMUP_STEPS} are left out",
            fix="run longer, and log every step",
        )
    ordered = [by_number[number] for number in sorted(by_number)]
    for step in ordered:
        _check(path, step)
    return Training(tuple(ordered), sequences)


def checked_load(path: str, load_test: Load) -> Load:
    """`load_test`, checked.

    Raises:
        BadInput: too few requests were finished, or more than were sent, or a figure is not a
            positive number.
    """
    if load_test.requests < LEAST_REQUESTS:
        raise fault(
            path,
            f"{load_test.requests} requests were finished; legal: {LEAST_REQUESTS} or more",
            fix="send more requests",
        )
    if load_test.failed < 0:
        sent = load_test.requests + load_test.failed
        raise fault(
            path,
            f"{load_test.requests} requests were finished, and {sent} sent; legal: no more "
            "finished than sent",
        )
    figures = {
        "duration": load_test.duration_s,
        "output tokens a second": load_test.output_tokens_per_s,
        **{f"TTFT P{rank}": value for rank, value in load_test.ttft_s.items()},
        **{f"TPOT P{rank}": value for rank, value in load_test.tpot_s.items()},
    }
    for name, value in figures.items():
        if not (value > 0 and math.isfinite(value)):
            raise fault(path, f"{name} is {value}; legal: a positive number")
    return load_test


def log_sigma(log: RunLog) -> float:
    """Sigma of one log's rate: of a median of steps, or of a mean of requests.

    Times of requests are assumed to spread as much as their mean, which is an upper bound for
    requests of similar lengths.
    """
    if isinstance(log.run, Load):
        return 1 / math.sqrt(log.run.requests)
    values = [math.log(step.time_s or step.tokens_per_s or 1.0) for step in log.run.steady_steps]
    return _MEDIAN_LOSS * stdev(values) / math.sqrt(len(values))


def _check(path: str, step: LoggedStep) -> None:
    for name, value in (("time", step.time_s), ("tokens a second", step.tokens_per_s)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise fault(path, f"step {step.number}: {name} is {value}; legal: a positive number")
