"""Functions of one real number: exponentials, roots, waves, activations of neural networks.

StableHLO and CHLO have the general ones. The Scalar Engine has the activations as one function.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from trnsim.graph.ops.elementwise import Unary
from trnsim.graph.types import FLOATS, Array

_ENGINE = "nki.api.shared.rst, Supported Activation Functions"
_CHLO = "CHLO dialect, {}"


class Function(Unary, abstract=True):
    """A function of floating point."""

    legal = (FLOATS,)
    near: ClassVar[float] = 2.0**-20


class Exponential(Function, activation="exp"):
    """``e ** operand``."""

    def reference(self, operand: Array) -> Array:
        """The power of e."""
        return np.exp(operand)


class ExponentialMinusOne(Function):
    """``e ** operand - 1``, exact also near 0."""

    unit = 2.0**-100

    def reference(self, operand: Array) -> Array:
        """The power of e, less 1."""
        return np.expm1(operand)


class Log(Function, activation="log"):
    """The natural logarithm; `domain` is the Scalar Engine's."""

    domain = (2.0**-64, 2.0**64)

    def reference(self, operand: Array) -> Array:
        """The logarithm."""
        return np.log(operand)


class LogPlusOne(Function):
    """``log(1 + operand)``, exact also near 0."""

    unit = 2.0**-100
    domain = (2.0**-12 - 1, 2.0**64)

    def reference(self, operand: Array) -> Array:
        """The logarithm of 1 more."""
        return np.log1p(operand)


class Sqrt(Function, activation="sqrt"):
    """The square root; `domain` is the Scalar Engine's."""

    domain = (2.0**-116, 2.0**118)

    def reference(self, operand: Array) -> Array:
        """The root."""
        return np.sqrt(operand)


class Rsqrt(Function, activation="rsqrt"):
    """``1 / sqrt(operand)``; `domain` is the Scalar Engine's."""

    domain = (2.0**-87, 2.0**97)

    def reference(self, operand: Array) -> Array:
        """The inverse of the root."""
        return np.divide(1.0, np.sqrt(operand))


class Cbrt(Function):
    """The cube root; negative for negative operands."""

    domain = (-(2.0**64), 2.0**64)

    def reference(self, operand: Array) -> Array:
        """The root."""
        return np.cbrt(operand)


class Tanh(Function, activation="tanh"):
    """The hyperbolic tangent."""

    def reference(self, operand: Array) -> Array:
        """The tangent."""
        return np.tanh(operand)


class Logistic(Function, activation="sigmoid"):
    """``1 / (1 + e ** -operand)``."""

    def reference(self, operand: Array) -> Array:
        """Between 0 and 1."""
        return _logistic(operand)


class Sine(Function):
    """The sine; `domain` is where the reduction of the angle in float32 holds."""

    domain = (-(2.0**13), 2.0**13)

    def reference(self, operand: Array) -> Array:
        """The sine."""
        return np.sin(operand)


class Cosine(Function):
    """The cosine."""

    domain = Sine.domain

    def reference(self, operand: Array) -> Array:
        """The cosine."""
        return np.cos(operand)


class Tan(Function):
    """The tangent."""

    domain = (-1.5, 1.5)  # beyond, near a pole, the angle's own rounding decides
    near = 2.0**-17

    def reference(self, operand: Array) -> Array:
        """The tangent."""
        return np.tan(operand)


class Atan(Function, activation="arctan", source=_ENGINE):
    """The arc tangent; the Scalar Engine takes operands from -pi / 2 to pi / 2."""

    domain = (-math.pi / 2, math.pi / 2)

    def reference(self, operand: Array) -> Array:
        """The angle."""
        return np.arctan(operand)


class Erf(Function, activation="erf", source=_CHLO.format("erf")):
    """The error function."""

    def reference(self, operand: Array) -> Array:
        """Between -1 and 1."""
        return np.asarray(_erf(operand), np.float64)


class Gelu(Function, activation="gelu", source=_ENGINE):
    """``operand * Phi(operand)``; Phi is the normal distribution's cumulative function."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _times(operand, _phi(operand))


class GeluTanh(Function, activation="gelu_apprx_tanh", source=_ENGINE):
    """The approximation of `Gelu` by a hyperbolic tangent."""

    def reference(self, operand: Array) -> Array:
        """``x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x**3)))``."""
        inner = math.sqrt(2 / math.pi) * (operand + 0.044715 * operand**3)
        return _times(operand, 0.5 * (1 + np.tanh(inner)))


class GeluDx(Function, activation="gelu_dx", source=_ENGINE):
    """The derivative of `Gelu`."""

    def reference(self, operand: Array) -> Array:
        """``Phi(x) + x * phi(x)``."""
        density = np.exp(-operand * operand / 2) / math.sqrt(2 * math.pi)
        return _phi(operand) + _times(operand, density)


class Silu(Function, activation="silu", source=_ENGINE):
    """``operand * logistic(operand)``."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _times(operand, _logistic(operand))


class SiluDx(Function, activation="silu_dx", source=_ENGINE):
    """The derivative of `Silu`."""

    def reference(self, operand: Array) -> Array:
        """``s + x * s * (1 - s)`` with s the logistic function."""
        s = _logistic(operand)
        return s + _times(operand, s * _logistic(-operand))


class Softplus(Function, activation="softplus", source=_ENGINE):
    """``log(1 + e ** operand)``."""

    def reference(self, operand: Array) -> Array:
        """The logarithm."""
        return np.logaddexp(0, operand)


class Mish(Function, activation="mish", source=_ENGINE):
    """``operand * tanh(softplus(operand))``."""

    def reference(self, operand: Array) -> Array:
        """The product."""
        return _times(operand, np.tanh(np.logaddexp(0, operand)))


_erf = np.frompyfunc(math.erf, 1, 1)


def _phi(x: Array) -> Array:
    return np.asarray(_half_erfc(x), np.float64)


_half_erfc = np.frompyfunc(lambda x: 0.5 * math.erfc(-x / math.sqrt(2)), 1, 1)


def _logistic(x: Array) -> Array:
    return np.exp(-np.logaddexp(0, -x))


def _times(x: Array, factor: Array) -> Array:
    """The product, 0 where a factor that vanishes meets an infinity."""
    return np.where(factor == 0, np.where(np.isnan(x), x, 0.0), x * factor)
