"""What a run did, from its log."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import median
from typing import Final

from trnsim.reader import fault

WARMUP_STEPS: Final = 5
"""Steps at the beginning that are left out: compiling, and filling of caches."""
LEAST_STEPS: Final = 10
"""Steps that are needed behind those."""
LEAST_REQUESTS: Final = 50
"""Finished requests that are needed; their P99 rests on one of two of them."""


@dataclass(frozen=True)
class LoggedStep:
    """One step of training.

    Attributes:
        time_s: None where the log has the rate alone.
        tokens_per_s: of one accelerator, or None where the log has the time alone.
    """

    number: int
    loss: float
    time_s: float | None = None
    tokens_per_s: float | None = None


@dataclass(frozen=True)
class Training:
    """A training run.

    Attributes:
        steps: in the order of their numbers.
        sequences: of a step, or None where the log does not say.
    """

    steps: tuple[LoggedStep, ...]
    sequences: int | None = None

    @property
    def settled(self) -> tuple[LoggedStep, ...]:
        """The steps behind the first `WARMUP_STEPS`."""
        return self.steps[WARMUP_STEPS:]

    @property
    def step_s(self) -> float | None:
        """The median time of a settled step, or None where no step has one."""
        times_s = [step.time_s for step in self.settled if step.time_s is not None]
        return median(times_s) if times_s else None

    @property
    def tokens_per_s(self) -> float | None:
        """The median rate of an accelerator, or None where no step has one."""
        rates = [step.tokens_per_s for step in self.settled if step.tokens_per_s is not None]
        return median(rates) if rates else None


@dataclass(frozen=True)
class Load:
    """A load test of a server.

    Attributes:
        requests: that were finished.
        failed: that were not.
        output_tokens_per_s: of the whole server.
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
    """A log.

    Attributes:
        path: its name, for messages.
        format: what wrote it.
        model: as the log names it, or None.
    """

    path: str
    format: str
    run: Training | Load
    model: str | None = None

    @property
    def kind(self) -> str:
        """What was run: "train" or "serve"."""
        return "train" if isinstance(self.run, Training) else "serve"


def training(path: str, steps: list[LoggedStep], sequences: int | None = None) -> Training:
    """A run of the steps `found`, checked.

    A step that is there twice, as after a restart, counts as it was done last.

    Raises:
        BadInput: there are too few, or a number is none.
    """
    by_number = {step.number: step for step in steps}
    needed = WARMUP_STEPS + LEAST_STEPS
    if len(by_number) < needed:
        raise fault(
            path,
            f"{len(by_number)} steps; legal: {needed} or more, of which the first "
            f"{WARMUP_STEPS} are left out",
            fix="run longer, and log every step",
        )
    ordered = [by_number[number] for number in sorted(by_number)]
    for step in ordered:
        _check(path, step)
    return Training(tuple(ordered), sequences)


def load(path: str, load_test: Load) -> Load:
    """`found`, checked.

    Raises:
        BadInput: too few requests were finished, or a figure is no positive number.
    """
    if load_test.requests < LEAST_REQUESTS:
        raise fault(
            path,
            f"{load_test.requests} requests were finished; legal: {LEAST_REQUESTS} or more",
            fix="send more requests",
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


def _check(path: str, step: LoggedStep) -> None:
    for name, value in (("time", step.time_s), ("tokens a second", step.tokens_per_s)):
        if value is not None and not (value > 0 and math.isfinite(value)):
            raise fault(path, f"step {step.number}: {name} is {value}; legal: a positive number")
