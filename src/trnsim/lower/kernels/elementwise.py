"""Elementwise operations as instructions on tiles; dimensions of length 1 are repeated."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Node, Operation
from trnsim.graph.ops import arithmetic, bits, comparison, functions, rounding
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.types import BOOL
from trnsim.isa import Engine
from trnsim.lower.kernels import balance, integers
from trnsim.lower.kernels.instructions import Operand, binary, copied, is_number, shape_of, widened
from trnsim.lower.kernels.tiles import LARGEST_FLOAT32, Tensor, dtype_of, new
from trnsim.lower.rules import TILE_RULES, tile_rule
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.language.math import rint

Into = Callable[[tuple[int, ...]], Tensor]
"""A function that returns a tile of the given shape for a result."""

_UPPER_HALF_MASK: Final = np.int32(-(2**12))
"""Bits of the upper half of a float32's significand, with its sign and exponent."""

_NKI_FUNCTIONS: Final[dict[type[Operation], Any]] = {
    rounding.Floor: nl.floor,
    rounding.Ceil: nl.ceil,
    rounding.Trunc: nl.trunc,
    rounding.RoundNearestEven: rint,
    functions.Sine: nl.sin,
    functions.Cosine: nl.cos,
    functions.Tan: nl.tan,
}
"""Functions of nki.language that compute an operation in float32."""

_RECIPROCAL_CYCLES: Final = 8.0
"""Cycles of the Vector Engine's reciprocal per element (nki.api.shared.rst, engine selection)."""
_ROUNDED_ONCE: Final = (
    *(arithmetic.Divide, arithmetic.Reciprocal, arithmetic.Square, arithmetic.Power),
    *(comparison.Select, rounding.Convert, rounding.BitcastConvert),
)
"""Operations with a rule on tiles whose result is rounded only once."""
_TRUTHS: Final = (
    *(comparison.Compare, comparison.IsFinite, rounding.Convert),
    *(bits.And, bits.Or, bits.Xor, bits.Not),
)
"""Operations whose rules give 0 or 1 if the result is a truth value."""


def apply(node: Node, operands: list[Operand], dst: Tensor | None = None) -> Tensor:
    """The tile of a node's result from its operands' tiles, in `dst` if that is given.

    As in HBM, integers have values of their type, and truth values are 0 or 1. Results of several
    instructions are float32 until they are written.
    """

    def into(shape: tuple[int, ...]) -> Tensor:
        is_of_dst = dst is not None and tuple(dst.shape) == tuple(shape)
        return dst if is_of_dst else new(shape, _format_of(node))

    if integers.is_exact(node):
        tile = integers.apply(node, operands, into)
    elif node.result.dtype == BOOL and not isinstance(node.operation, _TRUTHS):
        tile = alu(nl.not_equal, _compute(node, operands, new), 0.0, into)
    else:
        tile = _compute(node, operands, into)
    return tile if dst is None or tile is dst else copied(tile, dst.dtype, dst)


def _format_of(node: Node) -> Any:
    """The format of a result: its own, or float32 after several instructions."""
    result_type = node.result.type
    has_several = result_type.is_floating and type(node.operation) in TILE_RULES
    return (
        nl.float32
        if has_several and type(node.operation) not in _ROUNDED_ONCE
        else dtype_of(result_type.dtype)
    )


def _compute(node: Node, operands: list[Operand], into: Into) -> Tensor:
    operation = node.operation
    rule = TILE_RULES.get(type(operation))
    if rule is not None:
        return rule(node, into, *operands)
    if not isinstance(operation, Elementwise):
        raise InternalError(f"{operation.name} is no operation on tiles")
    if operation.activation:
        return _activation(getattr(nl, operation.activation), operands[0], into)
    if not operation.alu:
        raise NotModelled(f"{operation.name} has no instructions yet", fix="run it on the CPU")
    second = operands[1] if operation.number is None else operation.number
    return alu(getattr(nl, operation.alu), operands[0], second, into)


def alu(op: Any, left: Operand, right: Operand, into: Into = new) -> Tensor:
    """``left <op> right`` in the tile that `into` gives."""
    result = into(shape_of([left, right]))
    binary(result, op, left, right)
    return result


def _float32(tile: Tensor) -> Tensor:
    """A tile in float32, as functions of `nki.language` take it."""
    return tile if tile.dtype == nl.float32 else copied(tile, nl.float32)


