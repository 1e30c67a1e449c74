"""Slices of a tensor read or written at indices.

Attributes have the names of StableHLO's gather and scatter.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.graph.operation import Example, Kind, Operation
from trnsim.graph.ops.layout import are_dims
from trnsim.graph.ops.reductions import BODIES
from trnsim.graph.types import ELEMENT_TYPES, INTEGERS, Array, Shape, TensorType

_F32: Final = "float32"
_INDEX_DTYPE: Final = "int32"


class Gather(Operation, kind=Kind.KERNEL):
    """Slices of the operand, each at the start that a vector of indices names.

    Attributes:
        offset_dims: dimensions of the result that lie in a slice.
        collapsed_slice_dims: dimensions of a slice, of length 1, that the result does not have.
        operand_batching_dims: dimensions of the operand, each paired with a dimension of the
            indices.
        start_indices_batching_dims: the paired dimensions of the indices.
        start_index_map: the dimension of the operand for each index of a vector.
        index_vector_dim: the dimension of the indices that is the vector; their rank if each vector
            is a single index.
        is_in_bounds: whether the program promises that no index is out of bounds; else a slice is
            moved inside.
    """

    operands = ("operand", "start_indices")
    legal = (ELEMENT_TYPES, INTEGERS)
    offset_dims: Shape = ()
    collapsed_slice_dims: Shape = ()
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()
    start_index_map: Shape = ()
    index_vector_dim: int = 0
    slice_sizes: Shape = ()
    is_in_bounds: bool = True

    @classmethod
    def rows(cls, table: Shape, indices: Shape) -> Gather:
        """Rows of a table [V, *D] by indices [*I]: ``[*I, *D]``."""
        first = len(indices)
        return cls(
            offset_dims=tuple(range(first, first + len(table) - 1)),
            collapsed_slice_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=first,
            slice_sizes=(1, *table[1:]),
        )

    @classmethod
    def in_rows(cls, rows: Shape) -> Gather:
        """``rows[*, indices[*, i]]`` of [*R, N] by [*R, I]."""
        last = len(rows) - 1
        return cls(
            collapsed_slice_dims=(last,),
            operand_batching_dims=tuple(range(last)),
            start_indices_batching_dims=tuple(range(last)),
            start_index_map=(last,),
            index_vector_dim=last + 1,
            slice_sizes=(1,) * len(rows),
        )

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """A slice for each vector of indices."""
        operand, indices = tensors
        sizes_fit = len(self.slice_sizes) == len(operand.shape) and all(
            0 <= size <= n for size, n in zip(self.slice_sizes, operand.shape, strict=True)
        )
        collapsed_dims = {*self.collapsed_slice_dims, *self.operand_batching_dims}
        if not sizes_fit or any(self.slice_sizes[dim] > 1 for dim in collapsed_dims):
            self.refuse(
                f"of {operand} in slices of {self.slice_sizes}; legal: lengths up to its own"
            )
        _check_vectors(self, operand, indices)
        batch = list(_without_dim(indices.shape, self.index_vector_dim))
        offsets = [size for dim, size in enumerate(self.slice_sizes) if dim not in collapsed_dims]
        rank = len(batch) + len(offsets)
        if len(self.offset_dims) != len(offsets) or not are_dims(self.offset_dims, rank):
            self.refuse(
                f"of {operand} with {self.offset_dims} in a slice; legal: {len(offsets)} of the "
                f"result's {rank} dimensions"
            )
        shape = tuple(
            offsets.pop(0) if dim in self.offset_dims else batch.pop(0) for dim in range(rank)
        )
        return (TensorType(shape, operand.dtype),)

    def reference(self, operand: Array, start_indices: Array) -> Array:
        """One slice after the other."""
        vectors = _with_vectors_last(start_indices, self.index_vector_dim)
        batch, sizes = vectors.shape[:-1], self.slice_sizes
        collapsed_dims = sorted({*self.collapsed_slice_dims, *self.operand_batching_dims})
        offsets = [size for dim, size in enumerate(sizes) if dim not in collapsed_dims]
        slices = np.empty((*batch, *offsets), operand.dtype)
        for place in np.ndindex(*batch):
            start = _slice_start(self, vectors[place], place, operand.ndim)
            clamped_start = [
                min(max(at, 0), n - size)
                for at, n, size in zip(start, operand.shape, sizes, strict=True)
            ]
            part = operand[
                tuple(slice(at, at + n) for at, n in zip(clamped_start, sizes, strict=True))
            ]
            slices[place] = part.reshape(offsets)
        rank = slices.ndim
        batch_dims = [dim for dim in range(rank) if dim not in self.offset_dims]
        return np.moveaxis(slices, range(rank), [*batch_dims, *self.offset_dims])

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Rows of a table, of each type; within rows; windows of two dimensions."""
        values = ("distinct", "places")
        places = TensorType((2, 5), _INDEX_DTYPE)
        wide = cls((1, 2), (), (), (), (0, 1), 1, (2, 3), is_in_bounds=False)
        return (
            *(
                Example(
                    cls.rows((9, 6), (2, 5)),
                    (TensorType((9, 6), kind), places),
                    ("edges", "places"),
                    9,
                )
                for kind in ("float32", "bfloat16", "int32")
            ),
            Example(cls.in_rows((2, 7)), (TensorType((2, 7), _F32), places), values, 7),
            Example(wide, (TensorType((6, 8), _F32), TensorType((4, 2), _INDEX_DTYPE)), values, 9),
        )


