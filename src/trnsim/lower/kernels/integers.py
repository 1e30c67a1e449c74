"""Elementwise operations on integers as exact instructions, modulo 2**bits.

Engines compute in float32, which holds integers of 24 bits. Only GpSimd adds, multiplies and
compares 32-bit integers exactly (nki.isa.tensor_tensor). Shorter integers are computed in 32 bits,
and the low bytes of the result are kept.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

from trnsim.graph import Node, Operation
from trnsim.graph.ops import arithmetic, bits, comparison, rounding
from trnsim.graph.types import BOOL, INTEGERS, ITEM_BYTES
from trnsim.lower.kernels.instructions import Operand, is_number, shape_of, widened
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

Rule = Callable[..., Tensor]

_WORD_BYTES: Final = 4
"""Bytes of an integer that instructions compute without conversion."""
_WORDS: Final = (nl.int32, nl.uint32)
"""The formats of such integers."""
_EXACT_BELOW: Final = 2**24
"""The magnitude below which float32 represents every integer."""


def is_exact(node: Node) -> bool:
    """True if a node takes integers and its result must be exact."""
    if any(dtype not in (*INTEGERS, BOOL) for dtype in (value.dtype for value in node.values)):
        return False
    rule = type(node.operation)
    if rule is comparison.Compare:
        return _compares_large(node)
    return rule in _RULES and node.result.dtype in INTEGERS


def _compares_large(node: Node) -> bool:
    """True if a comparison in float32 could take different integers for equal ones.

    It cannot if one side is a small number, an infinity or NaN.
    """
    numbers = [number for number in node.operands if isinstance(number, int | float)]
    small_numbers = [
        number for number in numbers if abs(number) < _EXACT_BELOW or not math.isfinite(number)
    ]
    wide_values = [value for value in node.values if ITEM_BYTES[value.dtype] == _WORD_BYTES]
    return bool(wide_values) and not small_numbers


def apply(node: Node, operands: list[Operand], into: Callable[[tuple[int, ...]], Tensor]) -> Tensor:
    """The tile of a node's result from its operands' tiles, in the tile of `into`."""
    word_dtype = nl.uint32 if any(value.dtype == "uint32" for value in node.values) else nl.int32
    shape = shape_of(operands)
    word_tiles = [_integer_tile(operand, shape, word_dtype) for operand in operands]
    op = _IN_ONE_INSTRUCTION.get(type(node.operation))
    if op is not None and ITEM_BYTES[node.result.dtype] == _WORD_BYTES:
        result = into(shape)
        dst = result.view(word_dtype) if result.dtype in _WORDS else result
        nisa.tensor_tensor(dst=dst, data1=word_tiles[0], data2=word_tiles[1], op=op)
        return result
    result = low_bytes(_RULES[type(node.operation)](node.operation, *word_tiles), node.result.dtype)
    return result.view(nl.uint32 if node.result.dtype == "uint32" else nl.int32)


def _integer_tile(operand: Operand, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """An operand as a tile of 32-bit integers with all columns."""
    if is_number(operand):
        return filled(int(operand), shape, dtype)
    tile = operand
    if tile.dtype != dtype:
        tile = new(operand.shape, dtype)
        # The same bits, or those of a shorter integer with its sign before them.
        bits = tile.view(operand.dtype if operand.dtype in _WORDS else nl.int32)
        nisa.tensor_copy(dst=bits, src=operand)
    return widened(tile, shape)


def filled(number: int, shape: tuple[int, ...], dtype: Any) -> Tensor:
    """A view of a shape whose elements are all one integer, stored once on each partition."""
    column = new((shape[0], *(1 for _ in shape[1:])), nl.int32)
    nisa.memset(dst=column, value=as_int32(number))
    return widened(column.view(dtype), shape)


def as_int32(number: int) -> int:
    """The int32 with the low 32 bits of an integer."""
    return (number + 2**31) % 2**32 - 2**31


def low_bytes(tile: Tensor, dtype: str) -> Tensor:
    """The low bytes of 32-bit integers, as integers of the type `dtype`; unchanged for others."""
    if dtype not in INTEGERS or ITEM_BYTES[dtype] == _WORD_BYTES:
        return tile
    step = _WORD_BYTES // ITEM_BYTES[dtype]
    contiguous = tile if tile.is_contiguous() else _copy(tile)
    result = new(tile.shape, nl.int32)
    nisa.tensor_copy(dst=result, src=contiguous.view(dtype_of(dtype))[..., ::step])
    return result


def wrap(tile: Tensor, dtype: str) -> Tensor:
    """Whole numbers in float32 modulo 2**bits of a short integer type; other types unchanged."""
    if dtype not in INTEGERS or ITEM_BYTES[dtype] == _WORD_BYTES:
        return tile
    integers = new(tile.shape, nl.int32)
    nisa.tensor_copy(dst=integers, src=tile)
    return low_bytes(integers, dtype)


def _copy(tile: Tensor) -> Tensor:
    result = new(tile.shape, tile.dtype)
    nisa.tensor_copy(dst=result, src=tile)
    return result


def _alu(op: Any, left: Tensor, right: Tensor) -> Tensor:
    """One exact instruction."""
    result = new(left.shape, left.dtype)
    nisa.tensor_tensor(dst=result, data1=left, data2=right, op=op)
    return result


def _bits(op: Any, tile: Tensor, number: int) -> Tensor:
    """An operator on bits, with a number."""
    result = new(tile.shape, tile.dtype)
    nisa.tensor_scalar(dst=result, data=tile, op0=op, operand0=number)
    return result


def _select(where: Tensor, yes: Tensor, no: Tensor) -> Tensor:
    """`yes` where a tile of integers is not 0, else `no`."""
    result = _copy(no)
    mask = new(where.shape, nl.uint8)
    nisa.tensor_scalar(dst=mask, data=where, op0=nl.not_equal, operand0=0.0)
    nisa.tensor_copy_predicated(dst=result, src=_copy(yes), predicate=mask)
    return result


def _binary(op: Any) -> Rule:
    def rule(operation: Operation, left: Tensor, right: Tensor) -> Tensor:
        del operation
        return _alu(op, left, right)

    return rule


def _filled_like(tile: Tensor, number: int) -> Tensor:
    """A tile of one number, with the shape and the format of another tile."""
    return filled(number, tile.shape, tile.dtype)


def _negate(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    return _alu(nl.subtract, _filled_like(tile, 0), tile)


def _abs(operation: Operation, tile: Tensor) -> Tensor:
    if tile.dtype == nl.uint32:
        return tile
    return _alu(nl.maximum, tile, _negate(operation, tile))


def _relu(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    return _alu(nl.maximum, tile, _filled_like(tile, 0))


def _square(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    return _alu(nl.multiply, tile, tile)


def _sign(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    high = _alu(nl.minimum, tile, _filled_like(tile, 1))
    return _alu(nl.maximum, high, _filled_like(tile, -1))


def _clamp(operation: Operation, smallest: Tensor, tile: Tensor, largest: Tensor) -> Tensor:
    del operation
    return _alu(nl.minimum, _alu(nl.maximum, tile, smallest), largest)


def _compare(operation: comparison.Compare, left: Tensor, right: Tensor) -> Tensor:
    return _alu(DIRECTIONS[operation.direction], left, right)


def _not(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    return _bits(nl.bitwise_xor, tile, -1 if tile.dtype == nl.int32 else 2**32 - 1)


def _convert(operation: Operation, tile: Tensor) -> Tensor:
    del operation
    return tile


def _divide_signed(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient towards 0 and remainder of int32, by a quotient in float32 that is corrected.

    The rounding of a quotient leaves an error of at most 2**9 divisors after the first step, one
    after the second, and none after the third.
    """
    divisor = _select(right, right, _filled_like(right, 1))
    inverse, quotient, remainder = new(left.shape), _filled_like(left, 0), left
    nisa.reciprocal(dst=inverse, data=divisor)
    for _ in range(3):
        estimate, correction = new(left.shape), new(left.shape, left.dtype)
        nisa.tensor_tensor(dst=estimate, data1=remainder, data2=inverse, op=nl.multiply)
        nisa.tensor_copy(dst=correction, src=nl.trunc(estimate))
        quotient = _alu(nl.add, quotient, correction)
        remainder = _alu(nl.subtract, remainder, _alu(nl.multiply, correction, divisor))
    return _correct_towards_zero(left, divisor, quotient, remainder)


