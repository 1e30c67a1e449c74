"""Activation functions of the Scalar Engine that numpy lacks, on float32 arrays.

The chip approximates each by piecewise polynomials that AWS does not publish; these are accurate to
float32. Infinite inputs give the function's limit.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Final

import numpy as np
import numpy.typing as npt

from trnsim.dtypes import Float32Array

_Float64Array = npt.NDArray[np.float64]
_saturating = partial(np.errstate, over="ignore", invalid="ignore")
_PI: Final = math.pi
_ONE: Final = np.float32(1)
_HALF: Final = np.float32(1 / 2)
_SIXTH: Final = np.float32(1 / 6)
_THIRD: Final = np.float32(1 / 3)
_SQRT_2: Final = math.sqrt(2)
_ERF_SLOPE: Final = np.float32(2 / math.sqrt(_PI))
_NORMAL_PEAK: Final = np.float32(1 / math.sqrt(2 * _PI))

# gelu_apprx_tanh and gelu_apprx_sigmoid: Hendrycks and Gimpel, Gaussian Error Linear Units.
_GELU_CUBIC: Final = np.float32(0.044715)
_GELU_SLOPE: Final = np.float32(1.702)
_GELU_SCALE: Final = np.float32(math.sqrt(2 / _PI))

# erfc(z) exp(z^2) is a smooth function of (z - c) / (z + c): Shepherd and Laframboise,
# Chebyshev Approximation of (1 + 2x) exp(x^2) erfc x, 1981. Beyond the limit erfc is 0 in float32.
_ERFC_CENTRE: Final = 3.0
_ERFC_LIMIT: Final = 10.5
_ERFC_DEGREE: Final = 14
_LINEAR_BELOW: Final = 1e-3


@cache
def _scaled_erfc() -> _Float64Array:
    """Coefficients of a polynomial in (z - c) / (z + c) for erfc(z) exp(z^2), lowest degree first.

    It is exact at the Chebyshev nodes.
    """
    low, high = -1.0, (_ERFC_LIMIT - _ERFC_CENTRE) / (_ERFC_LIMIT + _ERFC_CENTRE)
    angles = _PI * (2 * np.arange(_ERFC_DEGREE + 1) + 1) / (2 * _ERFC_DEGREE + 2)
    nodes = (low + high) / 2 + (high - low) / 2 * np.cos(angles)
    z = _ERFC_CENTRE * (1 + nodes) / (1 - nodes)
    values = [math.erfc(x) * math.exp(x * x) for x in z]
    return np.asarray(np.linalg.solve(np.vander(nodes, increasing=True), values), np.float64)


def _erfc_of_magnitude(x: _Float64Array) -> _Float64Array:
    """erfc(abs(x)), to a relative error of 1e-11."""
    z = np.minimum(np.abs(x), _ERFC_LIMIT)
    t = (z - _ERFC_CENTRE) / (z + _ERFC_CENTRE)
    *lower, last = _scaled_erfc()
    result = np.full_like(t, last)
    for coefficient in reversed(lower):
        result *= t
        result += coefficient
    np.exp(-z * z, out=t)
    result *= t
    return result


@_saturating()
def erf(x: Float32Array) -> Float32Array:
    """The error function."""
    linear = x * (_ERF_SLOPE * (1 - x * x * _THIRD))
    by_erfc = np.copysign(1 - _erfc_of_magnitude(x.astype(np.float64)), x).astype(np.float32)
    return np.where(np.abs(x) < _LINEAR_BELOW, linear, by_erfc)


@_saturating()
def erf_dx(x: Float32Array) -> Float32Array:
    """2 / sqrt(pi) exp(-x^2)."""
    return np.asarray(_ERF_SLOPE * np.exp(-x * x))


@_saturating()
def sigmoid(x: Float32Array) -> Float32Array:
    """1 / (1 + exp(-x))."""
    return _ONE / (_ONE + np.exp(-x))


def _apply_gate(x: Float32Array, gate: Float32Array) -> Float32Array:
    """``x * gate``; 0 where the gate is 0, even for an infinite x."""
    return np.where(gate == 0, gate, x * gate)


def _normal_density(x: Float32Array) -> Float32Array:
    """The standard normal density at x."""
    return np.asarray(_NORMAL_PEAK * np.exp(-_HALF * x * x))


def _normal_distribution(x: Float32Array) -> Float32Array:
    """The standard normal distribution function at x."""
    tail = _HALF * _erfc_of_magnitude(x.astype(np.float64) / _SQRT_2)
    return np.where(x < 0, tail, 1 - tail).astype(np.float32)


@_saturating()
def gelu(x: Float32Array) -> Float32Array:
    """``x (1 + erf(x / sqrt 2)) / 2``."""
    return _apply_gate(x, _normal_distribution(x))


@_saturating()
def gelu_dx(x: Float32Array) -> Float32Array:
    """Derivative of gelu."""
    return _normal_distribution(x) + _apply_gate(x, _normal_density(x))


@_saturating()
def gelu_apprx_tanh(x: Float32Array) -> Float32Array:
    """``x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2``."""
    inner = _GELU_SCALE * (x + _GELU_CUBIC * x * x * x)
    return _apply_gate(x, _HALF * (1 + np.tanh(inner)))


@_saturating()
def gelu_apprx_sigmoid(x: Float32Array) -> Float32Array:
    """``x sigmoid(1.702 x)``."""
    return _apply_gate(x, sigmoid(_GELU_SLOPE * x))


@_saturating()
def gelu_apprx_sigmoid_dx(x: Float32Array) -> Float32Array:
    """Derivative of gelu_apprx_sigmoid."""
    gate, complement = sigmoid(_GELU_SLOPE * x), sigmoid(-_GELU_SLOPE * x)
    return gate + _apply_gate(_GELU_SLOPE * x, gate * complement)


@_saturating()
def silu(x: Float32Array) -> Float32Array:
    """``x sigmoid(x)``."""
    return _apply_gate(x, sigmoid(x))


@_saturating()
def silu_dx(x: Float32Array) -> Float32Array:
    """Derivative of silu."""
    gate, complement = sigmoid(x), sigmoid(-x)
    return gate + _apply_gate(x, gate * complement)


@_saturating()
def softplus(x: Float32Array) -> Float32Array:
    """``log(1 + exp(x))``."""
    return np.logaddexp(x, np.float32(0))


@_saturating()
def mish(x: Float32Array) -> Float32Array:
    """``x tanh(softplus(x))``."""
    return _apply_gate(x, np.tanh(softplus(x)))


@_saturating()
def prelu(x: Float32Array, relu_param: Float32Array | float = 0.0) -> Float32Array:
    """``relu_param * x`` where x < 0, else ``x``."""
    return np.where(x < 0, _apply_gate(x, np.asarray(relu_param, np.float32)), x)


@_saturating()
def sine(x: Float32Array) -> Float32Array:
    """sin(x) in [-pi, pi]; outside, the cubic with its value and derivatives at the end point.

    The Scalar Engine does no range reduction: it extrapolates, so that the sine of 9 is 27.65.

    Source: nki.api.shared.rst, Supported Activation Functions, note on sin.
    """
    excess = np.abs(x) - np.float32(_PI)
    outside = np.copysign(1, x) * excess * (excess * excess * _SIXTH - 1)
    return np.where(excess > 0, outside, np.sin(x))
