"""Operations on each element: arithmetic, functions, comparisons, bits, conversions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import copysign, inf
from typing import Any, Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import Value
from trnsim.graph.building import functions
from trnsim.graph.building.build import Operand
from trnsim.graph.ops.layout import Reinterpret
from trnsim.graph.types import BOOL, ITEM_BYTES
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, is_splat, splat_value
from trnsim.jax.stablehlo.wide import Wide, from_words, wide_operation

_SAME_NAME: Final = (
    *("abs", "add", "and", "cbrt", "ceil", "cosine", "divide", "exponential"),
    *("exponential_minus_one", "floor", "log", "log_plus_one", "logistic", "maximum", "minimum"),
    *("multiply", "negate", "not", "or", "power", "remainder", "round_nearest_afz"),
    *("round_nearest_even", "rsqrt", "sign", "sine", "sqrt", "subtract", "tan", "tanh", "xor"),
)
"""Operations that the graph has under the same name."""
_BIT_OPERATIONS: Final = ("popcnt", "shift_left", "shift_right_logical")
_SIGNED_BY_BYTES: Final = {1: "int8", 2: "int16", 4: "int32"}

_NEUTRAL: Final[dict[str, tuple[tuple[float, ...], tuple[float, ...]]]] = {
    "and": ((1.0,), (1.0,)),
    "or": ((0.0,), (0.0,)),
    "maximum": ((-inf,), (-inf,)),
    "minimum": ((inf,), (inf,)),
    "multiply": ((1.0,), (1.0,)),
    "divide": ((), (1.0,)),
    "subtract": ((), (0.0,)),
}
"""For each operation the (left, right) operands that leave the other operand unchanged.

