"""Operators that compute each element of the result from the operands' elements at its index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import ml_dtypes

from trnsim.graph import OPERATIONS, Value
from trnsim.graph.building.build import Build, Operand
from trnsim.graph.building.functions import FUNCTIONS, atan2, has_sign_bit
from trnsim.graph.types import BOOL, ELEMENT_TYPES, INTEGERS, ITEM_BYTES
from trnsim.torch.aten.decomposition import Decomposition, Unlowered

_UNARY_OPERATIONS: Final = {
    "abs": "abs",
    "neg": "negate",
    "exp": "exponential",
    "log": "log",
    "sqrt": "sqrt",
    "rsqrt": "rsqrt",
    "tanh": "tanh",
    "sigmoid": "logistic",
    "sin": "sine",
    "cos": "cosine",
    "tan": "tan",
    "expm1": "exponential_minus_one",
    "log1p": "log_plus_one",
    "erf": "erf",
    "reciprocal": "reciprocal",
    "square": "square",
    "relu": "relu",
    "silu": "silu",
    "mish": "mish",
}
_ROUNDINGS: Final = {
    "floor": "floor",
    "ceil": "ceil",
    "trunc": "trunc",
}
_BINARY_OPERATIONS: Final = {"mul": "multiply", "pow": "power"}


def _unary(name: str) -> Decomposition:
    def build(b: Build, x: Value) -> Value:
        return b.as_result(b.ew(name, x, dtype=_function_dtype(b, x)))

    return build


def _rounding(name: str) -> Decomposition:
    """Each element rounded to an integer; integers stay as they are."""

    def build(b: Build, x: Value) -> Any:
        return _unary(name)(b, x) if x.type.is_floating else b.as_result(x)

    return build


_MOST_DECIMALS: Final = 38
"""Most decimals: the largest power of ten that float32 holds has this exponent."""


def rounded(b: Build, x: Value, *, decimals: int = 0) -> Any:
    """Each element rounded to `decimals` places; -1 rounds to tens, -2 to hundreds."""
    if not decimals:
        return _rounding("round_nearest_even")(b, x)
    if abs(decimals) > _MOST_DECIMALS:
        raise Unlowered(f"{decimals} decimals; legal: -{_MOST_DECIMALS} to {_MOST_DECIMALS}")
    names = ("multiply", "divide") if decimals > 0 else ("divide", "multiply")
    power = 10.0 ** abs(decimals)
    integer = b.ew("round_nearest_even", b.ew(names[0], x, power, dtype="float32"))
    return b.as_result(b.ew(names[1], integer, power))


def _with_floating_input(build: Decomposition) -> Decomposition:
    """A function of real numbers; integers and booleans are converted to float32 first."""

    def build_floating(b: Build, x: Value, *arguments: Any, **options: Any) -> Any:
        return build(b, x if x.type.is_floating else b.convert(x, "float32"), *arguments, **options)

    return build_floating


def _function_dtype(b: Build, x: Value) -> str:
    """The dtype of the operator's result, which is floating point if `x` is integer."""
    return b.result_types[0].dtype if b.result_types else x.dtype


def binary(name: str) -> Callable[..., Value]:
    """An operation of two operands, either of which may be a number."""

    def build(b: Build, x: Operand, y: Operand, **_: Any) -> Value:
        operands = (as_number(x), as_number(y))
        if BOOL not in (OPERATIONS[name].legal or (ELEMENT_TYPES,))[0]:
            operands = as_numeric(b, *operands)
        return b.as_result(b.ew(name, *operands, dtype=b.result_types[0].dtype))

    return build


def as_number(operand: Operand) -> Operand:
    """A Python number or boolean as a float; values of the graph stay."""
    return operand if isinstance(operand, Value) else float(operand)


def as_numeric(b: Build, x: Operand, y: Operand) -> tuple[Operand, Operand]:
    """Two operands, booleans as 0 and 1 in the dtype of the result."""

    def numeric(operand: Operand) -> Operand:
        if not isinstance(operand, Value) or operand.dtype != BOOL:
            return operand
        return b.convert(operand, b.result_types[0].dtype)

    return numeric(x), numeric(y)


def add(b: Build, x: Value, y: Operand, *, alpha: float = 1) -> Value:
    """``x + alpha * y``."""
    return binary("add")(b, x, _multiply(b, y, alpha))


def sub(b: Build, x: Value, y: Operand, *, alpha: float = 1) -> Value:
    """``x - alpha * y``."""
    return binary("subtract")(b, x, _multiply(b, y, alpha))


