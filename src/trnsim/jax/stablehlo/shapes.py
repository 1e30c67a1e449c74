"""Operations that move, repeat, select or insert elements: views, transposes, slices, pads."""

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
from trnsim.jax.stablehlo.scope import Entry, Scope, Share, compact, is_splat, splat_value
from trnsim.jax.stablehlo.stack import Stack
from trnsim.jax.stablehlo.wide import Wide, reshape_wide, wide_iota


@rule("stablehlo.constant", is_folded=False)
def constant(scope: Scope, op: Op) -> Entry:
    """The numbers of a constant."""
    del scope
    return compact(mlir.constant(op))


@rule("stablehlo.iota", is_folded=False)
def iota(scope: Scope, op: Op) -> Entry:
    """Each element's index along a dimension."""
    dim = mlir.number(op, "iota_dimension")
    type_ = op.results[0].type
    name, shape = mlir.element_type(type_), mlir.shape_of(type_)
    if name == "uint64":
        return wide_iota(scope, shape, dim)
    tensor_type = scope.result(op)
    indices = scope.graph.iota(shape, dim)
    return indices if name == "int32" else scope.b.convert(indices, tensor_type.dtype)


@rule("stablehlo.broadcast_in_dim", is_folded=False)
def broadcast_in_dim(scope: Scope, op: Op) -> Entry:
    """The operand at its dimensions of the result, repeated along the other dimensions."""
    shape = mlir.shape_of(op.results[0].type)
    return broadcast_entry(
        scope, scope.entry(op.operands[0]), shape, mlir.ints(op, "broadcast_dimensions")
    )


@rule("stablehlo.broadcast", composed="broadcast_in_dim", is_folded=False)
def broadcast(scope: Scope, op: Op) -> Entry:
    """New dimensions before the operand's dimensions."""
    shape = mlir.shape_of(op.results[0].type)
    operand_rank = len(mlir.shape_of(op.operands[0].type))
    dims = range(len(shape) - operand_rank, len(shape))
    return broadcast_entry(scope, scope.entry(op.operands[0]), shape, dims)


def broadcast_entry(scope: Scope, entry: Entry, shape: Sequence[int], dims: Sequence[int]) -> Entry:
    """An entry with its dimension i as dimension ``dims[i]`` of a shape."""
    if isinstance(entry, Wide):
        return reshape_wide(entry, lambda word: broadcast_entry(scope, word, shape, dims))
    if isinstance(entry, np.ndarray):
        return _broadcast_constant(entry, shape, dims)
    value = scope.tensor(entry)
    if value.type.elements == prod(shape) and list(dims) == sorted(dims):
        return scope.graph.reshape(value, shape)
    return scope.graph.broadcast_in_dim(value, shape, dims)


def _broadcast_constant(numbers: Array, shape: Sequence[int], dims: Sequence[int]) -> Array:
    if is_splat(numbers) and numbers.size:
        return np.broadcast_to(numbers[(0,) * numbers.ndim], shape)
    order = sorted(range(len(dims)), key=lambda place: dims[place])
    lengths = [1] * len(shape)
    for dim, n in zip(dims, numbers.shape, strict=True):
        lengths[dim] = n
    return np.broadcast_to(numbers.transpose(order).reshape(lengths), shape)


@rule("stablehlo.reshape", is_folded=False)
def reshape(scope: Scope, op: Op) -> Entry:
    """The same elements in row-major order."""
    entry, shape = scope.entry(op.operands[0]), mlir.shape_of(op.results[0].type)
    if isinstance(entry, Wide):
        return reshape_wide(entry, lambda word: scope.graph.reshape(word, shape))
    if isinstance(entry, np.ndarray):
        is_flat = is_splat(entry) and entry.size
        return np.broadcast_to(entry[(0,) * entry.ndim], shape) if is_flat else entry.reshape(shape)
    return scope.graph.reshape(scope.tensor(entry), shape)


