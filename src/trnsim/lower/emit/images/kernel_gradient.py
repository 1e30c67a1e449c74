"""Convolutions of few windows with many taps, such as the gradient of a kernel.

The gradient has images ``[C, N, *D]`` and kernels ``[O, N, *W]``. Each of its windows is a tap of
the convolution whose kernel it belongs to, over images ``[N, C, *D]``, and each of its taps is a
position of that convolution's windows. It sums over images and positions. These lie along the
partitions of both operands, so that a product adds 128 terms, not only the images of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops.layout import Reshape, Transpose
from trnsim.graph.ops.rounding import Convert
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.gradient_groups import GradientGroups, without_groups
from trnsim.lower.emit.images.image import Image, WindowBox, WindowGrid
from trnsim.lower.emit.images.kernels import TapBoxes, taps_together
from trnsim.lower.emit.images.positions import Positions, position_blocks, position_chunks
from trnsim.lower.emit.places.paths import apply_view, is_view
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace, in_hbm
from trnsim.lower.emit.places.walk import Frame, TileSpan, frame_of, write_span
from trnsim.lower.emit.window_sums import image_pair
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.balance import balanced
from trnsim.lower.kernels.instructions import binary, copied
from trnsim.lower.kernels.tiles import BANK, FEWEST_COLUMNS, P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_CHUNK_BYTES: Final = 40 * 1024
"""Bytes of a partition for the transposed operands of a chunk of positions."""
_BAND_BYTES: Final = 24 * 1024
"""Bytes of a partition for the images under a chunk of positions."""
_SUMS_BANKS: Final = 6
"""Banks of PSUM for sums over all positions; transposes have the others."""
_SUMS_BYTES: Final = 40 * 1024
"""Bytes of a partition for sums over chunks that do not fit in PSUM."""
_MOST_WINDOWS: Final = 128
"""Most windows of a gradient, as each of them is transposed separately."""
_LAID_OUT_ANEW: Final = 2
"""Ratio of the time of products over channels to the time of their columns alone; assumed."""


def is_kernel_gradient(node: Node) -> bool:
    """True if products over positions take less time than products over channels.

    The times are counted in columns that pass through the array. Products over channels count
    twice, as their operands would have to be copied to another layout. A convolution with groups is
    taken for a kernel's gradient if it has fewer windows than taps.
    """
    operation: Any = node.operation
    image, kernel = (value.shape for value in node.values)
    if any(operation.gaps) or operation.is_reversed:
        return False
    windows, taps = prod(node.result.shape[2:]), prod(kernel[2:])
    if windows > _MOST_WINDOWS:
        return False
    if operation.groups > 1:  # over channels each group would be a product of its own
        return windows < taps and GradientGroups.of(node).groups_at_once > 0
    columns, rows = image[0] * windows, ceil(kernel[0] / P)
    over_channels = taps * ceil(image[1] / P) * rows * max(columns, FEWEST_COLUMNS)
    blocks = ceil(image[1] * taps / P)
    transposes = max(windows * image[0], FEWEST_COLUMNS) + kernel[0]
    over_positions = blocks * (rows * max(columns, FEWEST_COLUMNS) + transposes)
    return over_positions < _LAID_OUT_ANEW * over_channels


def emit_kernel_gradient(emission: Emission, node: Node) -> None:
    """Emit a convolution by products over positions."""
    KernelGradient(emission, node).run()


def _grids(node: Node) -> tuple[WindowGrid, WindowGrid]:
    """The grids of windows over the images and over the kernels of a kernel's gradient.

    The taps of the first are the gradient's windows; the second has single taps. A sequence is an
    image of one row.
    """
    operation: Any = node.operation
    image, kernel = (value.shape for value in node.values)

    places = image_pair(kernel[2:], 1)
    over_images = WindowGrid(
        images=kernel[1],
        channels=image[0] * operation.groups,
        image_size=image_pair(image[2:], 1),
        window_counts=places,
        kernel=image_pair(node.result.shape[2:], 1),
        strides=image_pair(operation.dilations, 1),
        low_padding=image_pair(operation.low, 0),
        gaps=(0, 0),
        dilations=image_pair(operation.strides, 1),
    )
    ones, zeros = (1, 1), (0, 0)
    over_kernels = replace(
        over_images,
        channels=kernel[0],
        image_size=places,
        kernel=ones,
        strides=ones,
        low_padding=zeros,
        dilations=ones,
    )
    return over_images, over_kernels


def _exchange_dims(emission: Emission, value: Value) -> Value:
    """A value with its first two dimensions exchanged: a view, or the operand of such a view."""
    shape = (value.shape[1], value.shape[0], *value.shape[2:])
    order = (1, 0, *range(2, len(shape)))
    node = emission.facts.producers.get(value.number)
    if node is not None and node.values and node.values[0].shape == shape:
        is_transpose = isinstance(node.operation, Transpose) and node.operation.permutation == order
        if is_transpose or (isinstance(node.operation, Reshape) and 1 in shape[:2]):
            return node.values[0]
    return emission.facts.add_view(value, Transpose(order), shape)


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the result: `rows` kernels from `row` on, `channels` channels from `channel` on.

    Both begin at a block, of 128 or of the groups that share the array.
    """

    row: int
    rows: int
    channel: int
    channels: int


