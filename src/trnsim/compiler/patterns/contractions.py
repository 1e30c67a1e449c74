"""Long contractions in parts: sums over more than a panel of SBUF holds for a bank of columns.

The side that passes would come in fewer columns than a bank of PSUM has, so that the array waits
for what stays in it; beyond that it has no room at all. A part's sums are added to those before it
in float32, on their way out of PSUM.
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.graph import Graph, Node, Value
from trnsim.graph.ops.arithmetic import Add
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Slice
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.kernels.tiles import BANK, P

PANEL_BYTES: Final = 64 * 1024
"""Bytes of a partition for the side of a product that passes: a third of SBUF."""
_SUM: Final = "float32"


def in_parts(graph: Graph) -> Graph:
    """The graph with contractions that are no longer than a panel holds."""
    if not any(_lengths(node) for node in graph.nodes):
        return graph
    made = graph.begun()
    for node in graph.nodes:
        made.came_from = node.origin
        lengths = _lengths(node)
        if lengths:
            _add_parts(made, node, lengths)
        else:
            made.add(node.operation, node.operands, node.results)
    made.outputs = list(graph.outputs)
    return made


def panel_bytes(node: Node) -> int:
    """Bytes of a partition of a product's side that passes, for a bank of columns."""
    operation: Any = node.operation
    passes, (own, _) = node.values[0], operation.contracting
    columns: int = passes.shape[2 * len(passes.shape) - 3 - own]
    blocks = -(-passes.shape[own] // P)
    return int(blocks * min(columns, BANK) * ITEM_BYTES[passes.dtype])


def _lengths(node: Node) -> list[int]:
    """The lengths of a product's parts, blocks of 128 as even as they can be; none for one part."""
    if not isinstance(node.operation, DotGeneral):
        return []
    length = node.values[0].shape[node.operation.contracting[0]]
    blocks = -(-length // P)
    parts = min(-(-panel_bytes(node) // PANEL_BYTES), blocks)
    if parts <= 1:
        return []
    whole, rest = divmod(length, -(-blocks // parts) * P)
    return [-(-blocks // parts) * P] * whole + [rest] * bool(rest)


def _add_parts(made: Graph, node: Node, lengths: list[int]) -> None:
    operation: Any = node.operation
    result = node.result
    total: Value | None = None
    start = 0
    for number, length in enumerate(lengths):
        sides = [
            _cut(made, value, dim, start, length)
            for value, dim in zip(node.values, operation.contracting, strict=True)
        ]
        part = made.apply(operation, *sides, dtype=_SUM)
        start += length
        if total is None:
            total = part
        elif number == len(lengths) - 1 and result.dtype == _SUM:
            made.add(Add(), (total, part), node.results)
        else:
            total = made.apply(Add(), total, part)
    if result.dtype != _SUM and total is not None:
        made.add(Convert(to=result.dtype), (total,), node.results)


def _cut(made: Graph, value: Value, dim: int, start: int, length: int) -> Value:
    """Some of a value's elements along a dimension."""
    shape = tuple(length if one == dim else n for one, n in enumerate(value.shape))
    starts = tuple(start if one == dim else 0 for one in range(len(shape)))
    return made.apply(Slice(shape, starts, (1,) * len(shape)), value)
