"""Sort, by digits that float32 represents exactly.

Rows are ordered by a search for the largest values of each digit, the least significant digit
first, as a search is stable. In rows that are too long for a search, the position of each element
is the number of elements that come before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import gather_along_rows, move_dim
from trnsim.graph.ops.reductions import Sort
from trnsim.graph.types import BOOL, ITEM_BYTES
from trnsim.lower.rules import legal

_LONGEST_ROW: Final = 2**18
"""Most elements of a row that a search orders (`kernels/sorting_network`)."""
_SIGNED_DTYPE_BY_BYTES: Final = {1: "int8", 2: "int16", 4: "int32"}
"""The signed integer dtype of each size in bytes."""
_DIGIT_BITS: Final = 16
"""Bits of a digit."""


@legal(Sort)
def sort(b: Build, op: Sort, *operands: Value) -> tuple[Value, ...]:
    """Every operand gathered by the sorted indices of the first one."""
    shape = operands[0].shape
    length = shape[op.dim] if shape else 1
    if length == 1:
        return operands
    digits = _digits(b, move_dim(b, operands[0], op.dim, -1))
    sort_digits = _sort_by_search if length <= _LONGEST_ROW else _sort_by_count
    indices = sort_digits(b, digits, is_descending=op.is_descending)
    return tuple(
        move_dim(b, gather_along_rows(b, move_dim(b, operand, op.dim, -1), indices), -1, op.dim)
        for operand in operands
    )


def _sort_by_search(b: Build, digits: Sequence[Value], *, is_descending: bool) -> Value:
    """Sorted indices, by one search for each digit."""

    def order(digit: Value) -> Value:
        key = digit if is_descending else b.ew("negate", digit)
        return b.graph.top_k(key, digit.shape[-1])

    indices = order(digits[0])
    for digit in digits[1:]:
        indices = gather_along_rows(b, indices, order(gather_along_rows(b, digit, indices)))
    return indices


def _sort_by_count(b: Build, digits: Sequence[Value], *, is_descending: bool) -> Value:
    """Sorted indices: an element's rank is the number of elements before it; the sort is stable."""
    *row_dims, length = digits[0].shape
    rows = prod(row_dims)
    shape = (rows, length, length)
    is_before = b.ew(
        "compare", b.graph.iota(shape, 2), b.graph.iota(shape, 1), dtype=BOOL, direction="LT"
    )
    for digit in digits:
        flat = b.graph.reshape(digit, (rows, length))
        element, neighbour = (b.graph.broadcast_in_dim(flat, shape, (0, dim)) for dim in (1, 2))
        direction = "GT" if is_descending else "LT"
        is_more = b.ew("compare", neighbour, element, dtype=BOOL, direction=direction)
        is_equal = b.ew("compare", neighbour, element, dtype=BOOL, direction="EQ")
        is_before = b.ew("or", is_more, b.ew("and", is_equal, is_before))
    ranks = b.graph.reduce("add", b.convert(is_before, "float32"), (2,))
    row_starts = b.ew("multiply", b.graph.iota((rows, length), 0), float(length))
    positions = b.ew("add", b.convert(ranks, "int32"), row_starts)
    flat_shape = (rows * length,)
    indices = b.graph.scatter(
        TensorType(flat_shape, "int32"),
        b.graph.reshape(positions, flat_shape),
        b.graph.reshape(b.graph.iota((rows, length), 1), flat_shape),
        "assign",
    )
    return b.graph.reshape(indices, (*row_dims, length))


def _digits(b: Build, x: Value) -> list[Value]:
    """Digits of each element, whole numbers in float32 that order `x`, least significant first."""
    integers = _as_integers(b, x) if x.type.is_floating else x
    if integers.dtype == BOOL or ITEM_BYTES[integers.dtype] < ITEM_BYTES["int32"]:
        return [b.convert(integers, "float32")]
    low = b.ew("and", integers, float(2**_DIGIT_BITS - 1))
    shift = "shift_right_logical" if integers.dtype == "uint32" else "shift_right_arithmetic"
    high = b.ew(shift, integers, float(_DIGIT_BITS), bits=32)
    return [b.convert(low, "float32"), b.convert(high, "float32")]


def _as_integers(b: Build, x: Value) -> Value:
    """Integers in the order of floating-point values: both zeros equal, NaN above all numbers.

    All bits of a negative number but the sign are inverted. Source: IEEE 754-2019, section 5.10,
    totalOrder.
    """
    size = ITEM_BYTES[x.dtype]
    bits, last = _SIGNED_DTYPE_BY_BYTES[size], 8 * size - 1
    largest = float(2**last - 1)
    pattern = b.ew("bitcast_convert", x, dtype=bits, to=bits)
    sign = b.ew("shift_right_arithmetic", pattern, float(last), bits=8 * size)
    integers = b.ew("xor", pattern, b.ew("and", sign, largest))
    is_zero = b.ew("compare", x, 0.0, dtype=BOOL, direction="EQ")
    is_nan = b.ew("compare", x, x, dtype=BOOL, direction="NE")
    integers = b.ew("select", is_zero, 0.0, integers, dtype=bits)
    return b.ew("select", is_nan, largest, integers, dtype=bits)
