"""The same elements in another order, fewer or more of them: views, moves, slices, counts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import TensorType, Value
from trnsim.graph.ops.layout import DynamicSlice, DynamicUpdateSlice, Reverse
from trnsim.graph.types import Array
from trnsim.jax.stablehlo import mlir
from trnsim.jax.stablehlo.mlir import Op
from trnsim.jax.stablehlo.rules import rule
from trnsim.jax.stablehlo.scope import Entry, Scope, Share, compact, is_one, number_of
from trnsim.jax.stablehlo.stack import Stack
from trnsim.jax.stablehlo.wide import Wide, counted, reshaped


@rule("stablehlo.constant", is_pure=False)
def constant(scope: Scope, op: Op) -> Entry:
    """Numbers that are known."""
    del scope
    return compact(mlir.constant(op))


@rule("stablehlo.iota", is_pure=False)
def iota(scope: Scope, op: Op) -> Entry:
    """Each element's place along a dimension."""
    dim = mlir.number(op, "iota_dimension")
    type_ = op.results[0].type
    name, shape = mlir.element_type(type_), mlir.shape_of(type_)
    if name == "uint64":
        return counted(scope, shape, dim)
    wanted = scope.result(op)
    places = scope.graph.iota(shape, dim)
    return places if name == "int32" else scope.b.convert(places, wanted.dtype)


@rule("stablehlo.broadcast_in_dim", is_pure=False)
def broadcast_in_dim(scope: Scope, op: Op) -> Entry:
    """The operand's dimensions among those of the result, repeated along the others."""
    shape = mlir.shape_of(op.results[0].type)
    return repeated(
        scope, scope.entry(op.operands[0]), shape, mlir.ints(op, "broadcast_dimensions")
    )


@rule("stablehlo.broadcast", composed="broadcast_in_dim", is_pure=False)
def broadcast(scope: Scope, op: Op) -> Entry:
    """New dimensions before those of the operand."""
    shape = mlir.shape_of(op.results[0].type)
    own = len(mlir.shape_of(op.operands[0].type))
    dims = range(len(shape) - own, len(shape))
    return repeated(scope, scope.entry(op.operands[0]), shape, dims)


def repeated(scope: Scope, entry: Entry, shape: Sequence[int], dims: Sequence[int]) -> Entry:
    """An entry with its dimension i as dimension ``dims[i]`` of a shape."""
    if isinstance(entry, Wide):
        return reshaped(entry, lambda one: repeated(scope, one, shape, dims))
    if isinstance(entry, np.ndarray):
        return _numbers_repeated(entry, shape, dims)
    value = scope.tensor(entry)
    if value.type.elements == prod(shape) and list(dims) == sorted(dims):
        return scope.graph.reshape(value, shape)
    return scope.graph.broadcast_in_dim(value, shape, dims)


def _numbers_repeated(numbers: Array, shape: Sequence[int], dims: Sequence[int]) -> Array:
    if is_one(numbers) and numbers.size:
        return np.broadcast_to(numbers[(0,) * numbers.ndim], shape)
    order = sorted(range(len(dims)), key=lambda place: dims[place])
    lengths = [1] * len(shape)
    for dim, n in zip(dims, numbers.shape, strict=True):
        lengths[dim] = n
    return np.broadcast_to(numbers.transpose(order).reshape(lengths), shape)


@rule("stablehlo.reshape", is_pure=False)
def reshape(scope: Scope, op: Op) -> Entry:
    """The same elements in row-major order."""
    entry, shape = scope.entry(op.operands[0]), mlir.shape_of(op.results[0].type)
    if isinstance(entry, Wide):
        return reshaped(entry, lambda one: scope.graph.reshape(one, shape))
    if isinstance(entry, np.ndarray):
        whole = is_one(entry) and entry.size
        return np.broadcast_to(entry[(0,) * entry.ndim], shape) if whole else entry.reshape(shape)
    return scope.graph.reshape(scope.tensor(entry), shape)


