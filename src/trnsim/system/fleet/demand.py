"""Demand curves: P10, P50 and P90 of requests a second in steps of 5 minutes, and random draws.

The distribution is normal with one sigma below the median and another above, clipped at zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim.facts import P90_SIGMAS, assumed

Array = NDArray[np.float64]

STEP_S: Final = 300
"""Seconds of a step of simulation."""
HOUR_STEPS: Final = 12
"""Steps of an hour."""
DAY_HOURS: Final = 24
WEEK_DAYS: Final = 7
CORRELATION_HOURS: Final = assumed(6.0, "demand above its median stays so for a quarter of a day")
DAY_SHAPE: Final[tuple[float, ...]] = (
    *(0.42, 0.36, 0.32, 0.30, 0.30, 0.33, 0.40, 0.52, 0.68, 0.84, 0.95, 0.99),
    *(0.97, 0.99, 1.00, 0.99, 0.96, 0.91, 0.86, 0.82, 0.78, 0.70, 0.60, 0.50),
)
"""``demand of an hour / the day's peak``, from midnight on. Assumed: an assistant used at work."""
WEEK_SHAPE: Final[tuple[float, ...]] = (1.0, 1.0, 1.0, 0.99, 0.94, 0.70, 0.68)
"""``demand of a day / the week's peak``, from Monday on. Assumed: an assistant used at work."""


@dataclass(frozen=True)
class Curve:
    """Requests a second by step, as percentiles; arrays ``[steps]``.

    Attributes:
        p10: the tenth percentile.
        p50: the median.
        p90: the ninetieth percentile.
    """

    p10: Array
    p50: Array
    p90: Array

    def at_scores(self, scores: Array) -> Array:
        """The curve at standard normal `scores`, ``[..., steps]``."""
        spread = np.where(scores > 0, self.p90 - self.p50, self.p50 - self.p10) / P90_SIGMAS
        level: Array = np.maximum(self.p50 + spread * scores, 0.0)
        return level


def shaped_curve(
    start: datetime,
    steps: int,
    peak_requests_per_s: float,
    hours: Sequence[float] = DAY_SHAPE,
    weekdays: Sequence[float] = WEEK_SHAPE,
    spread: tuple[float, float] = (1.0, 1.0),
) -> Curve:
    """``peak x hours[hour] x weekdays[day]``, interpolated linearly between hours.

    Args:
        start: time of the first step, with its time zone: shapes follow local clocks.
        steps: number of steps.
        peak_requests_per_s: the median where both shapes are 1.
        hours: the shape of a day at each hour, from midnight on.
        weekdays: the shape of a week, from Monday on.
        spread: P10 and P90 over P50.
    """
    level = np.array(
        [_shape_at(time, hours, weekdays) for time in _local_times(start, steps // HOUR_STEPS + 1)]
    )
    step_hours = np.arange(steps) / HOUR_STEPS
    p50 = peak_requests_per_s * np.interp(step_hours, np.arange(len(level)), level)
    return Curve(spread[0] * p50, p50, spread[1] * p50)


def _shape_at(time: datetime, hours: Sequence[float], weekdays: Sequence[float]) -> float:
    """The shape at a local time, interpolated between hours."""
    hour_part = time.minute / 60
    next_hour = (time.hour + 1) % DAY_HOURS
    return weekdays[time.weekday()] * (
        (1 - hour_part) * hours[time.hour] + hour_part * hours[next_hour]
    )


def _local_times(start: datetime, hours: int) -> list[datetime]:
    """Local times one elapsed hour apart, also where clocks change."""
    start_utc = start.astimezone(UTC)
    return [(start_utc + timedelta(hours=hour)).astimezone(start.tzinfo) for hour in range(hours)]


def scores(draws: int, steps: int, generator: np.random.Generator) -> Array:
    """Standard normal scores ``[draws, steps]``, constant within an hour, correlated between hours.

    The correlation of two hours is ``exp(-hours apart / CORRELATION_HOURS)``.
    """
    weight = float(np.exp(-1.0 / CORRELATION_HOURS))
    hours = -(-steps // HOUR_STEPS)
    hour_scores = generator.standard_normal((hours, draws))
    hour_scores[1:] *= np.sqrt(1 - weight**2)
    for hour in range(1, hours):
        hour_scores[hour] += weight * hour_scores[hour - 1]
    step_scores: Array = np.repeat(hour_scores.T, HOUR_STEPS, axis=1)[:, :steps]
    return step_scores
