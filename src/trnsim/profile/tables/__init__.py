"""Timelines -> the tables of Neuron Explorer's schema, as columns.

Tables have all of their columns; a column that the emulator cannot fill is null, and the Warning
table lists it. Timestamps are nanoseconds from the first instruction on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trnsim.profile.analysis.summary import Summary
from trnsim.profile.measures.core import Core
from trnsim.profile.measures.schema import Table
from trnsim.profile.measures.schema import tables as schema_tables
from trnsim.profile.tables import collectives, dma, events, memory, metadata
from trnsim.timing import Timeline

__all__ = ["explorer_tables"]

_BUILDERS = {
    "Instruction": events.instructions,
    "Flow": events.flows,
    "SemaphoreUpdate": events.semaphore_updates,
    "ActiveTime": events.active_times,
    "Throttle": events.throttles,
    "OpcodeSummary": events.opcodes,
    "CcOp": collectives.operations,
    "CcStream": collectives.streams,
    "DmaPacket": dma.packets,
    "DmaPacketAggregated": dma.aggregated_transfers,
    "DmaQueuesInfo": dma.queues,
    "DmaUsage": dma.dma_usage,
    "HbmUsage": dma.hbm_usage,
    "SbufUsage": memory.sbuf_usage,
    "PsumUsage": memory.psum_usage,
    "SbufAllocation": memory.sbuf_allocations,
    "TensorInfo": memory.tensors,
}


def explorer_tables(
    timelines: Sequence[Timeline], summary: Summary, title: str, warnings: Sequence[str] = ()
) -> dict[str, Table]:
    """The tables of one run.

    Args:
        timelines: the timelines of its cores.
        summary: the summary of the core that took longest.
        title: the name of the profile.
        warnings: hazards, in words.
    """
    cores = [Core(timeline, rank) for rank, timeline in enumerate(timelines)]
    tables = {name: _stack([build(core) for core in cores]) for name, build in _BUILDERS.items()}
    tables["Summary"] = {name: [value] for name, value in summary.metrics.items()}
    tables["Metadata"] = metadata.metadata(timelines, title)
    complete = {name: _complete(name, tables[name]) for name in schema_tables() if name in tables}
    complete["Warning"] = _complete("Warning", metadata.warnings(complete, summary, warnings))
    return complete


def _stack(parts: list[Table]) -> Table:
    """Tables of several cores joined; a table without rows may lack columns."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: [value for part in parts for value in part.get(name, ())] for name in names}


def _complete(name: str, table: Table) -> Table:
    """The table with every column of the schema, in its order; missing columns are null."""
    rows = max((len(column) for column in table.values()), default=0)
    nulls: list[Any] = [None] * rows
    return {column: table.get(column, nulls) for column in schema_tables()[name]}
