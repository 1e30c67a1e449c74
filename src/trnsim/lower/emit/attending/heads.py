"""Heads of attention in their places: rows and columns as tiles, moved or transposed."""

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
    """The place of one head's matrix, [rows, width]."""
    rank = len(place.shape)
    starts = (*index, 0, 0)
    matrix = place.sliced((*(1,) * (rank - 2), *place.shape[-2:]), starts, (1,) * rank)
    return TensorPlace(matrix.storage, matrix.shape[-2:], matrix.steps[-2:], matrix.offset)


def first_partition(place: TensorPlace, width: int) -> int:
    """The first partition of a head [rows, width] whose width lies along partitions; else 0."""
    if not place.is_on_chip or place.steps[1] != (1, 0) or place.steps[0][0]:
        return 0
    first = place.offset[0] % place.storage.block
    fits = first + width <= place.storage.block and may_begin(first, width)
    return first if fits else 0


def may_begin(first: int, partitions: int) -> bool:
    """True if engines accept this number of `partitions` from partition `first` on."""
    alignment = next(size for size in (32, 64, P) if partitions <= size)
    return first % alignment == 0


def columns_of(
    place: TensorPlace, width: int, start: int, count: int, dtype: Any, partition: int = 0
) -> Tensor:
    """Rows of a head [rows, width] as [width, rows]: a view, moved, or transposed.

    A head that begins at another partition than `partition` is moved.
    """
    here = place.sliced((count, width), (start, 0), (1, 1))
    if here.is_on_chip:
        matrix, (p, f) = here.storage, here.offset
        first = p % matrix.block
        is_across = here.steps[1] == (1, 0) and not here.steps[0][0]
        if is_across and first == partition and first + width <= matrix.block:
            end = f + (count - 1) * here.steps[0][1] + 1
            step = here.steps[0][1] or 1
            return matrix.tile[first : first + width, p // matrix.block, f:end:step]
        if is_across:
            return _load_transposed(here, dtype)
    elif lies_across(here):
        return _load_transposed(here, dtype)
    result = new((width, count), dtype)
    for at, rows in tiles.pieces(count, P):
        lines = rows_of(place, width, start + at, rows, dtype)
        flipped = new((width, rows), dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=lines)
        copied(flipped, dtype, result[:, at : at + rows])
    return result


def lies_across(here: TensorPlace) -> bool:
    """True if adjacent elements in HBM are of adjacent rows of [rows, width], not of one row."""
    is_repeated = here.shape[1] > 1 and not any(here.steps[1])
    is_along_rows = here.steps[0] == (1,) and here.steps[1] != (1,)
    return is_along_rows and not is_repeated and here.shape[0] > 1


def _load_transposed(here: TensorPlace, dtype: Any) -> Tensor:
    """Rows [rows, width] as [width, rows], by one transfer."""
    count, width = here.shape
    frame = Frame((count, width), (1,), (0,))
    return load_tile(here, frame, TileSpan(0, 1, width, 0, count), dtype)[:, 0]


def rows_of(
    place: TensorPlace, width: int, start: int, count: int, dtype: Any, column: int = 0
) -> Tensor:
    """Rows of a head as [rows, width]: a view, moved, or transposed."""
    here = place.sliced((count, width), (start, column), (1, 1))
    is_across = here.is_on_chip and here.steps[1] == (1, 0) and not here.steps[0][0]
    if width > P and (is_across or (not here.is_on_chip and lies_across(here))):
        own = here.storage.tile.dtype if here.is_on_chip else here.storage.dtype
        rows = new((count, width), own)
        for at, n in tiles.pieces(width, P):
            part = rows_of(here, n, 0, count, own, at)
            nisa.tensor_copy(dst=rows[:, at : at + n], src=part)
        return rows
    if is_across:
        turned = new((count, width), dtype or here.storage.tile.dtype, nl.psum)
        nisa.nc_transpose(dst=turned, data=columns_of(here, width, 0, count, dtype))
        return copied(turned, turned.dtype)
    if not here.is_on_chip and width > 1 and lies_across(here):
        turned = new((count, width), here.storage.dtype, nl.psum)
        nisa.nc_transpose(dst=turned, data=_load_transposed(here, here.storage.dtype))
        return copied(turned, turned.dtype)
    if here.is_on_chip and here.steps == ((1, 0), (0, 1)):
        matrix, (p, f) = here.storage, here.offset
        first = p % matrix.block
        if not first and first + count <= matrix.block:
            return matrix.tile[:count, p // matrix.block, f : f + width]
    own = here.storage.tile.dtype if here.is_on_chip else here.storage.dtype
    frame = Frame((count, width), (0,), (1,))
    tile = load_tile(here, frame, TileSpan(0, 1, count, 0, width), own)
    if tile.shape[2] != width:
        tile = copied(tile, own, new((count, 1, width), own))
    return tile[:, 0]


def copy_from_psum(flipped: Tensor, columns: int, blocks: int) -> Tensor:
    """Transposed blocks copied to SBUF; the last of every `blocks` may have fewer rows."""
    weights = new(flipped.shape, flipped.dtype)
    rest = columns % P
    if columns <= P or not rest:
        # The Scalar Engine copies the first blocks, as the Vector Engine has to find maxima too.
        half = balance.scalar_blocks(flipped)  # number of these blocks
        if half:
            nisa.activation(dst=weights[:, :half], op=nl.copy, data=flipped[:, :half])
        if half < flipped.shape[1]:
            nisa.tensor_copy(dst=weights[:, half:], src=flipped[:, half:])
        return weights
    for first in range(0, flipped.shape[1], blocks):
        full, last = slice(first, first + blocks - 1), first + blocks - 1
        nisa.tensor_copy(dst=weights[:, full], src=flipped[:, full])
        nisa.tensor_copy(dst=weights[:rest, last], src=flipped[:rest, last])
    return weights


def is_next_head(
    out: TensorPlace, first: tuple[int, ...], second: tuple[int, ...], rows: int
) -> bool:
    """True if the second head lies `rows` partitions after the first, in the same block."""
    if not out.is_on_chip:
        return False
    (p, f), (q, g) = head_of(out, first).offset, head_of(out, second).offset
    block = out.storage.block
    return q == p + rows and g == f and q // block == p // block


def store_head(here: TensorPlace, part: Tensor, dtype: Any, scale: float = 1.0) -> None:
    """Store [V, queries] times a number in the place of a head, [queries, V]."""
    if here.is_on_chip:
        matrix, (p, f) = here.storage, here.offset
        first = p % matrix.block
        step = here.steps[0][1]
        end = f + (part.shape[1] - 1) * step + 1
        dst = matrix.tile[first : first + part.shape[0], p // matrix.block, f : end : step or 1]
        if may_begin(first, part.shape[0]):
            copy_scaled(dst, part, scale)
        else:
            nisa.dma_copy(dst=dst, src=copy_scaled(new(part.shape, dtype), part, scale))
        return
    tile = copy_scaled(new(part.shape, dtype), part, scale)
    pattern = [(here.steps[1][0], part.shape[0]), (here.steps[0][0], part.shape[1])]
    nisa.dma_copy(dst=tiles.strided(here.storage, pattern, here.offset[0]), src=tile)


def copy_scaled(dst: Tensor, part: Tensor, scale: float) -> Tensor:
    """Copy, or multiply by a number on the Scalar Engine."""
    if scale == 1:
        copied(part, dst.dtype, dst)
    else:
        nisa.activation(dst=dst, op=nl.copy, data=part, scale=scale)
    return dst