def _correct_towards_zero(
    left: Tensor, right: Tensor, quotient: Tensor, remainder: Tensor
) -> tuple[Tensor, Tensor]:
    """Correct a quotient and a remainder: it gets the sign of `left`, and less than the divisor."""
    size = _abs(arithmetic.Abs(), right)
    is_mixed = _alu(nl.less, _alu(nl.bitwise_xor, right, left), _filled_like(left, 0))
    unit = _select(is_mixed, _filled_like(left, -1), _filled_like(left, 1))
    signed = _select(
        _alu(nl.less, left, _filled_like(left, 0)), _negate(arithmetic.Negate(), size), size
    )
    # As bits without a sign, the magnitude of the smallest integer is right.
    remainder_size = _abs(arithmetic.Abs(), remainder).view(nl.uint32)
    is_far = _alu(nl.greater_equal, remainder_size, size.view(nl.uint32)).view(nl.int32)
    quotient = _select(is_far, _alu(nl.add, quotient, unit), quotient)
    remainder = _select(is_far, _alu(nl.subtract, remainder, signed), remainder)
    is_opposite = _is_opposite(remainder, left)
    quotient = _select(is_opposite, _alu(nl.subtract, quotient, unit), quotient)
    return quotient, _select(is_opposite, _alu(nl.add, remainder, signed), remainder)