def _activation(function: Any, tile: Tensor, into: Into = new) -> Tensor:
    result = into(tile.shape)
    balance.record(Engine.scalar, result)
    nisa.activation(dst=result, op=function, data=tile)
    return result


def _new_mask(shape: tuple[int, ...]) -> Tensor:
    """A tile for truth values."""
    return new(shape, nl.uint8)


@tile_rule(arithmetic.Reciprocal)
def _reciprocal(node: Node, into: Into, tile: Tensor) -> Tensor:
    del node
    return _inverse(tile, into)


@tile_rule(rounding.Convert)
def _copy(node: Node, into: Into, tile: Tensor) -> Tensor:
    """The tile in the result's dtype; a floating-point value becomes its integer part."""
    source = node.values[0].dtype
    if "float" in source and "float" in node.result.dtype:
        return tile  # rounded when it is written
    if node.result.dtype == BOOL:
        return alu(nl.not_equal, tile, 0.0, into)
    if "int" in node.result.dtype and "int" not in source:
        tile = nl.trunc(_float32(tile))
    result = into(tile.shape)
    return copied(tile, result.dtype, result)


@tile_rule(comparison.Select)
def _select(node: Node, into: Into, mask: Tensor, chosen: Operand, other: Operand) -> Tensor:
    """Elements of `chosen` where the mask is not zero, else of `other`."""
    del node
    result = into(shape_of([mask, chosen, other]))
    predicate = mask if mask.dtype == nl.uint8 else alu(nl.not_equal, mask, 0.0, _new_mask)
    _fill(result, other)
    source = chosen
    if is_number(chosen) or chosen.dtype != result.dtype:
        source = new(result.shape, result.dtype)
        _fill(source, chosen)
    shape = tuple(result.shape)
    nisa.tensor_copy_predicated(
        dst=result, src=widened(source, shape), predicate=widened(predicate, shape)
    )
    return result


def _fill(tile: Tensor, value: Operand) -> None:
    """Write a number, or the elements of another tile, to a tile."""
    if is_number(value):
        nisa.memset(dst=tile, value=int(value) if tile.dtype.is_integer else float(value))
    else:
        copied(value, tile.dtype, tile)


@tile_rule(comparison.Compare)
def _compare(node: Node, into: Into, left: Operand, right: Operand) -> Tensor:
    operation: Any = node.operation
    return alu(integers.DIRECTIONS[operation.direction], left, right, into)


@tile_rule(arithmetic.Divide)
def _divide(node: Node, into: Into, left: Operand, right: Operand) -> Tensor:
    del node
    return _quotient(left, right, into)


def _quotient(left: Operand, right: Operand, into: Into = new) -> Tensor:
    """The quotient, by a reciprocal and a product, as no engine divides; 1 / 0 is infinite."""
    if is_number(right):
        with np.errstate(divide="ignore", over="ignore"):
            inverse_number = float(np.float32(1) / np.float32(right))
        return alu(nl.multiply, left, inverse_number, into)
    return alu(nl.multiply, left, _inverse(right), into)


@tile_rule(arithmetic.Power)
def _power(node: Node, into: Into, base: Operand, exponent: Operand) -> Tensor:
    del node
    if not (is_number(exponent) or is_number(base)):
        shape = shape_of([base, exponent])
        base, exponent = widened(base, shape), widened(exponent, shape)
    return alu(nl.power, base, exponent, into)


@tile_rule(functions.ExponentialMinusOne)
def _exponential_minus_one(node: Node, into: Into, tile: Tensor) -> Tensor:
    """``(u - 1) x / log(u)`` with u = e**x; x where u is 1.

    The rounding error of u is in its logarithm too. Source: W. Kahan, in N. Higham, Accuracy and
    Stability of Numerical Algorithms, section 1.14.1.
    """
    del node, into
    power = _activation(nl.exp, tile)
    power_less_1 = alu(nl.subtract, power, 1.0)
    is_small = alu(nl.less, _activation(nl.abs, tile), 0.5, _new_mask)
    log_operand = new(tile.shape)
    nisa.memset(dst=log_operand, value=1.0)
    nisa.tensor_copy_predicated(dst=log_operand, src=power, predicate=is_small)
    log = _activation(nl.log, log_operand)
    ratio = alu(nl.multiply, power_less_1, alu(nl.multiply, tile, _inverse(log)))
    return _choose_by_magnitude(tile, power_less_1, ratio, power)