def rsub(b: Build, x: Value, y: Operand, alpha: float = 1) -> Value:
    """``y - alpha * x``."""
    return binary("subtract")(b, y, _multiply(b, x, alpha))


def _multiply(b: Build, y: Operand, factor: float) -> Operand:
    """``factor * y`` in the dtype of the result."""
    if factor == 1:
        return y
    if not isinstance(y, Value):
        return y * factor
    return b.ew("multiply", y, float(factor), dtype=b.result_types[0].dtype)


def _ignoring_nan(name: str) -> Decomposition:
    """The extreme of two elements; if either is NaN, the other element."""

    def build(b: Build, x: Value, y: Value) -> Value:
        x, y = (b.broadcast(side, b.broadcast_shape([x, y])) for side in (x, y))
        extreme = b.ew(name, x, y, dtype=b.result_types[0].dtype)
        if extreme.type.is_floating:
            for side, alternative in ((x, y), (y, x)):
                is_nan = b.ew("compare", side, side, direction="NE")
                extreme = b.ew("select", is_nan, alternative, extreme, dtype=extreme.dtype)
        return b.as_result(extreme)

    return build


def to_copy(b: Build, x: Value, **_: Any) -> Value:
    """``x`` in the dtype of the result."""
    return b.as_result(x)


def lerp(b: Build, x: Value, end: Value, weight: Operand) -> Value:
    """``x + weight * (end - x)``; by a number of at least 1/2 it is computed from the end."""
    difference = b.ew("subtract", end, x)
    if isinstance(weight, Value) or abs(weight) < 0.5:  # noqa: PLR2004  PyTorch, aten/src/ATen/native/Lerp.h
        return b.as_result(b.ew("add", x, b.ew("multiply", difference, as_number(weight))))
    return b.as_result(b.ew("subtract", end, b.ew("multiply", difference, 1.0 - weight)))


def addcmul(b: Build, x: Value, y: Value, z: Value, value: float = 1) -> Value:
    """``x + value * y * z``."""
    return add(b, x, b.ew("multiply", y, z, dtype=b.result_types[0].dtype), alpha=value)


def addcdiv(b: Build, x: Value, y: Value, z: Value, value: float = 1) -> Value:
    """``x + value * y / z``."""
    return add(b, x, b.ew("divide", y, z, dtype=b.result_types[0].dtype), alpha=value)


def fma(b: Build, x: Value, y: Value, z: Value) -> Value:
    """``x * y + z``, with no rounding to a narrow type after the product."""
    return b.as_result(b.ew("add", b.ew("multiply", x, y, dtype="float32"), z, dtype="float32"))


def sign(b: Build, x: Value) -> Value:
    """1 above zero, -1 below it, else 0, also for NaN, unlike the Scalar Engine's function."""
    if not x.type.is_floating:
        return b.as_result(b.ew("sign", x, dtype=_function_dtype(b, x)))
    is_positive, is_negative = (
        b.ew("compare", x, 0.0, dtype="float32", direction=direction) for direction in ("GT", "LT")
    )
    return b.as_result(b.ew("subtract", is_positive, is_negative))


def isnan(b: Build, x: Value) -> Value:
    """True where x differs from itself."""
    return b.ew("compare", x, x, dtype="bool", direction="NE")


def isneginf(b: Build, x: Value) -> Value:
    """True where x is below the smallest finite number."""
    return b.ew("compare", x, -LARGEST, dtype="bool", direction="LT")


def isposinf(b: Build, x: Value) -> Value:
    """True where x is above the largest finite number."""
    return b.ew("compare", x, LARGEST, dtype="bool", direction="GT")


def isinf(b: Build, x: Value) -> Value:
    """True where the magnitude of x is above the largest finite number."""
    return b.ew("compare", b.ew("abs", x), LARGEST, dtype="bool", direction="GT")


LARGEST: Final = 3.4028234663852886e38
"""The largest finite float32."""


def _log_of_base(base: float) -> Decomposition:
    def build(b: Build, x: Value) -> Value:
        return b.as_result(b.ew("multiply", b.ew("log", x), 1 / math.log(base)))

    return build


def exp2(b: Build, x: Value) -> Value:
    """``2**x``."""
    return b.as_result(b.ew("exponential", b.ew("multiply", x, math.log(2))))


def truth(b: Build, x: Value) -> Value:
    """True where x is not zero."""
    return x if x.dtype == BOOL else b.ew("compare", x, 0.0, direction="NE")


def _logical(name: str) -> Decomposition:
    """A logical operation on operands as booleans."""

    def build(b: Build, x: Value, y: Value) -> Value:
        return b.ew(name, truth(b, x), truth(b, y))

    return build


