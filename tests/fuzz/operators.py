"""Operators and activation functions on intervals.

Binary and unary operators: nki.api.shared.rst, Supported Math Operators. Each is computed in
float32, so each result is rounded once; activation functions are approximations, to which
`_RELATIVE` leaves 16 unit roundoffs and the ones with cancellation as many of their input.
"""

from __future__ import annotations

import math

import numpy as np
from formats import FLOAT32
from value_intervals import UNIT, Interval, approximated, corners, settled, summed, truth

_RELATIVE = 16 * UNIT
_ROOT_2 = math.sqrt(2)


def unknown_where(condition, x):
    """`x`, but nothing is known where the condition holds."""
    return Interval(np.where(condition, -np.inf, x.low), np.where(condition, np.inf, x.high))


def negated(x):
    """-x."""
    return Interval(-x.low) if x.low is x.high else Interval(-x.high, -x.low)


def magnitudes(x):
    """|x|."""
    if x.low is x.high:
        return Interval(np.abs(x.low))
    straddles = (x.low <= 0) & (x.high >= 0)
    smaller = np.minimum(np.abs(x.low), np.abs(x.high))
    return unknown_where(x.unknown(), Interval(np.where(straddles, 0.0, smaller), x.magnitude))


def _ieee(function):
    """An operation that is monotone in each operand and correctly rounded."""
    return lambda *operands: corners(function, *operands).rounded()


def _extreme(function):
    """The larger or the smaller; AWS does not say which of a number and NaN that is."""

    def chosen(x, y):
        return unknown_where(np.isnan(x.low) | np.isnan(y.low), corners(function, x, y))

    return chosen


def _comparison(surely, possibly):
    """1 or 0; what is not known may be NaN, of which no comparison holds."""

    def compared(x, y):
        known = ~(x.unknown() | y.unknown())
        return truth(surely(x, y) & known, possibly(x, y) | ~known)

    return compared


_equal = _comparison(
    lambda x, y: (x.low == x.high) & (y.low == y.high) & (x.low == y.low),
    lambda x, y: (x.low <= y.high) & (y.low <= x.high),
)


def _complement(x):
    return Interval(1 - x.high, 1 - x.low)


def is_nonzero(x):
    """1 where x is not 0; NaN is not."""
    zero = Interval(np.zeros(x.shape))
    return _complement(_equal(x, zero))


def _xor(x, y):
    x, y = is_nonzero(x), is_nonzero(y)
    is_known = (x.low == x.high) & (y.low == y.high)
    return truth(is_known & (x.low != y.low), ~is_known)


def _power(x, y):
    """Of positive numbers, where it is monotone in both."""
    exact = corners(np.power, x, y)
    is_safe = (x.low > 0) & (exact.high < FLOAT32.largest / 2)
    return unknown_where(~is_safe, exact.widened(4 * _RELATIVE * exact.magnitude)).rounded()


def _by_magnitude(pick_first_if_larger):
    """abs_max and abs_min: the operand itself, y where equal (nki.language.abs_max)."""

    def chosen(x, y):
        a, b = magnitudes(x), magnitudes(y)
        if not pick_first_if_larger:
            a, b = b, a
        first, second = a.low > b.high, a.high <= b.low
        low, high = np.minimum(x.low, y.low), np.maximum(x.high, y.high)
        low = np.where(first, x.low, np.where(second, y.low, low))
        high = np.where(first, x.high, np.where(second, y.high, high))
        return unknown_where(np.isnan(a.low) | np.isnan(b.low), Interval(low, high))

    return chosen


def _inverse(x):
    """1 / x; of zero, whose sign intervals do not keep, nothing is known."""
    return unknown_where((x.low <= 0) & (x.high >= 0), corners(lambda v: 1 / v, x).rounded())


def _inverse_root(x):
    exact = corners(lambda v: 1 / np.sqrt(v), x)
    wide = exact.widened(8 * UNIT * exact.magnitude)
    return unknown_where(~(x.low > 0), wide.rounded())


def square(x):
    """x * x."""
    return corners(np.square, magnitudes(x)).rounded()