@tile_rule(functions.LogPlusOne)
def _log_plus_one(node: Node, into: Into, tile: Tensor) -> Tensor:
    """``log(u) x / (u - 1)`` with u = 1 + x; x where u is 1.

    Source: N. Higham, as in `_exponential_minus_one`, problem 1.5.
    """
    del node, into
    shifted = alu(nl.add, tile, 1.0)
    log = _activation(nl.log, shifted)
    rounded_x = alu(nl.subtract, shifted, 1.0)
    ratio = alu(nl.multiply, log, alu(nl.multiply, tile, _inverse(rounded_x)))
    return _choose_by_magnitude(tile, log, ratio, shifted)


def _clip(tile: Tensor, low: float, high: float) -> Tensor:
    result = new(tile.shape)
    nisa.tensor_scalar(
        dst=result, data=tile, op0=nl.maximum, operand0=low, op1=nl.minimum, operand1=high
    )
    return result


def _inverse(tile: Tensor, into: Into = new) -> Tensor:
    result = into(tile.shape)
    balance.record(Engine.vector, result, _RECIPROCAL_CYCLES)
    nisa.reciprocal(dst=result, data=tile)
    return result


def _choose_by_magnitude(x: Tensor, large: Tensor, small: Tensor, u: Tensor) -> Tensor:
    """`x` where `u` is 1, else `small` where ``|x| < 1 / 2``, else `large`."""
    is_small = alu(nl.less, _activation(nl.abs, x), 0.5, _new_mask)
    result = copied(large, nl.float32)
    nisa.tensor_copy_predicated(dst=result, src=small, predicate=is_small)
    is_exact = alu(nl.equal, u, 1.0, _new_mask)
    nisa.tensor_copy_predicated(dst=result, src=_float32(x), predicate=is_exact)
    return result


@tile_rule(functions.Cbrt)
def _cbrt(node: Node, into: Into, tile: Tensor) -> Tensor:
    """``sign(x) abs(x) ** (1 / 3)``."""
    del node
    root = alu(nl.power, _activation(nl.abs, tile), 1 / 3)
    return alu(nl.multiply, root, _activation(nl.sign, tile), into)


@tile_rule(rounding.BitcastConvert)
def _bitcast(node: Node, into: Into, tile: Tensor) -> Tensor:
    """The bits as they are stored, read as the other type."""
    bits = copied(tile, dtype_of(node.values[0].dtype)).view(dtype_of(node.result.dtype))
    result = into(tile.shape)
    return copied(bits, result.dtype, result)


@tile_rule(comparison.IsFinite)
def _is_finite(node: Node, into: Into, tile: Tensor) -> Tensor:
    """``x - x == 0``: the difference of infinities or NaN is NaN."""
    del node
    return alu(nl.equal, alu(nl.subtract, tile, tile), 0.0, into)


@tile_rule(arithmetic.Clamp)
def _clamp(node: Node, into: Into, low: Operand, tile: Tensor, high: Operand) -> Tensor:
    del node
    return alu(nl.minimum, alu(nl.maximum, tile, low), high, into)


@tile_rule(rounding.RoundNearestAfz)
def _round_away(node: Node, into: Into, tile: Tensor) -> Tensor:
    """``trunc(x)``, and 1 further from zero where the fraction is at least a half."""
    del node
    integer = nl.trunc(_float32(tile))
    fraction = _activation(nl.abs, alu(nl.subtract, tile, integer))
    is_rounded_up = alu(nl.greater_equal, fraction, 0.5)
    return alu(nl.add, integer, alu(nl.multiply, is_rounded_up, _activation(nl.sign, tile)), into)


@tile_rule(rounding.ReducePrecision)
def _reduce_precision(node: Node, into: Into, tile: Tensor) -> Tensor:
    """The number rounded to the narrow format; 0 below its range."""
    operation: Any = node.operation
    narrow = copied(tile, dtype_of(operation.format))
    smallest = operation.smallest(node.values[0].dtype)
    if not smallest:
        result = into(tile.shape)
        return copied(narrow, result.dtype, result)
    is_kept = alu(nl.greater_equal, _activation(nl.abs, tile), smallest)
    return alu(nl.multiply, copied(narrow, nl.float32), is_kept, into)


@tile_rule(bits.Not)
def _not(node: Node, into: Into, tile: Tensor) -> Tensor:
    """The negation of booleans; module `integers` inverts the bits of integers."""
    del node
    return alu(nl.equal, tile, 0.0, into)


