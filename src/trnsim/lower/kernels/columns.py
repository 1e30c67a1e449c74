"""Reductions over dimensions before the last: sums by products with ones, extremes transposed."""

from __future__ import annotations

from math import ceil, prod
from typing import Any, Final

from trnsim.graph import Node
from trnsim.graph.ops.reductions import Reduce
from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

_PIECE_CYCLES: Final = 512
"""Elements that a partition reduces in the time of one piece of columns. A piece takes about twice
as many cycles, as it is loaded and stored separately; but so is the only tile of few matrices."""
_TILE_ELEMENTS: Final = 8192
"""Maximum number of elements of a partition that are reduced at once."""
_MIN_RUN_ELEMENTS: Final = 16
"""Fewest neighbouring elements of a row that are loaded, unless the row has fewer."""
_RUN_ELEMENTS: Final = 128
"""Fewest neighbouring elements of a row of a fast transfer: 512 bytes of float32."""
_FEW_ROWS: Final = 24
"""Most rows for which spreading each row over all partitions is faster on every chip."""
_ROW_CYCLES: Final = 12
"""Cycles to load and reduce one row of 128 columns, one on each partition (assumed)."""
_FEW_PIECES: Final = 4
"""Fewest pieces into which columns are cut, so that one is loaded while another is reduced."""


def column_reduce(op: Reduce, node: Node, source: Tensor) -> Tensor:
    """Reduce over dimensions before the last.

    Many short reductions lie side by side on the partitions, and so do many columns of few rows.
    Else sums are products with ones, and extremes are those of transposed columns.
    """
    shape, dims = node.values[0].shape, op.dims
    before, columns = prod(shape[: dims[0]]), prod(shape[dims[-1] + 1 :])
    rows = prod(shape[dims[0] : dims[-1] + 1])
    out = tiles.output(node.result.shape, node.result.dtype)
    is_spread = are_columns_spread(op, shape)
    if not is_spread and is_reduced_on_partitions(op, shape):
        _reduce_on_partitions(op, (before, rows, columns), source, out)
        return out
    reduce = _sum_columns if op.op == "add" else _reduce_columns
    width = BANK if reduce is _sum_columns else P
    for number in range(before):
        first = 0
        if is_spread:
            first = _reduce_spread_columns(op, (number, rows, columns), source, out)
        for at, length in tiles.pieces(columns - first, width):
            start = first + at
            first_element = number * rows * columns + start
            result = reduce(source, rows, columns, first_element, length, op.op)
            place = number * columns + start
            result = integers.wrap(result, node.result.dtype)
            tiles.store(tiles.strided(out, [(0, 1), (1, length)], place), result)
    return out


def are_columns_spread(op: Reduce, shape: tuple[int, ...]) -> bool:
    """True if columns should be spread over the partitions: for few matrices of few long rows.

    The Vector Engine then reads all rows, which for few rows takes less time than a load and a
    store, or a product, of each piece of columns.
    """
    before, columns = prod(shape[: op.dims[0]]), prod(shape[op.dims[-1] + 1 :])
    rows, core = prod(shape[op.dims[0] : op.dims[-1] + 1]), current_core().core
    issues_s = 2 * float(core.dma_issue_s) / core.dma_queues
    row_cycles = _ROW_CYCLES * (BANK if op.op == "add" else P) // P
    max_rows = max(_FEW_ROWS, int(issues_s * clock_hz(core, Engine.vector)) // row_cycles)
    return before < P // 2 and rows <= max_rows and columns >= P * _MIN_RUN_ELEMENTS


def _reduce_spread_columns(
    op: Reduce, matrix: tuple[int, int, int], source: Tensor, out: Tensor
) -> int:
    """Reduce many columns of few rows, with runs of columns along the partitions.

    `matrix` has the number of a matrix, its rows and its columns. Returns the number of columns
    that were reduced: the others do not fill the partitions.
    """
    number, rows, columns = matrix
    width = min(_TILE_ELEMENTS // rows, max(columns // P // _FEW_PIECES, _RUN_ELEMENTS))
    for start, partitions, length in tiles.spread(columns, width):
        if length < _MIN_RUN_ELEMENTS:
            return start
        view = [(length, partitions), (columns, rows), (1, length)]
        place = number * columns + start
        result = _reduce_middle(op, source, view, number * rows * columns + start)
        result = integers.wrap(result, out.dtype.name)
        tiles.store(tiles.strided(out, [(length, partitions), (1, length)], place), result)
    return columns


def _reduce_middle(
    op: Reduce, source: Tensor, view: list[tuple[int, int]], first_element: int
) -> Tensor:
    """The elements of a view of HBM, [partitions, rows, columns], reduced over rows."""
    tile = tiles.load(
        tiles.strided(source, view, first_element),
        None if "float" in source.dtype.name else nl.float32,
    )
    result = new((tile.shape[0], tile.shape[2]))
    nisa.tensor_reduce(dst=result, op=getattr(nl, op.op), data=tile.permute((0, 2, 1)), axis=2)
    return result


def is_reduced_on_partitions(op: Reduce, shape: tuple[int, ...]) -> bool:
    """True if it is faster to let each partition reduce the rows of a matrix of its own.

    Otherwise one matrix after the other is reduced along the partitions, by pieces of its columns.
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
    """Reduce [before, rows, columns] over rows, with `before` along the partitions."""
    before, rows, columns = sizes
    width = max(_TILE_ELEMENTS // rows, 1)
    for start, count in tiles.pieces(before, P):
        for column, length in tiles.pieces(columns, width):
            view = [(rows * columns, count), (columns, rows), (1, length)]
            result = _reduce_middle(op, source, view, start * rows * columns + column)
            result = integers.wrap(result, out.dtype.name)
            place = start * columns + column
            tiles.store(tiles.strided(out, [(columns, count), (1, length)], place), result)


def _sum_columns(
    x: Tensor, rows: int, columns: int, first_element: int, length: int, op: str
) -> Tensor:
    """Sums [1, length] of the columns from `first_element` on, as ``ones.T @ x`` in PSUM."""
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
    """Reductions [1, length] of the columns from `first_element` on, after a transpose."""
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
