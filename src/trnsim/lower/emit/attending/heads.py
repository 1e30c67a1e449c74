"""Tiles of one head of attention: its rows, its columns, and its result, moved or transposed.

A head is a matrix [rows, width]: a row for each query or key, `width` elements of each.
"""

from __future__ import annotations

from typing import Any

from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.emit.places.walk import Frame, TileSpan, load_tile
from trnsim.lower.kernels import balance, tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def head_of(place: TensorPlace, index: tuple[int, ...]) -> TensorPlace:
    """The place of the matrix [rows, width] of the head at `index` of the leading dimensions."""
    rank = len(place.shape)
    starts = (*index, 0, 0)
    matrix = place.sliced((*(1,) * (rank - 2), *place.shape[-2:]), starts, (1,) * rank)
    return TensorPlace(matrix.storage, matrix.shape[-2:], matrix.steps[-2:], matrix.offset)


def first_partition(place: TensorPlace, width: int) -> int:
    """The first partition of a head [rows, width] whose width lies along partitions; else 0."""
    if not place.is_on_chip or place.steps[1] != (1, 0) or place.steps[0][0]:
        return 0
    first = place.offset[0] % place.storage.block
    is_legal = first + width <= place.storage.block and may_start_at(first, width)
    return first if is_legal else 0


def may_start_at(first: int, partitions: int) -> bool:
    """True if engines accept a tile of `partitions` partitions from partition `first` on."""
    alignment = next(size for size in (32, 64, P) if partitions <= size)
    return first % alignment == 0


