"""Scales of drawings: values to places, and round values for marks."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

_STEP_FACTORS: Final = (1.0, 2.0, 2.5, 5.0, 10.0)
"""Distances of two marks, over a power of ten."""
_DECADE: Final = (1.0, 2.0, 5.0)
_WIDE: Final = 20.0
"""Ratio of the largest to the smallest value from which a scale is logarithmic."""
_MAX_MARKS: Final = 5
"""Maximum number of marks of a scale."""


@dataclass(frozen=True)
class Scale:
    """A map of values from `low` to `high` to coordinates from `start` to `end`.

    Attributes:
        is_log: whether the scale is logarithmic; `low` and `high` are then above zero.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        """The coordinate of `value`, clamped to the ends."""
        low, high, place = (self._even(bound) for bound in (self.low, self.high, value))
        part = (place - low) / (high - low) if high > low else 0.5
        return self.start + min(max(part, 0.0), 1.0) * (self.end - self.start)

    def _even(self, value: float) -> float:
        return math.log(max(value, self.low)) if self.is_log else value

    def marks(self) -> list[float]:
        """Round values within the scale, at most about five."""
        if not self.is_log:
            return _even_marks(self.low, self.high)
        powers = range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1)
        candidates = [step * 10.0**power for power in powers for step in _DECADE]
        marks = [mark for mark in candidates if self.low <= mark <= self.high]
        if len(marks) > _MAX_MARKS:
            marks = [mark for mark in marks if math.isclose(math.log10(mark) % 1, 0, abs_tol=1e-9)]
        return marks[:: max(1, math.ceil(len(marks) / _MAX_MARKS))]


def spanning(values: Iterable[float], start: float, end: float) -> Scale:
    """A scale for `values` with some room at its ends.

    Logarithmic if all are above 0 and the largest is at least `_WIDE` times the smallest.
    """
    numbers = list(values)
    low, high = min(numbers), max(numbers)
    if low > 0 and high / low >= _WIDE:
        return Scale(low / 1.4, high * 1.4, start, end, is_log=True)
    room = 0.12 * (high - low) or 0.1 * abs(high) or 1.0
    return Scale(max(low - room, 0.0) if low >= 0 else low - room, high + room, start, end)


def _even_marks(low: float, high: float) -> list[float]:
    width = high - low
    if width <= 0:
        return [low]
    power = 10.0 ** math.floor(math.log10(width / _MAX_MARKS))
    step = next(
        factor * power for factor in _STEP_FACTORS if width / (factor * power) <= _MAX_MARKS
    )
    first_multiple = math.ceil(low / step - 1e-9)
    last_multiple = math.floor(high / step + 1e-9)
    return [multiple * step for multiple in range(first_multiple, last_multiple + 1)]