@rule("stablehlo.transpose", is_folded=False)
def transpose(scope: Scope, op: Op) -> Entry:
    """Dimensions in another order."""
    entry, order = scope.entry(op.operands[0]), mlir.ints(op, "permutation")
    if isinstance(entry, np.ndarray):
        return entry.transpose(order)
    if isinstance(entry, Share):
        return Share(scope.graph.transpose(scope.tensor(entry.window), order))
    return scope.graph.transpose(scope.tensor(entry), order)


@rule("stablehlo.reverse", is_folded=False)
def reverse(scope: Scope, op: Op) -> Entry:
    """The operand reversed along dimensions."""
    entry, dims = scope.entry(op.operands[0]), mlir.ints(op, "dimensions")
    if isinstance(entry, np.ndarray):
        return np.flip(entry, dims)
    return reversed_(scope, scope.tensor(entry), dims)


def reversed_(scope: Scope, value: Value, dims: Sequence[int]) -> Value:
    """A tensor reversed along some dimensions."""
    long_dims = tuple(dim for dim in dims if value.shape[dim] > 1)
    return scope.graph.apply(Reverse(long_dims), value) if long_dims else value


@rule("stablehlo.concatenate", is_folded=False)
def concatenate(scope: Scope, op: Op) -> Entry:
    """Tensors concatenated; tensors of length 0 along the dimension are left out."""
    dim = mlir.number(op, "dimension")
    entries = [scope.entry(ssa) for ssa in op.operands]
    if all(isinstance(entry, np.ndarray) for entry in entries):
        return compact(np.concatenate(entries, dim))
    tensors = [scope.tensor(entry) for entry in entries]
    parts = [tensor for tensor in tensors if tensor.shape[dim]]
    return scope.graph.concatenate(parts, dim) if parts else tensors[0]


@rule("stablehlo.pad")
def pad(scope: Scope, op: Op) -> Entry:
    """A number before, after and between elements; `select` inserts a number that is computed."""
    value = scope.value(op.operands[0])
    names = "edge_padding_low", "edge_padding_high", "interior_padding"
    low, high, interior = (mlir.ints(op, name) for name in names)
    padding = scope.constant_of(op.operands[1])
    if padding is not None:
        return scope.graph.pad(value, low, high, interior, splat_value(padding))
    number = scope.value(op.operands[1])
    padded_value = scope.graph.pad(value, low, high, interior)
    truths = scope.graph.constant(1.0, TensorType(value.shape, "bool"))
    is_own = scope.graph.pad(truths, low, high, interior)
    filler = scope.graph.broadcast_in_dim(number, padded_value.shape, ())
    return scope.graph.elementwise("select", is_own, padded_value, filler, dtype=value.dtype)


@rule("stablehlo.slice", is_folded=False)
def slice_(scope: Scope, op: Op) -> Entry:
    """Elements from a start index on, at a stride."""
    starts, steps = mlir.ints(op, "start_indices"), mlir.ints(op, "strides")
    shape = mlir.shape_of(op.results[0].type)
    return slice_entry(scope, scope.entry(op.operands[0]), starts, shape, steps)


def slice_entry(
    scope: Scope,
    entry: Entry,
    starts: Sequence[int],
    shape: Sequence[int],
    steps: Sequence[int] = (),
) -> Entry:
    """A slice of an entry; a stack if the slice cuts only a stack's own dimension, at stride 1."""
    strides = tuple(steps) or (1,) * len(shape)
    if isinstance(entry, Wide):
        change = partial(scope.graph.slice, starts=starts, shape=shape, strides=strides)
        return reshape_wide(entry, change)
    if isinstance(entry, np.ndarray):
        parts = zip(starts, shape, strides, strict=True)
        return entry[tuple(slice(s, s + n * step, step) for s, n, step in parts)]
    if isinstance(entry, Stack) and _is_run(entry, shape, strides):
        stack = entry.slice_stack(starts[entry.dim], shape)
        if len(stack.parts) == 1:
            part = stack.parts[0]
            return scope.slice_along(part.entry, entry.dim, part.start, part.length)
        return stack
    return scope.graph.slice(scope.tensor(entry), starts, shape, strides)