def logical_not(b: Build, x: Value) -> Value:
    """True where x is zero."""
    return b.ew("not", x) if x.dtype == BOOL else b.ew("compare", x, 0.0, direction="EQ")


def bitwise_not(b: Build, x: Value) -> Value:
    """The negation of a boolean, or of the bits of an integer."""
    return b.ew("not", x)


def _bitwise(name: str) -> Decomposition:
    """A logical operation on booleans, or on the bits of integers."""

    def build(b: Build, x: Operand, y: Operand) -> Value:
        dtype = b.result_types[0].dtype
        operands = [b.convert(o, dtype) if isinstance(o, Value) else float(o) for o in (x, y)]
        return b.as_result(b.ew(name, *operands, dtype=dtype))

    return build


def _shift(side: str) -> Decomposition:
    """A shift of the bits of integers to the left or right; signed integers keep their sign."""

    def build(b: Build, x: Operand, y: Operand) -> Value:
        dtype = b.result_types[0].dtype
        if dtype not in INTEGERS:
            raise Unlowered(f"shifts of {dtype}")
        right_name = f"shift_right_{'logical' if dtype.startswith('u') else 'arithmetic'}"
        name = right_name if side == "right" else "shift_left"
        operands = [b.convert(o, dtype) if isinstance(o, Value) else float(o) for o in (x, y)]
        return b.as_result(b.ew(name, *operands, dtype=dtype, bits=8 * ITEM_BYTES[dtype]))

    return build


