"""Distances between rows, and cross products."""

from __future__ import annotations

from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import move_dim
from trnsim.torch.aten.decomposition import Decomposition
from trnsim.torch.aten.decompositions.reductions import p_norm


def cdist(b: Build, x: Value, y: Value, p: float, mode: int | None = None) -> Value:
    """The distance of each row of x [*B, M, D] from each row of y [*B, N, D]."""
    del mode
    shape = (*b.result_types[0].shape, x.shape[-1])
    rank, batch = len(shape), shape[:-3]
    left = b.broadcast(x, (*batch, *x.shape[-2:]))
    right = b.broadcast(y, (*batch, *y.shape[-2:]))
    leading = range(rank - 3)
    left = b.graph.broadcast_in_dim(left, shape, (*leading, rank - 3, rank - 1))
    right = b.graph.broadcast_in_dim(right, shape, (*leading, rank - 2, rank - 1))
    return b.as_result(p_norm(b, b.ew("subtract", left, right), p, [-1]))


def pdist(b: Build, x: Value, p: float = 2.0) -> Value:
    """The distances of each row from the rows after it, as a single row."""
    count = x.shape[0]
    parts: list[Value] = []
    for start in range(1, count):
        later_rows = b.sliced(x, 0, start, count - start)
        row = b.broadcast(b.sliced(x, 0, start - 1, 1), later_rows.shape)
        parts.append(p_norm(b, b.ew("subtract", later_rows, row), p, [-1]))
    return b.graph.concatenate(parts, 0)


def cross(b: Build, x: Value, y: Value, *, dim: int = -1) -> Value:
    """The cross product of vectors of three numbers along a dimension."""
    shape = b.result_types[0].shape
    left, right = (move_dim(b, b.broadcast(side, shape), dim, 0) for side in (x, y))
    a, c = ([b.sliced(side, 0, index, 1) for index in range(3)] for side in (left, right))
    parts = [
        b.ew("subtract", b.ew("multiply", a[i], c[j]), b.ew("multiply", a[j], c[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.as_result(move_dim(b, b.graph.concatenate(parts, 0), 0, dim))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "_cdist_forward": cdist,
    "_pdist_forward": pdist,
    "linalg_cross": cross,
}
