"""Reductions in several steps: over dimensions that are not neighbours, or of few long rows."""

from __future__ import annotations

from math import prod
from typing import Final

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.rules import legal

_PARTITIONS: Final = 128
"""Rows that are reduced side by side."""
_MAX_FEW_ROWS: Final = 8
"""Most rows that are divided into parts, each on a partition of its own."""
_MIN_LONG_ROW: Final = 1 << 15
"""Fewest elements of a row that is divided; shorter rows are those of norms, which are read again.
"""


def _is_over_neighbours(node: Node) -> bool:
    """True if the dimensions are neighbours, which kernels treat as one dimension."""
    return isinstance(node.operation, Reduce) and _are_neighbours(node.operation.dims)


def _are_neighbours(dims: tuple[int, ...]) -> bool:
    return bool(dims) and dims == tuple(range(dims[0], dims[-1] + 1))


def _is_direct(node: Node) -> bool:
    """True if the dimensions are neighbours, and no rows are few and long."""
    return _is_over_neighbours(node) and not _has_few_long_rows(node)


def _has_few_long_rows(node: Node) -> bool:
    """True for long rows of floating point that leave most partitions idle."""
    operation, (operand,) = node.operation, node.values
    if not isinstance(operation, Reduce) or operation.dims[-1] != len(operand.shape) - 1:
        return False
    rows = prod(operand.shape[: operation.dims[0]])
    length = prod(operand.shape[operation.dims[0] :])
    is_long = length >= _MIN_LONG_ROW and 0 < rows <= _MAX_FEW_ROWS
    return is_long and operand.type.is_floating and _count_parts(rows, length) > 1


def _count_parts(rows: int, length: int) -> int:
    """The largest number of equal parts of each row that have partitions of their own."""
    divisors = (parts for parts in range(_PARTITIONS // rows, 0, -1) if length % parts == 0)
    return next(divisors, 1)


@legal(Reduce, unless=_is_direct)
def reduce_(b: Build, op: Reduce, operand: Value) -> Value:
    """One reduction for each run of neighbours, from the last run to the first.

    Few long rows are reduced in parts, then the results of the parts. Floating point stays in
    float32 from one reduction to the next.
    """
    if _are_neighbours(op.dims):
        return _reduce_in_parts(b, op, operand)
    (result_type,) = b.result_types
    result = operand
    if operand.type.is_floating or result_type.is_floating:
        result = b.convert(operand, "float32")
    ends = [dim for dim in op.dims if dim + 1 not in op.dims]
    starts = [dim for dim in op.dims if dim - 1 not in op.dims]
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        result = b.graph.reduce(op.op, result, range(start, end + 1))
    return b.convert(result, result_type.dtype)


def _reduce_in_parts(b: Build, op: Reduce, operand: Value) -> Value:
    """The reduction of the parts of each row, then of the results of the parts.

    If leading dimensions divide the rows into enough parts, the operand keeps its shape.
    """
    (result_type,) = b.result_types
    shape, (first, *_) = operand.shape, op.dims
    split = next((dim for dim in op.dims[1:] if prod(shape[:dim]) > _PARTITIONS // 2), len(shape))
    if split < len(shape):
        float32_operand = b.convert(operand, "float32")
        result = b.graph.reduce(op.op, float32_operand, range(split, len(shape)))
    else:
        rows, length = prod(shape[:first]), prod(shape[first:])
        parts = _count_parts(rows, length)
        rows_of_parts = b.graph.reshape(operand, (*shape[:first], parts, length // parts))
        result = b.graph.reduce(op.op, b.convert(rows_of_parts, "float32"), (first + 1,))
    result = b.graph.reduce(op.op, result, range(first, len(result.shape)))
    return b.convert(result, result_type.dtype)
