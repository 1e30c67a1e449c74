"""How operations that move elements are split over two cores."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from trnsim.compiler.sharding.rules import Rule, same, ways
from trnsim.compiler.sharding.splits import SUM, WHOLE, Split, carried
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

_SUMS = Rule((SUM,), (SUM,))


@ways(Reshape)
def reshape(node: Node) -> Iterator[Rule]:
    """Dimensions whose halves are the same elements."""
    for before, after in carried(node.values[0].shape, node.result.shape):
        yield Rule((before,), (after,))
    yield _SUMS


@ways(Transpose)
def transpose(node: Node) -> Iterator[Rule]:
    """Any dimension."""
    operation: Any = node.operation
    for after, before in enumerate(operation.permutation):
        yield Rule((before,), (after,))
    yield _SUMS


@ways(BroadcastInDim)
def broadcast(node: Node) -> Iterator[Rule]:
    """A dimension of the operand, or one along which it is repeated."""
    operation: Any = node.operation
    shape, given = node.result.shape, node.values[0].shape
    own = dict(zip(operation.dims, range(len(given)), strict=True))
    for dim, length in enumerate(shape):
        place = own.get(dim)
        is_own = place is not None and given[place] == length
        yield Rule((place if is_own and place is not None else WHOLE,), (dim,))
    yield _SUMS


@ways(Slice)
def part(node: Node) -> Iterator[Rule]:
    """A dimension of which all is kept."""
    yield from same(node, _kept(node.values[0].shape, node.result.shape))
    yield _SUMS


def _kept(before: tuple[int, ...], after: tuple[int, ...]) -> Iterator[Split]:
    return (dim for dim, n in enumerate(after) if n == before[dim])


@ways(Concatenate)
def concatenate(node: Node) -> Iterator[Rule]:
    """Another dimension than that along which the parts stand."""
    operation: Any = node.operation
    yield from same(node, _but(node, operation.dim))


def _but(node: Node, *dims: Split) -> Iterator[Split]:
    """The first operand's dimensions but those."""
    rank = len(node.values[0].shape)
    gone = {dim % rank for dim in dims if rank}
    return (dim for dim in range(rank) if dim not in gone)


@ways(Pad)
def pad(node: Node) -> Iterator[Rule]:
    """A dimension without padding."""
    operation: Any = node.operation
    sides = zip(operation.low, operation.high, operation.interior, strict=True)
    yield from same(node, (dim for dim, one in enumerate(sides) if not any(one)))


@ways(Reverse)
def reverse(node: Node) -> Iterator[Rule]:
    """A dimension that keeps its order."""
    operation: Any = node.operation
    yield from same(node, _but(node, *operation.dims))


@ways(Reinterpret)
def reinterpret(node: Node) -> Iterator[Rule]:
    """Any dimension but the last."""
    yield from same(node, _but(node, -1))


@ways(DynamicSlice)
def dynamic_slice(node: Node) -> Iterator[Rule]:
    """A dimension of which all is kept."""
    starts = (WHOLE,) * (len(node.values) - 1)
    for dim in _kept(node.values[0].shape, node.result.shape):
        yield Rule((dim, *starts), (dim,))


@ways(DynamicUpdateSlice)
def dynamic_update_slice(node: Node) -> Iterator[Rule]:
    """A dimension that is written from end to end."""
    starts = (WHOLE,) * (len(node.values) - 2)
    for dim in _kept(node.values[0].shape, node.values[1].shape):
        yield Rule((dim, dim, *starts), (dim,))


@ways(Constant)
def constant(node: Node) -> Iterator[Rule]:
    """Any dimension."""
    return (Rule((), (dim,)) for dim in range(len(node.result.shape)))


@ways(Iota)
def iota(node: Node) -> Iterator[Rule]:
    """A dimension along which it does not count."""
    operation: Any = node.operation
    return (Rule((), (d,)) for d in range(len(node.result.shape)) if d != operation.dim)


@ways(Gather)
def gather(node: Node) -> Iterator[Rule]:
    """A dimension of the indices, or one of which slices have all."""
    operation: Any = node.operation
    table, indices = (value.shape for value in node.values)
    place_of = _batch(indices, operation.index_vector_dim)
    batch = [dim for dim in range(len(node.result.shape)) if dim not in operation.offset_dims]
    pairs = dict(
        zip(operation.start_indices_batching_dims, operation.operand_batching_dims, strict=True)
    )
    for after, place in zip(batch, place_of, strict=True):
        yield Rule((pairs.get(place, WHOLE), place), (after,))
    gone = {*operation.collapsed_slice_dims, *operation.operand_batching_dims}
    windows = [dim for dim in range(len(table)) if dim not in gone]
    for after, dim in zip(operation.offset_dims, windows, strict=True):
        if operation.slice_sizes[dim] == table[dim]:
            yield Rule((dim, WHOLE), (after,))


def _batch(indices: tuple[int, ...], vector: int) -> list[int]:
    """Dimensions of indices but that of their vectors."""
    return [dim for dim in range(len(indices)) if dim != vector]


@ways(Scatter)
def scatter(node: Node) -> Iterator[Rule]:
    """A dimension of which updates have all; sums of what the halves of the updates add."""
    operation: Any = node.operation
    updates, indices = (value.shape for value in node.values[:2])
    gone = {*operation.inserted_window_dims, *operation.operand_batching_dims}
    windows = [dim for dim in range(len(node.result.shape)) if dim not in gone]
    rest = len(node.values) - 2
    for place, dim in zip(operation.update_window_dims, windows, strict=True):
        if updates[place] == node.result.shape[dim]:
            yield Rule((place, WHOLE, *(dim,) * rest), (dim,))
    if rest or operation.op != "add" or operation.operand_batching_dims:
        return
    batch = [dim for dim in range(len(updates)) if dim not in operation.update_window_dims]
    for place, index in zip(batch, _batch(indices, operation.index_vector_dim), strict=True):
        yield Rule((place, index), (SUM,))


@ways(AllReduce)
def all_reduce(node: Node) -> Iterator[Rule]:
    """Any dimension; each core reduces its half with the same core of other ranks."""
    operation: Any = node.operation
    yield from same(node, _but(node))
    if operation.op == "add":
        yield _SUMS


@ways(CollectivePermute)
def permute(node: Node) -> Iterator[Rule]:
    """Any dimension."""
    yield from same(node, _but(node))
    yield _SUMS


@ways(AllGather)
def all_gather(node: Node) -> Iterator[Rule]:
    """Another dimension than that of the ranks."""
    operation: Any = node.operation
    yield from same(node, _but(node, operation.dim))


@ways(ReduceScatter)
def reduce_scatter(node: Node) -> Iterator[Rule]:
    """Another dimension than that of the ranks."""
    operation: Any = node.operation
    yield from same(node, _but(node, operation.dim))
    if operation.op == "add":
        yield _SUMS


@ways(AllToAll)
def all_to_all(node: Node) -> Iterator[Rule]:
    """Another dimension than those of the ranks."""
    operation: Any = node.operation
    yield from same(node, _but(node, operation.split_dim, operation.concat_dim))