def _is_opposite(tile: Tensor, other: Tensor) -> Tensor:
    """1 where an integer is not 0 and has not the sign of another integer, else 0."""
    is_mixed = _alu(nl.less, _alu(nl.bitwise_xor, tile, other), _filled_like(tile, 0))
    return _alu(nl.multiply, is_mixed, _alu(nl.not_equal, tile, _filled_like(tile, 0)))


def _divide_unsigned(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder of uint32, one bit of the quotient after the other."""
    quotient, remainder = _filled_like(left, 0), _filled_like(left, 0)
    for place in range(31, -1, -1):
        bit = _bits(nl.bitwise_and, _bits(nl.right_shift, left, place), 1)
        is_over = _bits(nl.right_shift, remainder, 31)
        remainder = _alu(nl.bitwise_or, _bits(nl.left_shift, remainder, 1), bit)
        fits = _alu(nl.bitwise_or, is_over, _alu(nl.greater_equal, remainder, right))
        remainder = _select(fits, _alu(nl.subtract, remainder, right), remainder)
        quotient = _alu(nl.bitwise_or, quotient, _bits(nl.left_shift, fits, place))
    return quotient, remainder


def _divide_with_remainder(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Quotient and remainder; -1 and the dividend where the divisor is 0."""
    divide = _divide_unsigned if left.dtype == nl.uint32 else _divide_signed
    quotient, remainder = divide(left, right)
    return _select(right, quotient, _filled_like(left, -1)), _select(right, remainder, left)


def _divide(operation: Operation, left: Tensor, right: Tensor) -> Tensor:
    del operation
    return _divide_with_remainder(left, right)[0]


def _remainder(operation: Operation, left: Tensor, right: Tensor) -> Tensor:
    del operation
    return _divide_with_remainder(left, right)[1]


def _floor_remainder(operation: Operation, left: Tensor, right: Tensor) -> Tensor:
    """The remainder, plus the divisor where its sign is not the divisor's."""
    remainder = _remainder(operation, left, right)
    if left.dtype == nl.uint32:
        return remainder
    is_opposite = _is_opposite(remainder, right)
    is_opposite = _alu(nl.multiply, is_opposite, _alu(nl.not_equal, right, _filled_like(right, 0)))
    return _select(is_opposite, _alu(nl.add, remainder, right), remainder)


def _power(operation: Operation, base: Tensor, exponent: Tensor) -> Tensor:
    """Powers by repeated squaring, a step for each bit of the exponent."""
    del operation
    result, square, remaining_bits = _filled_like(base, 1), base, exponent
    for _ in range(32):
        is_odd = _bits(nl.bitwise_and, remaining_bits, 1)
        result = _select(is_odd, _alu(nl.multiply, result, square), result)
        square, remaining_bits = (
            _alu(nl.multiply, square, square),
            _bits(nl.right_shift, remaining_bits, 1),
        )
    if base.dtype == nl.uint32:
        return result
    is_unit = _alu(nl.equal, base, _filled_like(base, 1))
    power_of_minus_1 = _select(
        _bits(nl.bitwise_and, exponent, 1), _filled_like(base, -1), _filled_like(base, 1)
    )
    power_of_unit = _select(_alu(nl.equal, base, _filled_like(base, -1)), power_of_minus_1, is_unit)
    return _select(_alu(nl.less, exponent, _filled_like(base, 0)), power_of_unit, result)


def _shift_left(operation: Operation, tile: Tensor, places: Tensor) -> Tensor:
    return _shift(operation, nl.left_shift, tile, places)


def _shift_right_logical(operation: Operation, tile: Tensor, places: Tensor) -> Tensor:
    """A shift of the type's own bits, without the sign bits that extend a shorter integer."""
    type_bits = _bits(nl.bitwise_and, tile, _as_number_of(2 ** _bit_count(operation) - 1, tile))
    return _shift(operation, nl.right_shift, type_bits, places)


def _shift_right_arithmetic(operation: Operation, tile: Tensor, places: Tensor) -> Tensor:
    """Negative numbers are inverted, shifted and inverted, so that ones enter."""
    is_below = _alu(nl.less, tile, _filled_like(tile, 0))
    inverted_shift = _shift(operation, nl.right_shift, _bits(nl.bitwise_xor, tile, -1), places)
    plain_shift = _shift(operation, nl.right_shift, tile, places)
    return _select(is_below, _bits(nl.bitwise_xor, inverted_shift, -1), plain_shift)


def _shift(operation: Operation, op: Any, tile: Tensor, places: Tensor) -> Tensor:
    """A shift; 0 if the number of places is negative, or not less than the bits of the type."""
    is_in = _alu(nl.less, places, _filled_like(places, _bit_count(operation)))
    if places.dtype == nl.int32:
        is_in = _alu(nl.multiply, is_in, _alu(nl.greater_equal, places, _filled_like(places, 0)))
    return _select(is_in, _alu(op, tile, _alu(nl.multiply, places, is_in)), _filled_like(tile, 0))


def _bit_count(operation: Operation) -> int:
    """The bits of the integers that a shift or a count of bits takes."""
    return operation.bits if isinstance(operation, bits.Shift | bits.Popcnt) else 0


def _as_number_of(number: int, tile: Tensor) -> int:
    """The number of the tile's type that has a bit pattern."""
    return number if tile.dtype == nl.uint32 else as_int32(number)


def _popcnt(operation: Operation, tile: Tensor) -> Tensor:
    """The number of bits that are set: sums of neighbouring bits, then of pairs, and so on.

    Source: H. Warren, Hacker's Delight, section 5-1.
    """
    sums = _bits(nl.bitwise_and, tile, _as_number_of(2 ** _bit_count(operation) - 1, tile))
    for places, mask in ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF)):
        high = _bits(nl.bitwise_and, _bits(nl.right_shift, sums, places), mask)
        sums = _alu(nl.add, _bits(nl.bitwise_and, sums, mask), high)
    high = _bits(nl.right_shift, sums, 16)
    return _alu(nl.add, _bits(nl.bitwise_and, sums, 0xFFFF), high)


