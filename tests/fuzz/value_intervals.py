"""Intervals: where a value must lie, as two float64 arrays.

What a float32 engine computes of exact numbers in one operation is exact but for a rounding that is
known, so most intervals are points. They widen where the order of a sum or an approximated function
leaves room, and every later operation and rounding carries that room on.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from formats import FLOAT32

UNIT = 2.0**-24
"""Unit roundoff of float32."""

# A float32 result this close to underflow may have lost bits, or be flushed.
_UNDERFLOW = 2.0**-126


class Interval:
    """`low` and `high`, NaN in both where the value is NaN; from -inf to inf nothing is known."""

    def __init__(self, low, high=None):
        self.low = np.asarray(low, np.float64)
        self.high = self.low if high is None else np.asarray(high, np.float64)

    @property
    def shape(self):
        return self.low.shape

    @property
    def is_point(self):
        return self.low is self.high or bool(np.array_equal(self.low, self.high, equal_nan=True))

    @property
    def magnitude(self):
        return np.maximum(np.abs(self.low), np.abs(self.high))

    @property
    def width(self):
        """How much is left open; NaN where nothing is."""
        with np.errstate(invalid="ignore"):
            return self.high - self.low

    def unknown(self):
        """Where nothing is known."""
        return np.isneginf(self.low) & np.isposinf(self.high)

    def map(self, function):
        """The same rearrangement of both ends."""
        low = function(self.low)
        return Interval(low, low if self.low is self.high else function(self.high))

    def contains(self, values):
        """Where `values` may be what the interval says."""
        values = np.asarray(values, np.float64)
        with np.errstate(invalid="ignore"):
            inside = (self.low <= values) & (values <= self.high)
        return inside | (np.isnan(self.low) & np.isnan(values)) | self.unknown()

    def widened(self, error):
        """The interval with an absolute error on both sides."""
        return settled(self.low - error, self.high + error, np.isnan(self.low))

    def rounded(self, format_=FLOAT32):
        """Rounded once to a format: rounding is monotone."""
        if self.low is self.high:
            return Interval(format_.rounded(self.low))
        certain = np.isnan(self.low)
        if format_.kind == "bool":
            straddles = (self.low <= 0) & (self.high >= 0)
            low = np.where(straddles | (self.low == 0), 0.0, 1.0)
            high = np.where((self.low == 0) & (self.high == 0), 0.0, 1.0)
            return Interval(low, high)
        low = format_.rounded(self.low)
        return settled(low, format_.rounded(self.high), certain & np.isnan(low))


def settled(low, high, certain):
    """An interval of computed ends: a NaN that is not `certain` means that nothing is known."""
    lost = (np.isnan(low) | np.isnan(high)) & ~certain
    low = np.where(certain, np.nan, np.where(lost, -np.inf, np.minimum(low, high)))
    return Interval(low, np.where(certain, np.nan, np.where(lost, np.inf, np.maximum(low, high))))


def corners(function, *intervals):
    """`function` of operands in each of which it is monotone: its extremes are at the ends."""
    with np.errstate(all="ignore"):
        if all(x.low is x.high for x in intervals):
            return Interval(function(*(x.low for x in intervals)))
        ends = [(x.low,) if x.low is x.high else (x.low, x.high) for x in intervals]
        values = np.stack(np.broadcast_arrays(*(function(*point) for point in product(*ends))))
        points = [np.equal(x.low, x.high) | np.isnan(x.low) for x in intervals]
        certain = np.logical_and.reduce(np.broadcast_arrays(*points)) & np.isnan(values[0])
        missing = np.isnan(values).any(axis=0) & ~certain
        for x in intervals:  # of what is not known, not even that it is a number is
            missing |= x.unknown()
        low = np.where(missing, -np.inf, values.min(axis=0))
        return Interval(low, np.where(missing, np.inf, values.max(axis=0)))


def truth(surely, possibly):
    """1 where a condition surely holds, 0 where it cannot, and either in between."""
    return Interval(np.where(surely, 1.0, 0.0), np.where(surely | possibly, 1.0, 0.0))


def approximated(function, x, relative, absolute=0.0):
    """A function that is monotone between the ends of x, to a relative and an absolute error."""
    exact = corners(function, x)
    with np.errstate(invalid="ignore"):
        slack = relative * exact.magnitude + absolute
    slack = np.where(np.isfinite(slack), slack, 0.0)
    wide = exact.widened(slack + _UNDERFLOW)
    # What is infinite or NaN of a point is so exactly.
    keep = ~np.isfinite(exact.low)
    return Interval(np.where(keep, exact.low, wide.low), np.where(keep, exact.high, wide.high))


def summed(x, axis, products=0.0):
    """A float32 sum in any order, of terms that carry `products` roundings of their own.

    Sums of whole numbers below 2**24 are exact in every order. Else the error of n terms is at most
    n unit roundoffs of the sum of magnitudes (Higham, Accuracy and Stability, 4.2), first order.
    """
    count = x.low.shape[axis]
    with np.errstate(all="ignore"):
        total = x.magnitude.sum(axis=axis)
        is_whole = (x.low == x.high) & (np.rint(x.low) == x.low)
        is_exact = (is_whole.all(axis=axis) & (total < 1 / UNIT)) | (count == 1)
        terms = np.where(is_exact, products if count == 1 else 0.0, count + products)
        error = terms * UNIT * (1 + 2.0**-10) * total
        low, high = x.low.sum(axis=axis), x.high.sum(axis=axis)
        certain = np.isnan(low) & (x.low == x.high).all(axis=axis)
        # A partial sum may overflow although the sum does not.
        risky = (total > FLOAT32.largest / 2) & ~is_exact
        error = np.where(risky, np.inf, np.where(np.isfinite(error), error, np.inf))
        return settled(low - error, high + error, certain)
