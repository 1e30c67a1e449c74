"""Facts: numbers, flags and sets of names that carry their source.

A fact behaves as the ``int``, ``float``, ``bool`` or ``frozenset`` that it wraps, and arithmetic on
a number gives plain numbers again. It adds its provenance, so that a report can say how much of an
estimate rests on documents and how much on assumptions.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Self


class Evidence(Enum):
    """The kind of source of a number, and the relative spread (one sigma) that we give it.

    The spreads are assumptions of ours: a documented rate is off by the few per cent by which AWS's
    own pages disagree (2.9 against 3.0 TB/s for Trn2's HBM), a published measurement by its noise.
    """

    DOCUMENTED = "documented"
    MEASURED = "measured"
    DERIVED = "derived"
    ASSUMED = "assumed"

    @property
    def spread(self) -> float:
        """Relative standard deviation of a rate of this kind."""
        return _SPREAD[self]


P90_SIGMAS = 1.2815515655446004
"""Standard deviations from the P50 to the P90 of a normal distribution."""
_SPREAD = {
    Evidence.DOCUMENTED: 0.03,
    Evidence.MEASURED: 0.08,
    Evidence.DERIVED: 0.15,
    Evidence.ASSUMED: 0.30,
}


@dataclass(frozen=True, slots=True)
class Provenance:
    """Evidence and source of a fact.

    Attributes:
        source: the document, or the method.
        own_spread: relative standard deviation, where the source shows another than the kind's.
    """

    kind: Evidence
    source: str
    own_spread: float | None = None

    @property
    def spread(self) -> float:
        """Relative standard deviation of the fact."""
        return self.kind.spread if self.own_spread is None else self.own_spread


class Count(int):
    """A whole number with its provenance: partitions, banks, bytes."""

    provenance: Provenance

    def __new__(cls, value: int, provenance: Provenance) -> Self:
        """The number `value` with its provenance."""
        count = super().__new__(cls, value)
        count.provenance = provenance
        return count

    def __reduce__(self) -> tuple[type[Self], tuple[int, Provenance]]:
        """Constructor and arguments for `copy` and `pickle`, which then keep the provenance."""
        return type(self), (int(self), self.provenance)


class Rate(float):
    """A number with a unit and its provenance: hertz, bytes per second, seconds, cycles."""

    provenance: Provenance

    def __new__(cls, value: float, provenance: Provenance) -> Self:
        """The number `value` with its provenance."""
        rate = super().__new__(cls, value)
        rate.provenance = provenance
        return rate

    def __reduce__(self) -> tuple[type[Self], tuple[float, Provenance]]:
        """Constructor and arguments for `copy` and `pickle`, which then keep the provenance."""
        return type(self), (float(self), self.provenance)


Fact = Count | Rate


class Names(frozenset[str]):
    """A set of names with its provenance: dtypes, operators, engines."""

    provenance: Provenance

    def __new__(cls, names: Iterable[str], provenance: Provenance) -> Self:
        """The set of `names` with its provenance."""
        instance = super().__new__(cls, names)
        instance.provenance = provenance
        return instance

    def __reduce__(self) -> tuple[type[Self], tuple[tuple[str, ...], Provenance]]:
        """Constructor and arguments for `copy` and `pickle`, which then keep the provenance."""
        return type(self), (tuple(sorted(self)), self.provenance)


@dataclass(frozen=True, slots=True)
class Flag:
    """A truth value with its provenance: whether a core has a feature."""

    value: bool
    provenance: Provenance

    def __bool__(self) -> bool:
        return self.value


@dataclass(frozen=True, slots=True)
class Interval:
    """P10, P50 and P90 of an estimate whose inputs are facts."""

    p10: float
    p50: float
    p90: float

    def scaled(self, factor: float) -> Interval:
        """The interval of the quantity times `factor`, which is positive."""
        return Interval(self.p10 * factor, self.p50 * factor, self.p90 * factor)

    def inverse(self, count: float = 1.0) -> Interval:
        """The interval of `count` over the quantity, which is positive: a rate from a time."""
        return Interval(count / self.p90, count / self.p50, count / self.p10)


def count(value: int, source: str, kind: Evidence = Evidence.DOCUMENTED) -> Count:
    """A count; documented unless `kind` says otherwise."""
    return Count(value, Provenance(kind, source))


def feature(source: str) -> Flag:
    """The flag of a feature that a document grants."""
    return Flag(True, Provenance(Evidence.DOCUMENTED, source))


def missing_feature(source: str) -> Flag:
    """The flag of a missing feature: a document grants it to other cores only."""
    return Flag(False, Provenance(Evidence.DOCUMENTED, source))


def names(source: str, *members: str) -> Names:
    """The names that a document lists."""
    return Names(members, Provenance(Evidence.DOCUMENTED, source))


def documented(value: float, source: str) -> Rate:
    """A rate that a document states."""
    return Rate(value, Provenance(Evidence.DOCUMENTED, source))


def measured(value: float, source: str) -> Rate:
    """A rate that was measured on hardware and published."""
    return Rate(value, Provenance(Evidence.MEASURED, source))


def derived(value: float, source: str, spread: float | None = None) -> Rate:
    """A rate computed from documented or measured ones, by the method that `source` gives."""
    return Rate(value, Provenance(Evidence.DERIVED, source, spread))


def assumed(value: float, why: str) -> Rate:
    """A rate without a published value; `why` is the reason for this value."""
    return Rate(value, Provenance(Evidence.ASSUMED, why))
