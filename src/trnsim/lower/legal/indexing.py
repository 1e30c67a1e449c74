"""Gather, scatter and dynamic slices in all their forms, as rows of a table.

The operand is a table whose rows are the widest runs of elements that lie together in every slice.
A slice is then a list of rows: its start plus the offset of each row within it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from math import prod
from typing import Final

import numpy as np

from trnsim.graph import Node, TensorType, Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.graph.ops.layout import DynamicSlice, DynamicUpdateSlice
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.types import ITEM_BYTES, Shape
from trnsim.lower.rules import legal

Starts = Sequence[Value | None]
"""For each dimension of the operand, where the slices start, [B] of int32; None for 0."""

_ROW_ELEMENTS: Final = 4096
"""Elements of a row: long enough to hide the fixed cost of a transfer, and few for a partition."""
_FEWEST_ELEMENTS: Final = 128
"""Elements of a row below which the fixed cost of its transfer is most of its time."""
_ROW_BYTES: Final = 64 * 1024
"""Longest row, in bytes of a partition, whose single elements are gathered: a third of SBUF."""
_BYTES_OF_AN_ELEMENT: Final = 8 * 1024
"""Bytes of a row for each element that is gathered, which load in the time of its own transfer."""
_DMA_INDEX_DTYPES: Final = ("int32", "uint32")
"""Indices that a transfer takes (nki-dge.rst, Indirect addressing)."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """A tensor as a table, and slices of equal size as lists of its rows."""

    shape: Shape
    sizes: Shape

    @property
    def outer(self) -> int:
        """The number of dimensions up to the last one that a slice does not have whole."""
        pairs = list(zip(self.shape, self.sizes, strict=True))
        return next((dim + 1 for dim in reversed(range(len(pairs))) if len({*pairs[dim]}) > 1), 0)

    @property
    def width(self) -> int:
        """Elements of a row: all that lie together, or a divisor of them if they are many.

        If all divisors below the limit are small, as of a prime, the next larger one is taken, and
        kernels split a row that is too long for a partition.
        """
        together = prod(self.shape[self.outer :])
        if together <= _ROW_ELEMENTS:
            return together
        width = next(n for n in range(_ROW_ELEMENTS, 0, -1) if together % n == 0)
        if width >= _FEWEST_ELEMENTS:
            return width
        parts = next(n for n in range(together // _ROW_ELEMENTS, 0, -1) if together % n == 0)
        return together // parts

    @property
    def parts(self) -> int:
        """The count of rows that lie together."""
        return prod(self.shape[self.outer :]) // self.width

    @property
    def table(self) -> Shape:
        """The tensor's shape as a table."""
        return prod(self.shape) // self.width, self.width

    @property
    def slice_rows(self) -> Shape:
        """The rows of a slice, in the slice's own dimensions."""
        return (*self.sizes[: self.outer], self.parts)

    def numbers(self, b: Build, starts: Starts, count: int) -> Value:
        """The table's row for each row of `count` slices: [B, *slice_rows], int32."""
        steps = [prod(self.shape[dim + 1 : self.outer]) * self.parts for dim in range(self.outer)]
        shape = (count, *self.slice_rows)
        terms = [
            b.graph.broadcast_in_dim(_scale(b, start, step), shape, (0,))
            for start, step in zip(starts, steps, strict=False)
            if start is not None
        ]
        terms += [
            _scale(b, b.graph.iota(shape, dim + 1), step)
            for dim, step in enumerate([*steps, 1])
            if shape[dim + 1] > 1
        ]
        return b.total(terms) if terms else b.filled(0, TensorType(shape, "int32"))


def _scale(b: Build, value: Value, step: int) -> Value:
    return value if step == 1 else b.ew("multiply", value, float(step))


def _clamp(b: Build, index: Value, largest: int) -> Value:
    """An index clamped to 0 and `largest`, int32; compared in its own type, which has both."""
    limits = np.iinfo(index.type.numpy_dtype())
    if largest == 0:
        return b.filled(0, TensorType(index.shape, "int32"))
    clamped = b.ew("clamp", 0.0, index, float(min(largest, limits.max)), dtype=index.dtype)
    return b.convert(clamped, "int32")


