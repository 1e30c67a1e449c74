"""Reductions over dimensions that are not neighbours: one after the other."""

from __future__ import annotations

from trnsim.graph import Node, Value
from trnsim.graph.building.build import Build
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.rules import legal


def _is_over_neighbours(node: Node) -> bool:
    """True if the dimensions are one contiguous run, which the kernels walk as one."""
    dims = node.operation.dims if isinstance(node.operation, Reduce) else ()
    return bool(dims) and dims == tuple(range(dims[0], dims[-1] + 1))


@legal(Reduce, unless=_is_over_neighbours)
def reduce_(b: Build, op: Reduce, operand: Value) -> Value:
    """One reduction for each run of neighbours, from the last run to the first.

    Floating point stays in float32 from one reduction to the next.
    """
    (wanted,) = b.result_types
    reduced = operand
    if operand.type.is_floating or wanted.is_floating:
        reduced = b.convert(operand, "float32")
    ends = [dim for dim in op.dims if dim + 1 not in op.dims]
    starts = [dim for dim in op.dims if dim - 1 not in op.dims]
    for start, end in zip(reversed(starts), reversed(ends), strict=True):
        reduced = b.graph.reduce(op.op, reduced, range(start, end + 1))
    return b.convert(reduced, wanted.dtype)
