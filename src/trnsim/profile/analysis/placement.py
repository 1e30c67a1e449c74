"""Placement of an on-chip memory's tensors over addresses and time, for the map of a kernel's page.

The address of a tensor is left to the compiler, so the map shows one that a compiler might choose:
first fit, in order of first access. Tensors at addresses that the kernel fixed are not shown, as
`timing.occupancy` does not count them.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.memory import Memory
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, Seconds, tensor_lifetimes

MOST_TENSORS: Final = 8192
"""Maximum number of tensors of a map: the tensors with the greatest product of bytes and time."""
_NS_PER_S: Final = 1e9
_DECIMALS: Final = 2


def placement(timeline: Timeline, memory: Memory) -> dict[str, Any]:
    """Columns of the tensors of a memory, one list per property, in order of first access.

    Bytes and addresses are those within a partition; `first` is the instruction that writes it
    first.
    """
    tensor_lives = tensor_lifetimes(timeline, memory)
    uses = tensor_lives.uses
    row_bytes = np.array([use.row_bytes for use in uses], np.int64)
    order = np.lexsort((-row_bytes, tensor_lives.begin_s))
    begin_s, end_s = tensor_lives.begin_s[order], tensor_lives.end_s[order]
    address = first_fit(begin_s, end_s, row_bytes[order])
    shown_indices = np.arange(len(order))
    if len(order) > MOST_TENSORS:
        weight = row_bytes[order] * (end_s - begin_s)
        shown_indices = np.sort(np.argsort(-weight, kind="stable")[:MOST_TENSORS])
    tensors = [uses[index] for index in order[shown_indices].tolist()]
    return {
        "name": memory.value,
        "tensors": len(uses),
        "label": [use.name or "" for use in tensors],
        "begin": np.round(begin_s[shown_indices] * _NS_PER_S, _DECIMALS).tolist(),
        "end": np.round(end_s[shown_indices] * _NS_PER_S, _DECIMALS).tolist(),
        "address": address[shown_indices].tolist(),
        "bytes": [int(use.row_bytes) for use in tensors],
        "partitions": [int(use.nbytes // use.row_bytes) for use in tensors],
        "first": [max(int(use.first_write), 0) for use in tensors],
    }


def first_fit(begin_s: Seconds, end_s: Seconds, row_bytes: Integers) -> Integers:
    """The lowest address that is free for the whole life of each tensor, in order of begin."""
    address = np.zeros(len(begin_s), np.int64)
    live_blocks: list[tuple[int, int, float]] = []
    for index, (start_s, stop_s, nbytes) in enumerate(
        zip(begin_s.tolist(), end_s.tolist(), row_bytes.tolist(), strict=True)
    ):
        live_blocks = [tensor for tensor in live_blocks if tensor[2] > start_s]
        lowest = 0
        for low, high, _ in sorted(live_blocks):
            if low - lowest >= nbytes:
                break
            lowest = max(lowest, high)
        address[index] = lowest
        live_blocks.append((lowest, lowest + nbytes, stop_s))
    return address