@rule("stablehlo.transpose", is_pure=False)
def transpose(scope: Scope, op: Op) -> Entry:
    """Dimensions in another order."""
    entry, order = scope.entry(op.operands[0]), mlir.ints(op, "permutation")
    if isinstance(entry, np.ndarray):
        return entry.transpose(order)
    if isinstance(entry, Share):
        return Share(scope.graph.transpose(scope.tensor(entry.window), order))
    return scope.graph.transpose(scope.tensor(entry), order)


@rule("stablehlo.reverse", is_pure=False)
def reverse(scope: Scope, op: Op) -> Entry:
    """Dimensions from their ends."""
    entry, dims = scope.entry(op.operands[0]), mlir.ints(op, "dimensions")
    if isinstance(entry, np.ndarray):
        return np.flip(entry, dims)
    return reversed_(scope, scope.tensor(entry), dims)


def reversed_(scope: Scope, value: Value, dims: Sequence[int]) -> Value:
    """A tensor with dimensions from their ends."""
    long = tuple(dim for dim in dims if value.shape[dim] > 1)
    return scope.graph.apply(Reverse(long), value) if long else value


@rule("stablehlo.concatenate", is_pure=False)
def concatenate(scope: Scope, op: Op) -> Entry:
    """Tensors one behind the other; without those that have no elements."""
    dim = mlir.number(op, "dimension")
    entries = [scope.entry(one) for one in op.operands]
    if all(isinstance(one, np.ndarray) for one in entries):
        return compact(np.concatenate(entries, dim))
    parts = [one for one in map(scope.tensor, entries) if one.shape[dim]]
    return scope.graph.concatenate(parts, dim)


@rule("stablehlo.pad", limits="a number around and between that the program does not know is taken")
def pad(scope: Scope, op: Op) -> Entry:
    """A number before, after and between elements; one that is computed, by a choice."""
    value = scope.value(op.operands[0])
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, between = (mlir.ints(op, name) for name in names)
    known = scope.known(op.operands[1])
    if known is not None:
        return scope.graph.pad(value, low, high, between, number_of(known))
    number = scope.value(op.operands[1])
    wide_ = scope.graph.pad(value, low, high, between)
    held = scope.graph.constant(1.0, TensorType(value.shape, "bool"))
    is_own = scope.graph.pad(held, low, high, between)
    other = scope.graph.broadcast_in_dim(number, wide_.shape, ())
    return scope.graph.elementwise("select", is_own, wide_, other, dtype=value.dtype)


@rule("stablehlo.slice", is_pure=False)
def slice_(scope: Scope, op: Op) -> Entry:
    """Elements from a place on, every so many."""
    starts, steps = mlir.ints(op, "start_indices"), mlir.ints(op, "strides")
    shape = mlir.shape_of(op.results[0].type)
    return cut(scope, scope.entry(op.operands[0]), starts, shape, steps)


def cut(
    scope: Scope,
    entry: Entry,
    starts: Sequence[int],
    shape: Sequence[int],
    steps: Sequence[int] = (),
) -> Entry:
    """Elements of an entry; of a stack, its own parts where they are whole."""
    strides = tuple(steps) or (1,) * len(shape)
    if isinstance(entry, Wide):
        change = partial(scope.graph.slice, starts=starts, shape=shape, strides=strides)
        return reshaped(entry, change)
    if isinstance(entry, np.ndarray):
        parts = zip(starts, shape, strides, strict=True)
        return entry[tuple(slice(s, s + n * step, step) for s, n, step in parts)]
    if isinstance(entry, Stack) and _is_run(entry, shape, strides):
        found = entry.sliced(starts[entry.dim], shape)
        if len(found.parts) == 1:
            part = found.parts[0]
            return scope.cut(part.entry, entry.dim, part.start, part.length)
        return found
    return scope.graph.slice(scope.tensor(entry), starts, shape, strides)


