"""Sort as searches for the largest of keys that float32 holds, the last digits first.

A search takes equal keys in their order, so sorting by one digit after the other is right. A digit
has 16 bits: an element of 32 bits takes two searches.
"""

from __future__ import annotations

from typing import Final

from trnsim.errors import NotModelled
from trnsim.graph import Value
from trnsim.graph.decompositions.build import Build
from trnsim.graph.decompositions.indexing import along_rows, moved
from trnsim.graph.ops.reductions import Sort
from trnsim.graph.types import BOOL, ITEM_BYTES
from trnsim.lower.rules import legal

_LONGEST: Final = 8192
"""Elements of a row whose keys, order and places lie in a partition together."""
_SIGNED: Final = {1: "int8", 2: "int16", 4: "int32"}
_DIGIT: Final = 16


@legal(Sort)
def sort(b: Build, op: Sort, *operands: Value) -> tuple[Value, ...]:
    """Every operand gathered by the places of the first one's elements in order.

    Raises:
        NotModelled: for rows that one search does not order.
    """
    shape = operands[0].shape
    length = shape[op.dim] if shape else 1
    if length == 1:
        return operands
    if length > _LONGEST:
        raise NotModelled(
            f"sort of {operands[0].type} along {op.dim}: {length} elements; the kernel orders up "
            f"to {_LONGEST}, which a partition of SBUF holds with their places",
            fix="sort on the CPU, or ask for the largest elements alone (top_k)",
        )
    places: Value | None = None
    for digit in _digits(b, moved(b, operands[0], op.dim, -1)):
        key = digit if places is None else along_rows(b, digit, places)
        order = b.graph.top_k(key if op.is_descending else b.ew("negate", key), length)
        places = order if places is None else along_rows(b, places, order)
    return tuple(
        moved(b, along_rows(b, moved(b, one, op.dim, -1), places), -1, op.dim)
        for one in operands
        if places is not None
    )


def _digits(b: Build, x: Value) -> list[Value]:
    """Whole numbers in float32 that order `x`, those that matter least first."""
    whole = _as_integers(b, x) if x.type.is_floating else x
    if whole.dtype == BOOL or ITEM_BYTES[whole.dtype] < ITEM_BYTES["int32"]:
        return [b.convert(whole, "float32")]
    low = b.ew("and", whole, float(2**_DIGIT - 1))
    shift = "shift_right_logical" if whole.dtype == "uint32" else "shift_right_arithmetic"
    high = b.ew(shift, whole, float(_DIGIT), bits=32)
    return [b.convert(low, "float32"), b.convert(high, "float32")]


def _as_integers(b: Build, x: Value) -> Value:
    """Integers in the total order of floating point.

    Of negative numbers all bits but the sign are inverted.

    Source: IEEE 754-2019, section 5.10, totalOrder.
    """
    size = ITEM_BYTES[x.dtype]
    bits, last = _SIGNED[size], 8 * size - 1
    pattern = b.ew("bitcast_convert", x, dtype=bits, to=bits)
    sign = b.ew("shift_right_arithmetic", pattern, float(last), bits=8 * size)
    return b.ew("xor", pattern, b.ew("and", sign, float(2**last - 1)))
