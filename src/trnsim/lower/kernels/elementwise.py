"""Elementwise operations as instructions on tiles [rows, columns], or [rows, 1] for columns."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from trnsim.errors import InternalError, NotModelled
from trnsim.graph import Node, Operation
from trnsim.graph.ops import arithmetic, bits, comparison, functions, rounding
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.types import BOOL, INTEGERS
from trnsim.lower.kernels import integers
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.lower.rules import ON_TILES, on_tiles
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.language.math import rint

Operand = Any
"""A tile, or a number."""

_UPPER_HALF: Final = np.int32(-(2**12))
_LARGEST: Final = np.finfo(np.float32).max

_LANGUAGE: Final[dict[type[Operation], Any]] = {
    rounding.Floor: nl.floor,
    rounding.Ceil: nl.ceil,
    rounding.Trunc: nl.trunc,
    rounding.RoundNearestEven: rint,
    functions.Sine: nl.sin,
    functions.Cosine: nl.cos,
    functions.Tan: nl.tan,
}

_TRUTHS: Final = (
    *(comparison.Compare, comparison.IsFinite, rounding.Convert),
    *(bits.And, bits.Or, bits.Xor, bits.Not),
)
"""Operations whose rules give 0 or 1 where the result is a truth value."""


def apply(node: Node, operands: list[Operand]) -> Tensor:
    """The tile that a node computes from its operands' tiles.

    Integers have the values that their type holds, and truth values are 0 or 1, as a kernel of
    their own would write them; everything else is float32.
    """
    if integers.is_exact(node):
        return integers.apply(node, operands)
    wanted = node.result.dtype
    found = _applied(node, operands, dtype_of(wanted) if wanted in INTEGERS else nl.float32)
    is_open = wanted == BOOL and not isinstance(node.operation, _TRUTHS)
    return binary(nl.not_equal, found, 0.0) if is_open else found


def _applied(node: Node, operands: list[Operand], dtype: Any) -> Tensor:
    operation = node.operation
    rule = ON_TILES.get(type(operation))
    if rule is not None:
        return rule(node, dtype, *operands)
    if not isinstance(operation, Elementwise):
        raise InternalError(f"{operation.name} is no operation on tiles")
    if operation.activation:
        return _activation(getattr(nl, operation.activation), operands[0], dtype)
    if not operation.alu:
        raise NotModelled(f"{operation.name} has no instructions yet", fix="run it on the CPU")
    other = operands[1] if operation.number is None else operation.number
    return binary(getattr(nl, operation.alu), operands[0], other, dtype)


def binary(op: Any, left: Operand, right: Operand, dtype: Any = nl.float32) -> Tensor:
    """``left <op> right``: a number or a [rows, 1] column on either side is repeated."""
    is_reversed = not _is_wide(left, right)
    data, other = (right, left) if is_reversed else (left, right)
    result = new(data.shape, dtype)
    if _is_number(other) or other.shape != data.shape:
        operand = other if _is_number(other) else _float32(other)
        nisa.tensor_scalar(dst=result, data=data, op0=op, operand0=operand, reverse0=is_reversed)
    else:
        nisa.tensor_tensor(dst=result, data1=data, data2=other, op=op)
    return result


def _is_number(value: Operand) -> bool:
    return isinstance(value, int | float)


def _is_wide(left: Operand, right: Operand) -> bool:
    """Whether `left` has all columns, so that `right` may be repeated."""
    if _is_number(left) or _is_number(right):
        return not _is_number(left)
    return bool(left.shape[1] >= right.shape[1])


def _float32(tile: Tensor) -> Tensor:
    """A column that tensor_scalar takes."""
    if tile.dtype == nl.float32:
        return tile
    wide = new(tile.shape)
    nisa.tensor_copy(dst=wide, src=tile)
    return wide


def _activation(function: Any, tile: Tensor, dtype: Any = nl.float32) -> Tensor:
    result = new(tile.shape, dtype)
    nisa.activation(dst=result, op=function, data=tile)
    return result


@on_tiles(arithmetic.Reciprocal)
def _reciprocal(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    del node
    result = new(tile.shape, dtype)
    nisa.reciprocal(dst=result, data=tile)
    return result


@on_tiles(rounding.Convert)
def _copy(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """`convert`: truncated towards zero on the way from floating point to integers."""
    source = node.values[0].dtype
    if "float" in source and "float" in node.result.dtype:
        return tile  # rounded when it is written
    if node.result.dtype == BOOL:
        return binary(nl.not_equal, tile, 0.0, dtype)
    if "int" in node.result.dtype and "int" not in source:
        tile = nl.trunc(_float32(tile))
    result = new(tile.shape, dtype)
    nisa.tensor_copy(dst=result, src=tile)
    return result


@on_tiles(comparison.Select)
def _select(node: Node, dtype: Any, mask: Tensor, yes: Operand, no: Operand) -> Tensor:
    """Elements of `yes` where the mask is not zero, else of `no`."""
    del node
    width = max(o.shape[1] for o in (mask, yes, no) if not _is_number(o))
    shape = (mask.shape[0], width)
    result = _filled(no, shape, dtype)
    chosen = binary(nl.not_equal, mask, 0.0, nl.uint8)
    nisa.tensor_copy_predicated(
        dst=result, src=_filled(yes, shape, dtype), predicate=_widened(chosen, width)
    )
    return result


def _widened(tile: Tensor, width: int) -> Tensor:
    return tile if tile.shape[1] == width else tile.broadcast(1, width)


def _filled(value: Operand, shape: tuple[int, int], dtype: Any) -> Tensor:
    """A tile of its own with a number or the elements of a tile."""
    result = new(shape, dtype)
    if _is_number(value):
        nisa.memset(dst=result, value=int(value) if dtype.is_integer else float(value))
    else:
        nisa.tensor_copy(dst=result, src=_widened(value, shape[1]))
    return result


@on_tiles(comparison.Compare)
def _compare(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    direction = node.operation.direction if isinstance(node.operation, comparison.Compare) else ""
    return binary(_DIRECTIONS[direction], left, right, dtype)


@on_tiles(arithmetic.Divide)
def _divide(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    del node
    return _divided(left, right, dtype)


def _divided(left: Operand, right: Operand, dtype: Any = nl.float32) -> Tensor:
    """The product with the reciprocal, as no engine divides; that of zero is infinite."""
    if _is_number(right):
        with np.errstate(divide="ignore", over="ignore"):
            inverse_number = float(np.float32(1) / np.float32(right))
        return binary(nl.multiply, left, inverse_number, dtype)
    inverse = new(right.shape)
    nisa.reciprocal(dst=inverse, data=right)
    return binary(nl.multiply, left, inverse, dtype)


@on_tiles(arithmetic.Power)
def _power(node: Node, dtype: Any, base: Operand, exponent: Operand) -> Tensor:
    del node
    if _is_number(exponent) or _is_number(base):
        return binary(nl.power, base, exponent, dtype)
    shape = (base.shape[0], max(base.shape[1], exponent.shape[1]))
    return binary(nl.power, _widened(base, shape[1]), _widened(exponent, shape[1]), dtype)


@on_tiles(functions.ExponentialMinusOne)
def _exponential_minus_one(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """``(u - 1) x / log(u)`` with u the power, where that is not x itself.

    What u lost by rounding its logarithm lost too. Source: W. Kahan, in N. Higham, Accuracy and
    Stability of Numerical Algorithms, section 1.14.1.
    """
    del node
    power = _activation(nl.exp, tile)
    less = binary(nl.subtract, power, 1.0)
    is_near = binary(nl.less, _activation(nl.abs, tile), 0.5, nl.uint8)
    legal = new(tile.shape)
    nisa.memset(dst=legal, value=1.0)
    nisa.tensor_copy_predicated(dst=legal, src=power, predicate=is_near)
    log = _activation(nl.log, legal)
    ratio = binary(nl.multiply, less, binary(nl.multiply, tile, _inverse(log)))
    return _where_small(tile, less, ratio, power, dtype)


@on_tiles(functions.LogPlusOne)
def _log_plus_one(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """``log(u) x / (u - 1)`` with u = 1 + x, where that is not x itself.

    Source: as above, problem 1.5.
    """
    del node
    more = binary(nl.add, tile, 1.0)
    log = _activation(nl.log, more)
    less = binary(nl.subtract, more, 1.0)
    ratio = binary(nl.multiply, log, binary(nl.multiply, tile, _inverse(less)))
    return _where_small(tile, log, ratio, more, dtype)


def _within(tile: Tensor, low: float, high: float) -> Tensor:
    result = new(tile.shape)
    nisa.tensor_scalar(
        dst=result, data=tile, op0=nl.maximum, operand0=low, op1=nl.minimum, operand1=high
    )
    return result


def _inverse(tile: Tensor) -> Tensor:
    result = new(tile.shape)
    nisa.reciprocal(dst=result, data=tile)
    return result


def _where_small(x: Tensor, large: Tensor, near: Tensor, one: Tensor, dtype: Any) -> Tensor:
    """`near` where the magnitude of `x` is below 1 / 2, and `x` itself where `one` is 1."""
    is_near = binary(nl.less, _activation(nl.abs, x), 0.5, nl.uint8)
    result = new(x.shape, dtype)
    nisa.tensor_copy(dst=result, src=large)
    nisa.tensor_copy_predicated(dst=result, src=near, predicate=is_near)
    is_one = binary(nl.equal, one, 1.0, nl.uint8)
    nisa.tensor_copy_predicated(dst=result, src=_float32(x), predicate=is_one)
    return result


@on_tiles(functions.Cbrt)
def _cbrt(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """``e ** (log(x) / 3)``, and one step of Newton's method."""
    del node
    size = _within(_activation(nl.abs, tile), 2.0**-64, 2.0**64)
    root = _activation(nl.exp, binary(nl.multiply, _activation(nl.log, size), 1 / 3))
    over = binary(nl.multiply, size, _inverse(binary(nl.multiply, root, root)))
    step = binary(nl.multiply, binary(nl.subtract, over, root), 1 / 3)
    root = binary(nl.add, root, step)
    return binary(nl.multiply, root, _activation(nl.sign, tile), dtype)


