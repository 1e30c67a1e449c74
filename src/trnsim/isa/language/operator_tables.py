"""ALU operators and activation functions as tables.

Operators map numpy arrays of float32 (bitvec operators: integers as stored) to numpy arrays. The
Scalar Engine approximates activation functions by piecewise polynomials; here they are evaluated
in float32, so results differ from the chip's by its approximation error, which AWS does not
publish.

Functions of `nki.language` that no instruction accepts as an operator (divide, mod, floor, cos,
...) are not here; `average` is an operator of tensor_partition_reduce only.

Source: nki.api.shared.rst, Supported Math Operators for NKI ISA; Supported Activation Functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np

from trnsim.behaviours import Behaviour
from trnsim.behaviours.instructions import BYPASS_AND_PRELU, TENSOR_SCALAR_SQUARE_RELU
from trnsim.dtypes import Array
from trnsim.isa.language.modes import Engine
from trnsim.isa.numerics import activation_functions

_ArrayFunction = Callable[..., Array]
_PI: Final = float(np.pi)


@dataclass(frozen=True, slots=True)
class AluOperator:
    """An ALU operator of the Vector, GpSimd and, for some, Scalar Engine.

    Attributes:
        name: its name in `nki.language`.
        apply: the function, of one array or of two.
        reduce: function that reduces an array along its last axes; None if AWS lists none.
        arity: number of operands.
        is_bitvec: whether it treats elements as bit patterns.
        engines: the engines that have it, by the table of SDK 2.26 and the release notes since;
            today's table names none. GpSimd also has every operator on exact 32-bit integers.
        behaviour: the behaviour of the versions of NKI that have it; None if all have it.
    """

    name: str
    apply: _ArrayFunction
    reduce: Callable[..., Any] | None = None
    arity: int = 2
    is_bitvec: bool = False
    engines: tuple[Engine, ...] = (Engine.vector,)
    behaviour: Behaviour | None = None


def _comparison_as_numbers(compare: _ArrayFunction) -> _ArrayFunction:
    """A function that gives 1.0 where the comparison holds, else 0.0."""

    def compare_as_numbers(x: Any, y: Any) -> Array:
        return compare(x, y).astype(np.float32)

    return compare_as_numbers


def _logical_as_numbers(combine: _ArrayFunction) -> _ArrayFunction:
    """A function that gives 1.0 where the combination of truth values holds, else 0.0."""

    def combine_as_numbers(x: Any, y: Any) -> Array:
        truths = (
            np.not_equal(operand, 0) for operand in (x, y)
        )  # numpy takes no integer of 65 bits
        return combine(*truths).astype(np.float32)

    return combine_as_numbers


def _reduction_as_numbers(reduce: Callable[..., Any]) -> Callable[..., Any]:
    """A function that gives the result of a logical reduction as 1.0 or 0.0."""

    def reduce_as_numbers(x: Any, axis: int) -> Array:
        return np.asarray(reduce(x != 0, axis=axis), np.float32)

    return reduce_as_numbers


@lru_cache(maxsize=64)
def _ones(length: int) -> Array:
    """An array of ones, float32 [length]."""
    return np.ones(length, np.float32)


def _sum(x: Array, axis: int) -> Array:
    """The sum along the last axis; BLAS multiplies by ones in a third of the time of numpy's sum.

    Both stay within an ulp or two of the exact sum; in which order a lane adds is not documented.
    """
    if x.dtype == np.float32 and axis in (-1, x.ndim - 1):
        return np.asarray(x @ _ones(x.shape[-1]))
    return np.asarray(np.add.reduce(x, axis=axis))


def _power(x: Any, y: Any) -> Array:
    """``x ** y``; integers in float64, as a negative exponent is legal for them too."""
    is_integer = np.result_type(x, y).kind in "iu"
    return np.asarray(np.trunc(np.power(x, y, dtype=np.float64)) if is_integer else np.power(x, y))


def _abs_max(x: Any, y: Any) -> Array:
    """The operand of larger magnitude, with its sign; y where they are equal.

    Source: nki.language.abs_max.
    """
    return np.asarray(np.where(np.abs(x) > np.abs(y), x, y), np.result_type(x, y))


def _abs_min(x: Any, y: Any) -> Array:
    """The operand of smaller magnitude, with its sign; y where they are equal.

    Source: nki.language.abs_min.
    """
    return np.asarray(np.where(np.abs(x) < np.abs(y), x, y), np.result_type(x, y))


def _bypass(x: Any) -> Array:
    return np.asarray(x)


def _relu(x: Any) -> Array:
    return np.asarray(np.maximum(x, 0))


def _rsqrt(x: Array) -> Array:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1 / np.sqrt(x))


def _reciprocal(x: Array) -> Array:
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1 / x)


def _logical_shift_right(x: Array, y: Array) -> Array:
    """Zeros enter from the left, for signed integers too."""
    unsigned = x.view(np.dtype(f"u{x.dtype.itemsize}"))
    return np.asarray(unsigned >> np.asarray(y).astype(unsigned.dtype)).view(x.dtype)


_LANE_ENGINES: Final = (Engine.vector, Engine.gpsimd, Engine.scalar)

_ALU_OPERATORS: Final = (
    AluOperator("add", np.add, _sum, engines=_LANE_ENGINES),
    AluOperator("subtract", np.subtract, np.subtract.reduce),
    AluOperator("multiply", np.multiply, np.multiply.reduce, engines=_LANE_ENGINES),
    AluOperator("maximum", np.maximum, np.maximum.reduce),
    AluOperator("minimum", np.minimum, np.minimum.reduce),
    AluOperator("equal", _comparison_as_numbers(np.equal)),
    AluOperator("not_equal", _comparison_as_numbers(np.not_equal)),
    AluOperator("greater_equal", _comparison_as_numbers(np.greater_equal)),
    AluOperator("greater", _comparison_as_numbers(np.greater)),
    AluOperator("less_equal", _comparison_as_numbers(np.less_equal)),
    AluOperator("less", _comparison_as_numbers(np.less)),
    AluOperator(
        "logical_and",
        _logical_as_numbers(np.logical_and),
        _reduction_as_numbers(np.logical_and.reduce),
    ),
    AluOperator(
        "logical_or",
        _logical_as_numbers(np.logical_or),
        _reduction_as_numbers(np.logical_or.reduce),
    ),
    AluOperator(
        "logical_xor",
        _logical_as_numbers(np.logical_xor),
        _reduction_as_numbers(np.logical_xor.reduce),
    ),
    AluOperator("power", _power, engines=(Engine.gpsimd,)),
    AluOperator("abs_max", _abs_max, behaviour=TENSOR_SCALAR_SQUARE_RELU),
    AluOperator("abs_min", _abs_min, behaviour=TENSOR_SCALAR_SQUARE_RELU),
    AluOperator("abs", np.abs, arity=1, engines=(Engine.vector, Engine.scalar)),
    AluOperator("square", np.square, arity=1, behaviour=TENSOR_SCALAR_SQUARE_RELU),
    AluOperator("relu", _relu, arity=1, behaviour=TENSOR_SCALAR_SQUARE_RELU),
    AluOperator("rsqrt", _rsqrt, arity=1, engines=(Engine.gpsimd, Engine.scalar)),
    AluOperator("reciprocal", _reciprocal, arity=1, engines=(Engine.vector, Engine.scalar)),
    AluOperator("bypass", _bypass, arity=1, engines=(Engine.scalar,), behaviour=BYPASS_AND_PRELU),
    AluOperator("bitwise_and", np.bitwise_and, np.bitwise_and.reduce, is_bitvec=True),
    AluOperator("bitwise_or", np.bitwise_or, np.bitwise_or.reduce, is_bitvec=True),
    AluOperator("bitwise_xor", np.bitwise_xor, np.bitwise_xor.reduce, is_bitvec=True),
    AluOperator("invert", np.invert, arity=1, is_bitvec=True),
    AluOperator("left_shift", np.left_shift, is_bitvec=True),
    AluOperator("right_shift", _logical_shift_right, is_bitvec=True),
)
ALU: Final = {operator.name: operator for operator in _ALU_OPERATORS}

EXACT_OPERATORS: Final = frozenset(ALU) - {"power"}
"""ALU operators whose results are exact up to one or two roundings, and so do not depend on how
numpy vectorizes an array on the host's processor."""


