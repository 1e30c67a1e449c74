"""Operands of a kernel's gradient: elements under taps, with positions along the partitions.

The gradient sums over images and positions of windows, so these lie along the partitions, and
channels and taps along the columns. A block of positions is a box of windows: whole images if they
are small, else rows of an image. The Tensor Engine transposes the elements under each tap.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from trnsim.lower.emit.images.image import Band, Image, WindowBox, WindowGrid
from trnsim.lower.emit.images.kernels import TapBoxes
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, dtype_of, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def position_blocks(part: WindowBox) -> list[WindowBox]:
    """The boxes of at most 128 windows that make up `part`, a box of whole rows of windows."""
    if part.rows * part.columns <= P:
        pieces = tiles.pieces(part.images, P // (part.rows * part.columns))
        return [replace(part, image=part.image + at, images=count) for at, count in pieces]
    rows = ceil(part.rows / ceil(part.rows / max(P // part.columns, 1)))
    columns = min(part.columns, P)
    return [
        WindowBox(part.image + image, part.row + row, column, 1, high, wide)
        for image in range(part.images)
        for row, high in tiles.pieces(part.rows, rows)
        for column, wide in tiles.pieces(part.columns, columns)
    ]


def position_chunks(
    grid: WindowGrid, blocks: int, row_bytes: int, max_bytes: int
) -> list[WindowBox]:
    """The boxes of windows that are transposed at once: several images, or rows of an image.

    Args:
        grid: the windows.
        blocks: maximum number of blocks of positions in a box.
        row_bytes: bytes of a partition for a row of the images.
        max_bytes: maximum bytes of a partition for the images under a box.
    """
    rows, columns = grid.window_counts
    image = WindowBox(0, 0, 0, 1, rows, columns)
    of_image = len(position_blocks(image))
    together = blocks // of_image
    if of_image == 1:
        together = blocks * (P // (rows * columns))
    together = min(together, max_bytes // (grid.reach(0, rows) * row_bytes))
    if together:
        return [
            replace(image, image=at, images=count)
            for at, count in tiles.pieces(grid.images, together)
        ]
    box_rows = max((max_bytes // row_bytes - grid.reach(0, 1)) // grid.strides[0] + 1, 1)
    of_block = max(P // columns, 1)
    box_rows = min(box_rows, max(blocks // ceil(columns / P), 1) * of_block)
    box_rows = max(box_rows // of_block, 1) * of_block
    return [
        replace(image, image=number, row=at, rows=count)
        for number in range(grid.images)
        for at, count in tiles.pieces(rows, box_rows)
    ]


@dataclass(frozen=True, slots=True)
class Positions:
    """The elements of images under the taps of windows, with positions along the partitions.

    Attributes:
        image: the images under the windows.
        taps: the boxes of taps that lie together along the partitions before the transpose.
        start: the number of the first channel.
        channels: the number of channels.
    """

    image: Image
    taps: TapBoxes
    start: int
    channels: int

    @property
    def columns(self) -> int:
        """The number of columns: one for each tap of each channel."""
        return self.channels * prod(self.taps.kernel)

    def load(self, part: WindowBox) -> Band:
        """The rows of the images under a box of windows, in SBUF."""
        band = self.image.resident_band() if self.taps.box == (1, 1) else None
        return band or self.image.band(part, self.taps)

    def transposed(self, band: Band, blocks: Sequence[WindowBox]) -> Tensor:
        """The elements under blocks of windows, [positions, blocks, channels and taps]."""
        dtype = dtype_of(self.image.value.dtype)
        tile = new((max(block.count for block in blocks), len(blocks), self.columns), dtype)
        channels_of_block = self.image.frame.block
        for at, rows in tiles.pieces(self.channels, channels_of_block):
            number = (self.start + at) // channels_of_block
            if len(self.taps.boxes) == 1:
                self._transpose_blocks(band, blocks, tile, number, (at, rows))
                continue
            for place, block in enumerate(blocks):
                self._transpose_taps(band, block, tile[: block.count, place], number, (at, rows))
        return tile

    def _transpose_blocks(
        self,
        band: Band,
        blocks: Sequence[WindowBox],
        tile: Tensor,
        number: int,
        channels: tuple[int, int],
    ) -> None:
        """Transpose a block of channels, all of whose taps lie together, for each block of windows.

        `number` is that of the block of channels; `channels` is (first channel of the tile, number
        of channels).
        """
        at, rows = channels
        taps = prod(self.taps.kernel)
        width = rows * taps
        together = max(tiles.BANK_BYTES // tiles.psum_bytes(tile.dtype) // width, 1)
        for first, count in _equal_runs(blocks, together):
            positions = blocks[first].count
            flipped = new((positions, count, width), tile.dtype, nl.psum)
            for place in range(count):
                data = band.view(self.image.grid, number, width, (0, 0), blocks[first + place])
                nisa.nc_transpose(dst=flipped[:, place], data=data)
            columns = slice(at * taps, (at + rows) * taps)
            target = tile[:positions, first : first + count, columns]
            if taps == 1:
                copied(flipped, tile.dtype, target)
                continue
            for place in range(count):
                block_target = target[:, place].reshape((positions, rows, taps)).permute((0, 2, 1))
                source = flipped[:, place].reshape((positions, taps, rows))
                copied(source, tile.dtype, block_target)

    def _transpose_taps(
        self, band: Band, block: WindowBox, tile: Tensor, number: int, channels: tuple[int, int]
    ) -> None:
        """Transpose a block of channels under a block of windows, several boxes of taps at once."""
        at, rows = channels
        (high, wide), taps = self.taps.kernel, self.taps
        columns = tile[:, at * high * wide : (at + rows) * high * wide]
        width = rows * len(taps.copies)
        max_boxes = max(tiles.BANK_BYTES // tiles.psum_bytes(tile.dtype) // width, 1)
        for first, count in tiles.pieces(len(taps.boxes), max_boxes):
            flipped = new((block.count, count, width), tile.dtype, nl.psum)
            firsts = taps.boxes[first : first + count]
            for place, tap in enumerate(firsts):
                partitions = taps.taps_in_box(tap) * rows
                data = band.view(self.image.grid, number, partitions, tap, block)
                nisa.nc_transpose(dst=flipped[:, place, :partitions], data=data)
            if taps.box == (1, 1):
                by_tap = columns.reshape((block.count, rows, high * wide)).permute((0, 2, 1))
                copied(flipped, tile.dtype, by_tap[:, first : first + count])
                continue
            for place, (y, x) in enumerate(firsts):
                size = min(taps.box[0], high - y), min(taps.box[1], wide - x)
                source = flipped[:, place, : rows * prod(size)]
                target = columns.reshape((block.count, rows, high, wide))
                target = target[:, :, y : y + size[0], x : x + size[1]].permute((0, 2, 3, 1))
                copied(source.reshape((block.count, *size, rows)), tile.dtype, target)


def _equal_runs(blocks: Sequence[WindowBox], max_blocks: int) -> Iterator[tuple[int, int]]:
    """(first, count) of each run of neighbouring blocks with equal numbers of windows.

    A run has at most `max_blocks` blocks.
    """
    first = 0
    while first < len(blocks):
        count = 1
        while (
            count < max_blocks
            and first + count < len(blocks)
            and blocks[first + count].count == blocks[first].count
        ):
            count += 1
        yield first, count
        first += count