def _is_run(stack: Stack, shape: Sequence[int], strides: Sequence[int]) -> bool:
    """True if a slice cuts only a stack's own dimension, at stride 1."""
    lengths = [n for dim, n in enumerate(stack.type.shape) if dim != stack.dim]
    return set(strides) <= {1} and lengths == [n for d, n in enumerate(shape) if d != stack.dim]


def _constant_starts(
    scope: Scope, ssas: Sequence[object], shape: Sequence[int], window: Sequence[int]
) -> list[int] | None:
    """The start of a window, moved inside a tensor of `shape`; None where it is no constant."""
    starts = list[int]()
    for ssa, length, size in zip(ssas, shape, window, strict=True):
        number, last_start = scope.constant_of(ssa), length - size
        if number is None and last_start > 0:
            return None
        starts.append(0 if number is None else min(max(int(number), 0), last_start))
    return starts


@rule("stablehlo.dynamic_slice", is_folded=False)
def dynamic_slice(scope: Scope, op: Op) -> Entry:
    """A window whose start is computed; a plain slice if the start is constant."""
    operand, *start_values = op.operands
    entry = scope.entry(operand)
    if isinstance(entry, Share):
        return entry.window
    shape, operand_shape = mlir.shape_of(op.results[0].type), mlir.shape_of(operand.type)
    starts = _constant_starts(scope, start_values, operand_shape, shape)
    if starts is not None:
        return slice_entry(scope, entry, starts, shape)
    operands = [scope.value(ssa) for ssa in op.operands]
    return scope.graph.apply(DynamicSlice(shape), *operands)


@rule("stablehlo.dynamic_update_slice", is_folded=False)
def dynamic_update_slice(scope: Scope, op: Op) -> Entry:
    """A tensor with a replaced window; a stack of parts if the window's start is constant."""
    operand, part, *start_values = op.operands
    shape, operand_shape = mlir.shape_of(part.type), mlir.shape_of(operand.type)
    starts = _constant_starts(scope, start_values, operand_shape, shape)
    if starts is None:
        operands = [scope.value(ssa) for ssa in op.operands]
        return scope.graph.apply(DynamicUpdateSlice(), *operands)
    if shape == operand_shape:
        return scope.entry(part)
    return _replace_window(scope, op, starts)


def _replace_window(scope: Scope, op: Op, starts: Sequence[int]) -> Entry:
    """A tensor with one of its windows replaced, from a constant start on."""
    operand, part = (scope.entry(ssa) for ssa in op.operands[:2])
    type_, shape = scope.result(op), mlir.shape_of(op.operands[1].type)
    if not all(shape):
        return operand
    short_dims = [dim for dim, n in enumerate(shape) if n != type_.shape[dim]]
    if len(short_dims) == 1:
        (dim,) = short_dims
        stack = Stack.of(operand, type_, dim) or Stack.of(scope.tensor(operand), type_, dim)
        if stack is not None:
            return stack.replace_slice(part, starts[dim], shape[dim])
    high_padding = [n - s - m for n, s, m in zip(type_.shape, starts, shape, strict=True)]
    truths = scope.graph.constant(1.0, TensorType(tuple(shape), "bool"))
    is_new = scope.graph.pad(truths, starts, high_padding)
    new_window = scope.graph.pad(scope.tensor(part), starts, high_padding)
    old_tensor = scope.tensor(operand)
    return scope.graph.elementwise("select", is_new, new_window, old_tensor, dtype=type_.dtype)


@rule("stablehlo.get_dimension_size", is_folded=False)
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
    table, indices = (scope.value(ssa) for ssa in op.operands)
    order = [dim, *(d for d in range(len(table.shape)) if d != dim)]
    rows = scope.graph.gather(scope.graph.transpose(table, order), indices)
    count = len(indices.shape)
    axes = range(len(rows.shape))
    permutation = [*axes[count : count + dim], *axes[:count], *axes[count + dim :]]
    return scope.graph.transpose(rows, permutation)
