"""The stationary operand of a convolution: its kernels as a matrix of blocks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import ceil
from typing import Any, Final

import numpy as np

from trnsim.graph.types import Shape
from trnsim.lower.emit.places.walk import Frame
from trnsim.lower.kernels.tiles import P

_SEQUENCE_RANK: Final = 3
"""Rank of the kernels of a convolution over sequences."""
Array = np.ndarray[Any, Any]
_DMA_BYTES_PER_COLUMN: Final = 97
"""Bytes that transfers move while one column passes the array: 272 GB/s at 2.8 GHz.

Source: nki-dma-overview.rst; trainium_inferentia2_arch.rst, of NeuronCore-v2.
"""


@dataclass(frozen=True, slots=True)
class TapBoxes:
    """A window cut into boxes of taps; the taps of a box lie together along the partitions.

    Attributes:
        kernel: rows and columns of the window, in taps.
        box: rows and columns of a box; either one row, or columns that divide the window's.
    """

    kernel: tuple[int, int]
    box: tuple[int, int] = (1, 1)

    @property
    def boxes(self) -> list[tuple[int, int]]:
        """The first row and column of each box."""
        (rows, columns), (high, wide) = self.kernel, self.box
        return [(y, x) for y in range(0, rows, high) for x in range(0, columns, wide)]

    @property
    def copies(self) -> list[tuple[int, int]]:
        """(rows, columns) by which each copy of the image is shifted: one for each tap of a box."""
        return [(y, x) for y in range(self.box[0]) for x in range(self.box[1])]

    def taps_in_box(self, first: tuple[int, int]) -> int:
        """The count of taps of the box that begins at `first`."""
        axes = zip(self.kernel, self.box, first, strict=True)
        rows, columns = (min(size, extent - start) for extent, size, start in axes)
        return rows * columns


def taps_together(
    kernel: tuple[int, int], channels: int, columns: int, moved_bytes: float
) -> TapBoxes:
    """The boxes of taps with which products and copies take the least time; both overlap.

    If times are nearly equal, the boxes with fewer copies are chosen.

    Args:
        kernel: rows and columns of the window.
        channels: rows of one tap.
        columns: columns that pass for one box.
        moved_bytes: bytes of one copy of the image.
    """
    best, best_cost = TapBoxes(kernel), float("inf")
    for box in product(range(1, kernel[0] + 1), range(1, kernel[1] + 1)):
        high, wide = box
        if high * wide * channels > P or (high > 1 and kernel[1] % wide):
            continue
        taps = TapBoxes(kernel, box)
        copied = (high * wide - 1) * moved_bytes / _DMA_BYTES_PER_COLUMN
        cost = max(len(taps.boxes) * columns, copied) + copied / P
        if cost < best_cost:
            best, best_cost = taps, cost
    return best


@dataclass(frozen=True, slots=True)
class Kernels(Frame):
    """Kernels [O, C / groups, *window] as a matrix: a block for each box and block of channels.

    The kernels of groups that share a block lie on its diagonal, with zeros elsewhere. Of `Frame`'s
    fields, `shape` and `block` hold; `p_dims` and `f_dims` are empty, as `matrix_of` computes the
    matrix and does not permute dimensions.

    Attributes:
        taps: the boxes of taps that lie together.
        groups_per_block: groups of channels that share a block of the image; 0 without groups.
        channels: most rows of one tap in a block.
        outputs: columns that share a block of the result.
        is_reversed: whether the last tap meets a window's first element.
    """

    taps: TapBoxes = TapBoxes((1, 1))
    groups_per_block: int = 0
    channels: int = P
    outputs: int = P
    is_reversed: bool = False

    def pack(self, taps: TapBoxes) -> Kernels:
        """These kernels with several taps together."""
        return replace(self, taps=taps, block=len(taps.copies) * self.channels)

    @property
    def channel_blocks(self) -> int:
        """The number of blocks of channels over which a result sums."""
        return 1 if self.groups_per_block else ceil(self.shape[1] / self.channels)

    @property
    def blocks(self) -> int:
        """Blocks of the matrix."""
        return len(self.taps.boxes) * self.channel_blocks

    @property
    def rows(self) -> int:
        """Elements along the partitions."""
        return self.blocks * self.block

    @property
    def columns(self) -> int:
        """A column for each kernel."""
        return self.shape[0]

    def matrix_of(self, array: Array) -> Array:
        """The matrix [rows, O] of an array of kernels.

        Its rows are, for each box and each block of channels, the channels of each tap.
        """
        kernels = array.reshape(*self.shape[:2], *self.taps.kernel)
        if self.is_reversed:
            kernels = kernels[:, :, ::-1, ::-1]
        matrix = np.zeros(
            (len(self.taps.boxes), self.channel_blocks, self.block, self.columns), array.dtype
        )
        for number, first in enumerate(self.taps.boxes):
            for copy, shift in enumerate(self.taps.copies):
                row, column = (a + b for a, b in zip(first, shift, strict=True))
                if row >= self.taps.kernel[0] or column >= self.taps.kernel[1]:
                    continue
                tap = self._tap_matrix(kernels[:, :, row, column])
                for part in range(self.channel_blocks):
                    rows = tap[part * self.channels : (part + 1) * self.channels]
                    start = copy * self.channels
                    matrix[number, part, start : start + len(rows)] = rows
        return matrix.reshape(self.rows, self.columns)

    def _tap_matrix(self, tap: Array) -> Array:
        """The matrix [channels, O] of one tap's kernels [O, C / groups]; diagonal with groups."""
        if not self.groups_per_block:
            return tap.T
        group_channels = self.channels // self.groups_per_block
        outputs = self.outputs // self.groups_per_block
        matrix = np.zeros((self.channels, self.columns), tap.dtype)
        for group in range(self.columns // outputs):
            first_row = group % self.groups_per_block * group_channels
            columns = slice(group * outputs, (group + 1) * outputs)
            matrix[first_row : first_row + group_channels, columns] = tap[columns].T
        return matrix


def kernels_of(shape: Shape, groups: int, *, is_reversed: bool = False) -> Kernels:
    """The matrix of kernels of a shape: a tap in each block, with as many groups as fit."""
    outputs, inputs = shape[0] // groups, shape[1]
    taps = TapBoxes((shape[2] if len(shape) > _SEQUENCE_RANK else 1, shape[-1]))
    if groups == 1:
        channels = min(P, inputs)
        return Kernels(
            shape, (), (), channels, taps=taps, channels=channels, is_reversed=is_reversed
        )
    in_block = min(P // max(inputs, outputs), groups)
    channels, outputs = in_block * inputs, in_block * outputs
    return Kernels(shape, (), (), channels, False, taps, in_block, channels, outputs, is_reversed)
