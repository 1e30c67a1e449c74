"""Comparisons, selections and bounds, also with numbers that an integer dtype cannot hold."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.graph import Value
from trnsim.graph.building.build import Build, Operand, converted_number
from trnsim.graph.types import BOOL, INTEGERS, ITEM_BYTES
from trnsim.torch.aten.decomposition import Decomposition

_DIRECTIONS: Final = {"eq": "EQ", "ne": "NE", "lt": "LT", "le": "LE", "gt": "GT", "ge": "GE"}
_SHORT_INTEGERS: Final = tuple(
    dtype for dtype in INTEGERS if ITEM_BYTES[dtype] < ITEM_BYTES["int32"]
)
_EXACT_INTEGERS_END: Final = 2**24
"""Float32 represents every integer of a smaller magnitude."""


def compare(b: Build, x: Operand, y: Operand, direction: str) -> Value:
    """``x <direction> y`` with PyTorch's rules of promotion.

    An integer is compared with a float in float32. A Python integer wraps around to the range of
    the 8- or 16-bit integers that it is compared with. It does not wrap around to the range of
    32-bit integers, which may stand for 64 bits.
    """
    sides = _comparable_side(b, x, y), _comparable_side(b, y, x)
    return b.ew("compare", *sides, dtype=BOOL, direction=direction)


def _comparable_side(b: Build, side: Operand, other_side: Operand) -> Operand:
    """One side of a comparison in the dtype in which PyTorch compares it with the opposite side."""
    if isinstance(side, Value):
        is_rounded = (
            isinstance(other_side, float) and abs(_float32(other_side)) >= _EXACT_INTEGERS_END
        )
        return b.convert(side, "float32") if is_rounded and side.dtype in INTEGERS else side
    dtype = other_side.dtype if isinstance(other_side, Value) else ""
    if isinstance(side, float):
        return _float32(side) if dtype in (*INTEGERS, BOOL) else side
    return converted_number(side, dtype) if dtype in _SHORT_INTEGERS else float(side)


def _float32(number: float) -> float:
    with np.errstate(over="ignore"):
        return float(np.float32(number))


def _comparison(direction: str) -> Decomposition:
    def build(b: Build, x: Operand, y: Operand) -> Value:
        return compare(b, x, y, direction)

    return build


def _extreme(name: str) -> Decomposition:
    def build(b: Build, x: Operand, y: Operand) -> Value:
        dtype = b.result_types[0].dtype
        return b.as_result(
            b.ew(name, converted_number(x, dtype), converted_number(y, dtype), dtype=dtype)
        )

    return build


def where(b: Build, condition: Value, x: Operand, y: Operand) -> Value:
    """``x`` where the condition holds, else ``y``."""
    dtype = b.result_types[0].dtype
    sides = converted_number(x, dtype), converted_number(y, dtype)
    return b.as_result(b.ew("select", condition, *sides, dtype=dtype))


def masked_fill(b: Build, x: Value, mask: Value, number: Operand) -> Value:
    """`x` with a number where the mask is true."""
    return b.as_result(b.ew("select", mask, converted_number(number, x.dtype), x, dtype=x.dtype))


def clamp(
    b: Build, x: Value, smallest: Operand | None = None, largest: Operand | None = None, **kw: Any
) -> Value:
    """``x`` within bounds, in the dtype of the result: a float bound makes integers float32."""
    smallest, largest = kw.get("min", smallest), kw.get("max", largest)
    dtype = b.result_types[0].dtype
    for name, bound in (("maximum", smallest), ("minimum", largest)):
        if bound is not None:
            x = b.ew(name, x, converted_number(bound, dtype), dtype=dtype)
    return b.as_result(x)


def clamp_max(b: Build, x: Value, largest: Operand) -> Value:
    """The smaller of x and a bound."""
    return clamp(b, x, None, largest)


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    **{name: _comparison(direction) for name, direction in _DIRECTIONS.items()},
    **{name: _extreme(name) for name in ("maximum", "minimum")},
    "where": where,
    "masked_fill": masked_fill,
    "clamp": clamp,
    "clamp_min": clamp,
    "clamp_max": clamp_max,
}
