"""Reductions over dimensions before the last: sums are products with ones, extremes transposes."""

from __future__ import annotations

from math import ceil, prod
from typing import Any, Final

from trnsim.graph import Node
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_PIECE_CYCLES: Final = 512
"""Elements that a partition may reduce in place of one piece of columns, which takes about twice
as many cycles: a piece is loaded and stored by itself, as is the only tile of few matrices."""
_TILE_ELEMENTS: Final = 8192
"""Maximum number of elements of a partition that are reduced at once."""
_MIN_RUN_ELEMENTS: Final = 16
"""Minimum number of neighbouring elements that are loaded of a row, if it has more."""


def column_reduce(op: Reduce, node: Node, source: Tensor) -> Tensor:
    """Reduce over dimensions before the last.

    Many short reductions lie side by side on the partitions; else sums are products with ones, and
    extremes are those of transposed columns.
    """
    shape, dims = node.values[0].shape, op.dims
    before, columns = prod(shape[: dims[0]]), prod(shape[dims[-1] + 1 :])
    rows = prod(shape[dims[0] : dims[-1] + 1])
    out = tiles.output(node.result.shape, node.result.dtype)
    if is_reduced_on_partitions(op, shape):
        _reduce_on_partitions(op, (before, rows, columns), source, out)
        return out
    reduce = _sum_columns if op.op == "add" else _reduce_columns
    width = BANK if reduce is _sum_columns else P
    for number in range(before):
        for start, length in tiles.pieces(columns, width):
            first_element = number * rows * columns + start
            result = reduce(source, rows, columns, first_element, length, op.op)
            place = number * columns + start
            result = integers.wrap(result, node.result.dtype)
            tiles.store(tiles.strided(out, [(0, 1), (1, length)], place), result)
    return out


def is_reduced_on_partitions(op: Reduce, shape: tuple[int, ...]) -> bool:
    """True if it is faster that each partition reduces the rows of a matrix of its own.

    Else one matrix after the other is reduced along the partitions, a piece of its columns at once.
    """
    before, columns = prod(shape[: op.dims[0]]), prod(shape[op.dims[-1] + 1 :])
    rows = prod(shape[op.dims[0] : op.dims[-1] + 1])
    if rows > _TILE_ELEMENTS // min(columns, _MIN_RUN_ELEMENTS):
        return False
    pieces = ceil(columns / (BANK if op.op == "add" else P)) * ceil(rows / P)
    return ceil(before / P) * rows * columns < before * pieces * _PIECE_CYCLES


def _reduce_on_partitions(
    op: Reduce, sizes: tuple[int, int, int], source: Tensor, out: Tensor
) -> None:
    """[before, rows, columns] reduced over rows, with `before` along the partitions."""
    before, rows, columns = sizes
    width = max(_TILE_ELEMENTS // rows, 1)
    for start, count in tiles.pieces(before, P):
        for column, length in tiles.pieces(columns, width):
            view = [(rows * columns, count), (columns, rows), (1, length)]
            tile = tiles.load(
                tiles.strided(source, view, start * rows * columns + column),
                None if "float" in source.dtype.name else nl.float32,
            )
            result = new((count, length))
            nisa.tensor_reduce(
                dst=result, op=getattr(nl, op.op), data=tile.permute((0, 2, 1)), axis=2
            )
            result = integers.wrap(result, out.dtype.name)
            place = start * columns + column
            tiles.store(tiles.strided(out, [(columns, count), (1, length)], place), result)


def _sum_columns(
    x: Tensor, rows: int, columns: int, first_element: int, length: int, op: str
) -> Tensor:
    """[1, length]: ones.T @ x of the columns from `first_element` on, accumulated in PSUM."""
    del op
    sums = new((1, length), nl.float32, nl.psum)
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first_element)
        block = tiles.load(view, None if "float" in x.dtype.name else nl.float32)
        ones = new((count, 1), block.dtype)
        nisa.memset(dst=ones, value=1.0)
        nisa.nc_matmul(dst=sums, stationary=ones, moving=block)
    return sums


def _reduce_columns(
    x: Tensor, rows: int, columns: int, first_element: int, length: int, op: str
) -> Tensor:
    """[1, length]: columns from `first_element` on become rows, and each row is reduced."""
    alu = getattr(nl, op)
    best: Any = None
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first_element)
        block = tiles.load(view, nl.float32)
        part = new((length, 1))
        nisa.tensor_reduce(dst=part, op=alu, data=transposed(block), axis=1)
        if best is not None:
            nisa.tensor_tensor(dst=part, data1=best, data2=part, op=alu)
        best = part
    return transposed(best)
