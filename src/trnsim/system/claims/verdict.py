"""Verdict of a claim, by comparison of the claimed quantity with our figures.

    some direct figures      all match -> reproduced, some -> depends on basis, none -> wrong
    only stand-ins           some match -> depends on basis, none -> not checkable
    only figures in doubt    illustrated only
    no figure                not checkable

A figure matches a claimed number within `TOLERANCE`, a claimed range when it lies inside it, and a
claimed text when it is equal. A *stand-in* takes the place of the quantity that was claimed, such
as peak FLOPs for throughput: it can support a claim but not refute it. A figure *in doubt* has an
assumed input, or prices of two kinds of purchase: it illustrates, and neither supports nor refutes.
If direct figures are of several workloads or quantities, and lie on both sides of the claimed
number, the verdict is "depends on basis". A claim of several parts has its weakest part's verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from trnsim.system.claims.amounts import Absent, Amount, Citation, Grade, WordAmount, citations

TOLERANCE: Final = 0.10
"""Relative; the documents round ("about", "up to") and rarely give more than two digits."""


class ClaimVerdict(Enum):
    """Verdicts on a claim, from the strongest to the weakest."""

    REPRODUCED = "reproduced"
    DEPENDS_ON_BASIS = "depends on basis"
    ILLUSTRATED = "illustrated only"
    NOT_CHECKABLE = "not checkable"
    WRONG = "wrong"


_WEAKNESS_BY_VERDICT: Final = {verdict: weakness for weakness, verdict in enumerate(ClaimVerdict)}


@dataclass(frozen=True)
class ClaimBasis:
    """Our value of a claimed quantity on one basis.

    Attributes:
        text: the rows and the arithmetic, in words.
        value: our value, in the claim's unit.
        origins: the origins of every input.
        is_stand_in: whether the value is of another quantity that takes the claimed one's place.
        caveats: remarks on the value.
    """

    text: str
    value: float | str
    origins: tuple[Citation, ...]
    is_stand_in: bool = False
    caveats: tuple[str, ...] = ()

    @property
    def kind(self) -> Grade:
        """Kind of the weakest input."""
        kinds = {origin.kind for origin in self.origins}
        return next((kind for kind in Grade if kind in kinds), Grade.ASSUMED)

    @property
    def doubts(self) -> tuple[str, ...]:
        """Reasons for which the value only illustrates the claim; empty if it may support it."""
        return tuple(dict.fromkeys(origin.doubt for origin in self.origins if origin.doubt))

    @property
    def rows(self) -> tuple[str, ...]:
        """Keys of the catalogue's rows that the value cites."""
        return _distinct(origin.row for origin in self.origins)

    @property
    def days(self) -> tuple[str, ...]:
        """Days of the prices among the inputs; days of all inputs if none is a price."""
        prices = _distinct(origin.day for origin in self.origins if origin.kind is Grade.PRICE)
        return prices or _distinct(origin.day for origin in self.origins)

    @property
    def sources(self) -> tuple[str, ...]:
        """Documents and models of the inputs."""
        return _distinct(origin.source for origin in self.origins)


def _distinct(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for word in words if word))


