"""Convolutions as products: channels along the partitions, images and positions along columns.

A tap is a position within a window. Each tap is one product, whose moving operand is a shifted view
of the padded image in SBUF. The products add up in PSUM, from where the result goes through the
operations that follow. If channels are few, several taps lie together along the partitions: copies
of the image, each shifted by its tap, fill the array. Kernels of groups lie on the diagonal of one
matrix.
"""

from __future__ import annotations

from math import ceil
from typing import Any, Final

from trnsim.graph import Node
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.types import ITEM_BYTES
from trnsim.lower.emit.emission import Emission
from trnsim.lower.emit.images.gaps import Gaps
from trnsim.lower.emit.images.image import Band, Image, WindowBox, WindowGrid, window_boxes
from trnsim.lower.emit.images.kernel_gradient import emit_kernel_gradient, is_kernel_gradient
from trnsim.lower.emit.images.kernels import Kernels, kernels_of, taps_together
from trnsim.lower.emit.images.panels import KernelPanels
from trnsim.lower.emit.places.tensor_place import PendingResult, TensorPlace
from trnsim.lower.emit.places.walk import Frame, TileSpan
from trnsim.lower.emit.window_sums import IMAGE_RANKS, image_pair
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new
from trnsim.lower.rules import emitter
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_BAND_BYTES: Final = 32 * 1024
"""Bytes of a partition for a band of the padded image; the next band loads meanwhile."""
_MOST_BAND_BYTES: Final = 96 * 1024
"""Most bytes of a partition for the bands of several images whose windows share a bank."""
_PANELS_BYTES: Final = 32 * 1024
"""Bytes of a partition for kernels that stay in SBUF while bands pass."""
_FP32_PASSES: Final = 4
"""Passes over the array for a product in float32 (trainium_inferentia2_arch.rst)."""
_DTYPES: Final = ("float32", "bfloat16", "float16")
"""Dtypes of images and kernels."""


