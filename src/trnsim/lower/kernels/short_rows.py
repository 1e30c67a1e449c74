"""Short rows: the time of transfers of rows, each on a partition of its own.

A row of few bytes is a transfer that takes as long as one of hundreds. The alternative is that each
partition has a stretch of HBM with several whole rows.
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
"""Share of an estimated time below which another is surely less."""


def are_shared_partitions_faster(shape: tuple[int, int], itemsize: int, computing_s: float) -> bool:
    """True if short rows [rows, elements] cross HBM sooner several to a partition.

    Else 128 rows are loaded and stored at a time, each transfer with its issue. `computing_s` is
    the time that instructions take longer if rows share partitions.
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
