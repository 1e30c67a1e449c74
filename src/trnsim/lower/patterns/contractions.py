"""Contractions that are divided, as their operand for a bank of columns exceeds a panel of SBUF.

With an undivided contraction SBUF would hold fewer columns of the moving operand than a bank of
PSUM, and the array would wait for the stationary operand. A still longer one would have no room for
a column, or for 128 columns of the stationary operand and a few of the moving one. The sums of a
part are added to those of earlier parts in float32, when they leave PSUM.
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph import Graph, Node, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.patterns import form_of
from trnsim.graph.rewriting import Match, Pattern
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.kernels.tiles import BANK, P

PANEL_BYTES: Final = 64 * 1024
"""Bytes of a partition for the moving operand of a product: a third of SBUF."""
_SBUF_BYTES: Final = 3 * PANEL_BYTES
"""Bytes of a partition of SBUF, the least of any chip's (trainium_inferentia2_arch.rst)."""
_SUM_DTYPE: Final = "float32"
"""The dtype in which products of parts are added up."""


def panel_bytes(node: Node) -> int:
    """Bytes of a partition of a product's moving operand, for a bank of columns."""
    operation: Any = node.operation
    lhs, (contracted_dim, _) = node.values[0], operation.contracting
    columns: int = lhs.shape[2 * len(lhs.shape) - 3 - contracted_dim]
    blocks = -(-lhs.shape[contracted_dim] // P)
    return int(blocks * min(columns, BANK) * ITEM_BYTES[lhs.dtype])


def _least_bytes(node: Node) -> int:
    """Least bytes of a partition for both operands: 128 columns of each, or all if it has fewer."""
    sizes, itemsize = node.result.shape[-2:], ITEM_BYTES[node.values[0].dtype]
    operation: Any = node.operation
    blocks = -(-node.values[0].shape[operation.contracting[0]] // P)
    return int(blocks * sum(min(columns, P) for columns in sizes) * itemsize)


def _lengths(node: Node) -> list[int]:
    """The lengths of a product's parts: multiples of 128 but the last, as equal as possible."""
    operation: Any = node.operation
    length = node.values[0].shape[operation.contracting[0]]
    blocks, least_bytes = -(-length // P), _least_bytes(node)
    parts = min(-(-panel_bytes(node) // PANEL_BYTES), blocks)
    if least_bytes > _SBUF_BYTES * parts:
        parts = min(-(-least_bytes // (2 * PANEL_BYTES)), blocks)
    if parts <= 1:
        return [length]
    full, last = divmod(length, -(-blocks // parts) * P)
    return [-(-blocks // parts) * P] * full + [last] * bool(last)


def _sum_of_parts(match: Match) -> Value:
    """The sum of the products of the parts."""
    graph, node = match.graph, match.node
    operation: Any = node.operation

    def part(start: int, length: int) -> Value:
        sides = zip(node.values, operation.contracting, strict=True)
        slices = (_slice_along(graph, value, dim, start, length) for value, dim in sides)
        return graph.apply(operation, *slices, dtype=_SUM_DTYPE)

    first, *others = _lengths(node)
    total, start = part(0, first), first
    for length in others:
        total = graph.elementwise("add", total, part(start, length))
        start += length
    is_sum = node.result.dtype == _SUM_DTYPE
    return total if is_sum else graph.elementwise("convert", total, dtype=node.result.dtype)


def _slice_along(graph: Graph, value: Value, dim: int, start: int, length: int) -> Value:
    """A slice of a value along a dimension."""
    shape = [length if axis == dim else n for axis, n in enumerate(value.shape)]
    starts = [start if axis == dim else 0 for axis in range(len(shape))]
    return graph.slice(value, starts, shape)


SPLIT_CONTRACTION = Pattern(
    "in parts",
    "a contraction that is too long for a panel of SBUF is a sum of several",
    before=form_of(DotGeneral),
    when=lambda match: len(_lengths(match.node)) > 1,
    after=_sum_of_parts,
)
