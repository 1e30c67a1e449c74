"""Layouts: properties derived from a tile's place in its storage, cached.

A kernel creates a tile for each operand, and most tiles lie where an earlier tile did.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from trnsim.memory.access import AccessPattern
from trnsim.memory.box import Box
from trnsim.memory.storage import Memory

_CACHED_LAYOUTS = 1 << 16
_BUCKET_ROWS = 128
_BUCKET_BYTES = 1 << 16
"""Minimum bytes of a bucket, which has more than `_BUCKET_ROWS` rows where rows are short.

Rows may be short: a row of a vector in HBM is one element.
"""
_CACHED_CUTS = 1 << 12
_ALIGNED_BYTES = 64
"""Strictest alignment within a partition that a rule can require, in bytes."""


class TileLayout(NamedTuple):
    """Properties derived from a tile's place.

    Attributes:
        pattern: the bytes of the storage that the tile covers.
        box: the tile's bounding rectangle.
        runs: the pattern's contiguous runs and the bytes of one (`AccessPattern.runs`).
        signature: an object that layouts share if every rule and cost is the same for them. It
            does not depend on the offset in HBM, and on chip only on its partition and alignment.
        nbytes: bytes of all elements of the tile.
        is_whole: whether the tile covers every byte of the storage.
        buckets: the box cut at the storage's buckets, each part with the bucket's number. A bucket
            is a group of rows of the storage: 128, or more where rows are short.
        cuts: cache of indexing: index -> layout of the indexed part.
    """

    pattern: AccessPattern
    box: Box
    runs: tuple[AccessPattern, int]
    signature: object
    nbytes: int
    is_whole: bool
    buckets: tuple[tuple[int, Box], ...]
    cuts: dict[object, TileLayout]

    def keep_cut(self, key: object, layout: TileLayout) -> None:
        """Cache `layout` as the result of indexing with `key`."""
        if len(self.cuts) >= _CACHED_CUTS:
            self.cuts.clear()
        self.cuts[key] = layout


@lru_cache(maxsize=_CACHED_LAYOUTS)
def layout_of(
    memory: Memory,
    nbytes: int,
    pitch_bytes: int,
    start_partition: int,
    name: str,
    dtype: np.dtype[Any],
    pattern: AccessPattern,
    *,
    is_moved: bool = False,
) -> TileLayout | None:
    """The layout of a tile; None if it leaves its storage or, on chip, its partition.

    Args:
        memory: where the storage lives.
        nbytes: size of the storage.
        pitch_bytes: bytes from one of its rows (partitions) to the next.
        start_partition: partition of its first row, on chip.
        name: name of the elements' format.
        dtype: numpy dtype of the stored elements.
        pattern: the bytes that the tile covers.
        is_moved: whether an index moves the tile, so that it may lie anywhere in the storage.
    """
    on_chip = memory.is_on_chip
    box: Box | None = Box(0, (nbytes - 1) // pitch_bytes, 0, pitch_bytes - 1)
    if not is_moved:
        box = _bounding_box(pattern, dtype.itemsize, nbytes, pitch_bytes, on_chip=on_chip)
    if box is None:
        return None
    alignment = _alignment(memory, pattern, pitch_bytes, box)
    shape, strides = pattern.shape, pattern.strides_bytes
    signature = _signature(memory, name, shape, strides, alignment, start_partition)
    own_bytes = pattern.elements * dtype.itemsize
    is_whole = own_bytes == nbytes and pattern.is_packed(dtype.itemsize)
    runs = pattern.runs(dtype.itemsize)
    buckets = _buckets(box, pitch_bytes)
    return TileLayout(pattern, box, runs, signature, own_bytes, is_whole, buckets, {})


def _buckets(box: Box, pitch_bytes: int) -> tuple[tuple[int, Box], ...]:
    """`box`, cut at the buckets of its storage: (number of the bucket, part of the box)."""
    rows = max(_BUCKET_ROWS, _BUCKET_BYTES // pitch_bytes)
    return tuple(
        (
            bucket,
            Box(
                max(box.first_row, bucket * rows),
                min(box.last_row, (bucket + 1) * rows - 1),
                box.first_byte,
                box.last_byte,
            ),
        )
        for bucket in range(box.first_row // rows, box.last_row // rows + 1)
    )


def _alignment(
    memory: Memory, pattern: AccessPattern, pitch_bytes: int, box: Box
) -> tuple[int, ...]:
    """The properties of a tile's offset that rules may depend on; empty in HBM.

    On chip they are the partition, the alignment, whether the step between rows is one partition,
    and in PSUM the highest bit in which the tile's first and last byte differ. That bit tells a
    rule whether the tile lies within a bank, for banks of any power of two.
    """
    if not memory.is_on_chip:
        return ()
    partition, byte = divmod(pattern.offset_bytes, pitch_bytes)
    step = pattern.strides_bytes[0] if pattern.shape[0] > 1 else pitch_bytes
    highest_differing_bit = (
        (box.first_byte ^ box.last_byte).bit_length() if memory is Memory.PSUM else 0
    )
    return partition, byte % _ALIGNED_BYTES, step == pitch_bytes, highest_differing_bit


@lru_cache(maxsize=_CACHED_LAYOUTS)
def _signature(*_properties: object) -> object:
    """A unique object for each combination of arguments (cached)."""
    return object()


def _bounding_box(
    pattern: AccessPattern, itemsize: int, nbytes: int, pitch: int, *, on_chip: bool
) -> Box | None:
    # An empty pattern counts as one element.
    shape, strides = [max(length, 1) for length in pattern.shape], pattern.strides_bytes
    row, first = divmod(pattern.offset_bytes, pitch)
    rows, span = 0, itemsize - 1
    for dim, stride in enumerate(strides):
        # On chip only the partition axis may cross rows.
        if stride % pitch or (on_chip and dim):
            span += (shape[dim] - 1) * stride
        else:
            rows += (shape[dim] - 1) * (stride // pitch)
    last = pattern.offset_bytes + rows * pitch + span
    leaves_row = on_chip and first + span >= pitch
    if min(strides) < 0 or row < 0 or last >= nbytes or leaves_row:
        return None
    if first + span < pitch:
        return Box(row, row + rows, first, first + span)
    return Box(row, row + rows + (first + span) // pitch, 0, pitch - 1)
