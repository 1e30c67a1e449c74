"""SbufUsage, PsumUsage, SbufAllocation, TensorInfo.

Lifetimes come from `timing.occupancy.tensor_lifetimes`. A tensor without an address in the kernel
has none in its row; the row gives size, origin and lifetime.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst, the tables of that name.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from trnsim.isa import Engine
from trnsim.memory import Memory, capacity_bytes
from trnsim.profile.measures.core import Core, ns
from trnsim.profile.measures.schema import Table
from trnsim.program import StorageUse
from trnsim.timing.occupancy import TensorLifetimes, tensor_lifetimes

_SAMPLED_PARTITIONS: Final = (0, 32, 64, 96)
"""The partitions that the tables show. Source: SbufAllocation.partition."""
_PERCENT: Final = 100.0


def sbuf_usage(core: Core) -> Table:
    """The share of SBUF in use, on average and in four partitions: one row per change."""
    tensor_lives = tensor_lifetimes(core.timeline, Memory.SBUF)
    weights = {
        f"partition_{partition}_util_percent": [
            use.row_bytes if _rows(use) > partition else 0 for use in tensor_lives.uses
        ]
        for partition in _SAMPLED_PARTITIONS
    }
    return _usage(core, tensor_lives, capacity_bytes(core.program.core, Memory.SBUF), weights)


def psum_usage(core: Core) -> Table:
    """The share of PSUM in use: one row per change."""
    tensor_lives = tensor_lifetimes(core.timeline, Memory.PSUM)
    return _usage(core, tensor_lives, capacity_bytes(core.program.core, Memory.PSUM), {})


def _usage(
    core: Core, tensor_lives: TensorLifetimes, capacity: int, weights: dict[str, list[int]]
) -> Table:
    """The share of `capacity` (bytes per partition) that live tensors take, on average.

    Each entry of `weights`, bytes by tensor, gives a further column with a share of its own.
    """
    times_s = np.concatenate([tensor_lives.begin_s, tensor_lives.end_s])
    time_s, time_index = np.unique(times_s, return_inverse=True)
    core_bytes = int(core.program.core.partitions) * capacity
    table: Table = {"timestamp": ns(time_s), "pcore_idx": core.rank_column(len(time_s))}
    columns = {"avg_util_percent": ([use.nbytes for use in tensor_lives.uses], core_bytes)}
    columns |= {name: (weight, capacity) for name, weight in weights.items()}
    for name, (weight, available) in columns.items():
        nbytes = np.array(weight, np.int64)
        change = np.zeros(len(time_s), np.int64)
        np.add.at(change, time_index, np.concatenate([nbytes, -nbytes]))
        table[name] = _PERCENT * np.cumsum(change) / available
    return table


def sbuf_allocations(core: Core) -> Table:
    """One row per tensor and sampled partition: its lifetime, and its first write."""
    tensor_lives = tensor_lifetimes(core.timeline, Memory.SBUF)
    begin, end = ns(tensor_lives.begin_s), ns(tensor_lives.end_s)
    rows = [
        {
            "partition": partition,
            "start_ts": int(begin[index]),
            "end_ts": int(end[index]),
            **_allocation(core, use),
        }
        for index, use in enumerate(tensor_lives.uses)
        for partition in _SAMPLED_PARTITIONS
        if _rows(use) > partition
    ]
    table: Table = {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}
    return {**table, "pcore_idx": core.rank_column(len(rows))}


def _allocation(core: Core, use: StorageUse) -> dict[str, Any]:
    checked = core.program.instruction(use.first_write)
    columns: dict[str, Any] = {
        "op_source_type": "instruction",
        "opcode": checked.opcode,
        "operands": checked.describe(),
        "queue_name": None,
        "block_id": None,
        "tensor_name": use.name or None,
    }
    if checked.engine is not Engine.dma:
        return columns
    block = int(np.searchsorted(core.transfers.index, use.first_write))
    queue = core.transfers.queues[int(core.transfers.queue[block])]
    dma = {"op_source_type": "dma", "opcode": None, "operands": None}
    return {**columns, **dma, "queue_name": queue, "block_id": block}


def tensors(core: Core) -> Table:
    """One row per tensor in HBM, with the number of times that it was read (2 means a reload)."""
    uses = [use for use in core.program.uses.values() if use.memory is Memory.HBM]
    return {
        "variable_name": [use.name or None for use in uses],
        "type": [_role(use) for use in uses],
        "size": [use.nbytes for use in uses],
        "pcore_idx": core.rank_column(len(uses)),
        "load_to_sbuf_avg_size_bytes": [use.read_bytes // max(use.reads, 1) for use in uses],
        "load_to_sbuf_total_size_bytes": [use.read_bytes for use in uses],
        "load_to_sbuf_dma_count": [use.reads for use in uses],
        "load_to_sbuf_repeat_factor": [use.read_bytes / use.nbytes for use in uses],
    }


def _role(use: StorageUse) -> str | None:
    """IN for a tensor never written, OUT for one never read again, None for scratch and spills."""
    if use.is_spill:
        return None
    if use.first_write < 0:
        return "IN"
    return None if use.reads else "OUT"


def _rows(use: StorageUse) -> int:
    return use.nbytes // use.row_bytes