def _flat(b: Build, value: Value) -> Value:
    return b.graph.reshape(value, (value.type.elements,))


def _batch(op: Gather | Scatter, indices: Shape) -> Shape:
    """The dimensions of the indices without the index vector."""
    return tuple(n for dim, n in enumerate(indices) if dim != op.index_vector_dim)


def _starts(b: Build, op: Gather | Scatter, indices: Value, rank: int) -> list[Value | None]:
    """The starts of slices in the type of the program's indices; they may be out of bounds."""
    starts: list[Value | None] = [None] * rank
    batch = _batch(op, indices.shape)
    vectors = indices
    if op.index_vector_dim < len(indices.shape):
        vectors = move_dim(b, indices, op.index_vector_dim, -1)
    vectors = b.graph.reshape(vectors, (prod(batch), len(op.start_index_map)))
    for place, dim in enumerate(op.start_index_map):
        starts[dim] = _flat(b, b.graph.slice(vectors, (0, place), (prod(batch), 1)))
    pairs = zip(op.operand_batching_dims, op.start_indices_batching_dims, strict=True)
    for dim, indices_dim in pairs:
        count = b.graph.iota(batch, indices_dim - (indices_dim > op.index_vector_dim))
        starts[dim] = _flat(b, count)
    return starts


def _gathers_by_kernel(node: Node) -> bool:
    """True if a gather reads rows, or elements of rows that a partition holds."""
    (table, indices), op = node.operand_types, node.operation
    if op == Gather.rows(table.shape, indices.shape):
        return indices.dtype in _DMA_INDEX_DTYPES
    if op != Gather.in_rows(table.shape):
        return False
    row_bytes = table.shape[-1] * ITEM_BYTES[table.dtype]
    return row_bytes <= min(_ROW_BYTES, _BYTES_OF_AN_ELEMENT * indices.shape[-1])


@legal(Gather, unless=_gathers_by_kernel)
def gather(b: Build, op: Gather, operand: Value, indices: Value) -> Value:
    """Rows of the operand by clamped indices, put in the order of the result's dimensions."""
    if replace(op, is_in_bounds=True) == Gather.in_rows(operand.shape):
        clamped = _clamp(b, indices, operand.shape[-1] - 1)
        node = Node(replace(op, is_in_bounds=True), (operand, clamped), ())
        if _gathers_by_kernel(node):
            return b.graph.apply(node.operation, *node.operands)
    batch, sizes = _batch(op, indices.shape), op.slice_sizes
    starts = [
        None if start is None else _clamp(b, start, n - size)
        for start, n, size in zip(
            _starts(b, op, indices, len(sizes)), operand.shape, sizes, strict=True
        )
    ]
    slices = _slices(b, operand, sizes, starts, prod(batch))
    collapsed_dims = {*op.collapsed_slice_dims, *op.operand_batching_dims}
    offsets = [size for dim, size in enumerate(sizes) if dim not in collapsed_dims]
    rank = len(batch) + len(offsets)
    places = [dim for dim in range(rank) if dim not in op.offset_dims] + list(op.offset_dims)
    order = [places.index(dim) for dim in range(rank)]
    return b.graph.transpose(b.graph.reshape(slices, (*batch, *offsets)), order)


def _slices(b: Build, operand: Value, sizes: Shape, starts: Starts, count: int) -> Value:
    """`count` slices of the operand at clamped starts: [B, *slice_rows, width] of `_Rows`."""
    rows = _Rows(operand.shape, sizes)
    table = b.graph.reshape(operand, rows.table)
    return b.graph.gather(table, rows.numbers(b, starts, count))


@legal(DynamicSlice)
def dynamic_slice(b: Build, op: DynamicSlice, operand: Value, *starts: Value) -> Value:
    """The slice at clamped starts, one scalar for each dimension."""
    slices = _slices(b, operand, op.shape, _scalar_starts(b, operand.shape, op.shape, starts), 1)
    return b.graph.reshape(slices, op.shape)


