"""Moves of a dimension, indices into flattened tensors, and gathers within rows."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.types import ITEM_BYTES

_ROW_BYTES: Final = 64 * 1024
"""Maximum bytes of a row in a partition: a third of SBUF, as two overlap."""


def move_dim(b: Build, x: Value, dim: int, place: int) -> Value:
    """`x` with dimension `dim` at `place`, the others in order; a scalar stays as it is."""
    rank = len(x.shape)
    if not rank:
        return x
    order = [d for d in range(rank) if d != dim % rank]
    order.insert(place % rank, dim % rank)
    return b.graph.transpose(x, order)


def linear_index(b: Build, parts: Sequence[Value], lengths: Sequence[int]) -> Value:
    """The index into flattened dimensions: the sum of each index times its stride."""
    terms: list[Value] = []
    for number, part in enumerate(parts):
        stride = prod(lengths[number + 1 :])
        terms.append(b.ew("multiply", part, float(stride), dtype="int32") if stride != 1 else part)
    return b.convert(b.total(terms, "int32"), "int32")


def flat_indices(b: Build, index: Value, shape: Sequence[int]) -> Value:
    """Flat indices into a dense `shape`, from indices into its last dimension."""
    last = len(shape) - 1
    outer = [b.graph.iota(index.shape, dim) for dim in range(last)]
    return linear_index(b, [*outer, index], shape)


def gather_along_rows(b: Build, rows: Value, places: Value) -> Value:
    """``rows[*, places[*, i]]``; a row too long for a partition is read element by element."""
    if rows.shape[-1] * ITEM_BYTES[rows.dtype] <= _ROW_BYTES:
        return b.graph.gather_in_rows(rows, places)
    flat = b.graph.reshape(rows, (rows.type.elements,))
    return b.graph.gather(flat, flat_indices(b, places, rows.shape))
