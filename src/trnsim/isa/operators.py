"""ALU operators and activation functions as tables.

Operators work on float32 arrays (bitvec operators on integers as they are stored), and take and
give numpy arrays. Activation functions are what the Scalar Engine approximates by piecewise
polynomials; here they are evaluated in float32, so they differ from the chip's by its
approximation error, which AWS does not publish.

Source: nki.api.shared.rst, Supported Math Operators for NKI ISA; Supported Activation Functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from trnsim.dtypes import Array

_Binary = Callable[..., Array]
_PI: Final = float(np.pi)


@dataclass(frozen=True, slots=True)
class AluOperator:
    """An operator of the Vector, GpSimd and (some of them) Scalar Engine.

    Attributes:
        name: its name in `nki.language`.
        apply: the function, of one array or of two.
        reduce: the same along the last axes, or None where AWS lists no reduction.
        arity: number of operands.
        is_bitvec: whether it treats elements as bit patterns.
    """

    name: str
    apply: _Binary
    reduce: Callable[..., Any] | None = None
    arity: int = 2
    is_bitvec: bool = False


def _truth(compare: _Binary) -> _Binary:
    """1.0 where the comparison holds, else 0.0."""

    def compared(x: Any, y: Any) -> Array:
        return compare(x, y).astype(np.float32)

    return compared


def _truth_along(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A logical reduction as 1.0 and 0.0."""

    def reduced(x: Any, axis: int) -> Array:
        return np.asarray(reduce(x != 0, axis=axis), np.float32)

    return reduced


def _power(x: Any, y: Any) -> Array:
    """Integers by way of float64, as a negative exponent is legal for them too."""
    is_integer = np.result_type(x, y).kind in "iu"
    return np.asarray(np.trunc(np.power(x, y, dtype=np.float64)) if is_integer else np.power(x, y))


def _abs_max(x: Any, y: Any) -> Array:
    return np.asarray(np.maximum(np.abs(x), np.abs(y)))


def _abs_min(x: Any, y: Any) -> Array:
    return np.asarray(np.minimum(np.abs(x), np.abs(y)))


def _relu(x: Any) -> Array:
    return np.asarray(np.maximum(x, 0))


def _rsqrt(x: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 / np.sqrt(x))


def _reciprocal(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.asarray(1 / x)


def _logical_shift_right(x: Array, y: Array) -> Array:
    """Zeros enter from the left, for signed integers too."""
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    return np.asarray(unsigned >> np.asarray(y).astype(unsigned.dtype)).view(x.dtype)


_ALU: Final = (
    AluOperator("add", np.add, np.add.reduce),
    AluOperator("subtract", np.subtract, np.subtract.reduce),
    AluOperator("multiply", np.multiply, np.multiply.reduce),
    AluOperator("maximum", np.maximum, np.maximum.reduce),
    AluOperator("minimum", np.minimum, np.minimum.reduce),
    AluOperator("equal", _truth(np.equal)),
    AluOperator("not_equal", _truth(np.not_equal)),
    AluOperator("greater_equal", _truth(np.greater_equal)),
    AluOperator("greater", _truth(np.greater)),
    AluOperator("less_equal", _truth(np.less_equal)),
    AluOperator("less", _truth(np.less)),
    AluOperator("logical_and", _truth(np.logical_and), _truth_along(np.logical_and.reduce)),
    AluOperator("logical_or", _truth(np.logical_or), _truth_along(np.logical_or.reduce)),
    AluOperator("logical_xor", _truth(np.logical_xor), _truth_along(np.logical_xor.reduce)),
    AluOperator("power", _power),
    AluOperator("abs_max", _abs_max),
    AluOperator("abs_min", _abs_min),
    AluOperator("abs", np.abs, arity=1),
    AluOperator("square", np.square, arity=1),
    AluOperator("relu", _relu, arity=1),
    AluOperator("rsqrt", _rsqrt, arity=1),
    AluOperator("reciprocal", _reciprocal, arity=1),
    AluOperator("bitwise_and", np.bitwise_and, np.bitwise_and.reduce, is_bitvec=True),
    AluOperator("bitwise_or", np.bitwise_or, np.bitwise_or.reduce, is_bitvec=True),
    AluOperator("bitwise_xor", np.bitwise_xor, np.bitwise_xor.reduce, is_bitvec=True),
    AluOperator("invert", np.invert, arity=1, is_bitvec=True),
    AluOperator("left_shift", np.left_shift, is_bitvec=True),
    AluOperator("right_shift", _logical_shift_right, is_bitvec=True),
)
ALU: Final = {operator.name: operator for operator in _ALU}


@dataclass(frozen=True, slots=True)
class ActivationFunction:
    """A function of the Scalar Engine.

    Attributes:
        name: its name in `nki.language`.
        apply: float32 array -> float32 array.
        low: smallest legal input.
        high: largest legal input.
        uses_magnitude: whether the range is of the absolute value.
    """

    name: str
    apply: Callable[[Any], Array]
    low: float = -np.inf
    high: float = np.inf
    uses_magnitude: bool = False

    def is_legal(self, values: Array) -> bool:
        """Whether every value lies in the function's valid input range."""
        if self.low == -np.inf and self.high == np.inf:
            return True
        inputs = np.abs(values) if self.uses_magnitude else values
        return bool(((inputs >= self.low) & (inputs <= self.high)).all())


def _sigmoid(x: npt.NDArray[np.float32]) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(1 / (1 + np.exp(-x)))


def _gelu_tanh(x: npt.NDArray[np.float32]) -> Array:
    return np.asarray(0.5 * x * (1 + np.tanh(np.sqrt(2 / _PI) * (x + 0.044715 * x**3))))


def _exp(x: npt.NDArray[np.float32]) -> Array:
    with np.errstate(over="ignore"):
        return np.asarray(np.exp(x))


_ACTIVATIONS: Final = (
    ActivationFunction("copy", lambda x: x),
    ActivationFunction("square", np.square),
    ActivationFunction("sigmoid", _sigmoid),
    ActivationFunction("relu", _relu),
    ActivationFunction("gelu_apprx_tanh", _gelu_tanh),
    ActivationFunction("gelu_apprx_sigmoid", lambda x: x * _sigmoid(1.702 * x)),
    ActivationFunction("silu", lambda x: x * _sigmoid(x)),
    ActivationFunction("tanh", np.tanh),
    ActivationFunction("softplus", lambda x: np.logaddexp(x, 0)),
    ActivationFunction("exp", _exp),
    ActivationFunction("log", np.log, low=2.0**-64, high=2.0**64),
    ActivationFunction("sqrt", np.sqrt, low=2.0**-116, high=2.0**118),
    ActivationFunction("rsqrt", _rsqrt, low=2.0**-87, high=2.0**97),
    ActivationFunction("reciprocal", _reciprocal, low=2.0**-42, high=2.0**42, uses_magnitude=True),
    ActivationFunction("sign", np.sign),
    ActivationFunction("abs", np.abs),
)
ACTIVATIONS: Final = {function.name: function for function in _ACTIVATIONS}