def _is_run(stack: Stack, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """Whether a slice takes a run of places along a stack's dimension, all of the others."""
    whole = [n for dim, n in enumerate(stack.type.shape) if dim != stack.dim]
    return set(strides) <= {1} and whole == [n for d, n in enumerate(shape) if d != stack.dim]


def _starts(scope: Scope, values: Sequence[object], room: Sequence[int]) -> list[int] | None:
    """Where a window begins, moved inside; None where that is not known."""
    known = [scope.known(one) for one in values]
    found = list[int]()
    for one, most in zip(known, room, strict=True):
        if one is None and most > 0:
            return None
        found.append(0 if one is None else min(max(int(one), 0), most))
    return found


@rule("stablehlo.dynamic_slice", is_pure=False)
def dynamic_slice(scope: Scope, op: Op) -> Entry:
    """A window that begins where values say; where they are known, a slice."""
    whole, *places = op.operands
    held = scope.entry(whole)
    if isinstance(held, Share):
        return held.window
    shape, own = mlir.shape_of(op.results[0].type), mlir.shape_of(whole.type)
    starts = _starts(scope, places, [n - m for n, m in zip(own, shape, strict=True)])
    if starts is not None:
        return cut(scope, held, starts, shape)
    operands = [scope.value(one) for one in op.operands]
    return scope.graph.apply(DynamicSlice(shape), *operands)


@rule("stablehlo.dynamic_update_slice", is_pure=False)
def dynamic_update_slice(scope: Scope, op: Op) -> Entry:
    """A tensor with a window of it replaced; where its place is known, joined of parts."""
    whole, part, *places = op.operands
    shape, own = mlir.shape_of(part.type), mlir.shape_of(whole.type)
    starts = _starts(scope, places, [n - m for n, m in zip(own, shape, strict=True)])
    if starts is None:
        operands = [scope.value(one) for one in op.operands]
        return scope.graph.apply(DynamicUpdateSlice(), *operands)
    if shape == own:
        return scope.entry(part)
    return _written(scope, op, starts)


def _written(scope: Scope, op: Op, starts: Sequence[int]) -> Entry:
    """A tensor with a window of it replaced, whose place is known."""
    whole, part = (scope.entry(one) for one in op.operands[:2])
    type_, shape = scope.result(op), mlir.shape_of(op.operands[1].type)
    if not all(shape):
        return whole
    short = [dim for dim, n in enumerate(shape) if n != type_.shape[dim]]
    if len(short) == 1:
        (dim,) = short
        stack = Stack.of(whole, type_, dim) or Stack.of(scope.tensor(whole), type_, dim)
        if stack is not None:
            return stack.updated(part, starts[dim], shape[dim])
    high = [n - s - m for n, s, m in zip(type_.shape, starts, shape, strict=True)]
    held = scope.graph.constant(1.0, TensorType(tuple(shape), "bool"))
    is_new = scope.graph.pad(held, starts, high)
    new = scope.graph.pad(scope.tensor(part), starts, high)
    old = scope.tensor(whole)
    return scope.graph.elementwise("select", is_new, new, old, dtype=type_.dtype)


@rule("stablehlo.get_dimension_size", is_pure=False)
def get_dimension_size(scope: Scope, op: Op) -> Entry:
    """The length of a dimension, which is known."""
    del scope
    length = mlir.shape_of(op.operands[0].type)[mlir.number(op, "dimension")]
    return np.array(length, np.int32)


@rule("stablehlo.torch_index_select", composed="gather", limits="no batching dimensions")
def torch_index_select(scope: Scope, op: Op) -> Entry:
    """Rows along a dimension."""
    if mlir.number(op, "batch_dims"):
        raise NotModelled("torch_index_select of batching dimensions", fix="use gather")
    dim = mlir.number(op, "dim")
    table, indices = (scope.value(one) for one in op.operands)
    order = [dim, *(d for d in range(len(table.shape)) if d != dim)]
    found = scope.graph.gather(scope.graph.transpose(table, order), indices)
    count = len(indices.shape)
    axes = range(len(found.shape))
    places = [*axes[count : count + dim], *axes[:count], *axes[count + dim :]]
    return scope.graph.transpose(found, places)
