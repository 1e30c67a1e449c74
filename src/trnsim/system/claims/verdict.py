"""A claim, and its verdict from a comparison with our figures.

    our own figures      all match -> reproduced, some -> depends on basis, none -> wrong
    only proxies         some match -> depends on basis, none -> not checkable
    only assumed ones    illustrated only
    no figure at all     not checkable

A figure matches a claimed number within `TOLERANCE`, a claimed range when it lies inside it, and a
claimed text when it is equal. A *proxy* stands in for the quantity that was claimed, such as peak
FLOPs for throughput: it can support a claim but not refute it. A figure with an *assumed* input
illustrates and never supports. Where figures of several workloads lie on both sides of what was
claimed, it depends on the workload, which is a basis. A claim of several parts has the verdict of
its weakest part.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Catalogue

TOLERANCE: Final = 0.10
"""Relative; the documents round ("about", "up to") and rarely give more than two digits."""


class Verdict(Enum):
    """From the strongest to the weakest."""

    REPRODUCED = "reproduced"
    DEPENDS_ON_BASIS = "depends on basis"
    ILLUSTRATED = "illustrated only"
    NOT_CHECKABLE = "not checkable"
    WRONG = "wrong"


_WEAKNESS: Final = {verdict: weakness for weakness, verdict in enumerate(Verdict)}


@dataclass(frozen=True)
class Figure:
    """Our value of a claimed quantity on one basis.

    Attributes:
        basis: the rows and the arithmetic, in words.
        is_proxy: whether it stands in for the quantity that was claimed.
        is_assumed: whether an input is assumed.
    """

    basis: str
    value: float | str
    is_proxy: bool = False
    is_assumed: bool = False


@dataclass(frozen=True)
class Part:
    """One claimed quantity: a number (``low == high``), a range, or a text.

    Attributes:
        figures: ours, one per basis.
        missing: inputs without which the claim itself cannot be computed.
        is_of_workloads: whether figures of our own are of different workloads.
    """

    quantity: str
    low: float | str
    high: float | str
    unit: str
    figures: tuple[Figure, ...]
    missing: tuple[str, ...] = ()
    is_of_workloads: bool = False

    def matches(self, figure: Figure) -> bool:
        """Whether `figure` agrees with the claim, by the rule at the top of this module."""
        low, high, value = self.low, self.high, figure.value
        if isinstance(low, str) or isinstance(high, str) or isinstance(value, str):
            return value == low
        slack = TOLERANCE * abs(low) if low == high else 0.0
        return low - slack <= value <= high + slack

    @property
    def verdict(self) -> Verdict:
        """The verdict by the rule at the top of this module."""
        known = [figure for figure in self.figures if not figure.is_assumed]
        if self.figures and not known:
            return Verdict.ILLUSTRATED
        own = [figure for figure in known if not figure.is_proxy]
        judged = own or known
        hits = sum(self.matches(figure) for figure in judged)
        if own and hits == len(own):
            return Verdict.REPRODUCED
        if hits or (own and self._is_between(own)):
            return Verdict.DEPENDS_ON_BASIS
        return Verdict.WRONG if own else Verdict.NOT_CHECKABLE

    def _is_between(self, own: list[Figure]) -> bool:
        """Whether figures of workloads lie on both sides of what was claimed."""
        values = [figure.value for figure in own if not isinstance(figure.value, str)]
        if not self.is_of_workloads or not values or isinstance(self.low, str):
            return False
        return min(values) <= self.low <= max(values)

    @property
    def claimed(self) -> str:
        """The claimed quantity as text."""
        low, high = _text(self.low), _text(self.high)
        return f"{low if low == high else f'{low} to {high}'} {self.unit}".strip()


@dataclass(frozen=True)
class Claim:
    """A claim of one or more documents.

    Attributes:
        documents: which of the four documents make it.
        says: the claim in our words.
        implied: further consequences, computed from the same rows.
    """

    id: str
    documents: tuple[str, ...]
    says: str
    parts: tuple[Part, ...]
    implied: tuple[str, ...] = ()

    @property
    def verdict(self) -> Verdict:
        """The verdict of the weakest part."""
        return max((part.verdict for part in self.parts), key=_WEAKNESS.__getitem__)


def number(
    quantity: str, claimed: float | str, unit: str, *figures: Figure, missing: tuple[str, ...] = ()
) -> Part:
    """A part that claims one number, or a text."""
    return Part(quantity, claimed, claimed, unit, figures, missing)


def between(
    quantity: str,
    low: float,
    high: float,
    unit: str,
    *figures: Figure,
    missing: tuple[str, ...] = (),
) -> Part:
    """A part that claims a range."""
    return Part(quantity, low, high, unit, figures, missing)


def awaited(
    rows: Catalogue,
    measurement: str,
    quantity: str,
    low: float,
    high: float,
    unit: str,
    *proxies: Figure,
    missing: tuple[str, ...] = (),
) -> Part:
    """A part that only a published measurement can decide: the row of that name, else proxies.

    Args:
        rows: the catalogue; `measurement` is looked up in its `measurements`.
        measurement: name of the row, and of the missing input where there is no row.
        quantity: the claimed quantity.
        low: the claimed number, or the lower end of the range.
        high: the same number, or the upper end.
        unit: the claim's unit.
        proxies: figures that stand in for the measurement.
        missing: other inputs that a direct check would need.
    """
    found = rows.measurements.get(measurement)
    if found is None:
        wanted = (measurement, *missing)
        return Part(quantity, low, high, unit, proxies, wanted, is_of_workloads=True)
    figures = (Figure(f"measured: {measurement}", float(found)), *proxies)
    return Part(quantity, low, high, unit, figures, missing, is_of_workloads=True)


def text(value: float | str) -> str:
    """A figure as text: four significant digits, never an exponent."""
    return _text(value)


def _text(value: float | str) -> str:
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004  digits