def nan_to_num(
    b: Build,
    x: Value,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Value:
    """`x` with NaN and infinities replaced by finite numbers."""
    if not x.type.is_floating:
        return b.as_result(x)
    is_nan = b.ew("compare", x, x, dtype="bool", direction="NE")
    result = b.ew("select", is_nan, float(nan or 0.0), x, dtype=x.dtype)
    largest = _largest(x)
    for direction, bound, number in (("GT", LARGEST, posinf), ("LT", -LARGEST, neginf)):
        is_beyond = b.ew("compare", x, bound, dtype="bool", direction=direction)
        replacement = math.copysign(largest, bound) if number is None else float(number)
        result = b.ew("select", is_beyond, replacement, result, dtype=x.dtype)
    return b.as_result(result)


def _largest(x: Value) -> float:
    """The largest finite number of x's type."""
    limits: Any = ml_dtypes.finfo
    return float(limits(x.type.numpy_dtype()).max)


def frac(b: Build, x: Value) -> Value:
    """The fractional part of x, with its sign."""
    return b.as_result(b.ew("subtract", x, b.ew("trunc", x)))


def copysign(b: Build, x: Value, y: Operand) -> Value:
    """The magnitude of x with the sign of y."""
    size = b.ew("abs", b.convert(x, b.result_types[0].dtype))
    if not isinstance(y, Value):
        return b.as_result(b.ew("multiply", size, math.copysign(1.0, y)))
    return b.as_result(
        b.ew("select", has_sign_bit(b, y), b.ew("negate", size), size, dtype=size.dtype)
    )


def hypot(b: Build, x: Value, y: Value) -> Value:
    """``sqrt(x * x + y * y)``."""
    dtype = b.result_types[0].dtype
    return b.as_result(
        b.ew("sqrt", b.total([b.ew("square", side, dtype=dtype) for side in (x, y)]))
    )


def heaviside(b: Build, x: Value, y: Value) -> Value:
    """0 below zero, 1 above it, and y at zero."""
    is_positive = b.ew("compare", x, 0.0, dtype="float32", direction="GT")
    is_zero = b.ew("compare", x, 0.0, dtype="bool", direction="EQ")
    return b.as_result(b.ew("select", is_zero, y, is_positive, dtype=x.dtype))


def xlogy(b: Build, x: Operand, y: Operand) -> Value:
    """``x * log(y)``; 0 where x is 0, unless y is NaN."""
    if not isinstance(y, Value):
        if math.isnan(y):  # also where x is 0
            return b.filled(y, b.result_types[0])
        logarithm: Operand = math.log(y) if y > 0 else -math.inf if y == 0 else math.nan
    else:
        logarithm = b.ew("log", y, dtype="float32")
    product = b.ew("multiply", as_number(x), logarithm, dtype="float32")
    if not isinstance(x, Value):
        return b.as_result(product) if x else b.as_result(b.ew("multiply", product, 0.0))
    is_zero = b.ew("compare", x, 0.0, dtype="bool", direction="EQ")
    return b.as_result(b.ew("select", is_zero, 0.0, product, dtype="float32"))


def logaddexp(b: Build, x: Value, y: Value) -> Value:
    """``max(x, y) + log(1 + exp(-|x - y|))``, which is ``log(exp(x) + exp(y))``."""
    largest = b.ew("maximum", x, y)
    gap = b.ew("negate", b.ew("abs", b.ew("subtract", x, y)))
    return b.as_result(b.ew("add", largest, b.ew("log_plus_one", b.ew("exponential", gap))))


def logaddexp2(b: Build, x: Value, y: Value) -> Value:
    """``max(x, y) + log2(1 + 2**-|x - y|)``, which is ``log2(2**x + 2**y)``."""
    largest = b.ew("maximum", x, y)
    gap = b.ew("multiply", b.ew("abs", b.ew("subtract", x, y)), -math.log(2))
    log_term = b.ew("log_plus_one", b.ew("exponential", gap))
    return b.as_result(b.ew("add", largest, b.ew("multiply", log_term, 1 / math.log(2))))


def logit(b: Build, x: Value, eps: float | None = None) -> Value:
    """``log(x / (1 - x))``, x clamped to [eps, 1 - eps] if eps is given."""
    if eps is not None:
        x = b.ew("minimum", b.ew("maximum", x, float(eps)), 1.0 - eps)
    odds = b.ew("divide", x, b.ew("subtract", 1.0, x), dtype="float32")
    return b.as_result(b.ew("log", odds))


def sinc(b: Build, x: Value) -> Value:
    """``sin(pi x) / (pi x)``, 1 at zero."""
    is_zero = b.ew("compare", x, 0.0, dtype="bool", direction="EQ")
    angle = b.ew("multiply", b.ew("select", is_zero, 1.0, x, dtype="float32"), math.pi)
    wave = b.ew("divide", b.ew("sine", angle), angle)
    return b.as_result(b.ew("select", is_zero, 1.0, wave, dtype="float32"))


def _scaled(factor: float) -> Decomposition:
    def build(b: Build, x: Value) -> Value:
        return b.as_result(b.ew("multiply", x, factor, dtype=_function_dtype(b, x)))

    return build


def erfc(b: Build, x: Value) -> Value:
    """``1 - erf(x)``."""
    return b.as_result(b.ew("subtract", 1.0, b.ew("erf", x, dtype="float32")))


_REAL_FUNCTIONS: Final[dict[str, Decomposition]] = {
    **FUNCTIONS,
    "logit": logit,
    "sinc": sinc,
    "erfc": erfc,
    "special_erfc": erfc,
    "deg2rad": _scaled(math.pi / 180),
    "rad2deg": _scaled(180 / math.pi),
    "log2": _log_of_base(2),
    "log10": _log_of_base(10),
    "exp2": exp2,
}

DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **{name: _unary(operation) for name, operation in _UNARY_OPERATIONS.items()},
    **{name: _rounding(operation) for name, operation in _ROUNDINGS.items()},
    **{name: binary(operation) for name, operation in _BINARY_OPERATIONS.items()},
    **{f"bitwise_{name}": _bitwise(name) for name in ("and", "or", "xor")},
    **{f"__{name}__": _bitwise(name) for name in ("and", "or", "xor")},
    **{f"bitwise_{side}_shift": _shift(side) for side in ("left", "right")},
    **{
        f"__{prefix}{side[0]}shift__": _shift(side)
        for side in ("left", "right")
        for prefix in ("", "i")
    },
    **{name: _with_floating_input(build) for name, build in _REAL_FUNCTIONS.items()},
    "atan2": atan2,
    "nan_to_num": nan_to_num,
    "frac": frac,
    "round": rounded,
    "sign": sign,
    "sgn": sign,
    "signbit": has_sign_bit,
    "copysign": copysign,
    "hypot": hypot,
    "heaviside": heaviside,
    "xlogy": xlogy,
    "logaddexp": logaddexp,
    "logaddexp2": logaddexp2,
    "positive": to_copy,
    "add": add,
    "sub": sub,
    "rsub": rsub,
    "fmax": _ignoring_nan("maximum"),
    "fmin": _ignoring_nan("minimum"),
    "_to_copy": to_copy,
    "lerp": lerp,
    "addcmul": addcmul,
    "fma": fma,
    "addcdiv": addcdiv,
    "isnan": isnan,
    "isneginf": isneginf,
    "isposinf": isposinf,
    "isinf": isinf,
    "bitwise_not": bitwise_not,
    **{f"logical_{name}": _logical(name) for name in ("and", "or", "xor")},
    "logical_not": logical_not,
}
