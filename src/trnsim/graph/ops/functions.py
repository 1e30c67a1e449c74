"""Functions of one real number: exponentials, roots, waves, activations of neural networks.

The general ones are operations of StableHLO and CHLO. An activation of a neural network is one
operation here because the Scalar Engine computes it by one function.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trnsim.graph.ops.elementwise import Unary
from trnsim.graph.types import FLOATS, Array

_SCALAR_ENGINE_SOURCE = "nki.api.shared.rst, Supported Activation Functions"


class FloatUnary(Unary, abstract=True):
    """A unary operation on floating point."""

    legal = (FLOATS,)
    tolerance: ClassVar[float] = 2.0**-20


class Exponential(FloatUnary, activation="exp"):
    """``e ** operand``."""

    def reference(self, operand: Array) -> Array:
        """The exponential."""
        return np.exp(operand)


class ExponentialMinusOne(FloatUnary):
    """``e ** operand - 1``, exact also near 0."""

    tolerance_floor = 2.0**-100

    def reference(self, operand: Array) -> Array:
        """The exponential less 1."""
        return np.expm1(operand)


class Log(FloatUnary, activation="log"):
    """The natural logarithm; `domain` is the Scalar Engine's."""

    domain = (2.0**-64, 2.0**64)

    def reference(self, operand: Array) -> Array:
        """The natural logarithm."""
        return np.log(operand)


class LogPlusOne(FloatUnary):
    """``log(1 + operand)``, exact also near 0."""

    tolerance_floor = 2.0**-100
    domain = (2.0**-12 - 1, 2.0**64)

    def reference(self, operand: Array) -> Array:
        """The logarithm of ``1 + operand``."""
        return np.log1p(operand)


class Sqrt(FloatUnary, activation="sqrt"):
    """The square root; `domain` is the Scalar Engine's."""

    domain = (2.0**-116, 2.0**118)

    def reference(self, operand: Array) -> Array:
        """The square root."""
        return np.sqrt(operand)


class Rsqrt(FloatUnary, activation="rsqrt"):
    """``1 / sqrt(operand)``; `domain` is the Scalar Engine's."""

    domain = (2.0**-87, 2.0**97)

    def reference(self, operand: Array) -> Array:
        """The reciprocal of the square root."""
        return np.divide(1.0, np.sqrt(operand))


class Cbrt(FloatUnary):
    """The cube root; negative for negative operands."""

    def reference(self, operand: Array) -> Array:
        """The cube root."""
        return np.cbrt(operand)


class Tanh(FloatUnary, activation="tanh"):
    """The hyperbolic tangent."""

    def reference(self, operand: Array) -> Array:
        """The hyperbolic tangent."""
        return np.tanh(operand)


class Logistic(FloatUnary, activation="sigmoid"):
    """``1 / (1 + e ** -operand)``."""

    def reference(self, operand: Array) -> Array:
        """The logistic function."""
        return _logistic(operand)


class Sine(FloatUnary):
    """The sine; `domain` is where the reduction of the angle in float32 holds."""

    domain = (-(2.0**13), 2.0**13)

    def reference(self, operand: Array) -> Array:
        """The sine."""
        return np.sin(operand)


class Cosine(FloatUnary):
    """The cosine."""

    domain = Sine.domain

    def reference(self, operand: Array) -> Array:
        """The cosine."""
        return np.cos(operand)


class Tan(FloatUnary):
    """The tangent."""

    domain = (-1.5, 1.5)  # beyond, near a pole, the angle's own rounding decides
    tolerance = 2.0**-17

    def reference(self, operand: Array) -> Array:
        """The tangent."""
        return np.tan(operand)


class Atan(FloatUnary, activation="arctan", source=_SCALAR_ENGINE_SOURCE):
    """The arc tangent; the Scalar Engine takes operands from -pi / 2 to pi / 2."""

    domain = (-math.pi / 2, math.pi / 2)

    def reference(self, operand: Array) -> Array:
        """The arc tangent."""
        return np.arctan(operand)


class Erf(FloatUnary, activation="erf", source="CHLO dialect, erf"):
    """The error function."""

    def reference(self, operand: Array) -> Array:
        """The error function."""
        return np.asarray(_erf(operand), np.float64)


class Gelu(FloatUnary, activation="gelu", source=_SCALAR_ENGINE_SOURCE):
    """``operand * Phi(operand)``; Phi is the normal distribution's cumulative function."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _product(operand, _normal_cdf(operand))


class GeluTanh(FloatUnary, activation="gelu_apprx_tanh", source=_SCALAR_ENGINE_SOURCE):
    """The approximation of `Gelu` by a hyperbolic tangent."""

    def reference(self, operand: Array) -> Array:
        """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))``."""
        inner = math.sqrt(2 / math.pi) * (operand + 0.044715 * operand**3)
        return _product(operand, 0.5 * (1 + np.tanh(inner)))


class GeluDx(FloatUnary, activation="gelu_dx", source=_SCALAR_ENGINE_SOURCE):
    """The derivative of `Gelu`."""

    def reference(self, operand: Array) -> Array:
        """``Phi(x) + x * phi(x)``."""
        density = np.exp(-operand * operand / 2) / math.sqrt(2 * math.pi)
        return _normal_cdf(operand) + _product(operand, density)


class Silu(FloatUnary, activation="silu", source=_SCALAR_ENGINE_SOURCE):
    """``operand * logistic(operand)``."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _product(operand, _logistic(operand))


class SiluDx(FloatUnary, activation="silu_dx", source=_SCALAR_ENGINE_SOURCE):
    """The derivative of `Silu`."""

    def reference(self, operand: Array) -> Array:
        """``s + x * s * (1 - s)`` with s the logistic function."""
        s = _logistic(operand)
        return s + _product(operand, s * _logistic(-operand))


class Softplus(FloatUnary, activation="softplus", source=_SCALAR_ENGINE_SOURCE):
    """``log(1 + e ** operand)``."""

    def reference(self, operand: Array) -> Array:
        """The logarithm."""
        return np.logaddexp(0, operand)


class Mish(FloatUnary, activation="mish", source=_SCALAR_ENGINE_SOURCE):
    """``operand * tanh(softplus(operand))``."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _product(operand, np.tanh(np.logaddexp(0, operand)))


_erf = np.frompyfunc(math.erf, 1, 1)


def _normal_cdf(x: Array) -> Array:
    """The normal distribution's cumulative function."""
    return np.asarray(_half_erfc(x), np.float64)


_half_erfc = np.frompyfunc(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), 1, 1)


def _logistic(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _product(x: Array, factor: Array) -> Array:
    """``x * factor``, but 0 where x is infinite and the factor 0."""
    return np.where(factor == 0, np.where(np.isnan(x), x, 0.0), x * factor)
