"""Elementwise operations as instructions on tiles [rows, columns], or [rows, 1] for columns."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from trnsim.graph.ir import Node
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.nki.language.math import rint

Operand = Any
"""A tile, or a number."""

_UPPER_HALF: Final = np.int32(-(2**12))
_LARGEST: Final = np.finfo(np.float32).max

INTEGERS: Final = frozenset({"int32", "uint32"})


def apply(node: Node, operands: list[Operand]) -> Tensor:
    """The tile that a node computes from its operands' tiles.

    Integers of 32 bits stay integers, everything else is float32.
    """
    dtype = nl.int32 if node.result.dtype in INTEGERS else nl.float32
    if node.name in _COMPOSED:
        return _COMPOSED[node.name](node, dtype, *operands)
    if len(operands) == 1:
        return _unary(node.name, operands[0], dtype)
    if dtype == nl.int32 and node.name in _BITWISE:
        return _bit_by_bit(_BITWISE[node.name], *operands)
    return binary(_ALU[node.name], operands[0], operands[1], dtype)


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


def _bit_by_bit(op: Any, left: Operand, right: Operand) -> Tensor:
    """An operator on the bits of integers, which stay integers; columns are repeated."""
    data, other = (left, right) if _is_wide(left, right) else (right, left)
    result = new(data.shape, nl.int32)
    if _is_number(other):
        nisa.tensor_scalar(dst=result, data=data, op0=op, operand0=int(other))
    else:
        nisa.tensor_tensor(dst=result, data1=data, data2=_widened(other, data.shape[1]), op=op)
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


def _unary(name: str, tile: Tensor, dtype: Any) -> Tensor:
    result = new(tile.shape, dtype)
    if name == "reciprocal":
        nisa.reciprocal(dst=result, data=tile)
    else:
        nisa.activation(dst=result, op=_ACTIVATIONS[name], data=tile)
    return result


def _copy(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    """`convert`: truncated towards zero on the way from floating point to integers."""
    source = node.values[0].dtype
    if "float" in source and "float" in node.result.dtype:
        return tile  # rounded when it is written
    if "int" in node.result.dtype and "int" not in source:
        tile = nl.trunc(_float32(tile))
    result = new(tile.shape, dtype)
    nisa.tensor_copy(dst=result, src=tile)
    return result


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
        whole = int(value) if dtype == nl.int32 else float(value)
        nisa.memset(dst=result, value=whole)
    else:
        nisa.tensor_copy(dst=result, src=_widened(value, shape[1]))
    return result


def _compare(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    return binary(_DIRECTIONS[node.attribute("direction")], left, right, dtype)


def _divide(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """The product with the reciprocal, as no engine divides; that of zero is infinite."""
    del node
    if _is_number(right):
        with np.errstate(divide="ignore", over="ignore"):
            inverse_number = float(np.float32(1) / np.float32(right))
        return binary(nl.multiply, left, inverse_number, dtype)
    inverse = new(right.shape)
    nisa.reciprocal(dst=inverse, data=right)
    return binary(nl.multiply, left, inverse, dtype)


def _power(node: Node, dtype: Any, base: Operand, exponent: Operand) -> Tensor:
    del node
    if _is_number(exponent) or _is_number(base):
        return binary(nl.power, base, exponent, dtype)
    shape = (base.shape[0], max(base.shape[1], exponent.shape[1]))
    return binary(nl.power, _widened(base, shape[1]), _widened(exponent, shape[1]), dtype)


def _shifted(function: Any, *, before: float = 0.0, after: float = 0.0) -> Callable[..., Tensor]:
    """``function(x + before) + after``."""

    def apply_to(node: Node, dtype: Any, tile: Tensor) -> Tensor:
        del node
        shifted = binary(nl.add, tile, before) if before else tile
        result = new(tile.shape, dtype)
        nisa.activation(dst=result, op=function, data=shifted)
        return binary(nl.add, result, after, dtype) if after else result

    return apply_to


def _through(function: Any) -> Callable[..., Tensor]:
    """A function of `nki.language` that takes several instructions."""

    def apply_to(node: Node, dtype: Any, *operands: Operand) -> Tensor:
        del node
        return function(*(_float32(o) for o in operands), dtype=dtype)

    return apply_to


def _scaled(op: Any, number: float) -> Callable[..., Tensor]:
    """One operator with a number."""

    def apply_to(node: Node, dtype: Any, tile: Tensor) -> Tensor:
        del node
        return binary(op, tile, number, dtype)

    return apply_to


def _rest(node: Node, left: Operand, right: Operand) -> Tensor:
    """What the nearest multiple of `right` leaves of `left`, of either sign.

    The quotient is the product with a reciprocal, and may fall short of a whole number that it is;
    to the nearest integer it does not matter. Up to 2**12, its products with the two halves of
    `right` are exact in float32, so that the sign of what is left is right too.
    """
    quotient = rint(_divide(node, nl.float32, left, right))
    for half in _halves(right):
        left = binary(nl.subtract, left, binary(nl.multiply, quotient, half))
    return left


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


def _remainder(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """``left - right * trunc(left / right)``, of the sign of `left`."""
    rest = _rest(node, left, right)
    sign = math.copysign(1.0, left) if _is_number(left) else _unary("sign", left, nl.float32)
    size = abs(right) if _is_number(right) else _unary("abs", right, nl.float32)
    step = (
        sign * size if _is_number(left) and _is_number(right) else binary(nl.multiply, sign, size)
    )
    return _without_sign_change(rest, left, step, dtype)


def _floor_remainder(node: Node, dtype: Any, left: Operand, right: Operand) -> Tensor:
    """``left - right * floor(left / right)``, of the sign of `right`."""
    return _without_sign_change(_rest(node, left, right), right, right, dtype)


def _without_sign_change(rest: Tensor, signed: Operand, step: Operand, dtype: Any) -> Tensor:
    """`rest`, a `step` further where its sign is not that of `signed`."""
    is_opposite = binary(nl.less, binary(nl.multiply, rest, signed), 0.0, nl.uint8)
    further = binary(nl.add, rest, step)
    nisa.tensor_copy_predicated(dst=rest, src=further, predicate=is_opposite)
    return rest if dtype == nl.float32 else nl.copy(rest, dtype=dtype)


def _square(node: Node, dtype: Any, tile: Tensor) -> Tensor:
    del node
    return binary(nl.multiply, tile, tile, dtype)


_ALU: Final = {
    "add": nl.add,
    "subtract": nl.subtract,
    "multiply": nl.multiply,
    "maximum": nl.maximum,
    "minimum": nl.minimum,
    "and": nl.logical_and,
    "or": nl.logical_or,
    "xor": nl.logical_xor,
}
# StableHLO's: of integers bit by bit, of truth values as a whole.
_BITWISE: Final = {"and": nl.bitwise_and, "or": nl.bitwise_or, "xor": nl.bitwise_xor}
_DIRECTIONS: Final = {
    "EQ": nl.equal,
    "NE": nl.not_equal,
    "GT": nl.greater,
    "GE": nl.greater_equal,
    "LT": nl.less,
    "LE": nl.less_equal,
}
_ACTIVATIONS: Final = {
    "exponential": nl.exp,
    "log": nl.log,
    "sqrt": nl.sqrt,
    "rsqrt": nl.rsqrt,
    "tanh": nl.tanh,
    "logistic": nl.sigmoid,
    "atan": nl.arctan,
    "abs": nl.abs,
    "sign": nl.sign,
    "erf": nl.erf,
    "gelu": nl.gelu,
    "gelu_tanh": nl.gelu_apprx_tanh,
    "gelu_dx": nl.gelu_dx,
    "silu": nl.silu,
    "silu_dx": nl.silu_dx,
    "softplus": nl.softplus,
    "mish": nl.mish,
}
_COMPOSED: Final[dict[str, Callable[..., Tensor]]] = {
    "convert": _copy,
    "select": _select,
    "compare": _compare,
    "divide": _divide,
    "power": _power,
    "remainder": _remainder,
    "floor_remainder": _floor_remainder,
    "square": _square,
    "negate": _scaled(nl.multiply, -1.0),
    "relu": _scaled(nl.maximum, 0.0),
    "not": _scaled(nl.equal, 0.0),
    "exponential_minus_one": _shifted(nl.exp, after=-1.0),
    "log_plus_one": _shifted(nl.log, before=1.0),
    "floor": _through(nl.floor),
    "ceil": _through(nl.ceil),
    "trunc": _through(nl.trunc),
    "round_nearest_even": _through(rint),
    "sine": _through(nl.sin),
    "cosine": _through(nl.cos),
    "tan": _through(nl.tan),
}