They leave NaN and -0 unchanged, too.
"""


def apply_elementwise(
    scope: Scope, name: str, *operands: Operand, dtype: str = "", **attributes: Any
) -> Any:
    """An elementwise operation of the graph; NotModelled if no operand is a tensor."""
    if not any(isinstance(operand, Value) for operand in operands):
        raise NotModelled(f"{name} of numbers alone")
    return scope.graph.elementwise(name, *operands, dtype=dtype, **attributes)


def operands_of(scope: Scope, op: Op) -> list[Operand]:
    """The operands, numbers for splats; at least one of them is a tensor."""
    operands = [scope.operand(ssa) for ssa in op.operands]
    if not any(isinstance(operand, Value) for operand in operands):
        operands[0] = scope.value(op.operands[0])
    return operands


@rule(*(f"stablehlo.{name}" for name in _SAME_NAME), is_by_parts=True)
def same_operation(scope: Scope, op: Op) -> Entry:
    """The operation of that name."""
    name = op.name.partition(".")[2]
    if any(isinstance(scope.entry(ssa), Wide) for ssa in op.operands):
        return wide_operation(scope, name, [scope.entry(ssa) for ssa in op.operands])
    identity_operand = _identity_operand(scope, op, name)
    if identity_operand is not None:
        return identity_operand
    dtype, operands = scope.result(op).dtype, operands_of(scope, op)
    source = _logistic_argument(scope, *operands) if name == "divide" else None
    if source is not None:
        return apply_elementwise(scope, "logistic", source, dtype=dtype)
    return apply_elementwise(scope, name, *operands, dtype=dtype)


def _logistic_argument(scope: Scope, dividend: Operand, divisor: Operand) -> Value | None:
    """The x of ``1 / (1 + exp(-x))``, as JAX writes its logistic; None for another quotient."""
    if dividend != 1.0 or not isinstance(divisor, Value):
        return None
    value = divisor
    for name in ("add", "exponential", "negate"):
        node = scope.graph.producer(value)
        if node is None or node.name != name or len(node.values) != 1:
            return None
        if name == "add" and 1.0 not in node.operands:
            return None
        (value,) = node.values
    return value


def _identity_operand(scope: Scope, op: Op, name: str) -> Entry | None:
    """The operand that the operation returns unchanged; None if it changes both operands."""
    if name not in _NEUTRAL:
        return None
    if name in ("and", "or") and scope.result(op).dtype != BOOL:
        return None
    for side, numbers in enumerate(_NEUTRAL[name]):
        array = scope.constant_of(op.operands[side])
        if array is None or not array.size or not is_splat(array):
            continue
        number = splat_value(array)
        # -0 equals 0, but -0 - -0 is 0.
        if number in numbers and not (name == "subtract" and copysign(1.0, number) < 0):
            return scope.entry(op.operands[1 - side])
    return None


@rule(*(f"stablehlo.{name}" for name in _BIT_OPERATIONS))
def bits(scope: Scope, op: Op) -> Entry:
    """Shifts and bit counts, which depend on the number of bits of their type."""
    name = op.name.partition(".")[2]
    entries = [scope.entry(ssa) for ssa in op.operands]
    if any(isinstance(entry, Wide) for entry in entries):
        return wide_operation(scope, name, entries)
    dtype = scope.result(op).dtype
    operands = operands_of(scope, op)
    return apply_elementwise(scope, name, *operands, dtype=dtype, bits=8 * ITEM_BYTES[dtype])


@rule("stablehlo.shift_right_arithmetic")
def shift_right_arithmetic(scope: Scope, op: Op) -> Entry:
    """A shift that keeps the highest bit, of unsigned integers too."""
    type_ = scope.result(op)
    signed_dtype = _SIGNED_BY_BYTES[ITEM_BYTES[type_.dtype]]
    sides = [_as_signed(scope, operand, signed_dtype) for operand in operands_of(scope, op)]
    bits_ = 8 * ITEM_BYTES[signed_dtype]
    shifted_value = apply_elementwise(
        scope, "shift_right_arithmetic", *sides, dtype=signed_dtype, bits=bits_
    )
    if type_.dtype == signed_dtype:
        return shifted_value
    return apply_elementwise(
        scope, "bitcast_convert", shifted_value, dtype=type_.dtype, to=type_.dtype
    )


def _as_signed(scope: Scope, operand: Operand, signed_dtype: str) -> Operand:
    """Integers with the same bits in a type with a sign."""
    if not isinstance(operand, Value):
        bits_ = 8 * ITEM_BYTES[signed_dtype]
        return operand - 2**bits_ if operand >= 2 ** (bits_ - 1) else operand
    if operand.dtype == signed_dtype:
        return operand
    signed_value: Value = apply_elementwise(
        scope, "bitcast_convert", operand, dtype=signed_dtype, to=signed_dtype
    )
    return signed_value


@rule("stablehlo.count_leading_zeros", composed="shifts, or, not, popcnt")
def count_leading_zeros(scope: Scope, op: Op) -> Entry:
    """The number of zero bits, after all bits below the highest bit that is set are set."""
    x, size = scope.value(op.operands[0]), 8 * ITEM_BYTES[scope.result(op).dtype]
    places = 1
    while places < size:
        moved_value = apply_elementwise(
            scope, "shift_right_logical", x, float(places), dtype=x.dtype, bits=size
        )
        x, places = apply_elementwise(scope, "or", x, moved_value, dtype=x.dtype), 2 * places
    return apply_elementwise(
        scope, "popcnt", apply_elementwise(scope, "not", x), dtype=x.dtype, bits=size
    )


@rule("stablehlo.is_finite")
def is_finite(scope: Scope, op: Op) -> Entry:
    """True for elements that are neither infinite nor NaN."""
    return apply_elementwise(scope, "is_finite", scope.value(op.operands[0]))


@rule("stablehlo.compare")
def compare(scope: Scope, op: Op) -> Entry:
    """A comparison; floating point may be compared in the total order of its bits."""
    direction = mlir.symbol(op, "comparison_direction")
    operands = operands_of(scope, op)
    if mlir.symbol(op, "compare_type") == "TOTALORDER":
        operands = [in_total_order(scope, scope.value(ssa)) for ssa in op.operands]
    return apply_elementwise(scope, "compare", *operands, dtype=BOOL, direction=direction)


def in_total_order(scope: Scope, x: Value) -> Value:
    """Integers in the order of floating point: -NaN, -inf, .., -0, 0, .., inf, NaN.

    Below 0 all bits but the sign are inverted. Source: IEEE 754-2019, section 5.10.
    """
    if not x.type.is_floating:
        return x
    size = ITEM_BYTES[x.dtype]
    signed_dtype, sign_bit = _SIGNED_BY_BYTES[size], 8 * size - 1
    pattern = apply_elementwise(scope, "bitcast_convert", x, dtype=signed_dtype, to=signed_dtype)
    sign = apply_elementwise(
        scope, "shift_right_arithmetic", pattern, float(sign_bit), dtype=signed_dtype, bits=8 * size
    )
    magnitude_mask = apply_elementwise(
        scope, "and", sign, float(2**sign_bit - 1), dtype=signed_dtype
    )
    ordered_value: Value = apply_elementwise(
        scope, "xor", pattern, magnitude_mask, dtype=signed_dtype
    )
    return ordered_value


@rule("stablehlo.select")
def select(scope: Scope, op: Op) -> Entry:
    """Elements of two operands, chosen by booleans; a single boolean chooses a whole tensor."""
    pred, *sides = op.operands
    constant = scope.constant_of(pred)
    if constant is not None and is_splat(constant) and constant.size:
        return scope.entry(sides[0] if splat_value(constant) else sides[1])
    if _is_predicate(scope, sides):
        return scope.entry(pred)
    type_ = scope.result(op)
    if any(isinstance(scope.entry(ssa), Wide) for ssa in sides):
        raise NotModelled("a choice between integers of 64 bits")
    predicate = broadcast_scalar(scope, scope.value(pred), sides)
    return apply_elementwise(
        scope, "select", predicate, *map(scope.operand, sides), dtype=type_.dtype
    )


def _is_predicate(scope: Scope, sides: Sequence[Any]) -> bool:
    """True if a choice between true and false returns its own predicate."""
    numbers = [scope.constant_of(ssa) for ssa in sides]
    return all(
        array is not None and array.dtype == np.bool_ and array.size and (array == truth).all()
        for array, truth in zip(numbers, (True, False), strict=True)
    )


def broadcast_scalar(scope: Scope, value: Value, ssas: Any) -> Value:
    """A scalar as a tensor of the shape of other operands."""
    shape = mlir.shape_of(ssas[0].type)
    return value if value.shape else scope.graph.broadcast_in_dim(value, shape, ())


@rule("stablehlo.clamp")
def clamp(scope: Scope, op: Op) -> Entry:
    """Elements clamped to bounds, which are tensors or scalars."""
    lower, x, upper = op.operands
    bounds = [
        broadcast_scalar(scope, bound, [x]) if isinstance(bound, Value) else bound
        for bound in map(scope.operand, (lower, upper))
    ]
    value = scope.value(x)
    return apply_elementwise(scope, "clamp", bounds[0], value, bounds[1], dtype=value.dtype)


@rule("stablehlo.convert", is_by_parts=True)
def convert(scope: Scope, op: Op) -> Entry:
    """Elements of another type."""
    result_type, entry = op.results[0].type, scope.entry(op.operands[0])
    name = mlir.element_type(result_type)
    is_constant = isinstance(entry, np.ndarray)
    if isinstance(entry, Wide) or (name in ("uint64", "int64") and not is_constant):
        return wide_operation(scope, f"to {name}", [entry])
    if is_constant and (name.endswith("64") or entry.dtype.itemsize == _LONG_BYTES):
        with np.errstate(all="ignore"):
            return entry.astype(name)
    value, type_ = scope.tensor(entry), scope.result(op)
    if value.dtype == name:
        return value
    return apply_elementwise(scope, "convert", value, dtype=type_.dtype)


_LONG_BYTES: Final = 8


@rule("stablehlo.bitcast_convert")
def bitcast_convert(scope: Scope, op: Op) -> Entry:
    """The same bits as another type; a shorter type adds a dimension, a longer type removes it."""
    entry = scope.entry(op.operands[0])
    name = mlir.element_type(op.results[0].type)
    if name == "uint64":
        return from_words(scope, scope.tensor(entry))
    if isinstance(entry, Wide):
        return entry.words(scope)
    value, type_ = scope.tensor(entry), scope.result(op)
    if value.dtype == type_.dtype:
        return value
    if ITEM_BYTES[value.dtype] == ITEM_BYTES[type_.dtype]:
        return apply_elementwise(scope, "bitcast_convert", value, dtype=type_.dtype, to=type_.dtype)
    if ITEM_BYTES[value.dtype] > ITEM_BYTES[type_.dtype]:
        value = scope.graph.reshape(value, (*value.shape, 1))
    pattern = scope.graph.apply(Reinterpret(type_.dtype), value)
    return scope.graph.reshape(pattern, type_.shape)


@rule(
    "stablehlo.reduce_precision",
    limits="only exponent and mantissa bits of float32, bfloat16, float16 and 8-bit formats",
)
def reduce_precision(scope: Scope, op: Op) -> Entry:
    """Elements rounded to a format."""
    widths = (mlir.number(op, "exponent_bits"), mlir.number(op, "mantissa_bits"))
    if widths not in _FORMATS:
        formats = ", ".join(f"{exponent} and {mantissa}" for exponent, mantissa in _FORMATS)
        raise NotModelled(
            f"reduce_precision to {widths[0]} exponent and {widths[1]} mantissa bits; "
            f"there are formats of {formats}",
            fix="round to one of these",
        )
    value = scope.value(op.operands[0])
    return apply_elementwise(
        scope, "reduce_precision", value, dtype=value.dtype, format=_FORMATS[widths]
    )


_FORMATS: Final = {
    (8, 23): "float32",
    (8, 7): "bfloat16",
    (5, 10): "float16",
    (5, 2): "float8_e5m2",
}


@rule("stablehlo.atan2", composed="divide, atan, select")
def atan2(scope: Scope, op: Op) -> Entry:
    """The angle of a point."""
    return compose(scope, op, functions.atan2)


def compose(scope: Scope, op: Op, build: Callable[..., Value]) -> Entry:
    """The result of a composition of several operations on the operands."""
    scope.b.result_types = [scope.result(op)]
    return build(scope.b, *map(scope.value, op.operands))


@rule("stablehlo.map", composed="the operations of its body")
def map_(scope: Scope, op: Op) -> Entry:
    """The body applied to whole tensors: it has only elementwise operations."""
    block = op.regions[0].blocks[0]
    (result,) = scope.run(block, [scope.entry(ssa) for ssa in op.operands])
    shape = mlir.shape_of(op.results[0].type)
    return np.broadcast_to(result, shape) if isinstance(result, np.ndarray) else result
