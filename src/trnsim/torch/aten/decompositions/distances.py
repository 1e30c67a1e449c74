"""Distances between rows, and cross products."""

from __future__ import annotations

from math import inf
from typing import Final

from trnsim.graph import Value
from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import moved
from trnsim.torch.aten.decomposition import Decomposition


def _norm(b: Build, apart: Value, p: float) -> Value:
    """The p-norm of the last dimension."""
    last = [len(apart.shape) - 1]
    size = b.ew("abs", apart)
    if p == inf:
        return b.reduce("maximum", size, last)
    if p == 0:
        differs = b.ew("compare", apart, 0.0, dtype="float32", direction="NE")
        return b.reduce("add", differs, last)
    if p == 1:
        return b.reduce("add", size, last)
    if p == 2:  # noqa: PLR2004  the Euclidean norm
        return b.ew("sqrt", b.reduce("add", b.ew("square", apart), last))
    total = b.reduce("add", b.ew("power", size, float(p)), last)
    return b.ew("power", total, 1 / p)


def cdist(b: Build, x: Value, y: Value, p: float, mode: int | None = None) -> Value:
    """The distance of each row of x [*B, M, D] from each row of y [*B, N, D]."""
    del mode
    shape = (*b.results[0].shape, x.shape[-1])
    rank, batch = len(shape), shape[:-3]
    left = b.spread(x, (*batch, *x.shape[-2:]))
    right = b.spread(y, (*batch, *y.shape[-2:]))
    leading = range(rank - 3)
    left = b.graph.broadcast_in_dim(left, shape, (*leading, rank - 3, rank - 1))
    right = b.graph.broadcast_in_dim(right, shape, (*leading, rank - 2, rank - 1))
    return b.result(_norm(b, b.ew("subtract", left, right), p))


def pdist(b: Build, x: Value, p: float = 2.0) -> Value:
    """The distances of each row from those after it, as one row."""
    count = x.shape[0]
    pairs = [(i, i + 1) for i in range(count - 1)]
    parts: list[Value] = []
    for at, after in pairs:
        rest = b.graph.slice(x, (after, 0), (count - after, x.shape[1]))
        one = b.spread(b.graph.slice(x, (at, 0), (1, x.shape[1])), rest.shape)
        parts.append(_norm(b, b.ew("subtract", rest, one), p))
    return b.graph.concatenate(parts, 0)


def cross(b: Build, x: Value, y: Value, *, dim: int = -1) -> Value:
    """The cross product of vectors of three numbers along a dimension."""
    shape = b.results[0].shape
    left, right = (moved(b, b.spread(side, shape), dim, 0) for side in (x, y))
    a, c = ([_at(b, side, place) for place in range(3)] for side in (left, right))
    parts = [
        b.ew("subtract", b.ew("multiply", a[i], c[j]), b.ew("multiply", a[j], c[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    return b.result(moved(b, b.graph.concatenate(parts, 0), 0, dim))


def _at(b: Build, x: Value, place: int) -> Value:
    """One place of the first dimension, which stays."""
    return b.graph.slice(x, (place, *(0 for _ in x.shape[1:])), (1, *x.shape[1:]))


DECOMPOSITIONS: Final[dict[str, Decomposition]] = {
    "_cdist_forward": cdist,
    "_pdist_forward": pdist,
    "linalg_cross": cross,
}
