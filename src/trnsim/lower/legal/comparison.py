"""Comparisons of integers with a number that their type cannot hold.

Instructions compare integers with integers, or round both sides to float32. An integer is below
2.5 where it is below 3, and every integer of 8 bits is below 300.
"""

from __future__ import annotations

import math

import numpy as np

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build, Operand
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.types import BOOL, INTEGERS
from trnsim.lower.rules import legal


def _has_kernel(node: Node) -> bool:
    """True if numbers that are compared with integers are values of their type, or infinite."""
    dtype = node.values[0].dtype
    numbers = [operand for operand in node.operands if not isinstance(operand, Value)]
    is_whole = dtype in INTEGERS or dtype == BOOL
    return not is_whole or all(not math.isfinite(n) or _is_in(dtype, n) for n in numbers)


@legal(Compare, unless=_has_kernel)
def compare(b: Build, op: Compare, lhs: Operand, rhs: Operand) -> Value:
    """The comparison that holds of the same integers."""
    is_down = op.direction in ("LE", "GT")
    dtype = lhs.dtype if isinstance(lhs, Value) else rhs.dtype if isinstance(rhs, Value) else ""
    left = (
        lhs if isinstance(lhs, Value) else _equivalent_number(op, dtype, lhs, is_down=not is_down)
    )
    right = rhs if isinstance(rhs, Value) else _equivalent_number(op, dtype, rhs, is_down=is_down)
    return b.graph.apply(op, left, right, dtype=b.result_types[0].dtype)


def _equivalent_number(op: Compare, dtype: str, number: float, *, is_down: bool) -> float:
    """The number in the type's range that compares as `number` does, or an infinity."""
    if op.direction in ("EQ", "NE"):
        return number if _is_in(dtype, number) else math.inf
    integer = math.floor(number) if is_down else math.ceil(number)
    low, high = _limits(dtype)
    return math.copysign(math.inf, integer) if not low <= integer <= high else float(integer)


def _is_in(dtype: str, number: float) -> bool:
    low, high = _limits(dtype)
    return low <= number <= high and number == int(number)


def _limits(dtype: str) -> tuple[int, int]:
    """The smallest and the largest integer of a type."""
    if dtype == BOOL:
        return 0, 1
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)
