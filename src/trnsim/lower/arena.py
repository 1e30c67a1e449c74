"""Addresses of tensors in one arena, whose space tensors of other lifetimes use again.

The largest tensor is placed first. Each takes the smallest hole between the placed tensors that
live at the same time, or the space behind them. The arena may not be the smallest one, which would
be the solution of a packing problem; no arena is smaller than `least_bytes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from trnsim.facts import Evidence, count

ALIGNMENT_BYTES: Final = count(
    512,
    "no document gives one for HBM; what PyTorch's allocators of other devices round to",
    Evidence.ASSUMED,
)
"""The unit of offsets and sizes: both are multiples of it, sizes rounded up."""

_Numbers = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class Block:
    """A tensor that needs a place in the arena.

    Attributes:
        nbytes: bytes of the tensor.
        first: the index of the kernel that writes it.
        last: the index of the kernel that reads it last.
    """

    nbytes: int
    first: int
    last: int


@dataclass(frozen=True, slots=True)
class Arena:
    """A layout of blocks in memory.

    Attributes:
        offsets_bytes: the offset of each block, in the order of the blocks.
        least_bytes: the maximum of the bytes that live at once; no arena is smaller.
    """

    offsets_bytes: tuple[int, ...]
    nbytes: int
    least_bytes: int


def arena(blocks: Sequence[Block], alignment_bytes: int = ALIGNMENT_BYTES) -> Arena:
    """Offsets for `blocks` such that no two that live at the same time overlap."""
    first, last, sizes = (
        np.array([getattr(block, name) for block in blocks], np.int64)
        for name in ("first", "last", "nbytes")
    )
    sizes = -(-sizes // alignment_bytes) * alignment_bytes
    order = np.lexsort((first, -sizes))
    offsets = np.zeros(len(blocks), np.int64)
    for number, block in enumerate(order):
        earlier = order[:number]
        neighbours = earlier[(first[earlier] <= last[block]) & (last[earlier] >= first[block])]
        offsets[block] = _smallest_hole(offsets[neighbours], sizes[neighbours], int(sizes[block]))
    return Arena(
        tuple(offsets.tolist()),
        int((offsets + sizes).max(initial=0)),
        _most_at_once(first, last, sizes),
    )


def _smallest_hole(starts: _Numbers, sizes: _Numbers, wanted_bytes: int) -> int:
    """The start of the smallest hole of `wanted_bytes`; behind all blocks if there is none."""
    in_order = np.argsort(starts, kind="stable")
    ends = np.maximum.accumulate((starts + sizes)[in_order])
    hole_starts = np.concatenate(([0], ends))
    hole_sizes = starts[in_order] - hole_starts[:-1]
    holes = np.flatnonzero(hole_sizes >= wanted_bytes)
    return int(hole_starts[holes[hole_sizes[holes].argmin()]] if holes.size else hole_starts[-1])


def _most_at_once(first: _Numbers, last: _Numbers, sizes: _Numbers) -> int:
    """The most bytes that live during one kernel."""
    change = np.zeros(int(last.max(initial=0)) + 2, np.int64)
    np.add.at(change, first, sizes)
    np.subtract.at(change, last + 1, sizes)
    return int(change.cumsum().max())
