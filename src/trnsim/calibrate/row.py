"""A measured time beside its estimate, cause by cause."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from trnsim.errors import SourceLine

_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


@dataclass(frozen=True)
class CauseTime:
    """Estimated seconds of a cause.

    Attributes:
        family: the family of times, as `trnsim.estimate.site` names them.
        cause: "weights", "exchanges" and so on; "" for seconds that only the factor of their family
            scales.
    """

    family: str
    cause: str
    time_s: float


@dataclass(frozen=True)
class EstimatedFigure:
    """The estimate of one figure, split into what a calibration scales and what it does not.

    Attributes:
        family: the family of times whose factor the figure helps to fit.
        time_s: seconds, which `fixed_s` and `parts` add up to.
        parts: seconds that fitted factors scale.
        fixed_s: seconds that no factor scales, such as those of the host.
        p10_s: the low end of its interval.
        p90_s: the high end.
        bound_s: seconds below which no chip of this kind can be.
        units: tokens or items in `time_s` if the figure is a rate; 0 if it is a time.
    """

    chip: str
    family: str
    time_s: float
    parts: tuple[CauseTime, ...]
    fixed_s: float
    p10_s: float
    p90_s: float
    bound_s: float = 0.0
    units: float = 0.0


@dataclass(frozen=True)
class Measurement:
    """A measured time of a question.

    Attributes:
        question: the command whose answer it is, without "trnsim".
        figure: the figure of the answer, as `trnsim.calibrate.answers` names them.
        value: seconds, or tokens or items a second.
        line: where it stands.
        sigma: one sigma of its logarithm, as far as the log shows it.
        instance: the instance type that the log names; "" for none.
    """

    question: str
    figure: str
    value: float
    line: SourceLine
    sigma: float = 0.0
    instance: str = ""


@dataclass(frozen=True)
class Row:
    """A measurement beside its estimate."""

    measurement: Measurement
    estimated: EstimatedFigure

    @property
    def measured_s(self) -> float:
        """Measured seconds."""
        units, value = self.estimated.units, self.measurement.value
        return units / value if units else value

    @property
    def chip(self) -> str:
        """The chip."""
        return self.estimated.chip

    @property
    def group(self) -> tuple[str, str]:
        """Chip and family."""
        return self.estimated.chip, self.estimated.family

    @property
    def parts(self) -> tuple[CauseTime, ...]:
        """Seconds by cause that factors apply to."""
        return self.estimated.parts

    @property
    def fixed_s(self) -> float:
        """Seconds that no factor applies to."""
        return self.estimated.fixed_s

    @property
    def sigma(self) -> float:
        """One sigma of the measurement."""
        return self.measurement.sigma

    @property
    def log_ratio(self) -> float:
        """The logarithm of measured over estimated seconds."""
        return math.log(self.measured_s / self.estimated.time_s)


def grouped(rows: Iterable[Row], key: Callable[[Row], _Key]) -> dict[_Key, list[Row]]:
    """Rows by the value of `key`."""
    groups: dict[_Key, list[Row]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return groups


def evenly_spaced(items: Sequence[_Item], limit: int) -> list[_Item]:
    """At most `limit` of the items, at equal distances."""
    step = max(len(items) / limit, 1.0)
    return [items[int(at * step)] for at in range(min(len(items), limit))]
