"""How operations that bring elements together are split over two cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trnsim.compiler.sharding.rules import Rule, same, ways
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


@ways(DotGeneral)
def dot_general(node: Node) -> Iterator[Rule]:
    """A batching dimension, rows, columns, or what is summed over."""
    operation: Any = node.operation
    rank = len(node.result.shape)
    for dim in range(rank - 2):
        yield Rule((dim, dim), (dim,))
    left, right = operation.contracting
    both = 2 * rank - 3
    yield Rule((both - left, WHOLE), (rank - 2,))
    yield Rule((WHOLE, both - right), (rank - 1,))
    yield Rule((left, right), (SUM,))


@ways(Convolution)
def convolution(node: Node) -> Iterator[Rule]:
    """Images, kernels with their groups, or channels that are summed over."""
    operation: Any = node.operation
    yield Rule((0, WHOLE), (0,))
    if operation.groups == 1:
        yield Rule((WHOLE, 0), (1,))
        yield Rule((1, 1), (SUM,))
    elif operation.groups % CORES == 0:
        yield Rule((1, 0), (1,))


@ways(Attention)
def attention(node: Node) -> Iterator[Rule]:
    """Heads and sequences; queries where no mask counts them."""
    operation: Any = node.operation
    rows = len(node.result.shape) - 2
    yield from same(node, iter(range(rows)))
    if not operation.is_causal and not operation.window:
        bias = (rows,) * (len(node.values) - 3)
        yield Rule((rows, WHOLE, WHOLE, *bias), (rows, rows))


@ways(AttentionBackward)
def attention_backward(node: Node) -> Iterator[Rule]:
    """Heads and sequences."""
    return same(node, iter(range(len(node.values[0].shape) - 2)))


@ways(Reduce)
def reduce(node: Node) -> Iterator[Rule]:
    """A dimension that stays; of sums, one that goes."""
    operation: Any = node.operation
    stays = [dim for dim in range(len(node.values[0].shape)) if dim not in operation.dims]
    for after, before in enumerate(stays):
        yield Rule((before,), (after,))
    if operation.op == "add" and node.result.type.is_floating:
        for dim in operation.dims:
            yield Rule((dim,), (SUM,))
        yield Rule((SUM,), (SUM,))


@ways(Scan, TopK)
def rows(node: Node) -> Iterator[Rule]:
    """Any dimension but the last."""
    return same(node, iter(range(len(node.values[0].shape) - 1)))


@ways(Sort)
def sort(node: Node) -> Iterator[Rule]:
    """Any dimension but that which is sorted."""
    operation: Any = node.operation
    rank = len(node.values[0].shape)
    return same(node, (dim for dim in range(rank) if dim != operation.dim % rank))


@ways(ReduceWindow, SelectAndScatter)
def windows(node: Node) -> Iterator[Rule]:
    """A dimension whose windows are single elements."""
    operation: Any = node.operation
    sides = zip(operation.lengths, operation.strides, operation.low, operation.high, strict=True)
    return same(node, (dim for dim, one in enumerate(sides) if one == (1, 1, 0, 0)))