def columns_of(
    place: TensorPlace, width: int, start: int, count: int, dtype: Any, partition: int = 0
) -> Tensor:
    """`count` rows of a head [rows, width] from `start` on, as [width, count].

    A view of SBUF if the head's width lies along partitions from `partition` on; else a copy, which
    may be transposed.
    """
    rows_place = place.sliced((count, width), (start, 0), (1, 1))
    if rows_place.is_on_chip:
        matrix, (p, f) = rows_place.storage, rows_place.offset
        first = p % matrix.block
        is_transposed = rows_place.steps[1] == (1, 0) and not rows_place.steps[0][0]
        if is_transposed and first == partition and first + width <= matrix.block:
            end = f + (count - 1) * rows_place.steps[0][1] + 1
            step = rows_place.steps[0][1] or 1
            return matrix.tile[first : first + width, p // matrix.block, f:end:step]
        if is_transposed:
            return _load_transposed(rows_place, dtype)
    elif is_transposed_in_hbm(rows_place):
        return _load_transposed(rows_place, dtype)
    result = new((width, count), dtype)
    for at, rows in tiles.pieces(count, P):
        lines = rows_of(place, width, start + at, rows, dtype)
        flipped = new((width, rows), dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=lines)
        copied(flipped, dtype, result[:, at : at + rows])
    return result


def is_transposed_in_hbm(matrix: TensorPlace) -> bool:
    """True if a matrix [rows, width] lies in HBM column by column."""
    is_repeated = matrix.shape[1] > 1 and not any(matrix.steps[1])
    is_along_rows = matrix.steps[0] == (1,) and matrix.steps[1] != (1,)
    return is_along_rows and not is_repeated and matrix.shape[0] > 1


def _load_transposed(matrix: TensorPlace, dtype: Any) -> Tensor:
    """A matrix [rows, width] as a tile [width, rows], by one transfer."""
    count, width = matrix.shape
    frame = Frame((count, width), (1,), (0,))
    return load_tile(matrix, frame, TileSpan(0, 1, width, 0, count), dtype)[:, 0]


def rows_of(
    place: TensorPlace, width: int, start: int, count: int, dtype: Any, column: int = 0
) -> Tensor:
    """`count` rows of a head from `start` on, `width` elements of each from `column` on.

    The tile [count, width] is a view of SBUF, or a copy, which may be transposed.
    """
    rows_place = place.sliced((count, width), (start, column), (1, 1))
    is_on_chip, steps = rows_place.is_on_chip, rows_place.steps
    stored_dtype = rows_place.storage.tile.dtype if is_on_chip else rows_place.storage.dtype
    is_transposed = is_on_chip and steps[1] == (1, 0) and not steps[0][0]
    must_transpose_hbm = not is_on_chip and is_transposed_in_hbm(rows_place)
    if width > P and (is_transposed or must_transpose_hbm):
        rows = new((count, width), stored_dtype)
        for at, n in tiles.pieces(width, P):
            part = rows_of(rows_place, n, 0, count, stored_dtype, at)
            nisa.tensor_copy(dst=rows[:, at : at + n], src=part)
        return rows
    if is_transposed:
        flipped = new((count, width), dtype or stored_dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=columns_of(rows_place, width, 0, count, dtype))
        return copied(flipped, flipped.dtype)
    if width > 1 and must_transpose_hbm:
        flipped = new((count, width), stored_dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=_load_transposed(rows_place, stored_dtype))
        return copied(flipped, flipped.dtype)
    if is_on_chip and steps == ((1, 0), (0, 1)):
        matrix, (p, f) = rows_place.storage, rows_place.offset
        first = p % matrix.block
        if not first and first + count <= matrix.block:
            return matrix.tile[:count, p // matrix.block, f : f + width]
    frame = Frame((count, width), (0,), (1,))
    tile = load_tile(rows_place, frame, TileSpan(0, 1, count, 0, width), stored_dtype)
    if tile.shape[2] != width:
        tile = copied(tile, stored_dtype, new((count, 1, width), stored_dtype))
    return tile[:, 0]


def copy_from_psum(flipped: Tensor, columns: int, blocks: int) -> Tensor:
    """Transposed blocks [128, blocks of all heads, rows] in PSUM, copied to SBUF.

    Args:
        flipped: the blocks; of the last block of each head only `columns` % 128 rows are used.
        columns: columns of a head before the transpose.
        blocks: blocks of a head.
    """
    weights = new(flipped.shape, flipped.dtype)
    last_rows = columns % P
    if columns <= P or not last_rows:
        # The Scalar Engine copies some blocks, as the Vector Engine also finds maxima.
        scalar_blocks = balance.scalar_blocks(flipped)
        if scalar_blocks:
            nisa.activation(
                dst=weights[:, :scalar_blocks], op=nl.copy, data=flipped[:, :scalar_blocks]
            )
        if scalar_blocks < flipped.shape[1]:
            nisa.tensor_copy(dst=weights[:, scalar_blocks:], src=flipped[:, scalar_blocks:])
        return weights
    for first in range(0, flipped.shape[1], blocks):
        full, last = slice(first, first + blocks - 1), first + blocks - 1
        nisa.tensor_copy(dst=weights[:, full], src=flipped[:, full])
        nisa.tensor_copy(dst=weights[:last_rows, last], src=flipped[:last_rows, last])
    return weights


def is_next_head(
    out: TensorPlace, first: tuple[int, ...], second: tuple[int, ...], rows: int
) -> bool:
    """True if head `second` of `out` lies `rows` partitions after head `first`, in its block."""
    if not out.is_on_chip:
        return False
    (p1, f1), (p2, f2) = head_of(out, first).offset, head_of(out, second).offset
    block = out.storage.block
    return p2 == p1 + rows and f2 == f1 and p2 // block == p1 // block


def store_head(matrix: TensorPlace, columns: Tensor, dtype: Any, scale: float = 1.0) -> None:
    """Store `columns` [V, queries], times `scale`, in a head's matrix [queries, V]."""
    V, queries = columns.shape
    if matrix.is_on_chip:
        storage, (p, f) = matrix.storage, matrix.offset
        first = p % storage.block
        step = matrix.steps[0][1]
        end = f + (queries - 1) * step + 1
        dst = storage.tile[first : first + V, p // storage.block, f : end : step or 1]
        if may_start_at(first, V):
            copy_scaled(dst, columns, scale)
        else:
            nisa.dma_copy(dst=dst, src=copy_scaled(new(columns.shape, dtype), columns, scale))
        return
    tile = copy_scaled(new(columns.shape, dtype), columns, scale)
    pattern = [(matrix.steps[1][0], V), (matrix.steps[0][0], queries)]
    nisa.dma_copy(dst=tiles.strided(matrix.storage, pattern, matrix.offset[0]), src=tile)


def copy_scaled(dst: Tensor, src: Tensor, scale: float) -> Tensor:
    """``dst = scale * src``: a copy if `scale` is 1, else by the Scalar Engine; returns dst."""
    if scale == 1:
        copied(src, dst.dtype, dst)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=src, scale=scale)
    return dst
