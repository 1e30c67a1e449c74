"""Functions of real numbers that the chip lacks, made of functions that it has: CHLO's and `atan2`.

Each takes floating point and returns its result in the type of `Build.result_types[0]`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.rounding import BitcastConvert


def _hyperbolic(sign: float) -> Callable[[Build, Value], Value]:
    """A builder of ``(exp(x) + sign * exp(-x)) / 2``."""

    def build(b: Build, x: Value) -> Value:
        rising, falling = b.ew("exponential", x), b.ew("exponential", b.ew("negate", x))
        total = b.ew("add", rising, b.ew("multiply", falling, sign))
        return b.as_result(b.ew("multiply", total, 0.5))

    return build


def atan(b: Build, x: Value) -> Value:
    """The arc tangent: ``sign(x) * pi / 2`` less that of ``1 / x`` if ``|x| > 1``."""
    is_large = b.ew("compare", b.ew("abs", x), 1.0, dtype="bool", direction="GT")
    inner = b.ew("select", is_large, b.ew("reciprocal", x), x, dtype=x.dtype)
    angle = b.ew("atan", inner)
    complement = b.ew("subtract", b.ew("multiply", b.ew("sign", x), math.pi / 2), angle)
    return b.as_result(b.ew("select", is_large, complement, angle, dtype=x.dtype))


def asin(b: Build, x: Value) -> Value:
    """``atan(x / sqrt(1 - x * x))``."""
    root = b.ew("sqrt", b.ew("subtract", 1.0, b.ew("square", x)))
    return atan(b, b.ew("divide", x, root))


def acos(b: Build, x: Value) -> Value:
    """``pi / 2 - asin(x)``."""
    return b.as_result(b.ew("subtract", math.pi / 2, asin(b, x)))


def atanh(b: Build, x: Value) -> Value:
    """``log((1 + x) / (1 - x)) / 2``."""
    ratio = b.ew("divide", b.ew("add", x, 1.0), b.ew("subtract", 1.0, x))
    return b.as_result(b.ew("multiply", b.ew("log", ratio), 0.5))


def asinh(b: Build, x: Value) -> Value:
    """``log(|x| + sqrt(x * x + 1))`` with the sign of x, as a negative x would cancel the root."""
    size = b.ew("abs", b.convert(x, "float32"))
    magnitude = _log_with_root(b, size, 1.0)
    return b.as_result(
        b.ew("select", has_sign_bit(b, x), b.ew("negate", magnitude), magnitude, dtype="float32")
    )


def acosh(b: Build, x: Value) -> Value:
    """``log(x + sqrt(x * x - 1))``."""
    return b.as_result(_log_with_root(b, b.convert(x, "float32"), -1.0))


def _log_with_root(b: Build, x: Value, shift: float) -> Value:
    """``log(x + sqrt(x * x + shift))``; beyond `_ROOT_LIMIT` the root is x."""
    bounded = b.ew("minimum", x, _ROOT_LIMIT)  # the engine's root ends before infinity
    root = b.ew("sqrt", b.ew("add", b.ew("square", bounded), shift))
    is_large = b.ew("compare", x, _ROOT_LIMIT, dtype="bool", direction="GT")
    return b.ew("log", b.ew("add", x, b.ew("select", is_large, x, root, dtype="float32")))


_ROOT_LIMIT: Final = 2.0**20
"""A number beyond which ``x * x + 1`` is ``x * x`` in float32."""


def atan2(b: Build, y: Value, x: Value) -> Value:
    """The angle of (x, y): that of the magnitudes, mirrored where x is negative, with y's sign.

    An x of -0 counts as negative. The ratio of two infinities is 1; the angle of y = 0 is 0.
    """
    y, x = b.convert(y, "float32"), b.convert(x, "float32")
    y_magnitude, x_magnitude = b.ew("abs", y), b.ew("abs", x)
    is_equal = b.ew("compare", y_magnitude, x_magnitude, dtype="bool", direction="EQ")
    ratio = b.ew("select", is_equal, 1.0, b.ew("divide", y_magnitude, x_magnitude), dtype="float32")
    is_flat = b.ew("compare", y, 0.0, dtype="bool", direction="EQ")
    angle = atan(
        b, b.ew("select", is_flat, b.ew("minimum", x_magnitude, 0.0), ratio, dtype="float32")
    )
    angle = b.convert(angle, "float32")
    half_turn_angle = b.ew("select", has_sign_bit(b, x), b.ew("subtract", math.pi, angle), angle)
    return b.as_result(
        b.ew("select", has_sign_bit(b, y), b.ew("negate", half_turn_angle), half_turn_angle)
    )


def has_sign_bit(b: Build, x: Value) -> Value:
    """True where the sign bit is set, or an integer is negative."""
    if not x.type.is_floating:
        return _is_below(b, x)
    bits = {4: "int32", 2: "int16", 1: "int8"}[x.type.numpy_dtype().itemsize]
    return _is_below(b, b.graph.apply(BitcastConvert(bits), x))


def _is_below(b: Build, x: Value) -> Value:
    return b.ew("compare", x, 0.0, dtype="bool", direction="LT")


FUNCTIONS: Final[dict[str, Callable[[Build, Value], Value]]] = {
    "acos": acos,
    "acosh": acosh,
    "asin": asin,
    "asinh": asinh,
    "atan": atan,
    "atanh": atanh,
    "cosh": _hyperbolic(1.0),
    "sinh": _hyperbolic(-1.0),
}
"""Builders of functions, by their names in CHLO."""