DIRECTIONS: Final = {
    "EQ": nl.equal,
    "NE": nl.not_equal,
    "GT": nl.greater,
    "GE": nl.greater_equal,
    "LT": nl.less,
    "LE": nl.less_equal,
}
"""Operators of comparisons by their direction."""
_IN_ONE_INSTRUCTION: Final[dict[type[Operation], Any]] = {
    arithmetic.Add: nl.add,
    arithmetic.Subtract: nl.subtract,
    arithmetic.Multiply: nl.multiply,
    arithmetic.Maximum: nl.maximum,
    arithmetic.Minimum: nl.minimum,
    bits.And: nl.bitwise_and,
    bits.Or: nl.bitwise_or,
    bits.Xor: nl.bitwise_xor,
}
"""The operators of operations that take one instruction."""
_RULES: Final[dict[type[Operation], Rule]] = {
    **{operation: _binary(op) for operation, op in _IN_ONE_INSTRUCTION.items()},
    arithmetic.Divide: _divide,
    arithmetic.Remainder: _remainder,
    arithmetic.FloorRemainder: _floor_remainder,
    arithmetic.Power: _power,
    arithmetic.Negate: _negate,
    arithmetic.Abs: _abs,
    arithmetic.Sign: _sign,
    arithmetic.Square: _square,
    arithmetic.Relu: _relu,
    arithmetic.Clamp: _clamp,
    bits.Not: _not,
    bits.ShiftLeft: _shift_left,
    bits.ShiftRightLogical: _shift_right_logical,
    bits.ShiftRightArithmetic: _shift_right_arithmetic,
    bits.Popcnt: _popcnt,
    comparison.Compare: _compare,
    rounding.Convert: _convert,
}
