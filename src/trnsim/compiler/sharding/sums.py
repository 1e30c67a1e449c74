"""Rules by which operations that combine elements are split over two cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trnsim.compiler.sharding.rules import SplitRule, declares_splits, equal_splits
from trnsim.compiler.sharding.splits import CORES, SUM, WHOLE
from trnsim.graph import Node
from trnsim.graph.ops.contraction import Attention, AttentionBackward, Convolution, DotGeneral
from trnsim.graph.ops.reductions import (
    Reduce,
    ReduceWindow,
    Scan,
    SelectAndScatter,
    Sort,
    TopK,
)


@declares_splits(DotGeneral)
def dot_general(node: Node) -> Iterator[SplitRule]:
    """Splits along a batching dimension, rows, columns, or the contracted dimension."""
    operation: Any = node.operation
    rank = len(node.result.shape)
    for dim in range(rank - 2):
        yield SplitRule((dim, dim), (dim,))
    left, right = operation.contracting
    dims = 2 * rank - 3
    yield SplitRule((dims - left, WHOLE), (rank - 2,))
    yield SplitRule((WHOLE, dims - right), (rank - 1,))
    yield SplitRule((left, right), (SUM,))


@declares_splits(Convolution)
def convolution(node: Node) -> Iterator[SplitRule]:
    """Splits of images, of kernels with their groups, or of input channels into partial sums."""
    operation: Any = node.operation
    yield SplitRule((0, WHOLE), (0,))
    if operation.groups == 1:
        yield SplitRule((WHOLE, 0), (1,))
        yield SplitRule((1, 1), (SUM,))
    elif operation.groups % CORES == 0:
        yield SplitRule((1, 0), (1,))


@declares_splits(Attention)
def attention(node: Node) -> Iterator[SplitRule]:
    """Splits of heads and sequences; also of queries if no mask depends on their positions."""
    operation: Any = node.operation
    rows = len(node.result.shape) - 2
    yield from equal_splits(node, iter(range(rows)))
    if not operation.is_causal and not operation.window:
        bias = (rows,) * (len(node.values) - 3)
        yield SplitRule((rows, WHOLE, WHOLE, *bias), (rows, rows))


@declares_splits(AttentionBackward)
def attention_backward(node: Node) -> Iterator[SplitRule]:
    """Splits of heads and sequences."""
    return equal_splits(node, iter(range(len(node.values[0].shape) - 2)))


@declares_splits(Reduce)
def reduce(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that stays; of sums, also along a reduced one."""
    operation: Any = node.operation
    kept_dims = [dim for dim in range(len(node.values[0].shape)) if dim not in operation.dims]
    for after, before in enumerate(kept_dims):
        yield SplitRule((before,), (after,))
    if operation.op == "add" and node.result.type.is_floating:
        for dim in operation.dims:
            yield SplitRule((dim,), (SUM,))
        yield SplitRule((SUM,), (SUM,))


@declares_splits(Scan, TopK)
def rows(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension but the last."""
    return equal_splits(node, iter(range(len(node.values[0].shape) - 1)))


@declares_splits(Sort)
def sort(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension but the sorted one."""
    operation: Any = node.operation
    rank = len(node.values[0].shape)
    return equal_splits(node, (dim for dim in range(rank) if dim != operation.dim % rank))


@declares_splits(ReduceWindow, SelectAndScatter)
def windows(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension whose windows are single elements."""
    operation: Any = node.operation
    sides = zip(operation.lengths, operation.strides, operation.low, operation.high, strict=True)
    return equal_splits(node, (dim for dim, side in enumerate(sides) if side == (1, 1, 0, 0)))
