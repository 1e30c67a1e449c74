"""The index of the first largest element of each row; NaN counts as the largest.

A row is divided among partitions, and each part into chunks. In a chunk, elements below the largest
are marked, so that the first element without a mark is the result. The same search among the
largest elements of chunks then chooses the chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf
from typing import Final

from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_CHUNK_COLUMNS: Final = 4096
"""Most columns of a chunk, which is searched while the next one is loaded."""
_LEAST_PART: Final = 512
"""Fewest elements of a part; with fewer, the fixed cost of instructions dominates."""
_SOUGHT_AT_ONCE: Final = 8
"""Elements that nc_find_index8 seeks at once, and the fewest that it reads."""


def index_of_largest(source: Tensor, start: int, shape: tuple[int, int]) -> Tensor:
    """Indices of the largest of rows from number `start` on of a tensor in HBM: [rows, 1], uint32.

    Args:
        source: a dense tensor.
        start: the first row.
        shape: rows, of which there are at most 128, and elements of a row.
    """
    rows, length = shape
    parts = max(1, min(P // rows, length // _LEAST_PART))
    step = length // parts
    part_columns = length - step * (parts - 1)  # parts overlap if they do not divide the row
    chunks = _chunks(part_columns)
    largest = new((rows * parts, len(chunks)))
    indices = new((rows * parts, len(chunks)), nl.uint32)
    dtype = source.dtype if "float" in source.dtype.name else nl.float32
    for number, (first, columns) in enumerate(chunks):
        tile = new((rows * parts, columns), dtype)
        for partitions, view, offset in _part_views(shape, parts, columns):
            place = start * length + first + offset
            nisa.dma_copy(dst=tile[partitions], src=tiles.strided(source, view, place))
        column = slice(number, number + 1)
        nisa.tensor_reduce(dst=largest[:, column], op=nl.maximum, data=tile, axis=1)
        nisa.tensor_copy(dst=indices[:, column], src=_first_largest(tile, largest[:, column]))
    if parts == len(chunks) == 1:
        return indices
    offsets = new((rows, parts, len(chunks)), nl.int32)
    nisa.iota(dst=offsets, pattern=[[step, parts], [chunks[0][1], len(chunks)]])
    if parts > 1:
        largest, indices = (_join_parts(tile, shape, parts) for tile in (largest, indices))
    flat_offsets = offsets.reshape((rows, parts * len(chunks))).view(nl.uint32)
    nisa.tensor_tensor(dst=indices, data1=indices, data2=flat_offsets, op=nl.add)
    best, result = new((rows, 1)), new((rows, 1), nl.uint32)
    nisa.tensor_reduce(dst=best, op=nl.maximum, data=largest, axis=1)
    nisa.nc_n_gather(dst=result, data=indices, indices=_first_largest(largest, best))
    return result


def _chunks(columns: int) -> list[tuple[int, int]]:
    """(first column, columns) of each chunk of a part; chunks have nearly equal lengths."""
    return list(tiles.pieces(columns, ceil(columns / ceil(columns / _CHUNK_COLUMNS))))


def _part_views(
    shape: tuple[int, int], parts: int, columns: int
) -> Iterator[tuple[slice, list[tuple[int, int]], int]]:
    """The fewest transfers that load columns of each part: (partitions, view of HBM, offset)."""
    rows, length = shape
    step = length // parts
    if step * parts == length:
        yield slice(0, rows * parts), [(step, rows * parts), (1, columns)], 0
    elif _is_part_after_part(shape, parts):
        for part in range(parts):
            yield slice(part * rows, (part + 1) * rows), [(length, rows), (1, columns)], part * step
    else:
        for row in range(rows):
            yield slice(row * parts, (row + 1) * parts), [(step, parts), (1, columns)], row * length


def _is_part_after_part(shape: tuple[int, int], parts: int) -> bool:
    """True if partitions hold the first part of each row, then the second; else row after row."""
    rows, length = shape
    return bool(length % parts) and parts < rows


def _join_parts(tile: Tensor, shape: tuple[int, int], parts: int) -> Tensor:
    """The columns of a row's parts on one partition, [rows, parts * columns], by way of HBM."""
    rows, columns = shape[0], tile.shape[1]
    lines = nl.ndarray(tuple(tile.shape), dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=lines, src=tile)
    steps = (1, rows) if _is_part_after_part(shape, parts) else (parts, 1)
    view = [(steps[0] * columns, rows), (steps[1] * columns, parts), (1, columns)]
    return tiles.load(tiles.strided(lines, view)).reshape((rows, parts * columns))


def _first_largest(tile: Tensor, largest: Tensor) -> Tensor:
    """The index [rows, 1] of each row's first element that equals `largest`, the row's maximum.

    The maximum is NaN if any element is.

    Marks are 1 where ``min(x, ceiling) < bound``. In a row of numbers that is ``x < largest``.
    In a row with NaN the bound is infinite, and the ceiling is finite: NaN alone has no mark.
    """
    rows, columns = tile.shape
    is_number = new((rows, 1), nl.uint8)
    nisa.tensor_scalar(dst=is_number, data=largest, op0=nl.greater_equal, operand0=-inf)
    ceiling, bound = new((rows, 1)), new((rows, 1))
    nisa.memset(dst=ceiling, value=tiles.LARGEST_FLOAT32)
    nisa.memset(dst=bound, value=inf)
    nisa.tensor_copy_predicated(dst=ceiling, src=inf, predicate=is_number)
    nisa.tensor_copy_predicated(dst=bound, src=largest, predicate=is_number)
    marks = new((rows, max(columns, _SOUGHT_AT_ONCE)), nl.bfloat16)
    if columns < _SOUGHT_AT_ONCE:
        nisa.memset(dst=marks, value=1.0)
    nisa.tensor_scalar(
        dst=marks[:, :columns],
        data=tile,
        op0=nl.minimum,
        operand0=ceiling,
        op1=nl.less,
        operand1=bound,
    )
    unmarked, places = new((rows, _SOUGHT_AT_ONCE)), new((rows, _SOUGHT_AT_ONCE), nl.uint32)
    nisa.memset(dst=unmarked, value=0.0)
    nisa.nc_find_index8(dst=places, data=marks, vals=unmarked)
    return places[:, :1]
