"""Amounts: numbers that carry the citations of their inputs (provenance).

Arithmetic on amounts unites their citations, so that a figure cites every row that it was computed
from, and an assumed input cannot be hidden.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple

from trnsim.errors import BadInput


class Grade(Enum):
    """The kind of an input of a figure, from the weakest to the strongest."""

    ASSUMED = "assumed"
    MODEL = "planner's model"
    DOCUMENT = "document"
    MEASURED = "measured"
    PRICE = "price"
    ROW = "catalogue row"


class Absent(BadInput):
    """Error: a figure needs an input that is unknown, such as a row, a price or a publication.

    The message names the input; no value is guessed for it.
    """


@dataclass(frozen=True)
class Citation:
    """The source of one input.

    Attributes:
        row: key of the catalogue's row, such as ``chips/trainium2``; "" where it is in none.
        day: the day on which the input was read or was valid, as the source writes it; "" if the
            source states none.
        source: the document, or the model.
        doubt: why a figure with this input may only illustrate a claim; "" if it may support one.
    """

    kind: Grade
    row: str = ""
    day: str = ""
    source: str = ""
    doubt: str = ""


class WordAmount(NamedTuple):
    """A figure that is a word ("yes", "2025-11"), with its sources."""

    value: str
    origins: tuple[Citation, ...]


@dataclass(frozen=True)
class Amount:
    """A number and its origins; floats may take part in its arithmetic as plain factors."""

    value: float
    origins: tuple[Citation, ...] = ()

    def __add__(self, other: Amount | float) -> Amount:
        return _combine(operator.add, self, other)

    def __sub__(self, other: Amount | float) -> Amount:
        return _combine(operator.sub, self, other)

    def __rsub__(self, other: float) -> Amount:
        return _combine(operator.sub, Amount(other), self)

    def __mul__(self, other: Amount | float) -> Amount:
        return _combine(operator.mul, self, other)

    __rmul__ = __mul__

    def __truediv__(self, other: Amount | float) -> Amount:
        return _combine(operator.truediv, self, other)

    def __rtruediv__(self, other: float) -> Amount:
        return _combine(operator.truediv, Amount(other), self)


def percent_less(ours: Amount, theirs: Amount) -> Amount:
    """Per cent by which `ours` is less than `theirs`: ``100 * (1 - ours / theirs)``."""
    return _PERCENT * (1 - ours / theirs)


def percent_more(ours: Amount, theirs: Amount) -> Amount:
    """Per cent by which `ours` is more than `theirs`: ``100 * (ours / theirs - 1)``."""
    return _PERCENT * (ours / theirs - 1)


def citations(origins: Iterable[Citation]) -> tuple[Citation, ...]:
    """`origins` without duplicates, in order."""
    return tuple(dict.fromkeys(origins))


_PERCENT: Final = 100.0


def _combine(
    combine: Callable[[float, float], float], left: Amount, right: Amount | float
) -> Amount:
    if isinstance(right, Amount):
        return Amount(combine(left.value, right.value), citations((*left.origins, *right.origins)))
    return Amount(combine(left.value, float(right)), left.origins)
