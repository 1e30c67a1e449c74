"""Transposes: a value laid out in another `Frame`, with partitions and columns exchanged.

A frame says which dimensions of a tensor lie along partitions, and which along columns. The Tensor
Engine transposes blocks of 128 by 128, as many as a bank of PSUM holds before they are copied.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any, Final

from trnsim.graph import Value
from trnsim.graph.types import dense
from trnsim.lower.emit.places.interleaving import try_copy_interleaved
from trnsim.lower.emit.places.row_groups import fill_from_rows, write_as_rows
from trnsim.lower.emit.places.spans import span_elements, tile_spans
from trnsim.lower.emit.places.tensor_place import SbufMatrix, Step, TensorPlace, in_hbm, merge_axes
from trnsim.lower.emit.places.walk import (
    MANY_TRANSFERS,
    Frame,
    TileSpan,
    axes_along,
    count_transfers,
    fill_tile,
    frame_of,
    has_loadable_columns,
    is_aligned,
    load_tile,
    slice_of,
    varies_along_columns,
    write_span,
)
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied, widened
from trnsim.lower.kernels.tiles import BANK_BYTES, P, Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

if TYPE_CHECKING:
    from trnsim.lower.emit.emission import Emission

_LINE_BYTES: Final = 8 * 1024
"""Most bytes of a partition that are transposed at once on their way to HBM."""
_LOADED_BYTES: Final = 64 * 1024
"""Most bytes of a partition that are loaded at once to be transposed."""
_WRITTEN_ELEMENTS: Final = 4096
"""Most elements of a partition in one write to HBM."""
_SHORT_AXIS: Final = 16
"""Longest last axis whose runs are written by way of another tensor in HBM."""
_MANY_ELEMENTS: Final = 1 << 14
"""Fewest elements for which a second copy in HBM takes less time than many short runs."""


def load_in_frame(
    emission: Emission, value: Value, frame: Frame, start: int = 0, columns: int = 0
) -> TensorPlace:
    """A copy in SBUF of `columns` columns of a value from `start` on, in a frame; 0 for all.

    It is made from a place that only has to be transposed, or else from the first place.
    """
    places = emission.materialize(value)
    source = next((place for place in places if is_aligned(place, frame.flipped())), places[0])
    if not has_loadable_columns(source, frame) and not has_loadable_columns(
        source, frame.flipped()
    ):
        source = in_hbm(emission.dense(value), value.shape)
    return copy_in_frame(source, frame, start, columns, dtype_of(value.dtype))


def copy_in_frame(
    source: TensorPlace, frame: Frame, start: int = 0, columns: int = 0, dtype: Any = None
) -> TensorPlace:
    """A copy in SBUF of the tensor at a place, or of a range of the frame's columns.

    Args:
        source: the place, in HBM or SBUF.
        frame: the layout of the copy.
        start: the first column.
        columns: the number of columns; 0 for all.
        dtype: the dtype of the copy; None for that of the source.
    """
    span = TileSpan(0, frame.blocks, min(frame.block, frame.rows), start, columns or frame.columns)
    tile = load_part(source, frame, span, dtype)
    matrix = SbufMatrix(tile, frame.rows, frame.block, frame.is_replicated)
    return TensorPlace(matrix, frame.shape, frame.steps(), (0, 0))


def load_part(source: TensorPlace, frame: Frame, part: TileSpan, dtype: Any = None) -> Tensor:
    """A copy in SBUF of a span of a frame: a tile [partitions, blocks, columns].

    The last block of the frame may fill fewer partitions. The dtype is the source's by default.
    """
    source_dtype = source.storage.tile.dtype if source.is_on_chip else source.storage.dtype
    tile = new((part.partitions, part.blocks, part.columns), dtype or source_dtype)
    if frame.columns == 1 and part.blocks == frame.blocks and _is_contiguous_column(source, frame):
        _fill_from_contiguous(source, frame, tile)
    elif is_straight(source, frame) and not is_aligned(source, frame.flipped()):
        _fill_straight(source, frame, tile, part)
    else:
        _fill_transposed(source, frame, tile, part)
    return tile


def _fill_straight(source: TensorPlace, frame: Frame, tile: Tensor, part: TileSpan) -> None:
    """Fill a tile with blocks that need no transpose; transfers from HBM convert dtypes."""
    dtype = source.storage.tile.dtype if source.is_on_chip else source.storage.dtype
    full_blocks = min(part.blocks, frame.rows // frame.block - part.block)
    groups = [(0, full_blocks, frame.block)] if full_blocks > 0 else []
    groups += [(full_blocks, 1, frame.rows % frame.block)] if full_blocks < part.blocks else []
    for number, blocks, rows in groups:
        span = TileSpan(part.block + number, blocks, rows, part.start, part.columns)
        target = tile[:rows, number : number + blocks]
        if not source.is_on_chip and varies_along_columns(source, frame):
            fill_tile(target, source, frame, span)
            continue
        rows_tile = load_tile(source, frame, span, dtype)
        nisa.tensor_copy(dst=target, src=widened(rows_tile, tuple(target.shape)))


def load_repeated(row: TensorPlace, frame: Frame, partitions: int) -> Tensor:
    """A row in HBM loaded onto each partition by one transfer: [partitions, 1, columns]."""
    repeated = TensorPlace(row.storage, (partitions, *row.shape), ((0,), *row.steps), row.offset)
    dims = tuple(dim + 1 for dim in frame.f_dims)
    repeated_frame = Frame(repeated.shape, (0,), dims, partitions)
    span = TileSpan(0, 1, partitions, 0, frame.columns)
    return load_tile(repeated, repeated_frame, span, row.storage.dtype)


def _is_contiguous_column(source: TensorPlace, frame: Frame) -> bool:
    """True if the rows of a frame, more than one block of them, lie contiguously in HBM."""
    axes = axes_along(source, frame.p_dims)
    has_blocks = frame.block == P and frame.rows > P
    return not source.is_on_chip and has_blocks and len(axes) == 1 and axes[0][1] == (1,)


def _fill_from_contiguous(source: TensorPlace, frame: Frame, tile: Tensor) -> None:
    """Fill a column from contiguous elements in HBM: loaded as rows, then transposed."""
    blocks, last_rows = divmod(frame.rows, P)
    for first, count in tiles.pieces(blocks, P):
        start = source.offset[0] + first * P
        rows = new((count, P), tile.dtype)
        nisa.dma_copy(dst=rows, src=tiles.strided(source.storage, [(P, count), (1, P)], start))
        flipped = new((P, count), tile.dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=rows)
        nisa.tensor_copy(dst=tile[:, first : first + count, 0], src=flipped)
    if last_rows:
        start = source.offset[0] + blocks * P
        last = tiles.strided(source.storage, [(1, last_rows), (1, 1)], start)
        nisa.dma_copy(dst=tile[:last_rows, blocks], src=last)


def is_straight(source: TensorPlace, frame: Frame) -> bool:
    """True if transfers load the frame's columns without a transpose in reasonable time.

    False for rows of the frame that lie along columns of SBUF, and for columns that are not
    contiguous in HBM: they would be transferred element by element.
    """
    if source.is_on_chip:
        is_across = any(source.steps[dim][1] for dim in frame.p_dims if source.shape[dim] > 1)
        is_transposable = is_across and has_loadable_columns(source, frame.flipped())
        return has_loadable_columns(source, frame) and not is_transposable
    if frame.columns == 1 and _is_contiguous_column(source, frame):
        return False
    inner = frame.f_dims[-1:]
    return not inner or source.steps[inner[0]] in ((1,), (0,)) or frame.columns == 1


def _fill_transposed(source: TensorPlace, frame: Frame, tile: Tensor, part: TileSpan) -> None:
    """Fill a tile with transposed blocks; each load has at most `_LOADED_BYTES` per partition."""
    flip = frame.flipped()
    blocks_at_once = max(_LOADED_BYTES // tile.dtype.itemsize // frame.block, 1)
    if part.blocks > blocks_at_once and not frame.is_replicated:
        for at, blocks in tiles.pieces(part.blocks, blocks_at_once):
            smaller_part = replace(part, block=part.block + at, blocks=blocks)
            _fill_transposed(source, frame, tile[:, at : at + blocks], smaller_part)
        return
    begin = part.block * frame.block
    length = min(frame.rows - begin, part.blocks * frame.block)
    full_blocks, last_rows = divmod(length, frame.block)
    columns_as_rows = fill_from_rows(source, frame, tile, part)
    for first_column, width in tiles.pieces(part.columns - columns_as_rows, P):
        at = columns_as_rows + first_column
        if frame.is_replicated:  # a repeated column becomes the same row on all partitions
            lines = _load_rows(source, flip, TileSpan(0, 1, width, 0, 1), part.start + at)
            lines = widened(lines, (width, 1, frame.rows))
        else:
            lines = _load_rows(source, flip, TileSpan(0, 1, width, begin, length), part.start + at)
        in_bank = max(1, BANK_BYTES // tiles.psum_bytes(lines.dtype) // width)
        groups = [(*piece, frame.block) for piece in tiles.pieces(full_blocks, in_bank)]
        groups += [(full_blocks, 1, last_rows)] if last_rows else []
        for first, blocks, rows in groups:
            flipped = new((rows, blocks, width), lines.dtype, nl.psum)
            for number in range(blocks):
                column = (first + number) * frame.block
                nisa.nc_transpose(dst=flipped[:, number], data=lines[:, 0, column : column + rows])
            target = tile[:rows, first : first + blocks, at : at + width]
            nisa.tensor_copy(dst=target, src=flipped)


def _load_rows(source: TensorPlace, flip: Frame, part: TileSpan, row: int) -> Tensor:
    """Rows of a source from `row` on, in the frame `flip`: [rows, 1, columns of the span].

    A view of SBUF if they lie there in that frame, else a copy.
    """
    if row % P == 0 and is_aligned(source, flip):
        view = slice_of(source, flip, replace(part, block=row // P))
        if view is not None and view.shape[2] == part.columns:
            return view
    dtype = source.storage.tile.dtype if source.is_on_chip else source.storage.dtype
    lines = load_tile(source, flip, part, dtype, row)
    if lines.shape[2] == part.columns:
        return lines
    return copied(lines, dtype, new((part.partitions, 1, part.columns), dtype))


def is_fragmented(place: TensorPlace, value: Value) -> bool:
    """True if writing `place`, a view of `value` on the chip, row-major takes too many transfers.

    The caller then writes the view's operand, and reads the view from HBM.
    """
    if not place.is_on_chip:
        return False
    frame = frame_of(place)
    target = TensorPlace(None, value.shape, tuple((step,) for step in dense(value.shape)), (0,))
    return max(count_transfers(place, frame), count_transfers(target, frame)) > MANY_TRANSFERS


def write_dense(place: TensorPlace, value: Value) -> Tensor:
    """A new tensor in HBM with the elements of a value, in row-major order."""
    out = tiles.output(value.shape, value.dtype)
    write_all(place, value, in_hbm(out, value.shape))
    return out


def write_all(place: TensorPlace, value: Value, target: TensorPlace) -> None:
    """Store a value at a place in HBM, from its place in HBM or SBUF.

    It is transposed if neighbouring elements of the target lie on neighbouring partitions.
    """
    if not place.is_on_chip:
        _copy_in_hbm(place, target)
        return
    frame = replace(frame_of(place), is_replicated=False)  # one row is enough
    long_dims = [dim for dim, n in enumerate(value.shape) if n > 1]
    inner = min(reversed(long_dims), key=lambda dim: target.steps[dim], default=-1)
    if inner in frame.p_dims and frame.columns > 1:
        frame = Frame(value.shape, frame.f_dims, tuple(sorted(frame.p_dims)))
        _write_transposed(place, frame, target)
        return
    if frame.columns == 1 and _try_write_contiguous(place, frame, target):
        return
    is_in_frame = is_aligned(place, frame)
    longest = span_elements(frame, _WRITTEN_ELEMENTS) if is_in_frame else 1
    for span in tile_spans(frame, 0, frame.columns, longest, _WRITTEN_ELEMENTS):
        tile = slice_of(place, frame, span) if is_in_frame else None
        if tile is None:
            tile = load_tile(place, frame, span, dtype_of(value.dtype))
        if tile.shape[2] != span.columns:
            shape = (span.partitions, span.blocks, span.columns)
            tile = copied(tile, tile.dtype, new(shape, tile.dtype))
        write_span(target, frame, span, tile)


def _copy_in_hbm(place: TensorPlace, target: TensorPlace) -> None:
    """Copy from HBM to HBM by one transfer; transposed if that makes both sides contiguous."""
    strides = [
        (*source_, *target_) for source_, target_ in zip(place.steps, target.steps, strict=True)
    ]
    axes = merge_axes(place.shape, strides) or [(1, (1, 1))]
    if try_copy_interleaved(place, target, axes):
        return
    if _moves_short_first_axis(axes, place.storage.dtype.itemsize):
        _copy_over_rows(place, target, axes)
        return
    # The axis along which the source is contiguous, if that is not the last one.
    src_axis = next((at for at, (_, (step, _)) in enumerate(axes[:-1]) if step == 1), None)
    if src_axis is None or place.storage.dtype.itemsize == 1:
        _copy(place, target, axes)
        return
    matrix = axes[src_axis], axes[-1]
    outer_axes = [axis for at, axis in enumerate(axes[:-1]) if at != src_axis]
    shape = tuple(length for length, _ in matrix)
    frame = Frame(shape, (0,), (1,))
    for index in product(*(range(length) for length, _ in outer_axes)):
        src_offset, dst_offset = (
            first + sum(i * steps[side] for i, (_, steps) in zip(index, outer_axes, strict=True))
            for side, first in enumerate((place.offset[0], target.offset[0]))
        )
        src_steps, dst_steps = (tuple((steps[side],) for _, steps in matrix) for side in (0, 1))
        source = TensorPlace(place.storage, shape, src_steps, (src_offset,))
        part = TensorPlace(target.storage, shape, dst_steps, (dst_offset,))
        _write_transposed(source, frame, part)


def _moves_short_first_axis(axes: list[tuple[int, Step]], itemsize: int) -> bool:
    """True for large matrices whose transpose also makes a short first axis the last one."""
    (length, _), others = axes[-1], axes[:-1]
    first = next((at for at, (_, (step, _)) in enumerate(others) if step == 1), len(others))
    if first >= len(others) - 1 or length > _SHORT_AXIS or itemsize == 1:
        return False
    return prod(n for n, _ in axes) >= _MANY_ELEMENTS


def _copy_over_rows(place: TensorPlace, target: TensorPlace, axes: list[tuple[int, Step]]) -> None:
    """Copy from HBM to HBM by way of a tensor in which the last axis is the first.

    The runs of both copies are then long, but for those that engines put in order.
    """
    *others, last = axes
    loops = [last, *others]
    lengths = tuple(length for length, _ in loops)
    rows = in_hbm(tiles.output(lengths, place.storage.dtype.name), lengths)
    source, final = (
        TensorPlace(end.storage, lengths, tuple((steps[side],) for _, steps in loops), end.offset)
        for side, end in enumerate((place, target))
    )
    _copy_in_hbm(source, rows)
    order = (*range(1, len(lengths)), 0)
    _copy_in_hbm(rows.transposed(order), final.transposed(order))


def _copy(place: TensorPlace, target: TensorPlace, axes: list[tuple[int, Step]]) -> None:
    """Copy from HBM to HBM by one transfer, over axes with the strides of both sides."""
    src, dst = (
        tiles.strided(
            side_place.storage,
            [(steps[side], length) for length, steps in axes],
            side_place.offset[0],
        )
        for side, side_place in enumerate((place, target))
    )
    nisa.dma_copy(dst=dst, src=src)


def _try_write_contiguous(place: TensorPlace, frame: Frame, target: TensorPlace) -> bool:
    """Write a single column of several blocks, transposed, to contiguous elements of HBM.

    False, and nothing written, if the column or the target has another layout.
    """
    blocks, last_rows = divmod(frame.rows, P)
    if frame.block != P or blocks <= 1 or not is_aligned(place, frame):
        return False
    if axes_along(target, frame.p_dims) != [(frame.rows, (1,))]:
        return False
    start = target.offset[0]
    for first, count in tiles.pieces(blocks, P):
        tile = slice_of(place, frame, TileSpan(first, count, P, 0, 1))
        if tile is None:
            return False
        flipped = new((count, P), place.storage.tile.dtype, nl.psum)
        nisa.nc_transpose(dst=flipped, data=tile[:, :, 0])
        view = tiles.strided(target.storage, [(P, count), (1, P)], start + first * P)
        nisa.dma_copy(dst=view, src=copied(flipped, flipped.dtype))
    if last_rows:
        last = slice_of(place, frame, TileSpan(blocks, 1, last_rows, 0, 1))
        if last is not None:
            view = tiles.strided(target.storage, [(1, last_rows), (1, 1)], start + blocks * P)
            nisa.dma_copy(dst=view, src=last[:, 0])
    return True


def _write_transposed(place: TensorPlace, frame: Frame, target: TensorPlace) -> None:
    """Write a place transposed to HBM, 128 rows of the frame at a time."""
    dtype = place.storage.tile.dtype if place.is_on_chip else place.storage.dtype
    flip = frame.flipped()
    blocks_at_once = max(_LINE_BYTES // dtype.itemsize // flip.block, 1)
    rows_written = write_as_rows(place, frame, target)
    for start in range(rows_written, frame.rows, P):
        rows = min(P, frame.rows - start)
        for first, blocks in tiles.pieces(flip.blocks, blocks_at_once):
            at = first * flip.block
            width = min(blocks * flip.block, flip.rows - at)
            tile = new((rows, 1, width), dtype)
            _transpose_columns(place, flip, tile, start, first)
            write_span(target, frame, TileSpan(start // P, 1, rows, at, width), tile)


def _transpose_columns(
    source: TensorPlace, flip: Frame, tile: Tensor, start: int, block: int
) -> None:
    """Fill the rows of a tile with columns of a matrix.

    Args:
        source: the matrix.
        flip: its frame.
        tile: the tile, [columns of the matrix, 1, rows of the matrix].
        start: the first column.
        block: the block of the matrix that holds the first row.
    """
    rows, _, total = tile.shape
    rows_in_bank = max(1, BANK_BYTES // tiles.psum_bytes(tile.dtype) // flip.block) * flip.block
    for at in range(0, total, rows_in_bank):
        width = min(rows_in_bank, total - at)
        flipped = new((rows, width), tile.dtype, nl.psum)
        for begin, partitions in tiles.pieces(width, flip.block):
            number = block + (at + begin) // flip.block
            data = _load_columns(source, flip, number, partitions, start, rows)
            nisa.nc_transpose(dst=flipped[:, begin : begin + partitions], data=data)
        nisa.tensor_copy(dst=tile[:, 0, at : at + width], src=flipped)


def _load_columns(
    source: TensorPlace, flip: Frame, block: int, partitions: int, start: int, columns: int
) -> Tensor:
    """Columns of a block of a matrix, [partitions, columns]: a view of SBUF, else loaded."""
    span = TileSpan(block, 1, partitions, start, columns)
    data = slice_of(source, flip, span) if is_aligned(source, flip) else None
    if data is None or data.shape[2] != columns:
        dtype = source.storage.tile.dtype if source.is_on_chip else source.storage.dtype
        data = load_tile(source, flip, span, dtype)
        if data.shape[2] != columns:
            data = copied(data, dtype, new((partitions, 1, columns), dtype))
    return data[:, 0]