def is_emitted(node: Node, weights: frozenset[int]) -> bool:
    """True if `convolution` can emit a node: 1-D or 2-D, and without groups or with weights.

    Kernels of groups are laid out ahead of time: they must be weights, each group within one block.
    Gradients of kernels need no weights.
    """
    operation = node.operation
    if not isinstance(operation, Convolution):
        return False
    image, kernel = node.values
    sizes = (*node.result.shape, *image.shape, *kernel.shape)
    if len(image.shape) not in IMAGE_RANKS or not all(sizes) or image.dtype != kernel.dtype:
        return False
    largest = max(kernel.shape[1], kernel.shape[0] // operation.groups)
    is_grouped = operation.groups > 1
    return image.dtype in _DTYPES and (
        not is_grouped
        or (kernel.number in weights and largest <= P)
        or (kernel.number not in weights and is_kernel_gradient(node))
    )


@emitter(Convolution)
def convolution(emission: Emission, node: Node) -> None:
    """Emit a convolution as pending, for its reader; a kernel's gradient is computed now."""
    _, kernel = node.values
    if kernel.number not in emission.inputs.weights and is_kernel_gradient(node):
        emit_kernel_gradient(emission, node)
        return
    convolved = PendingConvolution(emission, node)
    convolved.image.materialize()
    emission.places[node.result.number] = [convolved.place()]


def window_grid(node: Node) -> WindowGrid:
    """The window grid of a convolution; a sequence is an image of one row."""
    operation: Any = node.operation
    image, kernel = (value.shape for value in node.values)

    return WindowGrid(
        images=image[0],
        channels=image[1],
        image_size=image_pair(image[2:], 1),
        window_counts=image_pair(node.result.shape[2:], 1),
        kernel=image_pair(kernel[2:], 1),
        strides=image_pair(operation.strides, 1),
        low_padding=image_pair(operation.low, 0),
        gaps=image_pair(operation.gaps, 0),
        dilations=image_pair(operation.dilations, 1),
    )


class PendingConvolution(PendingResult):
    """A convolution that waits for its reader, which computes it tile by tile."""

    def __init__(self, emission: Emission, node: Node) -> None:
        operation: Any = node.operation
        self.emission, self.node, self.grid = emission, node, window_grid(node)
        image, self.kernel = node.values
        is_reversed = operation.is_reversed
        kernels = kernels_of(self.kernel.shape, operation.groups, is_reversed=is_reversed)
        is_single_block = kernels.channels >= image.shape[1]
        has_gaps = any(self.grid.gaps) and self.grid.strides == (1, 1)
        self.gaps = Gaps(self.grid) if has_gaps else None
        image_grid = self.grid if self.gaps is None else self.gaps.dense
        self.image = Image(emission, image, image_grid, P if is_single_block else kernels.channels)
        shape = node.result.shape
        self.block = kernels.outputs if operation.groups > 1 and shape[1] > kernels.outputs else P
        self.frame = Frame(shape, (1,), (0, *range(2, len(shape))), self.block)
        is_packed = is_single_block and self.gaps is None and self._weight() is not None
        self.kernels = self._pack_kernels(kernels) if is_packed else kernels
        self._bands: list[Band] = []
        self._panels: dict[int, Tensor] = {}
        self._kernel_panels = KernelPanels(emission, self.kernel)

    def place(self) -> TensorPlace:
        """The place of the result: pending in this object."""
        return TensorPlace(self, self.frame.shape, self.frame.steps(), (0, 0))

    def _pack_kernels(self, kernels: Kernels) -> Kernels:
        """The kernels with the number of taps in one product that takes the least time."""
        grid = self.grid
        item = ITEM_BYTES[self.kernel.dtype]
        rows = grid.reach(0, grid.window_counts[0])
        image_bytes = grid.images * grid.channels * rows * grid.width * item
        passes = _FP32_PASSES if self.kernel.dtype == "float32" else 1
        columns = self.frame.columns * self.frame.blocks * passes
        taps = taps_together(kernels.taps.kernel, kernels.channels, columns, image_bytes)
        return kernels.pack(taps)

    # The moving operand

    def span_columns(self) -> int:
        """The columns of the result that are computed at once: whole rows or images in a bank."""
        rows, columns = self.grid.window_counts
        if columns > BANK:
            return BANK
        if rows * columns > BANK:
            pieces = ceil(rows / (BANK // columns))
            return ceil(rows / pieces) * columns
        images = min(BANK // (rows * columns), _MOST_BAND_BYTES // self._image_bytes())
        return max(images, 1) * rows * columns

    def chunk_columns(self) -> int:
        """The columns of the result whose windows are in SBUF at once."""
        if self._has_single_taps() and self.image.resident_band() is not None:
            return int(self.frame.columns)
        grid, row_bytes = self.grid, self.image.row_bytes
        rows, columns = grid.window_counts
        images = _BAND_BYTES // self._image_bytes()
        if images:
            images_at_once = max(self.span_columns() // (rows * columns), 1)
            return max(images // images_at_once, 1) * images_at_once * rows * columns
        max_rows = _BAND_BYTES // row_bytes * self._row_step()
        fitting = max((max_rows - grid.reach(0, 1)) // grid.strides[0] + 1, 1)
        rows_at_once = max(self.span_columns() // columns, 1)
        return max(fitting // rows_at_once, 1) * rows_at_once * columns

    def _row_step(self) -> int:
        """Rows of the padded images for each row of a band, which leaves gaps out."""
        return self.grid.gaps[0] + 1 if self.gaps is not None else 1

    def _image_bytes(self) -> int:
        """Bytes of a partition for the band under all windows of an image."""
        rows = ceil(self.grid.reach(0, self.grid.window_counts[0]) / self._row_step())
        return rows * self.image.row_bytes

    def _has_single_taps(self) -> bool:
        """True if each tap is a product of its own."""
        return self.kernels.taps.box == (1, 1)

    def load_columns(self, start: int, columns: int) -> None:
        """Load the bands under the windows of a range of columns."""
        band = self.image.resident_band() if self._has_single_taps() else None
        if band is not None:
            self._bands = [band]
            return
        taps, gaps = self.kernels.taps, self.gaps
        boxes = window_boxes(self.grid.window_counts, start, columns)
        seen_boxes = boxes if gaps is None else map(gaps.elements_under, boxes)
        self._bands = [self.image.band(part, taps) for part in seen_boxes]

    def tile(self, span: TileSpan) -> Tensor:
        """A new tile in PSUM: the convolution's results for a span of columns of one block."""
        sums = new((span.partitions, 1, span.columns), nl.float32, nl.psum)
        at = 0
        for part in window_boxes(self.grid.window_counts, span.start, span.columns):
            dst = sums[:, 0, at : at + part.count]
            if self.gaps is not None:
                self._add_phases(span, part, dst, self.gaps)
            else:
                boxes = enumerate(self.kernels.taps.boxes)
                self._add(span, dst, [(number, first, part) for number, first in boxes])
            at += part.count
        return sums

    def _add_phases(self, span: TileSpan, part: WindowBox, dst: Tensor, gaps: Gaps) -> None:
        """Add the sums of a box of windows, phase by phase."""
        windows = dst.reshape((dst.shape[0], part.images, part.rows, part.columns))
        for phase in gaps.phases(part):
            target = windows[:, :, phase.rows, phase.columns]
            if phase.taps:
                self._add(span, target, [(number, (0, 0), box) for number, box in phase.taps])
            else:
                nisa.memset(dst=target, value=0.0)

    def _add(
        self, span: TileSpan, dst: Tensor, taps: list[tuple[int, tuple[int, int], WindowBox]]
    ) -> None:
        """Add the products of boxes of taps; `taps` has (number, first tap, windows) of each."""
        for number, first, part in taps:
            for block in range(self.kernels.channel_blocks):
                moving = self._moving_tile(span, part, first, block)
                stationary = self._stationary_tile(span, number, block, moving.shape[0])
                nisa.nc_matmul(dst=dst, stationary=stationary, moving=moving)

    def _moving_tile(
        self, span: TileSpan, part: WindowBox, first: tuple[int, int], block: int
    ) -> Tensor:
        """The elements of a block of channels under tap `first` of the windows of `part`.

        If several taps lie together, those under each tap of the box that begins at `first`.
        """
        kernels, channels = self.kernels, self.grid.channels
        number = span.block if kernels.groups_per_block else block
        rows = min(kernels.channels, channels - number * kernels.channels)
        if not self._has_single_taps():
            rows = kernels.taps.taps_in_box(first) * kernels.channels
        band = next(band for band in self._bands if band.holds(part))
        return band.view(self.image.grid, number, rows, first, part)

    # The stationary operand

    def _weight(self) -> int | None:
        """The number of the weight that the kernels are; else None."""
        for place in self.emission.materialize(self.kernel):
            number = self.emission.inputs.weight_of(place)
            if number is not None:
                return number
        return None

    def _stationary_tile(self, span: TileSpan, number: int, block: int, rows: int) -> Tensor:
        """The kernels of a span, for box of taps `number` and a block of channels.

        The tile [rows, kernels] has a row for each channel of each tap.
        """
        kernels, first = self.kernels, span.block * self.block
        if self._weight() is None:
            last = len(kernels.taps.boxes) - 1
            tap = last - number if kernels.is_reversed else number
            return self._kernel_panels.columns(tap, first, span.partitions)[:rows, block]
        panel = self._panel(span.block, first, span.partitions)
        return panel[:rows, number * kernels.channel_blocks + block]

    def _panel(self, block: int, first: int, count: int) -> Tensor:
        """The kernels of a block of the result, `count` from `first` on, in SBUF."""
        if block not in self._panels:
            weight = self._weight()
            source = self.emission.inputs.prepare(weight, self.kernels, first, count)
            size = self.kernels.blocks * self.frame.rows * source.dtype.itemsize
            is_kept = size <= _PANELS_BYTES and self.chunk_columns() < self.frame.columns
            shape = tuple(source.shape)
            if is_kept:
                tile = new(shape, source.dtype)
            else:
                self._panels.clear()
                tile = self.emission.inputs.ring_tile(shape, source.dtype)
            nisa.dma_copy(dst=tile, src=source)
            self._panels[block] = tile
        return self._panels[block]