_FUNCTIONS_WITHOUT_TABLE: Final = frozenset({"copy", "square", "relu", "prelu", "sign", "abs"})
"""Activation functions that need no polynomials. Assumed: part of every table ("and small")."""

_TABLES: Final = {
    **dict.fromkeys(("exp", "log"), "natural_log_exp_and_others"),
    **dict.fromkeys(
        ("gelu", "gelu_dx", "gelu_apprx_tanh", "gelu_apprx_sigmoid", "gelu_apprx_sigmoid_dx"),
        "gelu_and_others",
    ),
    **dict.fromkeys(("silu", "silu_dx", "sigmoid"), "silu"),
    **dict.fromkeys(("erf", "erf_dx"), "erf"),
    "rsqrt": "reciprocal_sqrt_and_small",
    "reciprocal": "reciprocal_and_small",
}
"""Activation function -> its table; a function that is missing has a table of its own name.

The names with "and" are AWS's. Assumed: the functions in "others" and "small", and which functions
share the other tables: a function and its derivative, silu and sigmoid.

Source: work-with-neff-files.rst, Activation.json, activation_function_sets.
"""


@dataclass(frozen=True, slots=True)
class ActivationFunction:
    """A function of the Scalar Engine.

    AWS's table limits the valid inputs of six functions; results outside the range are invalid.
    For these functions inputs in the range or at its limits are legal, and so is sqrt(0), which
    needs no approximation. Other inputs, NaN included, are refused: log(0) and rsqrt(0) lie outside
    their ranges. Only for sin does AWS document results outside: it continues as a cubic.

    Attributes:
        name: its name in `nki.language`.
        apply: function from a float32 array to a float32 array; prelu also takes `relu_param`.
        low: smallest valid input.
        high: largest valid input.
        uses_magnitude: whether the range limits the absolute value.
        allows_zero: whether zero is legal although it is outside the range.
        extrapolates: whether its results beyond the range are documented.
        takes_relu_param: whether it takes a slope for negative inputs (activate2's `relu_param`).
    """

    name: str
    apply: Callable[..., Array]
    low: float = -np.inf
    high: float = np.inf
    uses_magnitude: bool = False
    allows_zero: bool = False
    extrapolates: bool = False
    takes_relu_param: bool = False

    @property
    def table(self) -> str:
        """The name of the table of polynomials that it needs, "" if it needs none."""
        return "" if self.name in _FUNCTIONS_WITHOUT_TABLE else _TABLES.get(self.name, self.name)

    @property
    def is_total(self) -> bool:
        """True if every input is legal."""
        return self.low == -np.inf and self.high == np.inf

    def is_legal(self, values: Array) -> bool:
        """True if the results for all `values` are documented."""
        if self.extrapolates or self.is_total:
            return True
        inputs = np.abs(values) if self.uses_magnitude else values
        # The least and the greatest of values with a NaN are NaN, which is in no range.
        if inputs.size and self._is_in_range(np.minimum.reduce(inputs, axis=None)):
            return self._is_in_range(np.maximum.reduce(inputs, axis=None))
        valid = (inputs >= self.low) & (inputs <= self.high)
        return bool((valid | (inputs == 0)).all() if self.allows_zero else valid.all())

    def _is_in_range(self, value: Any) -> bool:
        """True if a value lies between the smallest and the largest valid input."""
        return bool(self.low <= value <= self.high)


