"""Rules by which operations that move elements are split over two cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trnsim.compiler.sharding.rules import SplitRule, declares_splits, equal_splits
from trnsim.compiler.sharding.splits import SUM, WHOLE, Split, matching_dims
from trnsim.graph import Node
from trnsim.graph.ops.collectives import (
    AllGather,
    AllReduce,
    AllToAll,
    CollectivePermute,
    ReduceScatter,
)
from trnsim.graph.ops.layout import (
    BroadcastInDim,
    Concatenate,
    DynamicSlice,
    DynamicUpdateSlice,
    Pad,
    Reinterpret,
    Reshape,
    Reverse,
    Slice,
    Transpose,
)
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.lookup import Gather, Scatter

_SUMS = SplitRule((SUM,), (SUM,))


@declares_splits(Reshape)
def reshape(node: Node) -> Iterator[SplitRule]:
    """Splits along two dimensions whose first halves have the same elements."""
    for before, after in matching_dims(node.values[0].shape, node.result.shape):
        yield SplitRule((before,), (after,))
    yield _SUMS


@declares_splits(Transpose)
def transpose(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension."""
    operation: Any = node.operation
    for after, before in enumerate(operation.permutation):
        yield SplitRule((before,), (after,))
    yield _SUMS


@declares_splits(BroadcastInDim)
def broadcast(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension of the operand, or one along which it is repeated."""
    operation: Any = node.operation
    shape, operand_shape = node.result.shape, node.values[0].shape
    dim_of = dict(zip(operation.dims, range(len(operand_shape)), strict=True))
    for dim, length in enumerate(shape):
        place = dim_of.get(dim)
        is_own = place is not None and operand_shape[place] == length
        yield SplitRule((place if is_own and place is not None else WHOLE,), (dim,))
    yield _SUMS


@declares_splits(Slice)
def slice_(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that keeps its whole length."""
    yield from equal_splits(node, _full_dims(node.values[0].shape, node.result.shape))
    yield _SUMS


def _full_dims(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[Split]:
    return (dim for dim, n in enumerate(after) if n == before[dim])


@declares_splits(Concatenate)
def concatenate(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension except that of the concatenation."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node, operation.dim))


def _dims_except(node: Node, *dims: Split) -> Iterator[Split]:
    """The first operand's dimensions except `dims`."""
    rank = len(node.values[0].shape)
    excluded_dims = {dim % rank for dim in dims if rank}
    return (dim for dim in range(rank) if dim not in excluded_dims)


@declares_splits(Pad)
def pad(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension without padding."""
    operation: Any = node.operation
    sides = zip(operation.low, operation.high, operation.interior, strict=True)
    yield from equal_splits(node, (dim for dim, amounts in enumerate(sides) if not any(amounts)))


@declares_splits(Reverse)
def reverse(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that keeps its order."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node, *operation.dims))


@declares_splits(Reinterpret)
def reinterpret(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension but the last."""
    yield from equal_splits(node, _dims_except(node, -1))


@declares_splits(DynamicSlice)
def dynamic_slice(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that keeps its whole length."""
    starts = (WHOLE,) * (len(node.values) - 1)
    for dim in _full_dims(node.values[0].shape, node.result.shape):
        yield SplitRule((dim, *starts), (dim,))


@declares_splits(DynamicUpdateSlice)
def dynamic_update_slice(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that the update covers."""
    starts = (WHOLE,) * (len(node.values) - 2)
    for dim in _full_dims(node.values[0].shape, node.values[1].shape):
        yield SplitRule((dim, dim, *starts), (dim,))


@declares_splits(Constant)
def constant(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension."""
    return (SplitRule((), (dim,)) for dim in range(len(node.result.shape)))


@declares_splits(Iota)
def iota(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension other than that of the indices."""
    operation: Any = node.operation
    return (SplitRule((), (d,)) for d in range(len(node.result.shape)) if d != operation.dim)


@declares_splits(Gather)
def gather(node: Node) -> Iterator[SplitRule]:
    """Splits along a batch dimension of the indices, or a table dimension that slices cover."""
    operation: Any = node.operation
    table, indices = (value.shape for value in node.values)
    place_of = _batch_dims(indices, operation.index_vector_dim)
    batch = [dim for dim in range(len(node.result.shape)) if dim not in operation.offset_dims]
    pairs = dict(
        zip(operation.start_indices_batching_dims, operation.operand_batching_dims, strict=True)
    )
    for after, place in zip(batch, place_of, strict=True):
        yield SplitRule((pairs.get(place, WHOLE), place), (after,))
    collapsed_dims = {*operation.collapsed_slice_dims, *operation.operand_batching_dims}
    windows = [dim for dim in range(len(table)) if dim not in collapsed_dims]
    for after, dim in zip(operation.offset_dims, windows, strict=True):
        if operation.slice_sizes[dim] == table[dim]:
            yield SplitRule((dim, WHOLE), (after,))


def _batch_dims(indices: tuple[int, ...], vector: int) -> list[int]:
    """Dimensions of the indices except that of their vectors."""
    return [dim for dim in range(len(indices)) if dim != vector]


@declares_splits(Scatter)
def scatter(node: Node) -> Iterator[SplitRule]:
    """Splits along a dimension that updates cover; or sums of half of the updates on each core."""
    operation: Any = node.operation
    updates, indices = (value.shape for value in node.values[:2])
    inserted_dims = {*operation.inserted_window_dims, *operation.operand_batching_dims}
    windows = [dim for dim in range(len(node.result.shape)) if dim not in inserted_dims]
    operands = len(node.values) - 2
    for place, dim in zip(operation.update_window_dims, windows, strict=True):
        if updates[place] == node.result.shape[dim]:
            yield SplitRule((place, WHOLE, *(dim,) * operands), (dim,))
    if operands or operation.op != "add" or operation.operand_batching_dims:
        return
    batch = [dim for dim in range(len(updates)) if dim not in operation.update_window_dims]
    for place, index in zip(batch, _batch_dims(indices, operation.index_vector_dim), strict=True):
        yield SplitRule((place, index), (SUM,))


@declares_splits(AllReduce)
def all_reduce(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension; each core reduces its half with the same core of other ranks."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node))
    if operation.op == "add":
        yield _SUMS


@declares_splits(CollectivePermute)
def permute(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension."""
    yield from equal_splits(node, _dims_except(node))
    yield _SUMS


@declares_splits(AllGather)
def all_gather(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension except that along which ranks are gathered."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node, operation.dim))


@declares_splits(ReduceScatter)
def reduce_scatter(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension except the one that is scattered over ranks."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node, operation.dim))
    if operation.op == "add":
        yield _SUMS


@declares_splits(AllToAll)
def all_to_all(node: Node) -> Iterator[SplitRule]:
    """Splits along any dimension but the two that are exchanged between ranks."""
    operation: Any = node.operation
    yield from equal_splits(node, _dims_except(node, operation.split_dim, operation.concat_dim))
