"""One physical core of a run: its timeline in columns, transfers, and times in nanoseconds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.busy import engines_of
from trnsim.profile.measures.throughput import Throughput, throughput
from trnsim.profile.measures.traffic import Totals
from trnsim.profile.measures.transfers import Transfers, transfers
from trnsim.program import Program
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Columns, Integers, Seconds, columns

_NS_PER_S: Final = 1e9
_RANK_SHIFT: Final = 40
"""Instruction indices stay below 2**40, so that the ids of several cores differ."""


@dataclass(frozen=True)
class Core:
    """One physical core of a run."""

    timeline: Timeline
    rank: int

    @property
    def program(self) -> Program:
        """The program of the core."""
        return self.timeline.program

    @cached_property
    def spans(self) -> Columns:
        """Start and end of each instruction."""
        return columns(self.timeline)

    @cached_property
    def engine_of(self) -> Integers:
        """Value of the engine of each instruction."""
        return engines_of(self.program)

    @cached_property
    def compute_indices(self) -> Integers:
        """Indices of the instructions of compute engines, in issue order."""
        return np.flatnonzero(self.engine_of != Engine.dma.value)

    @cached_property
    def totals(self) -> Totals:
        """The traffic of each distinct instruction."""
        return Totals(self.program)

    @cached_property
    def transfers(self) -> Transfers:
        """The DMA transfers of the core."""
        return transfers(self.timeline)

    @cached_property
    def hbm(self) -> Throughput:
        """Bytes a second into and out of HBM."""
        transfers, totals = self.transfers, self.totals
        hbm_bytes = totals.column("hbm_read_bytes") + totals.column("hbm_write_bytes")
        return throughput(
            transfers.start_s, transfers.end_s, hbm_bytes[self.spans.which[transfers.index]]
        )

    def ids(self, indices: Integers) -> list[int]:
        """Ids of instructions, unique among all cores."""
        return [int(index) + (self.rank << _RANK_SHIFT) for index in indices]

    def rank_column(self, rows: int) -> list[int]:
        """The column pcore_idx of a table of `rows`."""
        return [self.rank] * rows

    def names(self, indices: Integers) -> list[str]:
        """Name of the HBM tensor that each DMA instruction moves, or "unknown"."""
        uses, tensor_of = self.program.uses, self.program.tensor_of
        uses_moved = (uses.get(tensor_of[index]) for index in indices)
        return [use.name or "unknown" if use is not None else "unknown" for use in uses_moved]


def ns(times_s: Seconds) -> Integers:
    """Seconds as whole nanoseconds."""
    return np.asarray(np.round(times_s * _NS_PER_S).astype(np.int64))
