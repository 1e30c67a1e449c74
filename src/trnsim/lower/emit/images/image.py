"""The moving operand of a convolution: bands of the padded image in SBUF, and views of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Final

from trnsim.graph import Value
from trnsim.graph.patterns import Makers
from trnsim.graph.rewriting import match_node
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.kernels import Taps
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.transposing import is_straight, load_in_frame
from trnsim.lower.emit.places.walk import Frame, TileSpan, is_aligned, load_tile
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.lower.patterns.enlarging import ENLARGING, repeat_counts
from trnsim.nki import isa as nisa

_LINE: Final = 3
"""Rank of sequences: batch, channels, length."""
_PIECE: Final = 1024
"""Elements of a partition in one copy, so that products begin before all copies end."""
_COPIES: Final = 32
"""Most transfers for all copies of a band, as each has a fixed cost."""
_SHARE: Final = 4
"""Divisor of the room for results: the share of images that are transposed whole."""
_FEW: Final = 16
"""Channels up to which transfers are faster than an engine, whose other lanes are idle."""


@dataclass(frozen=True, slots=True)
class WindowGrid:
    """How windows move over images; pairs are (rows, columns).

    Attributes:
        images: the count of images.
        channels: the channels of an image.
        size: the rows and columns of an image.
        shape: the rows and columns of windows.
        kernel: the size of a window, in taps.
        strides: elements from one window to the next.
        low: zeros before the first element.
        gaps: zeros between elements.
        dilations: elements from one tap to the next.
    """

    images: int
    channels: int
    size: tuple[int, int]
    shape: tuple[int, int]
    kernel: tuple[int, int]
    strides: tuple[int, int]
    low: tuple[int, int]
    gaps: tuple[int, int]
    dilations: tuple[int, int]

    def reach(self, axis: int, windows: int) -> int:
        """The count of elements of the padded image under neighbouring windows."""
        return (
            (windows - 1) * self.strides[axis] + (self.kernel[axis] - 1) * self.dilations[axis] + 1
        )

    @property
    def width(self) -> int:
        """Columns of the padded image under windows."""
        return self.reach(1, self.shape[1])

    def inside(self, axis: int, start: int, count: int) -> tuple[int, int, int]:
        """Elements in a range of the padded image: first, count, and the position of the first."""
        step, low = self.gaps[axis] + 1, self.low[axis]
        first = max(ceil((start - low) / step), 0)
        end = min(ceil((start + count - low) / step), self.size[axis])
        return first, max(end - first, 0), low + first * step - start

    @property
    def windows(self) -> int:
        """The count of windows of an image."""
        return self.shape[0] * self.shape[1]

    @property
    def is_bare(self) -> bool:
        """True if windows read the image as it is, without padding."""
        reaches = [self.reach(axis, self.shape[axis]) for axis in (0, 1)]
        fits = all(reach <= size for reach, size in zip(reaches, self.size, strict=True))
        return fits and not any(self.low) and not any(self.gaps)


@dataclass(frozen=True, slots=True)
class Band:
    """Rows of some padded images in SBUF, in as many copies as taps stand together.

    Attributes:
        tile: [partitions, blocks of channels, images * rows * width and more].
        image: the first image.
        images: the count of images.
        start: the first row of the padded image.
        rows: the count of rows.
        width: columns of a row.
        first: the first row of windows.
        windows: the count of rows of windows.
    """

    tile: Tensor
    image: int
    images: int
    start: int
    rows: int
    width: int
    first: int
    windows: int

    def holds(self, part: WindowBox) -> bool:
        """True if the band has the elements under those windows."""
        images = self.image <= part.image and part.image + part.images <= self.image + self.images
        end = self.first + self.windows
        return images and self.first <= part.row and part.row + part.rows <= end

    def view(
        self, grid: WindowGrid, block: int, rows: int, tap: tuple[int, int], part: WindowBox
    ) -> Tensor:
        """The elements under a tap of some windows: [rows, images, rows and columns of windows]."""
        length = self.images * self.rows * self.width
        flat = self.tile[:rows, block, :length]
        padded = flat.reshape((rows, self.images, self.rows, self.width))
        image = part.image - self.image
        spots = [
            slice(at, at + (count - 1) * stride + 1, stride)
            for at, count, stride in zip(
                (
                    part.row * grid.strides[0] + tap[0] * grid.dilations[0] - self.start,
                    part.column * grid.strides[1] + tap[1] * grid.dilations[1],
                ),
                (part.rows, part.columns),
                grid.strides,
                strict=True,
            )
        ]
        return padded[:, image : image + part.images, spots[0], spots[1]]


@dataclass(frozen=True, slots=True)
class WindowBox:
    """A box of windows: images, rows and columns, the first of each and how many."""

    image: int
    row: int
    column: int
    images: int
    rows: int
    columns: int

    @property
    def count(self) -> int:
        """The count of windows."""
        return self.images * self.rows * self.columns


def window_boxes(shape: tuple[int, int], start: int, count: int) -> Iterator[WindowBox]:
    """The boxes that make up a range of windows, in order."""
    rows, columns = shape
    while count:
        image, rest = divmod(start, rows * columns)
        row, column = divmod(rest, columns)
        if column or count < columns:
            part = WindowBox(image, row, column, 1, 1, min(columns - column, count))
        elif row or count < rows * columns:
            part = WindowBox(image, row, 0, 1, min(rows - row, count // columns), columns)
        else:
            part = WindowBox(image, 0, 0, count // (rows * columns), rows, columns)
        yield part
        start, count = start + part.count, count - part.count


class Image:
    """The images under the windows of a convolution or pooling."""

    def __init__(
        self,
        emission: Emission,
        value: Value,
        grid: WindowGrid,
        block: int = P,
        number: float = 0.0,
    ) -> None:
        """Images in blocks of channels, with `number` around them and in their gaps."""
        self.emission, self.grid, self.number = emission, grid, number
        self.value, self.times = _enlarging_source(emission, value)
        shape = self.value.shape
        self.frame = Frame(shape, (1,), (0, *range(2, len(shape))), block)
        self.width = grid.size[1] if grid.is_bare else grid.width

    def materialize(self) -> None:
        """Compute the images, unless transfers can convert them from their source."""
        if self.emission.unconverted_place(self.value) is None:
            self.emission.materialize(self.value)

    @property
    def row_bytes(self) -> int:
        """Bytes of a partition for a row of a band."""
        return self.frame.blocks * self.width * int(dtype_of(self.value.dtype).itemsize)

    def resident_band(self) -> Band | None:
        """All images in their place in SBUF, if windows can read them there; else None."""
        grid = self.grid
        place = self._place()
        if self.times != (1, 1) or not (grid.is_bare and _is_even(place, _nchw_frame(self.frame))):
            return None
        rows, columns = grid.size
        first = place.offset[0] // place.storage.block
        tile = place.storage.tile[:, first : first + self.frame.blocks, place.offset[1] :]
        return Band(tile, 0, grid.images, 0, rows, columns, 0, grid.shape[0])

    def band(self, part: WindowBox, taps: Taps) -> Band:
        """Load the rows of padded images under some windows into SBUF."""
        grid = self.grid
        start, rows = part.row * grid.strides[0], grid.reach(0, part.rows)
        length = part.images * rows * self.width
        shifts = [
            high * grid.dilations[0] * self.width + wide * grid.dilations[1]
            for high, wide in taps.copies
        ]
        channels = min(self.frame.rows, self.frame.block)
        shape = (channels * len(shifts), self.frame.blocks, length + shifts[-1])
        tile = new(shape, dtype_of(self.value.dtype))
        band = Band(tile, part.image, part.images, start, rows, self.width, part.row, part.rows)
        self._fill(band, tile[:channels], length)
        is_bare = (rows, self.width) == grid.size and grid.is_bare and self.times == (1, 1)
        if is_bare and part.count == grid.images * grid.windows and taps.box == (1, 1):
            self._note_resident(tile)
        for place, shift in list(enumerate(shifts))[1:]:
            target = tile[place * channels : (place + 1) * channels]
            together = max(_PIECE, length * len(shifts) // _COPIES)
            for at, count in tiles.pieces(length, together):
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
        wide = self.emission.unconverted_place(self.value)
        if wide is not None and is_straight(wide, self.frame):
            return _as_nchw(wide)
        places, dims = self.emission.materialize(self.value), _nchw_frame(self.frame)
        for place in places:
            if is_aligned(place, self.frame) and _is_even(_as_nchw(place), dims):
                return _as_nchw(place)
        for place in places:
            if not place.is_on_chip and is_straight(place, self.frame):
                return _as_nchw(place)
        nbytes = self.frame.blocks * self.frame.columns * ITEM_BYTES[self.value.dtype]
        if nbytes > self.emission.residents.most_bytes // _SHARE:
            return _as_nchw(in_hbm(self.emission.dense(self.value), self.value.shape))
        place = load_in_frame(self.emission, self.value, self.frame)
        self.emission.add_place(self.value, place)
        return _as_nchw(place)

    def _fill(self, band: Band, tile: Tensor, length: int) -> None:
        """Fill a band with the images' elements, and the number around them."""
        grid, place = self.grid, self._place()
        first, rows, top = grid.inside(0, band.start, band.rows)
        left, columns, side = grid.inside(1, 0, band.width)
        steps = [gap + 1 for gap in grid.gaps]
        for block in range(self.frame.blocks):
            channels = min(self.frame.block, self.frame.rows - block * self.frame.block)
            if tile.shape[2] > length:
                nisa.memset(dst=tile[:channels, block, length:], value=self.number)
            shape = (channels, band.images, band.rows, band.width)
            padded = tile[:channels, block, :length].reshape(shape)
            _fill_padding(padded, (top, rows, steps[0]), (side, columns, steps[1]), self.number)
            if not rows or not columns:
                continue
            spots = tuple(
                slice(at, at + (count - 1) * step + 1, step)
                for at, count, step in zip((top, side), (rows, columns), steps, strict=True)
            )
            box = WindowBox(band.image, first, left, band.images, rows, columns)
            self._copy(place, block, padded[:, :, spots[0], spots[1]], box)

    def _copy(self, place: TensorPlace, block: int, target: Tensor, box: WindowBox) -> None:
        """Copy elements of a block of channels: rows and columns of some images."""
        if place.is_on_chip:
            images = self._on_chip(place, block, target.shape[0])
            self._spread(images[:, box.image : box.image + box.images], target, box, 0)
            return
        is_whole = box.columns == self.grid.size[1] == self.width
        is_direct = self.times == (1, 1) and (is_whole or self.frame.rows <= _FEW)
        together = max(_PIECE * 2 // (box.rows * box.columns), 1) if is_direct else 1
        for image, count in tiles.pieces(box.images, together):
            some = replace(box, image=box.image + image, images=count)
            here = target[:, image : image + count]
            if is_direct:
                nisa.dma_copy(dst=here, src=self._in_hbm(place, block, some))
            else:
                self._copy_loaded(place, block, here, some)

    def _copy_loaded(self, place: TensorPlace, block: int, target: Tensor, box: WindowBox) -> None:
        """Copy rows of one image by way of SBUF, as transfers load them whole."""
        down = self.times[0]
        high, wide = self._size
        most = max(_PIECE // wide, 1) * down
        for at, count in tiles.pieces(box.rows, most):
            first = (box.row + at) // down
            rows = ceil((box.row + at + count) / down) - first
            start = (box.image * high + first) * wide
            span = TileSpan(block, 1, target.shape[0], start, rows * wide)
            part = load_tile(place, _nchw_frame(self.frame), span, target.dtype)
            images = part[:, 0].reshape((target.shape[0], 1, rows, wide))
            piece = target[:, :, at : at + count]
            self._spread(images, piece, replace(box, row=box.row + at, rows=count), first)

    def _spread(self, images: Tensor, target: Tensor, box: WindowBox, start: int) -> None:
        """Copy rows from `start` on, each element as often as the enlarging repeats it."""
        most = max(_PIECE // (box.images * images.shape[3]), 1)
        for down, across in product(*map(range, self.times)):
            rows = _copies_in_range(box.row, box.rows, self.times[0], down)
            columns = _copies_in_range(box.column, box.columns, self.times[1], across)
            if not rows.count or not columns.count:
                continue
            for first, count in tiles.pieces(rows.count, most):
                to_rows, from_rows = rows.piece(first, count)
                to_columns, from_columns = columns.piece(0, columns.count)
                from_rows = slice(from_rows.start - start, from_rows.stop - start)
                source = images[:, :, from_rows, from_columns]
                nisa.tensor_copy(dst=target[:, :, to_rows, to_columns], src=source)

    @property
    def _size(self) -> tuple[int, int]:
        """Rows and columns of the images before they are enlarged."""
        high, wide = (n // k for n, k in zip(self.grid.size, self.times, strict=True))
        return high, wide

    def _on_chip(self, place: TensorPlace, block: int, channels: int) -> Tensor:
        """[channels, images, rows, columns] of a block in SBUF."""
        high, wide = self._size
        at, start = place.offset[0] // place.storage.block + block, place.offset[1]
        count = self.grid.images * high * wide
        flat = place.storage.tile[:channels, at, start : start + count]
        return flat.reshape((channels, self.grid.images, high, wide))

    def _in_hbm(self, place: TensorPlace, block: int, box: WindowBox) -> Tensor:
        """[channels, images, rows, columns] in HBM."""
        first = block * self.frame.block
        count = min(self.frame.block, self.frame.rows - first)
        steps = [step for (step,) in place.steps]
        starts = (box.image, first, box.row, box.column)
        offset = place.offset[0] + sum(a * b for a, b in zip(steps, starts, strict=True))
        order = (steps[1], steps[0], *steps[2:])
        counts = (count, box.images, box.rows, box.columns)
        pattern = [(step or 1, n) for step, n in zip(order, counts, strict=True)]
        return tiles.strided(place.storage, pattern, offset)


@dataclass(frozen=True, slots=True)
class _Copies:
    """Elements of a range that are the same copy of their source.

    Attributes:
        first: the position of the first one in the range.
        step: positions from one to the next.
        source: the source of the first one.
        count: the count of elements.
    """

    first: int
    step: int
    source: int
    count: int

    def piece(self, start: int, count: int) -> tuple[slice, slice]:
        """Some of them: where they go, and where they come from."""
        at = self.first + start * self.step
        end = at + (count - 1) * self.step + 1
        return slice(at, end, self.step), slice(self.source + start, self.source + start + count)


def _copies_in_range(start: int, count: int, times: int, number: int) -> _Copies:
    """The copies of one number in a range of elements, each of which is repeated `times` times."""
    first = (number - start) % times
    return _Copies(first, times, (start + first) // times, max(ceil((count - first) / times), 0))


def _enlarging_source(emission: Emission, value: Value) -> tuple[Value, tuple[int, int]]:
    """The value that an enlarging repeats, and how often each row and column is repeated."""
    node = emission.facts.producers.get(value.number)
    match = None if node is None else match_node(ENLARGING, node, Makers(emission.facts.producers))
    return (value, (1, 1)) if match is None else (match["images"], repeat_counts(match))


def _fill_padding(
    padded: Tensor, rows: tuple[int, int, int], columns: tuple[int, int, int], number: float
) -> None:
    """A number before, after and between the elements: (first, how many, step) of each axis."""
    _, _, high, wide = padded.shape
    if rows[2] > 1 or columns[2] > 1 or not rows[1] or not columns[1]:
        nisa.memset(dst=padded, value=number)
        return
    (top, count, _), (left, across, _) = rows, columns
    bottom, right = top + count, left + across
    for view, is_there in (
        (padded[:, :, :top], top > 0),
        (padded[:, :, bottom:], bottom < high),
        (padded[:, :, top:bottom, :left], left > 0),
        (padded[:, :, top:bottom, right:], right < wide),
    ):
        if is_there:
            nisa.memset(dst=view, value=number)


def _as_nchw(place: TensorPlace) -> TensorPlace:
    """The place of [N, C, W] as [N, C, 1, W]."""
    if len(place.shape) > _LINE:
        return place
    still = (0,) * len(place.offset)
    shape, steps = place.shape, place.steps
    return TensorPlace(
        place.storage,
        (*shape[:2], 1, shape[2]),
        (*steps[:2], still, steps[2]),
        place.offset,
    )


def _nchw_frame(frame: Frame) -> Frame:
    """The frame of [N, C, H, W]."""
    shape = frame.shape
    if len(shape) == _LINE:
        shape = (*shape[:2], 1, shape[2])
    return Frame(shape, (1,), (0, 2, 3), frame.block)


def _is_even(place: TensorPlace, frame: Frame) -> bool:
    """True if images lie contiguously in SBUF, row by row."""
    if not place.is_on_chip or place.storage.is_replicated or not is_aligned(place, frame):
        return False
    wanted = frame.steps()
    return all(
        place.steps[dim][1] == wanted[dim][1] for dim in frame.f_dims if place.shape[dim] > 1
    )
