"""Transposes of many short rows between HBM and SBUF, several neighbouring rows on each partition.

A transfer of 128 rows of few bytes takes as long as its issue. Here a transfer has `together` times
as many: partition p has rows ``p * together`` to ``(p + 1) * together - 1`` of them, and a
transpose takes one row of each partition.
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.lower.emit.places.tensor_place import TensorPlace
from trnsim.lower.emit.places.walk import Frame, TileSpan, axes_along, is_aligned, slice_of
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_MOST_BYTES: Final = 2048
"""Maximum bytes of a partition in one transfer."""
_FEWEST_TRANSFERS: Final = 8
"""Transfers that remain, so that one is under way while the rows of another are transposed."""


def fill_from_rows(source: TensorPlace, frame: Frame, tile: Tensor, part: TileSpan) -> int:
    """Fill the first columns of a tile from rows in HBM; their count, 0 if that is no faster.

    Args:
        source: the place of the rows.
        frame: the layout of the tile; its columns are the rows.
        tile: the tile, [partitions, blocks, columns].
        part: the span of the frame that the tile holds.
    """
    begin = part.block * frame.block
    length = min(frame.rows - begin, part.blocks * frame.block)
    step = _even_rows(source, frame.flipped())
    dtype = source.storage.tile.dtype if source.is_on_chip else source.storage.dtype
    together = _rows_together(length, part.columns, dtype) if step else 1
    if together == 1 or frame.is_replicated:
        return 0
    rows = P * together
    grouped_columns = part.columns // rows * rows
    for at in range(0, grouped_columns, rows):
        lines = new((P, together, length), dtype)
        offset = source.offset[0] + (part.start + at) * step + begin
        pattern = [(together * step, P), (step, together), (1, length)]
        nisa.dma_copy(dst=lines, src=tiles.strided(source.storage, pattern, offset))
        for block, (first, width) in enumerate(tiles.pieces(length, frame.block)):
            transposed = new((width, together, P), dtype, nl.psum)
            for number in range(together):
                data = lines[:, number, first : first + width]
                nisa.nc_transpose(dst=transposed[:, number], data=data)
            columns = tile[:width, block, at : at + rows].reshape_dim(1, (P, together))
            nisa.tensor_copy(dst=columns, src=transposed.permute((0, 2, 1)))
    return grouped_columns


def write_as_rows(place: TensorPlace, frame: Frame, target: TensorPlace) -> int:
    """Write the first columns of a matrix in SBUF as rows in HBM; their count, 0 if not faster.

    Args:
        place: the matrix.
        frame: the rows and columns of the target: those of the matrix, exchanged.
        target: the place in HBM.
    """
    flip, width = frame.flipped(), frame.columns
    step = _even_rows(target, frame)
    if not step or not is_aligned(place, flip) or flip.block != P:
        return 0
    dtype = place.storage.tile.dtype
    together = min(_rows_together(width, frame.rows, dtype), _rows_in_bank(width, dtype))
    if together <= 1:
        return 0
    rows = P * together
    grouped_rows = frame.rows // rows * rows
    for start in range(0, grouped_rows, rows):
        views: list[Tensor] = [
            slice_of(place, flip, TileSpan(block, 1, min(P, width - block * P), start, rows))
            for block in range(flip.blocks)
        ]
        if any(view is None or view.shape[2] != rows for view in views):
            return start
        transposed = new((P, together, width), dtype, nl.psum)
        for block, view in enumerate(views):
            for number in range(together):
                data = view[:, 0, number::together]
                part = transposed[:, number, block * P : block * P + data.shape[0]]
                nisa.nc_transpose(dst=part, data=data)
        lines = new((P, together, width), dtype)
        nisa.tensor_copy(dst=lines, src=transposed)
        pattern = [(together * step, P), (step, together), (1, width)]
        view = tiles.strided(target.storage, pattern, target.offset[0] + start * step)
        nisa.dma_copy(dst=view, src=lines)
    return grouped_rows


def _even_rows(place: TensorPlace, frame: Frame) -> int:
    """The stride of evenly spaced rows in HBM whose columns are contiguous; 0 for others."""
    if place.is_on_chip:
        return 0
    rows, columns = axes_along(place, frame.p_dims), axes_along(place, frame.f_dims)
    is_contiguous = not columns or (len(columns) == 1 and columns[0][1] == (1,))
    return rows[0][1][0] if len(rows) == 1 and is_contiguous else 0


def _rows_together(length: int, rows: int, dtype: Any) -> int:
    """Rows of a partition in one transfer, whose transposed block fits in a bank of PSUM."""
    fitting = _MOST_BYTES // (length * dtype.itemsize)
    return int(max(min(fitting, rows // P // _FEWEST_TRANSFERS, _rows_in_bank(P, dtype)), 1))


def _rows_in_bank(width: int, dtype: Any) -> int:
    """Rows of `width` elements that a partition of a bank of PSUM holds."""
    return int(tiles.BANK_BYTES // (tiles.psum_bytes(dtype) * width))
