"""Measured times of a layer, and the interpolation between them.

A layer is identified by the sizes of its products and heads on one rank, so that equal layers of
two models, or of two splits, are one. Its points are batches and lengths; between two of them the
logarithm of the time is a straight line of the logarithms of batch and length, and never falls.
Beyond the points there is no time.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final

from trnsim.workload.operators import Pass, Product
from trnsim.workload.summary import PartSummary

_PREFIX_ORDER: Final = ("", "expert ", "router", "shared ")
"""Prefixes of the names of products, in the order of a layer's sizes; "" for all others."""


@dataclass(frozen=True, order=True)
class MeasuredPoint:
    """A measured shape and its time.

    Attributes:
        batch: sequences.
        length: tokens that a query attends to: the new ones, and in a step those before.
        time_s: seconds of one layer on one rank, without exchanges.
    """

    batch: int
    length: int
    time_s: float


@dataclass(frozen=True)
class TimeCurve:
    """The points of one layer in one phase on one kind of rank.

    Attributes:
        points: the points, in any order.
    """

    points: tuple[MeasuredPoint, ...]
    _rows: dict[int, list[tuple[float, float]]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows: dict[int, dict[int, float]] = {}
        for point in self.points:
            rows.setdefault(point.batch, {})[point.length] = point.time_s
        curves = {batch: _rising_rows(times.items()) for batch, times in sorted(rows.items())}
        object.__setattr__(self, "_rows", curves)

    def interpolate(self, batch: float, length: float) -> float | None:
        """Seconds at a batch and a length; None beyond the points."""
        candidates = [(size, _interpolate(row, length)) for size, row in self._rows.items()]
        times_at_length = [(size, time_s) for size, time_s in candidates if time_s is not None]
        return _interpolate(_rising_rows(times_at_length), batch)


def _rising_rows(times: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """(size, seconds) in the order of sizes; no larger size is faster."""
    rows: list[tuple[float, float]] = []
    for size, time_s in sorted(times):
        rows.append((size, max(time_s, rows[-1][1] if rows else 0.0)))
    return rows


def _interpolate(rows: list[tuple[float, float]], size: float) -> float | None:
    """The seconds at a size on the straight lines between logarithms."""
    for known_size, time_s in rows:
        if known_size == size:
            return time_s
    for (low, low_s), (high, high_s) in pairwise(rows):
        if low < size < high:
            share = math.log(size / low) / math.log(high / low)
            time_s = math.exp((1 - share) * math.log(low_s) + share * math.log(high_s))
            return min(max(time_s, low_s), high_s)  # against rounding
    return None


def signature(summary: PartSummary, model_pass: Pass) -> str:
    """The sizes of a layer on a rank that do not depend on batch and length."""
    weighted = (product for product in summary.products if product.weight_bits)
    parts = [
        f"{product.name} {product.k:g} x {product.n:g}"
        + (f" x {product.times:g}" if product.times != 1 else "")
        for product in sorted(weighted, key=_order_key)
    ]
    for product in summary.products:
        if product.name == "scores":
            heads = product.m * product.times / (model_pass.batch * model_pass.tokens)
            parts.append(f"{heads:g} heads of {product.k:g}")
    return ", ".join(parts)


def _order_key(product: Product) -> int:
    """The rank of a product: a router after experts, shared ones last, as in tables of users."""
    return _PREFIX_ORDER.index(
        next((word for word in _PREFIX_ORDER[1:] if product.name.startswith(word)), "")
    )


def length_of(model_pass: Pass) -> int:
    """Tokens that a query attends to."""
    return model_pass.tokens + model_pass.past