BINARY = {
    "add": _ieee(np.add),
    "subtract": _ieee(np.subtract),
    "multiply": _ieee(np.multiply),
    "maximum": _extreme(np.maximum),
    "minimum": _extreme(np.minimum),
    "equal": _equal,
    "not_equal": lambda x, y: _complement(_equal(x, y)),
    "greater_equal": _comparison(lambda x, y: x.low >= y.high, lambda x, y: x.high >= y.low),
    "greater": _comparison(lambda x, y: x.low > y.high, lambda x, y: x.high > y.low),
    "less_equal": _comparison(lambda x, y: x.high <= y.low, lambda x, y: x.low <= y.high),
    "less": _comparison(lambda x, y: x.high < y.low, lambda x, y: x.low < y.high),
    "logical_and": lambda x, y: corners(np.minimum, is_nonzero(x), is_nonzero(y)),
    "logical_or": lambda x, y: corners(np.maximum, is_nonzero(x), is_nonzero(y)),
    "logical_xor": _xor,
    "power": _power,
    "abs_max": _by_magnitude(pick_first_if_larger=True),
    "abs_min": _by_magnitude(pick_first_if_larger=False),
}
UNARY = {
    "abs": magnitudes,
    "square": square,
    "relu": lambda x: corners(lambda v: np.maximum(v, 0), x),
    "rsqrt": _inverse_root,
    "reciprocal": _inverse,
}
BITVEC = ("bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift")
NEWEST = ("abs_max", "abs_min", "square", "relu")
COMPARISONS = ("equal", "less", "less_equal", "greater", "greater_equal")


def bitvec(name, x, y, format_):
    """A bitvec operator on integers of one format, which wrap around; exact where they are."""
    bits = 8 * format_.itemsize
    known = (x.low == x.high) & (y.low == y.high)
    left, right = (np.where(known, v.low, 0).astype(np.int64) % 2**bits for v in (x, y))
    result = {
        "bitwise_and": lambda: left & right,
        "bitwise_or": lambda: left | right,
        "bitwise_xor": lambda: left ^ right,
        "left_shift": lambda: (left << right) % 2**bits,
        "right_shift": lambda: left >> right,
        "invert": lambda: 2**bits - 1 - left,
    }[name]()
    result = np.where(result > format_.largest, result - 2**bits, result)
    low, high = (np.where(known, result, end) for end in (format_.smallest, format_.largest))
    return Interval(low, high)


# Reductions of [..., n] along the last axis


def _product(x):
    """A relative error of a unit roundoff a factor; whole numbers below 2**24 are exact."""
    with np.errstate(all="ignore"):
        total = np.prod(np.maximum(x.magnitude, 1), axis=-1)
        whole = (np.rint(x.low) == x.low).all(axis=-1) & (total < 1 / UNIT)
        count = x.low.shape[-1]
        low, high = np.ones(total.shape), np.ones(total.shape)
        result = Interval(low, high)
        for i in range(count):
            result = corners(np.multiply, result, x.map(lambda v, i=i: v[..., i]))
        error = np.where(whole, 0.0, 2 * count * UNIT * result.magnitude)
        # In another order a part may have left the range.
        small = np.prod(np.minimum(x.magnitude, 1), axis=-1)
        is_safe = (total < FLOAT32.largest / 2) & ((small > 2.0**-100) | whole)
        return unknown_where(~is_safe, result.widened(np.where(is_safe, error, 0.0)))


def _difference(x):
    """The first element less all others."""
    first, rest = x.map(lambda v: v[..., :1]), negated(x.map(lambda v: v[..., 1:]))
    joined = Interval(
        np.concatenate((first.low, rest.low), -1), np.concatenate((first.high, rest.high), -1)
    )
    return summed(joined, -1)


def _parity(x):
    x = is_nonzero(x)
    known = (x.low == x.high).all(axis=-1)
    return truth(known & (x.low.sum(axis=-1) % 2 == 1), ~known)


def _farthest(end):
    def reduced(x):
        missing = (np.isnan(x.low) | x.unknown()).any(axis=-1)
        return unknown_where(missing, x.map(lambda v: getattr(v, end)(axis=-1)))

    return reduced


