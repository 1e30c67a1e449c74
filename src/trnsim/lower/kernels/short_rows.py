"""Short rows: whether several of them should share a partition.

A transfer of a row of few bytes takes as long as one of hundreds of bytes. The alternative is that
each partition has a stretch of HBM with several whole rows.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from trnsim.lower.kernels.tiles import P
from trnsim.program import current_core

LONGEST_SHORT_ROW: Final = 64
"""Elements of the longest row that may share a partition: 256 bytes of float32, half of the 512
below which descriptors bound a transfer (nki-dma-overview.rst)."""
_CERTAIN_SHARE: Final = 0.85
"""A time that is less than this share of another is surely less, though both are estimates."""


def are_shared_partitions_faster(shape: tuple[int, int], itemsize: int, computing_s: float) -> bool:
    """True if short rows [rows, elements] are moved sooner with several of them on a partition.

    Otherwise 128 rows are loaded and stored at a time, and each transfer has its issue.
    `computing_s` is the additional time of instructions if rows share partitions.
    """
    rows, length = shape
    core = current_core().core
    if length > LONGEST_SHORT_ROW or rows <= P:
        return False
    moved_bytes = 2 * rows * length * itemsize
    issues_s = 2 * ceil(rows / P) * float(core.dma_issue_s) / core.dma_queues
    rows_s = max(issues_s, moved_bytes / float(core.dma_short_run_bytes_per_s))
    shared_s = computing_s + moved_bytes / float(core.dma_bytes_per_s)
    return shared_s < _CERTAIN_SHARE * rows_s