@tile_rule(bits.And, bits.Or, bits.Xor)
def _logic(node: Node, into: Into, left: Operand, right: Operand) -> Tensor:
    """And, or, and exclusive or of booleans; module `integers` has those of integers' bits."""
    return alu(_LOGICAL[type(node.operation)], left, right, into)


@tile_rule(*_NKI_FUNCTIONS)
def _call_language(node: Node, into: Into, tile: Tensor) -> Tensor:
    """A function of `nki.language` that takes several instructions."""
    del into
    return _NKI_FUNCTIONS[type(node.operation)](_float32(tile))


def _signed_remainder(left: Operand, right: Operand) -> Tensor:
    """``left - right * n`` for the integer n nearest to the quotient: a remainder of either sign.

    Multiples of 2**24, 2**12 and 1 divisors are subtracted, one after the other. Each multiplier is
    a quotient of at most 12 bits, rounded to an integer; its products with the two halves of the
    divisor are exact in float32. So the remainder is exact for quotients up to 2**36.
    """
    for places in (24, 12, 0):
        divisor = _scale(right, 2.0**places)
        quotient = rint(_quotient(left, divisor))
        if places:  # the scaled divisor may be infinite
            quotient = _clip(quotient, -(2.0**12), 2.0**12)
        for half in _split_significand(divisor):
            left = alu(nl.subtract, left, alu(nl.multiply, quotient, half))
    return left


def _scale(value: Operand, number: float) -> Operand:
    if is_number(value):
        with np.errstate(over="ignore"):
            return float(np.float32(value) * np.float32(number))
    return value if number == 1 else alu(nl.multiply, value, number)


def _split_significand(value: Operand) -> tuple[Operand, Operand]:
    """A float32 as the sum of two: the upper 12 bits of its significand, and the rest.

    Infinity counts as the largest finite number, whose quotient with a finite one is 0.
    """
    if is_number(value):
        clipped = np.clip(np.float32(value), -LARGEST_FLOAT32, LARGEST_FLOAT32)
        upper_number = (clipped.view(np.int32) & _UPPER_HALF_MASK).view(np.float32)
        return float(upper_number), float(clipped - upper_number)
    clipped_tile = new(value.shape)
    nisa.tensor_scalar(
        dst=clipped_tile,
        data=value,
        op0=nl.minimum,
        operand0=LARGEST_FLOAT32,
        op1=nl.maximum,
        operand1=-LARGEST_FLOAT32,
    )
    upper = new(clipped_tile.shape)
    nisa.tensor_scalar(
        dst=upper.view(nl.int32),
        data=clipped_tile.view(nl.int32),
        op0=nl.bitwise_and,
        operand0=int(_UPPER_HALF_MASK),
    )
    return upper, alu(nl.subtract, clipped_tile, upper)


@tile_rule(arithmetic.Remainder)
def _remainder(node: Node, into: Into, left: Operand, right: Operand) -> Tensor:
    """``left - right * trunc(left / right)``, which has the sign of `left`."""
    del node, into
    remainder = _signed_remainder(left, right)
    sign = _sign(left)
    size = abs(right) if is_number(right) else _activation(nl.abs, right)
    step = sign * size if is_number(left) and is_number(right) else alu(nl.multiply, sign, size)
    return _correct_sign(remainder, sign, step)


@tile_rule(arithmetic.FloorRemainder)
def _floor_remainder(node: Node, into: Into, left: Operand, right: Operand) -> Tensor:
    """``left - right * floor(left / right)``, which has the sign of `right`."""
    del node, into
    return _correct_sign(_signed_remainder(left, right), _sign(right), right)


def _sign(value: Operand) -> Operand:
    """1 or -1, by the sign of the value; 0 for a zero in a tile."""
    return math.copysign(1.0, value) if is_number(value) else _activation(nl.sign, value)


def _correct_sign(remainder: Tensor, sign: Operand, step: Operand) -> Tensor:
    """`remainder`, plus `step` where its sign is not `sign`."""
    is_opposite = alu(nl.less, alu(nl.multiply, remainder, sign), 0.0, _new_mask)
    corrected = alu(nl.add, remainder, step)
    nisa.tensor_copy_predicated(dst=remainder, src=corrected, predicate=is_opposite)
    return remainder


@tile_rule(arithmetic.Square)
def _square(node: Node, into: Into, tile: Tensor) -> Tensor:
    del node
    return _activation(nl.square, tile, into)


_LOGICAL: Final[dict[type[Operation], Any]] = {
    bits.And: nl.logical_and,
    bits.Or: nl.logical_or,
    bits.Xor: nl.logical_xor,
}
