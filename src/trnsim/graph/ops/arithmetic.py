"""Sums, products, quotients, remainders, powers, signs and extremes.

Integers wrap around: results are modulo 2**bits, as in StableHLO.
"""

from __future__ import annotations

import numpy as np

from trnsim.graph.operation import Example
from trnsim.graph.ops.elementwise import Binary, Elementwise, Unary
from trnsim.graph.types import BOOL, FLOATS, NUMBERS, Array

_LARGEST_QUOTIENT = 2.0**36
"""Largest floating-point quotient for which kernels' remainders are within the tolerance."""
_SIGNED_DTYPES = (*FLOATS, "int32", "int16", "int8")


class Add(Binary, alu="add"):
    """``lhs + rhs``; of truth values ``lhs or rhs``."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The sum."""
        return lhs | rhs if lhs.dtype == rhs.dtype == np.bool_ else np.add(lhs, rhs)


class Subtract(Binary, alu="subtract"):
    """``lhs - rhs``; of truth values ``lhs != rhs``."""

    legal = ((*NUMBERS, BOOL),)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The difference."""
        return lhs ^ rhs if lhs.dtype == rhs.dtype == np.bool_ else np.subtract(lhs, rhs)

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Numbers only: StableHLO has no difference of truth values."""
        return tuple(example for example in super().examples() if example.operands[0].dtype != BOOL)


class Multiply(Binary, alu="multiply"):
    """``lhs * rhs``; of truth values ``lhs and rhs``."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The product."""
        return lhs & rhs if lhs.dtype == rhs.dtype == np.bool_ else np.multiply(lhs, rhs)


class Divide(Binary):
    """``lhs / rhs``; of integers rounded towards zero.

    An integer divided by 0 is -1, which StableHLO leaves to the implementation. The smallest
    integer divided by -1 wraps around to itself.
    """

    legal = (NUMBERS,)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The quotient."""
        if lhs.dtype == rhs.dtype == np.int64:
            safe = np.where(rhs == 0, 1, rhs)
            quotient = np.abs(lhs) // np.abs(safe) * np.sign(lhs) * np.sign(safe)
            return np.where(rhs == 0, -1, quotient)
        return np.divide(lhs, rhs)


class Remainder(Binary):
    """``lhs - rhs * trunc(lhs / rhs)``, with the sign of `lhs`. An integer modulo 0 is itself."""

    largest_quotient = _LARGEST_QUOTIENT

    legal = (NUMBERS,)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The remainder."""
        if lhs.dtype == rhs.dtype == np.int64:
            return np.where(rhs == 0, lhs, np.fmod(lhs, np.where(rhs == 0, 1, rhs)))
        return np.fmod(lhs, rhs)


class FloorRemainder(Binary, source="Python Language Reference, Binary arithmetic operations"):
    """``lhs - rhs * floor(lhs / rhs)``, with the sign of `rhs`. An integer modulo 0 is itself."""

    largest_quotient = _LARGEST_QUOTIENT

    legal = (NUMBERS,)

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The remainder."""
        if lhs.dtype == rhs.dtype == np.int64:
            return np.where(rhs == 0, lhs, np.mod(lhs, np.where(rhs == 0, 1, rhs)))
        return np.mod(lhs, rhs)


class Power(Binary):
    """``lhs ** rhs``; of integers with a negative exponent 0, unless `lhs` is 1 or -1."""

    legal = (NUMBERS,)
    tolerance = 2.0**-18

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The power."""
        if not lhs.dtype == rhs.dtype == np.int64:
            return np.power(lhs.astype(np.float64), rhs.astype(np.float64))
        odd = np.where(rhs % 2 == 0, 1, lhs)
        negative = np.where(lhs == 1, 1, np.where(lhs == -1, odd, 0))
        return np.where(rhs < 0, negative, np.power(lhs, np.maximum(rhs, 0)))


class Maximum(Binary, alu="maximum"):
    """``max(lhs, rhs)``; NaN if either is."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The larger."""
        return np.maximum(lhs, rhs)


class Minimum(Binary, alu="minimum"):
    """``min(lhs, rhs)``; NaN if either is."""

    def reference(self, lhs: Array, rhs: Array) -> Array:
        """The smaller."""
        return np.minimum(lhs, rhs)


class Negate(Unary, alu="multiply", number=-1.0):
    """``-operand``."""

    legal = (NUMBERS,)

    def reference(self, operand: Array) -> Array:
        """The negative."""
        return np.negative(operand)


class Abs(Unary, activation="abs"):
    """The magnitude."""

    legal = (NUMBERS,)

    def reference(self, operand: Array) -> Array:
        """The magnitude."""
        return np.abs(operand)


class Sign(Unary, activation="sign"):
    """-1, 0 or 1; NaN for NaN, -0 for -0."""

    legal = (_SIGNED_DTYPES,)

    def reference(self, operand: Array) -> Array:
        """The sign."""
        sign = np.sign(operand)
        return np.copysign(sign, operand) if operand.dtype == np.float64 else sign


class Square(Unary, source="nki.api.shared.rst, Supported Activation Functions"):
    """``operand * operand``."""

    legal = (NUMBERS,)

    def reference(self, operand: Array) -> Array:
        """The square."""
        return np.multiply(operand, operand)


class Reciprocal(Unary, source="nki.isa.reciprocal"):
    """``1 / operand``."""

    legal = (FLOATS,)

    def reference(self, operand: Array) -> Array:
        """The inverse."""
        return np.divide(1.0, operand)


class Relu(Unary, alu="maximum", number=0.0, source="nki.api.shared.rst, relu"):
    """``max(operand, 0)``."""

    legal = (NUMBERS,)

    def reference(self, operand: Array) -> Array:
        """The operand, or 0 where it is negative."""
        return np.maximum(operand, 0)


class Clamp(Elementwise):
    """``min(max(operand, smallest), largest)``."""

    operands = ("smallest", "operand", "largest")
    legal = (NUMBERS,)

    def result_dtype(self, *dtypes: str) -> str:
        """The operand's type."""
        return dtypes[1]

    def reference(self, smallest: Array, operand: Array, largest: Array) -> Array:
        """The operand within bounds."""
        return np.minimum(np.maximum(operand, smallest), largest)
