"""The moving operand of a convolution: rows of the padded images in SBUF, seen through windows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Final

from trnsim.graph import Value
from trnsim.graph.patterns import Producers
from trnsim.graph.rewriting import match_node
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.kernels import TapBoxes
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import is_straight, load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, is_aligned, load_tile
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.lower.patterns.enlarging import IMAGE_ENLARGEMENT, repeat_counts
from trnsim.nki import isa as nisa

_SEQUENCE_RANK: Final = 3
"""Rank of sequences: batch, channels, length."""
_COPY_ELEMENTS: Final = 1024
"""Maximum elements of a partition in one copy, so that products begin before all copies end."""
_BAND_TRANSFERS: Final = 32
"""Maximum number of transfers for the shifted copies of a band, as each has a fixed cost."""
_WHOLE_TRANSPOSE_SHARE: Final = 1 / 4
"""Most of the room for results in SBUF that images take to be transposed whole."""
_FEW_CHANNELS: Final = 16
"""Maximum number of channels for which DMA is faster than an engine, whose other lanes are idle."""


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """The windows over images, as of a convolution or a pooling; pairs are (rows, columns).

    Attributes:
        image_size: the rows and columns of an image.
        window_counts: the number of rows and of columns of windows.
        kernel: the size of a window, in taps.
        strides: elements from one window to the next.
        low_padding: zeros before the first element; if negative, the number of elements left out.
        gaps: zeros between neighbouring elements.
        dilations: elements from one tap to the next.
    """

    images: int
    channels: int
    image_size: tuple[int, int]
    window_counts: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    low_padding: tuple[int, int]
    gaps: tuple[int, int]
    dilations: tuple[int, int]

    def reach(self, axis: int, windows: int) -> int:
        """The number of the padded image's elements under `windows` neighbouring windows."""
        return (
            (windows - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis] + 1
        )

    @property
    def width(self) -> int:
        """Columns of the padded image under windows."""
        return self.reach(1, self.window_counts[1])

    def elements_in(self, axis: int, start: int, count: int) -> tuple[int, int, int]:
        """The image's elements among `count` elements of the padded image from `start` on.

        Returns:
            The index of the first in the image, their number, and the index of the first in the
            range.
        """
        step, low = self.gaps[axis] + 1, self.low_padding[axis]
        first = max(ceil((start - low) / step), 0)
        end = min(ceil((start + count - low) / step), self.image_size[axis])
        return first, max(end - first, 0), low + first * step - start

    @property
    def windows(self) -> int:
        """The number of windows of an image."""
        return self.window_counts[0] * self.window_counts[1]

    @property
    def is_unpadded(self) -> bool:
        """True if windows read only the image's own elements, without padding or gaps."""
        reaches = [self.reach(axis, self.window_counts[axis]) for axis in (0, 1)]
        fits = all(reach <= size for reach, size in zip(reaches, self.image_size, strict=True))
        return fits and not any(self.low_padding) and not any(self.gaps)


@dataclass(frozen=True, slots=True)
class Band:
    """Rows of padded images in SBUF, with a shifted copy for each tap of a box of `TapBoxes`.

    The copies lie one after another along the partitions.

    Attributes:
        tile: [copies * channels, blocks of channels, images * rows * width + the last shift].
        first_row: the number of its first row in a padded image.
        width: columns of a row.
        first_window_row: the first row of windows whose elements it holds.
    """

    tile: Tensor
    first_image: int
    images: int
    first_row: int
    rows: int
    width: int
    first_window_row: int
    window_rows: int

    def holds(self, box: WindowBox) -> bool:
        """True if the band has the elements under those windows."""
        image_end = self.first_image + self.images
        row_end = self.first_window_row + self.window_rows
        return (
            self.first_image <= box.image
            and box.image + box.images <= image_end
            and self.first_window_row <= box.row
            and box.row + box.rows <= row_end
        )

    def view(
        self, grid: WindowGrid, block: int, partitions: int, tap: tuple[int, int], box: WindowBox
    ) -> Tensor:
        """The elements under a tap of a box of windows: [partitions, images, rows, columns]."""
        length = self.images * self.rows * self.width
        flat = self.tile[:partitions, block, :length]
        padded = flat.reshape((partitions, self.images, self.rows, self.width))
        image = box.image - self.first_image
        slices = [
            slice(at, at + (count - 1) * stride + 1, stride)
            for at, count, stride in zip(
                (
                    box.row * grid.strides[0] + tap[0] * grid.dilations[0] - self.first_row,
                    box.column * grid.strides[1] + tap[1] * grid.dilations[1],
                ),
                (box.rows, box.columns),
                grid.strides,
                strict=True,
            )
        ]
        return padded[:, image : image + box.images, slices[0], slices[1]]