@on_tiles(rounding.BitcastConvert)
def _bitcast(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """The bits as they are stored, read as the other type."""
    stored = new(tile.shape, dtype_of(node.values[0].dtype))
    nisa.tensor_copy(dst=stored, src=tile)
    result = new(tile.shape, dtype)
    nisa.tensor_copy(dst=result, src=stored.view(dtype_of(node.result.dtype)))
    return result


@on_tiles(comparison.IsFinite)
def _is_finite(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """``x - x == 0``: of infinities and NaN it is NaN."""
    del node
    return binary(nl.equal, binary(nl.subtract, tile, tile), 0.0, dtype)


@on_tiles(arithmetic.Clamp)
def _clamp(node: Node, dtype: Any, low: Operand, tile: Tensor, high: Operand) -> Tensor:
    del node
    return binary(nl.minimum, binary(nl.maximum, tile, low), high, dtype)


@on_tiles(rounding.RoundNearestAfz)
def _round_away(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """``trunc(x)``, and one further where at least half is left."""
    del node
    whole = nl.trunc(_float32(tile))
    rest = _activation(nl.abs, binary(nl.subtract, tile, whole))
    is_far = binary(nl.greater_equal, rest, 0.5)
    return binary(nl.add, whole, binary(nl.multiply, is_far, _activation(nl.sign, tile)), dtype)


@on_tiles(rounding.ReducePrecision)
def _reduce_precision(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """Written once in the narrow format, and 0 for what is below its range."""
    operation = node.operation
    if not isinstance(operation, rounding.ReducePrecision):
        raise InternalError(f"{operation.name} is no reduction of precision")
    narrow, result = new(tile.shape, dtype_of(operation.format)), new(tile.shape, dtype)
    nisa.tensor_copy(dst=narrow, src=tile)
    nisa.tensor_copy(dst=result, src=narrow)
    smallest = operation.smallest(node.values[0].dtype)
    if not smallest:
        return result
    is_kept = binary(nl.greater_equal, _activation(nl.abs, tile), smallest)
    return binary(nl.multiply, result, is_kept, dtype)


@on_tiles(bits.Not)
def _not(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """Of truth values; of integers `integers` has it."""
    del node
    return binary(nl.equal, tile, 0.0, dtype)


@on_tiles(bits.And, bits.Or, bits.Xor)
def _logic(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """Of truth values; of integers `integers` has it."""
    return binary(_LOGICAL[type(node.operation)], left, right, dtype)


@on_tiles(*_LANGUAGE)
def _through(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """A function of `nki.language` that takes several instructions."""
    return _LANGUAGE[type(node.operation)](_float32(tile), dtype=dtype)


def _rest(left: Operand, right: Operand) -> Tensor:
    """What multiples of `right` leave of `left`, of either sign.

    Multiples of 2**24, 2**12 and 1 divisors are taken away, one after the other. Each quotient is
    the product with a reciprocal, to the nearest integer, of at most 12 bits; its products with the
    two halves of the divisor are exact in float32. Quotients up to 2**36 are.
    """
    for places in (24, 12, 0):
        divisor = _times(right, 2.0**places)
        quotient = rint(_divided(left, divisor))
        if places:  # an infinite divisor has gone into nothing
            quotient = _within(quotient, -(2.0**12), 2.0**12)
        for half in _halves(divisor):
            left = binary(nl.subtract, left, binary(nl.multiply, quotient, half))
    return left


def _times(value: Operand, number: float) -> Operand:
    if _is_number(value):
        with np.errstate(over="ignore"):
            return float(np.float32(value) * np.float32(number))
    return value if number == 1 else binary(nl.multiply, value, number)


def _halves(value: Operand) -> tuple[Operand, Operand]:
    """A float32 as the sum of its upper 12 bits of mantissa and the rest.

    Of infinity, the largest finite number, of which nothing goes into a finite one.
    """
    if _is_number(value):
        whole = np.clip(np.float32(value), -_LARGEST, _LARGEST)
        upper_number = (whole.view(np.int32) & _UPPER_HALF).view(np.float32)
        return float(upper_number), float(whole - upper_number)
    whole_tile = new(value.shape)
    nisa.tensor_scalar(
        dst=whole_tile,
        data=value,
        op0=nl.minimum,
        operand0=float(_LARGEST),
        op1=nl.maximum,
        operand1=-float(_LARGEST),
    )
    upper = new(whole_tile.shape)
    nisa.tensor_scalar(
        dst=upper.view(nl.int32),
        data=whole_tile.view(nl.int32),
        op0=nl.bitwise_and,
        operand0=int(_UPPER_HALF),
    )
    return upper, binary(nl.subtract, whole_tile, upper)


@on_tiles(arithmetic.Remainder)
def _remainder(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """``left - right * trunc(left / right)``, of the sign of `left`."""
    del node
    rest = _rest(left, right)
    sign = math.copysign(1.0, left) if _is_number(left) else _activation(nl.sign, left)
    size = abs(right) if _is_number(right) else _activation(nl.abs, right)
    step = (
        sign * size if _is_number(left) and _is_number(right) else binary(nl.multiply, sign, size)
    )
    return _without_sign_change(rest, left, step, dtype)


@on_tiles(arithmetic.FloorRemainder)
def _floor_remainder(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """``left - right * floor(left / right)``, of the sign of `right`."""
    del node
    return _without_sign_change(_rest(left, right), right, right, dtype)


def _without_sign_change(rest: Tensor, signed: Operand, step: Operand, dtype: Any) -> Tensor:
    """`rest`, a `step` further where its sign is not that of `signed`."""
    is_opposite = binary(nl.less, binary(nl.multiply, rest, signed), 0.0, nl.uint8)
    further = binary(nl.add, rest, step)
    nisa.tensor_copy_predicated(dst=rest, src=further, predicate=is_opposite)
    return rest if dtype == nl.float32 else nl.copy(rest, dtype=dtype)


@on_tiles(arithmetic.Square)
def _square(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    del node
    return binary(nl.multiply, tile, tile, dtype)


_LOGICAL: Final[dict[type[Operation], Any]] = {
    bits.And: nl.logical_and,
    bits.Or: nl.logical_or,
    bits.Xor: nl.logical_xor,
}
_DIRECTIONS: Final = {
    "EQ": nl.equal,
    "NE": nl.not_equal,
    "GT": nl.greater,
    "GE": nl.greater_equal,
    "LT": nl.less,
    "LE": nl.less_equal,
}