@dataclass(frozen=True)
class ClaimPart:
    """One claimed quantity: a number (``low == high``), a range, or a text.

    Attributes:
        low: the claimed number or text, or the lower end of the claimed range.
        high: the upper end of the range; `low` otherwise.
        bases: our values; values of prices nearest to the documents' day first.
        missing: names of unknown inputs.
        is_varied: whether direct figures are of different workloads or quantities.
    """

    quantity: str
    low: float | str
    high: float | str
    unit: str
    bases: tuple[ClaimBasis, ...]
    missing: tuple[str, ...] = ()
    is_varied: bool = False

    def matches(self, basis: ClaimBasis) -> bool:
        """True if `basis` agrees with the claim, by the rule in the docstring of this module."""
        low, high, value = self.low, self.high, basis.value
        if isinstance(low, str) or isinstance(high, str) or isinstance(value, str):
            return value == low
        slack = TOLERANCE * abs(low) if low == high else 0.0
        return low - slack <= value <= high + slack

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict on the claim, by the rule in the docstring of this module."""
        certain_bases = [basis for basis in self.bases if not basis.doubts]
        if self.bases and not certain_bases:
            return ClaimVerdict.ILLUSTRATED
        direct_bases = [basis for basis in certain_bases if not basis.is_stand_in]
        judged_bases = direct_bases or certain_bases
        hits = sum(self.matches(basis) for basis in judged_bases)
        if direct_bases and hits == len(direct_bases):
            return ClaimVerdict.REPRODUCED
        if hits or self._is_between(direct_bases):
            return ClaimVerdict.DEPENDS_ON_BASIS
        return ClaimVerdict.WRONG if direct_bases else ClaimVerdict.NOT_CHECKABLE

    def _is_between(self, direct_bases: list[ClaimBasis]) -> bool:
        """True if varied figures lie on both sides of the claimed number."""
        values = [basis.value for basis in direct_bases if not isinstance(basis.value, str)]
        if not self.is_varied or not values or isinstance(self.low, str):
            return False
        return min(values) <= self.low <= max(values)

    @property
    def claimed(self) -> str:
        """The claimed quantity as text."""
        low, high = text(self.low), text(self.high)
        return f"{low if low == high else f'{low} to {high}'} {self.unit}".strip()


@dataclass(frozen=True)
class Claim:
    """A claim of one or more documents.

    Attributes:
        documents: which of the four documents make it.
        quote: a short quotation, in the language of the first document that makes it.
        says: the claim in our words.
        besides: further figures, which are not judged.
        notes: further remarks.
    """

    id: str
    documents: tuple[str, ...]
    quote: str
    says: str
    parts: tuple[ClaimPart, ...]
    besides: tuple[ClaimBasis, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def verdict(self) -> ClaimVerdict:
        """The verdict of the weakest part."""
        return max((part.verdict for part in self.parts), key=_WEAKNESS_BY_VERDICT.__getitem__)

    @property
    def sources(self) -> tuple[str, ...]:
        """Documents and models of all figures of the claim."""
        return _distinct(source for basis in figures_of(self) for source in basis.sources)

    @property
    def rows(self) -> tuple[str, ...]:
        """Keys of the catalogue's rows that the claim cites."""
        return _distinct(row for basis in figures_of(self) for row in basis.rows)


Computation = Callable[[], Amount | WordAmount]
"""Computes a figure; raises `Absent` if an input is unknown."""
BasisOrGap = ClaimBasis | str
"""A basis, or the name of an unknown input."""


def figure(
    text: str,
    compute: Computation,
    *,
    is_stand_in: bool = False,
    caveats: tuple[str, ...] = (),
) -> BasisOrGap:
    """A basis with the value of `compute`, or the name of the unknown input."""
    try:
        ours = compute()
    except Absent as absent:
        return absent.reason
    return ClaimBasis(text, ours.value, citations(ours.origins), is_stand_in, caveats)


def stand_in(text: str, compute: Computation, *, caveats: tuple[str, ...] = ()) -> BasisOrGap:
    """A figure that replaces the claimed quantity."""
    return figure(text, compute, is_stand_in=True, caveats=caveats)


def besides(*figures: BasisOrGap) -> tuple[ClaimBasis, ...]:
    """Further figures whose inputs are known."""
    return tuple(basis for basis in figures if isinstance(basis, ClaimBasis))


def quantity(
    name: str,
    claimed: float | str | Sequence[float],
    unit: str,
    *figures: BasisOrGap,
    is_varied: bool = False,
) -> ClaimPart:
    """A part that claims one number, a text, or a range of two numbers."""
    low, high = (claimed, claimed) if isinstance(claimed, int | float | str) else claimed
    bases = tuple(basis for basis in figures if isinstance(basis, ClaimBasis))
    missing = _distinct(name for name in figures if isinstance(name, str))
    return ClaimPart(name, low, high, unit, bases, missing, is_varied)


def text(value: float | str) -> str:
    """A figure as text: four significant digits, and all digits of a whole part."""
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"  # noqa: PLR2004  digits


def figures_of(claim: Claim) -> Iterator[ClaimBasis]:
    """Every basis of a claim, and its further figures."""
    for part in claim.parts:
        yield from part.bases
    yield from claim.besides