@dataclass(frozen=True, slots=True)
class WindowBox:
    """A box of windows.

    Attributes:
        image: the number of the first image.
        row: the number of the first row of windows.
        column: the number of the first column of windows.
        images: the number of images.
        rows: the number of rows.
        columns: the number of columns.
    """

    image: int
    row: int
    column: int
    images: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        """The number of windows."""
        return self.images * self.rows * self.columns


def window_boxes(shape: tuple[int, int], start: int, count: int) -> Iterator[WindowBox]:
    """The boxes that make up `count` windows from number `start` on, in order.

    `shape` is the number of rows and of columns of windows of an image.
    """
    rows, columns = shape
    while count:
        image, rest = divmod(start, rows * columns)
        row, column = divmod(rest, columns)
        if column or count < columns:
            box = WindowBox(image, row, column, 1, 1, min(columns - column, count))
        elif row or count < rows * columns:
            box = WindowBox(image, row, 0, 1, min(rows - row, count // columns), columns)
        else:
            box = WindowBox(image, 0, 0, count // (rows * columns), rows, columns)
        yield box
        start, count = start + box.count, count - box.count


class Image:
    """The images under the windows of a convolution or pooling."""

    def __init__(
        self,
        emission: Emission,
        value: Value,
        grid: WindowGrid,
        block: int = P,
        padding_value: float = 0.0,
    ) -> None:
        """The images of `value`, with `padding_value` around them and in their gaps.

        Args:
            emission: the emission that the convolution or pooling is a part of.
            value: the images, [N, C, H, W] or [N, C, W].
            grid: the windows over them.
            block: channels of a block.
            padding_value: 0, or the neutral element of a reduction.
        """
        self.emission, self.grid, self.padding_value = emission, grid, padding_value
        self.value, self.repeats = _enlarging_source(emission, value)
        shape = self.value.shape
        self.frame = Frame(shape, (1,), (0, *range(2, len(shape))), block)
        self.width = grid.image_size[1] if grid.is_unpadded else grid.width

    def materialize(self) -> None:
        """Compute the images, unless transfers can convert them from another dtype in HBM."""
        if self.emission.unconverted_place(self.value) is None:
            self.emission.materialize(self.value)

    @property
    def row_bytes(self) -> int:
        """Bytes of a partition for a row of a band."""
        return self.frame.blocks * self.width * int(dtype_of(self.value.dtype).itemsize)

    def resident_band(self) -> Band | None:
        """All images where they lie in SBUF, if windows can read them there; else None."""
        grid = self.grid
        place = self._place()
        if self.repeats != (1, 1) or not grid.is_unpadded:
            return None
        if not _is_contiguous(place, _nchw_frame(self.frame)):
            return None
        rows, columns = grid.image_size
        first = place.offset[0] // place.storage.block
        tile = place.storage.tile[:, first : first + self.frame.blocks, place.offset[1] :]
        return Band(tile, 0, grid.images, 0, rows, columns, 0, grid.window_counts[0])

    def band(self, box: WindowBox, taps: TapBoxes) -> Band:
        """Load the rows of padded images under some windows into SBUF."""
        grid = self.grid
        start, rows = box.row * grid.strides[0], grid.reach(0, box.rows)
        length = box.images * rows * self.width
        shifts = [
            row * grid.dilations[0] * self.width + column * grid.dilations[1]
            for row, column in taps.copies
        ]
        channels = min(self.frame.rows, self.frame.block)
        shape = (channels * len(shifts), self.frame.blocks, length + shifts[-1])
        tile = new(shape, dtype_of(self.value.dtype))
        band = Band(tile, box.image, box.images, start, rows, self.width, box.row, box.rows)
        self._fill(band, tile[:channels], length)
        is_image = (rows, self.width) == grid.image_size and self.repeats == (1, 1)
        is_whole = is_image and grid.is_unpadded and box.count == grid.images * grid.windows
        if is_whole and taps.box == (1, 1):
            self._note_resident(tile)
        for copy, shift in list(enumerate(shifts))[1:]:
            target = tile[copy * channels : (copy + 1) * channels]
            piece_elements = max(_COPY_ELEMENTS, length * len(shifts) // _BAND_TRANSFERS)
            for at, count in tiles.pieces(length, piece_elements):
                source = tile[:channels, :, at + shift : at + shift + count]
                nisa.dma_copy(dst=target[:, :, at : at + count], src=source)
        return band

    def _note_resident(self, tile: Tensor) -> None:
        """Record that all images lie in SBUF now, without padding."""
        matrix = SbufMatrix(tile, self.frame.rows, self.frame.block)
        place = TensorPlace(matrix, self.frame.shape, self.frame.steps(), (0, 0))
        self.emission.add_place(self.value, place)

    def _place(self) -> TensorPlace:
        """The place of the images as [N, C, H, W]: on the chip by channels, or in HBM."""
        unconverted = self.emission.unconverted_place(self.value)
        if unconverted is not None and is_straight(unconverted, self.frame):
            return _as_nchw(unconverted)
        places, dims = self.emission.materialize(self.value), _nchw_frame(self.frame)
        for place in places:
            if is_aligned(place, self.frame) and _is_contiguous(_as_nchw(place), dims):
                return _as_nchw(place)
        for place in places:
            if not place.is_on_chip and is_straight(place, self.frame):
                return _as_nchw(place)
        nbytes = self.frame.blocks * self.frame.columns * ITEM_BYTES[self.value.dtype]
        if nbytes > self.emission.residents.most_bytes * _WHOLE_TRANSPOSE_SHARE:
            return _as_nchw(in_hbm(self.emission.dense(self.value), self.value.shape))
        place = load_in_frame(self.emission, self.value, self.frame)
        self.emission.add_place(self.value, place)
        return _as_nchw(place)

    def _fill(self, band: Band, tile: Tensor, length: int) -> None:
        """Fill a band with the images' elements, and the padding around them."""
        grid, place = self.grid, self._place()
        first_row, rows, top = grid.elements_in(0, band.first_row, band.rows)
        first_column, columns, side = grid.elements_in(1, 0, band.width)
        steps = [gap + 1 for gap in grid.gaps]
        for block in range(self.frame.blocks):
            channels = min(self.frame.block, self.frame.rows - block * self.frame.block)
            if tile.shape[2] > length:
                nisa.memset(dst=tile[:channels, block, length:], value=self.padding_value)
            shape = (channels, band.images, band.rows, band.width)
            padded = tile[:channels, block, :length].reshape(shape)
            row_range, column_range = (top, rows, steps[0]), (side, columns, steps[1])
            fill_padding(padded, row_range, column_range, self.padding_value)
            if not rows or not columns:
                continue
            slices = tuple(
                slice(at, at + (count - 1) * step + 1, step)
                for at, count, step in zip((top, side), (rows, columns), steps, strict=True)
            )
            box = WindowBox(band.first_image, first_row, first_column, band.images, rows, columns)
            self._copy(place, block, padded[:, :, slices[0], slices[1]], box)

    def _copy(self, place: TensorPlace, block: int, target: Tensor, box: WindowBox) -> None:
        """Copy the elements of `box` of a block of channels into `target`."""
        if place.is_on_chip:
            images = self._view_on_chip(place, block, target.shape[0])
            self._copy_repeated(images[:, box.image : box.image + box.images], target, box, 0)
            return
        is_whole = box.columns == self.grid.image_size[1] == self.width
        is_direct = self.repeats == (1, 1) and (is_whole or self.frame.rows <= _FEW_CHANNELS)
        images_at_once = max(_COPY_ELEMENTS * 2 // (box.rows * box.columns), 1) if is_direct else 1
        for image, count in tiles.pieces(box.images, images_at_once):
            image_box = replace(box, image=box.image + image, images=count)
            image_target = target[:, image : image + count]
            if is_direct:
                nisa.dma_copy(dst=image_target, src=self._view_in_hbm(place, block, image_box))
            else:
                self._copy_loaded(place, block, image_target, image_box)

    def _copy_loaded(self, place: TensorPlace, block: int, target: Tensor, box: WindowBox) -> None:
        """Load whole rows of one image from HBM into SBUF, and copy the elements of `box` there."""
        repeats = self.repeats[0]
        high, wide = self._source_size
        rows_at_once = max(_COPY_ELEMENTS // wide, 1) * repeats
        for at, count in tiles.pieces(box.rows, rows_at_once):
            first = (box.row + at) // repeats
            rows = ceil((box.row + at + count) / repeats) - first
            start = (box.image * high + first) * wide
            span = TileSpan(block, 1, target.shape[0], start, rows * wide)
            loaded = load_tile(place, _nchw_frame(self.frame), span, target.dtype)
            images = loaded[:, 0].reshape((target.shape[0], 1, rows, wide))
            piece = target[:, :, at : at + count]
            self._copy_repeated(images, piece, replace(box, row=box.row + at, rows=count), first)

    def _copy_repeated(
        self, images: Tensor, target: Tensor, box: WindowBox, first_source_row: int
    ) -> None:
        """Copy a box of elements of the enlarged images, in which each source element is repeated.

        `images` are the images before they are enlarged, from the row `first_source_row` on.
        """
        rows_at_once = max(_COPY_ELEMENTS // (box.images * images.shape[3]), 1)
        for row_copy, column_copy in product(*map(range, self.repeats)):
            rows = _copied_elements(box.row, box.rows, self.repeats[0], row_copy)
            columns = _copied_elements(box.column, box.columns, self.repeats[1], column_copy)
            if not rows.count or not columns.count:
                continue
            for first, count in tiles.pieces(rows.count, rows_at_once):
                to_rows, from_rows = rows.piece(first, count)
                to_columns, from_columns = columns.piece(0, columns.count)
                from_rows = slice(
                    from_rows.start - first_source_row, from_rows.stop - first_source_row
                )
                source = images[:, :, from_rows, from_columns]
                nisa.tensor_copy(dst=target[:, :, to_rows, to_columns], src=source)

    @property
    def _source_size(self) -> tuple[int, int]:
        """Rows and columns of the images before they are enlarged."""
        high, wide = (n // k for n, k in zip(self.grid.image_size, self.repeats, strict=True))
        return high, wide

    def _view_on_chip(self, place: TensorPlace, block: int, channels: int) -> Tensor:
        """A view of a block of channels in SBUF, [channels, images, rows, columns]."""
        high, wide = self._source_size
        at, start = place.offset[0] // place.storage.block + block, place.offset[1]
        count = self.grid.images * high * wide
        flat = place.storage.tile[:channels, at, start : start + count]
        return flat.reshape((channels, self.grid.images, high, wide))

    def _view_in_hbm(self, place: TensorPlace, block: int, box: WindowBox) -> Tensor:
        """A view of the elements of `box` in HBM, [channels, images, rows, columns]."""
        first = block * self.frame.block
        count = min(self.frame.block, self.frame.rows - first)
        steps = [step for (step,) in place.steps]
        starts = (box.image, first, box.row, box.column)
        offset = place.offset[0] + sum(a * b for a, b in zip(steps, starts, strict=True))
        order = (steps[1], steps[0], *steps[2:])
        counts = (count, box.images, box.rows, box.columns)
        pattern = [(step if n > 1 else 1, n) for step, n in zip(order, counts, strict=True)]
        return tiles.strided(place.storage, pattern, offset)


@dataclass(frozen=True, slots=True)
class _CopiedElements:
    """The rows or columns, in a range of an enlarged image, that are copy number n of their source.

    Attributes:
        first: the position of the first one in the range.
        step: distance from one to the next.
        source: the row or column of the source that the first one copies.
        count: how many there are.
    """

    first: int
    step: int
    source: int
    count: int

    def piece(self, start: int, count: int) -> tuple[slice, slice]:
        """The positions of `count` rows or columns from number `start` on, and of their sources."""
        at = self.first + start * self.step
        end = at + (count - 1) * self.step + 1
        return slice(at, end, self.step), slice(self.source + start, self.source + start + count)


def _copied_elements(start: int, count: int, repeats: int, copy: int) -> _CopiedElements:
    """Which of `count` rows or columns from `start` on are copy number `copy` of their source.

    Each row or column of the source has `repeats` copies.
    """
    first = (copy - start) % repeats
    copies = max(ceil((count - first) / repeats), 0)
    return _CopiedElements(first, repeats, (start + first) // repeats, copies)


def _enlarging_source(emission: Emission, value: Value) -> tuple[Value, tuple[int, int]]:
    """The images before they were enlarged, and how often each row and column is repeated.

    `value` and (1, 1) if it is not enlarged.
    """
    node = emission.facts.producers.get(value.number)
    producers = Producers(emission.facts.producers)
    match = None if node is None else match_node(IMAGE_ENLARGEMENT, node, producers)
    return (value, (1, 1)) if match is None else (match["images"], repeat_counts(match))


def fill_padding(
    padded: Tensor, rows: tuple[int, int, int], columns: tuple[int, int, int], value: float
) -> None:
    """Write `value` before, after and between the elements.

    `rows` and `columns` are (position of the first element, number of elements, step).
    """
    _, _, high, wide = padded.shape
    if rows[2] > 1 or columns[2] > 1 or not rows[1] or not columns[1]:
        nisa.memset(dst=padded, value=value)
        return
    (top, count, _), (left, count_of_columns, _) = rows, columns
    bottom, right = top + count, left + count_of_columns
    for view, is_needed in (
        (padded[:, :, :top], top > 0),
        (padded[:, :, bottom:], bottom < high),
        (padded[:, :, top:bottom, :left], left > 0),
        (padded[:, :, top:bottom, right:], right < wide),
    ):
        if is_needed:
            nisa.memset(dst=view, value=value)


def _as_nchw(place: TensorPlace) -> TensorPlace:
    """The place of [N, C, W] as [N, C, 1, W]."""
    if len(place.shape) > _SEQUENCE_RANK:
        return place
    zero_step = (0,) * len(place.offset)
    shape, steps = place.shape, place.steps
    return TensorPlace(
        place.storage,
        (*shape[:2], 1, shape[2]),
        (*steps[:2], zero_step, steps[2]),
        place.offset,
    )


def _nchw_frame(frame: Frame) -> Frame:
    """The frame of [N, C, H, W]."""
    shape = frame.shape
    if len(shape) == _SEQUENCE_RANK:
        shape = (*shape[:2], 1, shape[2])
    return Frame(shape, (1,), (0, 2, 3), frame.block)


def _is_contiguous(place: TensorPlace, frame: Frame) -> bool:
    """True if images lie contiguously in SBUF, row by row, as in `frame`."""
    if not place.is_on_chip or place.storage.is_replicated or not is_aligned(place, frame):
        return False
    frame_steps = frame.steps()
    return all(
        place.steps[dim][1] == frame_steps[dim][1] for dim in frame.f_dims if place.shape[dim] > 1
    )
