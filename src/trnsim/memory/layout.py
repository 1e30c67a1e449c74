"""Layouts: what a tile's place in its storage implies, found once for all tiles that lie alike.

A kernel makes a tile for each instruction, and most of them lie as an earlier one did.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from trnsim.memory.box import Box

if TYPE_CHECKING:
    import numpy as np

    from trnsim.memory.access import AccessPattern
    from trnsim.memory.storage import Memory

_KEPT = 1 << 16
_BUCKET_ROWS = 128
_CUTS_KEPT = 1 << 12


class Layout(NamedTuple):
    """What a place implies.

    Attributes:
        pattern: which bytes of its storage it covers.
        box: the smallest rectangle of the storage that holds the tile.
        runs: the tile's bytes in as few elements as possible, and the size of one in bytes.
        signature: the same object where every rule and every cost is the same, equal to nothing
            else; in HBM no rule asks for the offset.
        nbytes: bytes of all elements of the tile.
        is_whole: whether these are all bytes of the storage.
        buckets: the box cut where another 128 rows begin, each with the number of its 128 rows.
        cuts: the layouts to which tiles that lie so have been cut, by index.
    """

    pattern: AccessPattern
    box: Box
    runs: tuple[AccessPattern, int]
    signature: object
    nbytes: int
    is_whole: bool
    buckets: tuple[tuple[int, Box], ...]
    cuts: dict[object, Layout]

    def keep_cut(self, key: object, layout: Layout) -> None:
        """Remember that index `key` cuts a tile to `layout`."""
        if len(self.cuts) >= _CUTS_KEPT:
            self.cuts.clear()
        self.cuts[key] = layout


@lru_cache(maxsize=_KEPT)
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
) -> Layout | None:
    """The layout of a tile; None where it leaves its storage or, on chip, its partition.

    Args:
        memory: where the storage lives.
        nbytes: size of the storage.
        pitch_bytes: bytes from one of its rows (partitions) to the next.
        start_partition: partition of its first row, on chip.
        name: name of the format of the elements.
        dtype: the numpy dtype of their bytes.
        pattern: which bytes they are.
        is_moved: whether an index moves them within the storage, so that they may lie anywhere.
    """
    on_chip = memory.is_on_chip
    box: Box | None = Box(0, (nbytes - 1) // pitch_bytes, 0, pitch_bytes - 1)
    if not is_moved:
        box = _box_of(pattern, dtype.itemsize, nbytes, pitch_bytes, on_chip=on_chip)
    if box is None:
        return None
    start = divmod(pattern.offset_bytes, pitch_bytes) if on_chip else None
    shape, strides = pattern.shape, pattern.strides_bytes
    signature = _signature(memory, name, shape, strides, start, start_partition)
    own = pattern.elements * dtype.itemsize
    is_whole = own == nbytes and pattern.is_packed(dtype.itemsize)
    runs = pattern.runs(dtype.itemsize)
    return Layout(pattern, box, runs, signature, own, is_whole, _buckets(box), {})


def _buckets(box: Box) -> tuple[tuple[int, Box], ...]:
    first, last = box.first_row // _BUCKET_ROWS, box.last_row // _BUCKET_ROWS
    return tuple(
        (
            bucket,
            Box(
                max(box.first_row, bucket * _BUCKET_ROWS),
                min(box.last_row, (bucket + 1) * _BUCKET_ROWS - 1),
                box.first_byte,
                box.last_byte,
            ),
        )
        for bucket in range(first, last + 1)
    )


@lru_cache(maxsize=_KEPT)
def _signature(*_what: object) -> object:
    """An object of its own for each combination of arguments."""
    return object()


def _box_of(
    pattern: AccessPattern, itemsize: int, nbytes: int, pitch: int, *, on_chip: bool
) -> Box | None:
    # An empty pattern lies where one element of it would.
    shape, strides = [max(length, 1) for length in pattern.shape], pattern.strides_bytes
    row, first = divmod(pattern.offset_bytes, pitch)
    rows, span = 0, itemsize - 1
    for dim, stride in enumerate(strides):
        # On chip only the partition axis goes from row to row.
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