class KernelGradient:
    """The gradient of a kernel, emitted by products over positions."""

    def __init__(self, emission: Emission, node: Node) -> None:
        self.emission, self.node = emission, node
        over_images, over_kernels = _grids(node)
        image, kernel = node.values
        self.groups = groups = GradientGroups.of(node)
        is_grouped = groups.count > 1
        if is_grouped:
            image = without_groups(emission.facts, image, groups.count)
        self.channel_block = groups.groups_at_once * groups.channels if is_grouped else P
        self.kernel_block = groups.groups_at_once * groups.kernels if is_grouped else P
        channels, slopes = _exchange_dims(emission, image), _exchange_dims(emission, kernel)
        self.images = Image(emission, channels, over_images, self.channel_block)
        self.slopes = Image(emission, slopes, over_kernels, self.kernel_block)
        self.grid = over_images
        self.item_bytes = ITEM_BYTES[image.dtype]
        self.taps = self._taps()
        self.kernels, self.channels = kernel.shape[0], over_images.channels

    def _taps(self) -> TapBoxes:
        """The boxes of taps that lie together on partitions: single taps if channels are many."""
        grid = self.grid
        if grid.channels > min(P // 2, self.channel_block):
            return TapBoxes(grid.kernel)
        elements = grid.images * grid.channels * grid.reach(0, grid.window_counts[0]) * grid.width
        positions = grid.images * grid.windows
        return taps_together(grid.kernel, grid.channels, positions, elements * self.item_bytes)

    def run(self) -> None:
        """Emit the products, and record the place of the value that they compute."""
        self.images.materialize()
        self.slopes.materialize()
        value, frame, place = self._result()
        with balanced():
            for part in self._parts():
                self._emit_part(part, frame, place)
        self.emission.places[value.number] = [place]

    def _result(self) -> tuple[Value, Frame, TensorPlace]:
        """The value that is stored, its frame and its place.

        It is the last of the views and conversions that follow the result as its only readers.
        """
        facts, value = self.emission.facts, self.node.result
        rank = len(value.shape)
        frame = Frame(value.shape, (1,), (0, *range(2, rank)), self.kernel_block)
        matrix = SbufMatrix(None, frame.rows, self.kernel_block)
        place = TensorPlace(matrix, value.shape, frame.steps(), (0, 0))
        while True:
            readers = facts.readers(value)
            if len(readers) != 1 or facts.is_output(value):
                break
            (reader,) = readers
            if is_view(reader) and reader.result.type.elements == value.type.elements:
                view = apply_view(reader, place)
                if view is None:
                    break
                place = view
            elif not isinstance(reader.operation, Convert) or not reader.result.type.is_floating:
                break
            value = reader.result
        frame = frame_of(place)
        long = [dim for dim, length in enumerate(value.shape) if length > 1]
        is_row = bool(long) and long[-1] in frame.f_dims
        if facts.is_output_only(value) and is_row:
            tensor = tiles.output(value.shape, value.dtype)
            return value, frame, in_hbm(tensor, value.shape)
        return value, frame, self.emission.residents.allocate(frame, value)

    # Parts of the result, and chunks of positions

    def _parts(self) -> list[_Part]:
        """The parts of the result whose sums are on the chip at once."""
        channels, rows = self.channels, self.kernels
        if self.groups.count > 1:
            by_block = zip(
                tiles.pieces(rows, self.kernel_block),
                tiles.pieces(channels, self.channel_block),
                strict=True,
            )
            return [_Part(*of_rows, *of_channels) for of_rows, of_channels in by_block]
        while not self._fits(channels, rows):
            if channels > P:
                channels = ceil(ceil(channels / P) / 2) * P
            elif rows > P:
                rows = ceil(ceil(rows / P) / 2) * P
            else:
                break
        return [
            _Part(row, many, channel, wide)
            for row, many in tiles.pieces(self.kernels, rows)
            for channel, wide in tiles.pieces(self.channels, channels)
        ]

    def _fits(self, channels: int, rows: int) -> bool:
        """True if sums of a part wait in PSUM, or in SBUF, until all positions are added."""
        columns = channels * prod(self.taps.kernel)
        block_bytes = (columns + rows) * self.item_bytes
        if len(self._chunks(channels, rows)) == 1:
            return block_bytes <= _CHUNK_BYTES
        blocks = ceil(rows / P)
        is_in_sbuf = blocks * columns * nl.float32.itemsize <= _SUMS_BYTES
        return is_in_sbuf or blocks * ceil(columns / BANK) <= _SUMS_BANKS

    def _chunks(self, channels: int, rows: int) -> list[WindowBox]:
        """The boxes of positions that are transposed at once, for a part of the result."""
        block_bytes = (channels * prod(self.taps.kernel) + rows) * self.item_bytes
        blocks = max(_CHUNK_BYTES // block_bytes, 1)
        return position_chunks(self.grid, blocks, self.images.row_bytes, _BAND_BYTES)

    # The products

    def _emit_part(self, part: _Part, frame: Frame, place: TensorPlace) -> None:
        """Emit the sums of a part of the result over all positions."""
        images = Positions(self.images, self.taps, part.channel, part.channels)
        slopes = Positions(self.slopes, TapBoxes((1, 1)), part.row, part.rows)
        chunks = self._chunks(part.channels, part.rows)
        groups = self.groups if self.groups.count > 1 else None
        sums = _Sums(part, images.columns, place, len(chunks), groups)
        for number, chunk in enumerate(chunks):
            boxes = position_blocks(chunk)
            moving = images.transposed(images.load(chunk), boxes)
            stationary = slopes.transposed(slopes.load(chunk), boxes)
            for block in range(sums.blocks):
                rows = stationary[:, :, block * P : min(block * P + P, part.rows)]
                for starts in sums.groups():
                    banks = [(at, sums.bank(block, at)) for at in starts]
                    _multiply(rows, moving, boxes, banks)
                    if not sums.is_kept_in_psum:
                        sums.add_chunk(block, starts)
                if number == len(chunks) - 1:
                    sums.store(block, frame)


def _multiply(
    stationary: Tensor,
    moving: Tensor,
    boxes: Sequence[WindowBox],
    sums: Sequence[tuple[int, Tensor]],
) -> None:
    """Add products to banks of sums; `sums` has (first column, tile) of each bank.

    Each stationary tile is loaded once for all banks.
    """
    for number, box in enumerate(boxes):
        for at, dst in sums:
            nisa.nc_matmul(
                dst=dst[:, 0],
                stationary=stationary[: box.count, number],
                moving=moving[: box.count, number, at : at + dst.shape[2]],
            )


class _Sums:
    """The sums of a part of the result, in PSUM and on their way to the result's place.

    Sums over several chunks of positions stay in PSUM if it holds all of them; else they are added
    up in SBUF.

    Attributes:
        blocks: blocks of rows.
        is_kept_in_psum: whether the sums stay in PSUM until all chunks are added.
    """

    def __init__(
        self,
        part: _Part,
        columns: int,
        place: TensorPlace,
        chunks: int,
        groups: GradientGroups | None,
    ) -> None:
        self._part, self._columns, self._place, self._groups = part, columns, place, groups
        self.blocks = ceil(part.rows / P)
        self._starts = range(0, columns, BANK)
        is_small = self.blocks * len(self._starts) <= _SUMS_BANKS
        self.is_kept_in_psum = chunks > 1 and is_small
        self._banks: dict[tuple[int, int], Tensor] = {}
        self._rows: dict[int, Tensor] = {}
        self._totals: dict[int, Tensor] = {}
        if groups is not None or (chunks > 1 and not is_small):
            sizes = enumerate(map(self._partitions, range(self.blocks)))
            self._totals = {block: new((rows, 1, columns)) for block, rows in sizes}
        self._begun: set[tuple[int, int]] = set()

    def groups(self) -> list[list[int]]:
        """The first columns of the banks that are computed together, group by group."""
        pieces = tiles.pieces(len(self._starts), _SUMS_BANKS - 2)
        return [list(self._starts[first : first + count]) for first, count in pieces]

    def bank(self, block: int, start: int) -> Tensor:
        """The sums of a block of rows, for a bank of columns from `start` on."""
        if (block, start) not in self._banks:
            shape = (self._partitions(block), 1, min(BANK, self._columns - start))
            self._banks[block, start] = new(shape, nl.float32, nl.psum)
        return self._banks[block, start]

    def add_chunk(self, block: int, starts: Sequence[int]) -> None:
        """Copy the sums of a chunk from PSUM to their target, or add them to earlier sums there."""
        for start in starts:
            tile = self._banks.pop((block, start))
            rows = self._totals.get(block)
            target = self._target_tile(block) if rows is None else rows
            target = target[:, :, start : start + tile.shape[2]]
            if rows is None or (block, start) not in self._begun:
                copied(tile, target.dtype, target)
            else:
                binary(target, nl.add, target, tile)
            self._begun.add((block, start))

    def store(self, block: int, frame: Frame) -> None:
        """Store the sums of a block of rows, after the last chunk."""
        self.add_chunk(block, [start for number, start in list(self._banks) if number == block])
        target = self._target_tile(block)
        if self._groups is not None:
            self._groups.write_own_sums(self._totals.pop(block), target)
        elif block in self._totals:
            copied(self._totals.pop(block), target.dtype, target)
        if not self._place.is_on_chip:
            number, start = self._number(block), self._first_column
            span = TileSpan(number, 1, self._partitions(block), start, target.shape[2])
            write_span(self._place, frame, span, self._rows.pop(block))

    @property
    def _first_column(self) -> int:
        """The result's column at which the part begins; 0 with groups, as each has all columns."""
        if self._groups is not None:
            return 0
        return self._part.channel * (self._columns // self._part.channels)

    def _number(self, block: int) -> int:
        """The number of a block of rows among those of the whole result."""
        rows_of_block = (
            P if self._groups is None else self._groups.groups_at_once * self._groups.kernels
        )
        return self._part.row // rows_of_block + block

    def _partitions(self, block: int) -> int:
        """The number of rows in a block."""
        return min(P, self._part.rows - block * P)

    def _target_tile(self, block: int) -> Tensor:
        """The tile of a block of rows: the result's on the chip, or one that is written to HBM."""
        rows, columns = self._partitions(block), self._columns
        if self._groups is not None:
            columns = self._groups.channels * self._groups.taps
        if self._place.is_on_chip:
            number, start = self._number(block), self._first_column
            return self._place.storage.tile[:rows, number : number + 1, start : start + columns]
        if block not in self._rows:
            self._rows[block] = new((rows, 1, columns), self._place.storage.dtype)
        return self._rows[block]
