"""Layout of microscaling groups and their scales in SBUF.

A scaling group is 8 partitions x 4 elements and shares one 8-bit scale. Data of P partitions has
P / 8 rows of scales, in the quadrant of their data: the four groups of quadrant q have their
scales in rows 32q to 32q + 3 of the scale tile. Its other rows are free for the scales of other
tensors.

Source: trainium3_arch.rst, Quad-MXFP8/MXFP4 Matmul Performance; mxfp-matmul.rst, Scale Tensor and
Packing Scale Values.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trnsim.dtypes import MX_BLOCK, Array
from trnsim.isa.tensor.array_indirection import index_of
from trnsim.memory import Tile

QUADRANT: Final = 32
"""Partitions of a quadrant."""
PACKED_ELEMENTS: Final = 4
"""Numbers in an element of a packed dtype."""
GROUP_PARTITIONS: Final = 8
QUADRANT_GROUPS: Final = QUADRANT // GROUP_PARTITIONS


def scale_rows(partitions: int) -> int:
    """Number of rows of a scale tile up to its last scale: 4 in each quadrant of 32."""
    return (partitions // QUADRANT - 1) * QUADRANT + QUADRANT_GROUPS


def scale_tiles(scale: Tile, partitions: int) -> list[Tile]:
    """The rows of `scale` for data of `partitions` partitions: a tile of 4 rows per quadrant."""
    return [
        _rows(scale, first, first + QUADRANT_GROUPS) for first in range(0, partitions, QUADRANT)
    ]


def _rows(tile: Tile, first: int, end: int) -> Tile:
    """Rows `first` to `end` of `tile`, and of an `.indirect()` view with its quadrant's index."""
    index = index_of(tile)
    if index is not None:
        source = index.source
        rows = source.pattern.slice(0, first, min(first + QUADRANT, source.partitions))
        index = replace(index, source=Tile(source.storage, source.dtype, rows))
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(0, first, end), index)


def to_scale_groups(flat: Array) -> Array:
    """`flat` [P, 4 F] as [P / 8, F, 32]; the values along the last axis share a scale."""
    split = flat.reshape(len(flat) // GROUP_PARTITIONS, GROUP_PARTITIONS, -1, PACKED_ELEMENTS)
    return split.transpose(0, 2, 1, 3).reshape(len(split), -1, MX_BLOCK)


def from_scale_groups(groups: Array) -> Array:
    """`groups` [P / 8, F, 32] as [P, 4 F]: the inverse of `to_scale_groups`."""
    split = groups.reshape(*groups.shape[:2], GROUP_PARTITIONS, PACKED_ELEMENTS)
    return split.transpose(0, 2, 1, 3).reshape(len(groups) * GROUP_PARTITIONS, -1)