def _scalar_starts(b: Build, shape: Shape, sizes: Shape, starts: Sequence[Value]) -> Starts:
    """Starts of one slice, clamped to the operand, from one scalar for each dimension."""
    return [
        _clamp(b, _flat(b, start), n - size) if n > size else None
        for start, n, size in zip(starts, shape, sizes, strict=True)
    ]


@legal(DynamicUpdateSlice)
def dynamic_update_slice(
    b: Build, op: DynamicUpdateSlice, operand: Value, update: Value, *starts: Value
) -> Value:
    """The operand with the slice's rows replaced by the update."""
    del op
    if not update.type.elements:
        return operand
    rows = _Rows(operand.shape, update.shape)
    places = _scalar_starts(b, operand.shape, update.shape, starts)
    table = b.graph.scatter(
        b.graph.reshape(operand, rows.table),
        rows.numbers(b, places, 1),
        b.graph.reshape(update, (1, *rows.slice_rows, rows.width)),
        "assign",
    )
    return b.graph.reshape(table, operand.shape)


def _scatters_by_kernel(node: Node) -> bool:
    """True if a scatter writes rows that are in bounds."""
    op, indices = node.operation, node.operand_types[1]
    if not isinstance(op, Scatter) or indices.dtype not in _DMA_INDEX_DTYPES:
        return False
    return op == Scatter.rows(node.result.shape, indices.shape, op.op, op.type)


@legal(Scatter, unless=_scatters_by_kernel)
def scatter(b: Build, op: Scatter, updates: Value, indices: Value, *operand: Value) -> Value:
    """Scatter by rows; updates out of bounds go to an additional row, which is dropped."""
    (result_type,) = b.result_types
    if not updates.type.elements:
        return operand[0] if operand else b.filled(0, result_type)
    others = [dim for dim in range(len(updates.shape)) if dim not in op.update_window_dims]
    inserted_dims = {*op.inserted_window_dims, *op.operand_batching_dims}
    lengths = [updates.shape[dim] for dim in op.update_window_dims]
    sizes = tuple(
        1 if dim in inserted_dims else lengths.pop(0) for dim in range(len(result_type.shape))
    )
    rows = _Rows(result_type.shape, sizes)
    count = prod(updates.shape[dim] for dim in others)
    starts = _starts(b, op, indices, len(sizes))
    int32_starts = [None if start is None else b.convert(start, "int32") for start in starts]
    numbers = rows.numbers(b, int32_starts, count)
    height, width = rows.table
    is_inside = None if op.is_in_bounds else _are_inside(b, op, rows, int32_starts)
    if is_inside is not None:
        is_row_inside = b.graph.broadcast_in_dim(is_inside, numbers.shape, (0,))
        numbers = b.ew("select", is_row_inside, numbers, float(height), dtype="int32")
        height += 1
    data = b.graph.transpose(
        b.convert(updates, result_type.dtype), [*others, *op.update_window_dims]
    )
    data = b.graph.reshape(data, (count, *rows.slice_rows, width))
    table = _table(b, operand, result_type, rows.table, height)
    new_table = b.graph.scatter(table, numbers, data, op.op)
    return b.graph.reshape(b.graph.slice(new_table, (0, 0), rows.table), result_type.shape)


def _table(
    b: Build, operand: Sequence[Value], result_type: TensorType, shape: Shape, height: int
) -> Value | TensorType:
    """The operand of a scatter, or zeros, as a table of `height` rows."""
    if not operand:
        return TensorType((height, shape[1]), result_type.dtype)
    table = b.graph.reshape(operand[0], shape)
    return b.graph.pad(table, (0, 0), (height - shape[0], 0))


def _are_inside(b: Build, op: Scatter, rows: _Rows, starts: Starts) -> Value | None:
    """True for each slice that is in bounds, [B]; None if none can be outside."""
    conditions = [
        b.ew("compare", start, float(bound), direction=direction, dtype="bool")
        for dim, start in enumerate(starts)
        if start is not None and dim in op.start_index_map
        for direction, bound in (("GE", 0), ("LE", rows.shape[dim] - rows.sizes[dim]))
    ]
    return reduce(partial(b.ew, "and"), conditions) if conditions else None