class Scatter(Operation, kind=Kind.KERNEL):
    """The operand, or zeros of `type`, with each update at the start that its indices name.

    `op` combines an element with its update: add, multiply, maximum, minimum, or assign, by which
    the last of several updates stays. An update that is partly outside is dropped. The other
    attributes are those of `Gather`, with updates in the place of slices.

    Kernels add many updates at once by a product with ones and zeros, so an infinity or NaN among
    them makes NaN of the others in its column.
    """

    operands = ("updates", "scatter_indices", "*operand")
    legal = (ELEMENT_TYPES, INTEGERS, ELEMENT_TYPES)
    type: TensorType | None = None
    op: str = "add"
    update_window_dims: Shape = ()
    inserted_window_dims: Shape = ()
    operand_batching_dims: Shape = ()
    start_indices_batching_dims: Shape = ()
    start_index_map: Shape = ()
    index_vector_dim: int = 0
    is_in_bounds: bool = True

    @classmethod
    def rows(cls, table: Shape, indices: Shape, op: str, zeros: TensorType | None) -> Scatter:
        """Updates [*I, *D] into the rows [*I] of a table [V, *D]."""
        first = len(indices)
        return cls(
            zeros,
            op,
            update_window_dims=tuple(range(first, first + len(table) - 1)),
            inserted_window_dims=(0,),
            start_index_map=(0,),
            index_vector_dim=first,
        )

    def types(self, *tensors: TensorType) -> tuple[TensorType, ...]:
        """The operand's type."""
        updates, indices, *operand = tensors
        table = operand[0] if operand else self.type
        if self.op not in _UPDATE_FUNCTIONS:
            self.refuse(f"by {self.op}; legal: {', '.join(_UPDATE_FUNCTIONS)}")
        if table is None:
            self.refuse("into no operand; legal: one, or a type of zeros")
        _check_vectors(self, table, indices)
        batch = [n for dim, n in enumerate(updates.shape) if dim not in self.update_window_dims]
        if batch != list(_without_dim(indices.shape, self.index_vector_dim)):
            self.refuse(f"of {updates} by {indices}; legal: an update for each vector of indices")
        inserted_dims = {*self.inserted_window_dims, *self.operand_batching_dims}
        limits = [n for dim, n in enumerate(table.shape) if dim not in inserted_dims]
        window = [updates.shape[dim] for dim in self.update_window_dims]
        if len(window) != len(limits) or any(
            n > limit for n, limit in zip(window, limits, strict=True)
        ):
            self.refuse(f"of {updates} into {table}; legal: windows of up to {limits}")
        return (table,)

    def reference(self, updates: Array, scatter_indices: Array, *operand: Array) -> Array:
        """One update after the other."""
        zeros = np.zeros(self.type.shape if self.type else (), updates.dtype)
        result = operand[0].copy() if operand else zeros
        vectors = _with_vectors_last(scatter_indices, self.index_vector_dim)
        batch = [dim for dim in range(updates.ndim) if dim not in self.update_window_dims]
        first = np.moveaxis(updates, [*batch, *self.update_window_dims], range(updates.ndim))
        inserted_dims = sorted({*self.inserted_window_dims, *self.operand_batching_dims})
        update = _UPDATE_FUNCTIONS[self.op]
        for place in np.ndindex(*vectors.shape[:-1]):
            part = np.expand_dims(first[place], inserted_dims)
            start = _slice_start(self, vectors[place], place, result.ndim)
            end = [at + n for at, n in zip(start, part.shape, strict=True)]
            if min(start, default=0) >= 0 and all(
                e <= n for e, n in zip(end, result.shape, strict=True)
            ):
                where = tuple(slice(at, to) for at, to in zip(start, end, strict=True))
                result[where] = update(result[where], part)
        return result

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Rows, some of them twice, by each operator; into zeros; windows."""
        rows, table = TensorType((5, 6), _F32), TensorType((4, 6), _F32)
        places = TensorType((5,), _INDEX_DTYPE)
        wide = cls(None, "add", (1, 2), (), (), (), (0, 1), 1, is_in_bounds=False)
        return (
            *(
                Example(
                    cls.rows((4, 6), (5,), op, None),
                    (rows, places, table),
                    ("small", "places", "small"),
                    4,
                )
                for op in _UPDATE_FUNCTIONS
            ),
            Example(cls.rows((4, 6), (5,), "add", table), (rows, places), ("small", "places"), 4),
            Example(
                wide,
                (
                    TensorType((4, 2, 3), _F32),
                    TensorType((4, 2), _INDEX_DTYPE),
                    TensorType((6, 8), _F32),
                ),
                ("small", "places", "small"),
                7,
            ),
        )


def _keep_new(old: Array, new: Array) -> Array:
    """The newer of two values of an assigned element."""
    del old
    return new


_UPDATE_FUNCTIONS: Final[dict[str, Any]] = {**BODIES, "assign": _keep_new}
"""Functions of an element of the table and its update, by name."""


def _check_vectors(operation: Gather | Scatter, table: TensorType, indices: TensorType) -> None:
    """Check that each vector of indices has an index for each dimension, which the table has."""
    rank, place, dims = len(indices.shape), operation.index_vector_dim, operation.start_index_map
    pairs = operation.operand_batching_dims, operation.start_indices_batching_dims
    if (
        not are_dims((*dims, *pairs[0]), len(table.shape))
        or not are_dims(pairs[1], rank)
        or len(pairs[0]) != len(pairs[1])
    ):
        operation.refuse(
            f"of {table} by {indices} along {dims}, with {pairs[0]} beside {pairs[1]}; legal: "
            "dimensions of each, once"
        )
    length = 1 if place == rank else indices.shape[place] if 0 <= place < rank else -1
    if length != len(dims):
        operation.refuse(
            f"by vectors along {place} of {indices}; legal: {len(dims)} indices, for {dims}"
        )


def _without_dim(shape: Shape, dim: int) -> Shape:
    return (*shape[:dim], *shape[dim + 1 :])


def _with_vectors_last(indices: Array, dim: int) -> Array:
    """Indices with their vectors last."""
    return indices[..., None] if dim == indices.ndim else np.moveaxis(indices, dim, -1)


def _slice_start(
    operation: Gather | Scatter, vector: Array, place: tuple[int, ...], rank: int
) -> list[int]:
    """The start of a slice in each dimension."""
    start = [0] * rank
    for dim, index in zip(operation.start_index_map, vector, strict=True):
        start[dim] = int(index)
    for dim, indices_dim in zip(
        operation.operand_batching_dims, operation.start_indices_batching_dims, strict=True
    ):
        start[dim] = place[indices_dim - (indices_dim > operation.index_vector_dim)]
    return start