_ACTIVATION_FUNCTIONS: Final = (
    ActivationFunction("copy", _bypass),
    ActivationFunction("square", np.square),
    ActivationFunction("sigmoid", activation_functions.sigmoid),
    ActivationFunction("relu", _relu),
    ActivationFunction("prelu", activation_functions.prelu, takes_relu_param=True),
    ActivationFunction("gelu", activation_functions.gelu),
    ActivationFunction("gelu_dx", activation_functions.gelu_dx),
    ActivationFunction("gelu_apprx_tanh", activation_functions.gelu_apprx_tanh),
    ActivationFunction("gelu_apprx_sigmoid", activation_functions.gelu_apprx_sigmoid),
    ActivationFunction("gelu_apprx_sigmoid_dx", activation_functions.gelu_apprx_sigmoid_dx),
    ActivationFunction("silu", activation_functions.silu),
    ActivationFunction("silu_dx", activation_functions.silu_dx),
    ActivationFunction("tanh", np.tanh),
    ActivationFunction("softplus", activation_functions.softplus),
    ActivationFunction("mish", activation_functions.mish),
    ActivationFunction("erf", activation_functions.erf),
    ActivationFunction("erf_dx", activation_functions.erf_dx),
    ActivationFunction("exp", np.exp),
    ActivationFunction("log", np.log, low=2.0**-64, high=2.0**64),
    ActivationFunction("sin", activation_functions.sine, low=-_PI, high=_PI, extrapolates=True),
    ActivationFunction("arctan", np.arctan, low=-_PI / 2, high=_PI / 2),
    ActivationFunction("sqrt", np.sqrt, low=2.0**-116, high=2.0**118, allows_zero=True),
    ActivationFunction("rsqrt", _rsqrt, low=2.0**-87, high=2.0**97),
    ActivationFunction("reciprocal", _reciprocal, low=2.0**-42, high=2.0**42, uses_magnitude=True),
    ActivationFunction("sign", np.sign),
    ActivationFunction("abs", np.abs),
)
ACTIVATIONS: Final = {function.name: function for function in _ACTIVATION_FUNCTIONS}

EXACT_FUNCTIONS: Final = frozenset(
    {"copy", "square", "relu", "sqrt", "rsqrt", "reciprocal", "sign", "abs"}
)
"""Activation functions that are exact as `EXACT_OPERATORS` are."""