REDUCE = {
    "add": lambda x: summed(x, -1).rounded(),
    "subtract": lambda x: _difference(x).rounded(),
    "multiply": lambda x: _product(x).rounded(),
    "maximum": _farthest("max"),
    "minimum": _farthest("min"),
    "logical_and": lambda x: is_nonzero(x).map(lambda v: v.min(axis=-1)),
    "logical_or": lambda x: is_nonzero(x).map(lambda v: v.max(axis=-1)),
    "logical_xor": _parity,
}
IDENTITY = {"add": 0.0, "subtract": 0.0, "multiply": 1.0, "maximum": -np.inf, "minimum": np.inf}


# Activation functions: nki.api.shared.rst, Supported Activation Functions

_erf = np.vectorize(math.erf, otypes=[float])


def _erfc(x):
    return np.vectorize(math.erfc, otypes=[float])(x)


def _sigmoid(x):
    return 0.5 * (1 + np.tanh(x / 2))


def _normal_below(x):
    return 0.5 * _erfc(-x / _ROOT_2)


def _density(x):
    return np.exp(-x * x / 2) / math.sqrt(2 * math.pi)


def _softplus(x):
    return np.logaddexp(x, 0.0)


def _gelu_tanh(x):
    return x * _sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))


def _gelu_sigmoid_dx(x):
    gate = _sigmoid(1.702 * x)
    return gate + 1.702 * x * gate * (1 - gate)


_MONOTONE = {
    "sigmoid": _sigmoid,
    "tanh": np.tanh,
    "softplus": _softplus,
    "erf": _erf,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "arctan": np.arctan,
}
# With the largest slope that each has anywhere, rounded up.
_SMOOTH = {
    "gelu": (lambda x: x * _normal_below(x), 1.2),
    "gelu_dx": (lambda x: _normal_below(x) + x * _density(x), 1.0),
    "gelu_apprx_tanh": (_gelu_tanh, 1.2),
    "gelu_apprx_sigmoid": (lambda x: x * _sigmoid(1.702 * x), 1.2),
    "gelu_apprx_sigmoid_dx": (_gelu_sigmoid_dx, 1.0),
    "silu": (lambda x: x * _sigmoid(x), 1.2),
    "silu_dx": (lambda x: _sigmoid(x) * (1 + x * (1 - _sigmoid(x))), 1.0),
    "mish": (lambda x: x * np.tanh(_softplus(x)), 1.2),
    "erf_dx": (lambda x: 2 / math.sqrt(math.pi) * np.exp(-x * x), 1.0),
    "sin": (np.sin, 1.0),
}
ACTIVATIONS = (*_MONOTONE, *_SMOOTH, "copy", "relu", "abs", "square", "sign", "rsqrt", "reciprocal")
RANGES = {
    "log": (2.0**-64, 2.0**64),
    "sqrt": (2.0**-116, 2.0**118),
    "arctan": (-math.pi / 2, math.pi / 2),
    "sin": (-3.14, 3.14),
    "rsqrt": (2.0**-87, 2.0**97),
    "reciprocal": (2.0**-42, 2.0**42),
}
"""Inputs whose results AWS documents; of reciprocal those below zero too."""


def activate(name, x):
    """An activation function of x, as float32."""
    if name == "copy":
        return x
    if name == "sign":
        return corners(np.sign, x)
    if name in UNARY:
        return UNARY[name](x)
    if name in _MONOTONE:
        # log near 1 and sums with 1 lose what is small beside 1.
        absolute = _RELATIVE if name in {"log", "softplus", "sigmoid", "erf"} else 0.0
        return approximated(_MONOTONE[name], x, _RELATIVE, absolute).rounded()
    function, slope = _SMOOTH[name]
    with np.errstate(all="ignore"):
        middle, half = (x.low + x.high) / 2, (x.high - x.low) / 2
        error = slope * half + _RELATIVE * (1 + np.abs(middle))
        value = function(middle)
        lost = ~np.isfinite(value) | ~np.isfinite(error)
        result = settled(value - error, value + error, np.zeros(lost.shape, bool))
    return unknown_where(lost, result).rounded()
