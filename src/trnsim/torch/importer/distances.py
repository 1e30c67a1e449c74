"""Distances between rows, cross products, and sampling of images at any points."""

from __future__ import annotations

from functools import reduce
from math import inf, prod
from typing import Final

from trnsim.graph import Value
from trnsim.torch.importer.build import Build, Importer, Unlowered
from trnsim.torch.importer.indexing import moved


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
    return b.graph.add("concatenate", parts, b.results[0], dim=0) if len(parts) > 1 else parts[0]


def cross(b: Build, x: Value, y: Value, *, dim: int = -1) -> Value:
    """The cross product of vectors of three numbers along a dimension."""
    shape = b.results[0].shape
    left, right = (moved(b, b.spread(side, shape), dim, 0) for side in (x, y))
    a, c = ([_at(b, side, place) for place in range(3)] for side in (left, right))
    parts = [
        b.ew("subtract", b.ew("multiply", a[i], c[j]), b.ew("multiply", a[j], c[i]))
        for i, j in ((1, 2), (2, 0), (0, 1))
    ]
    wanted = left.type
    return b.result(moved(b, b.graph.add("concatenate", parts, wanted, dim=0), 0, dim))


def _at(b: Build, x: Value, place: int) -> Value:
    """One place of the first dimension, which stays."""
    return b.graph.slice(x, (place, *(0 for _ in x.shape[1:])), (1, *x.shape[1:]))


_BILINEAR, _NEAREST = 0, 1  # torch.nn.functional.grid_sample, mode
_ZEROS, _BORDER = 0, 1  # padding_mode


def grid_sampler(
    b: Build, x: Value, grid: Value, mode: int, padding: int, is_aligned: bool
) -> Value:
    """Elements of x [N, C, H, W] at the points of a grid [N, OH, OW, 2], between -1 and 1."""
    if mode not in (_BILINEAR, _NEAREST) or padding not in (_ZEROS, _BORDER):
        raise Unlowered("bicubic sampling, or reflection at the border")
    batch, channels, *lengths = x.shape
    points = grid.type.elements // 2
    flat = b.graph.reshape(b.convert(grid, "float32"), (points, 2))
    table = b.graph.reshape(b.graph.transpose(x, (0, 2, 3, 1)), (batch * prod(lengths), channels))
    where = [  # the grid has x, along W, first
        _pixels(b, b.graph.slice(flat, (0, 1 - dim), (points, 1)), n, padding, is_aligned)
        for dim, n in enumerate(lengths)
    ]
    sample = b.graph.iota((batch, points // batch), 0)
    first = b.ew("multiply", b.graph.reshape(sample, (points, 1)), float(prod(lengths)))
    corners = [(0, 0), (0, 1), (1, 0), (1, 1)] if mode == _BILINEAR else [(0, 0)]
    terms: list[Value] = []
    for corner in corners:
        rows, weight = _corner(b, where, corner, lengths, mode)
        place = b.graph.reshape(b.ew("add", first, rows, dtype="int32"), (points,))
        read = b.graph.gather(table, place)
        terms.append(b.ew("multiply", read, b.spread(weight, read.shape), dtype="float32"))
    shape = (batch, *grid.shape[1:3], channels)
    return b.result(b.graph.transpose(b.graph.reshape(b.total(terms), shape), (0, 3, 1, 2)))


def _pixels(b: Build, at: Value, length: int, padding: int, is_aligned: bool) -> Value:
    """Coordinates between -1 and 1 as places between 0 and length - 1."""
    scale = (length - 1) / 2 if is_aligned else length / 2
    shift = scale if is_aligned else (length - 1) / 2
    found = b.ew("add", b.ew("multiply", at, scale), shift)
    if padding == _BORDER:
        found = b.ew("minimum", b.ew("maximum", found, 0.0), float(length - 1))
    return found


def _corner(
    b: Build, where: list[Value], corner: tuple[int, int], lengths: list[int], mode: int
) -> tuple[Value, Value]:
    """The row of the table that one of the nearest pixels is, and its weight; 0 outside."""
    rows: list[Value] = []
    weights: list[Value] = []
    for dim, (at, step) in enumerate(zip(where, corner, strict=True)):
        last = float(lengths[dim] - 1)
        first = b.ew("floor", b.ew("add", at, 0.5) if mode == _NEAREST else at)
        place = b.ew("add", first, float(step)) if step else first
        weights += [
            b.ew("compare", place, 0.0, dtype="float32", direction="GE"),
            b.ew("compare", place, last, dtype="float32", direction="LE"),
        ]
        if mode == _BILINEAR:
            weights.append(b.ew("subtract", 1.0, b.ew("abs", b.ew("subtract", at, place))))
        kept = b.ew("minimum", b.ew("maximum", place, 0.0), last)
        rows.append(b.ew("multiply", kept, float(prod(lengths[dim + 1 :]))))
    return b.total(rows), reduce(lambda one, other: b.ew("multiply", one, other), weights)


IMPORTERS: Final[dict[str, Importer]] = {
    "_cdist_forward": cdist,
    "_pdist_forward": pdist,
    "linalg_cross": cross,
    "grid_sampler_2d": grid_sampler,
}
