"""DmaPacket, DmaPacketAggregated, DmaQueuesInfo, DmaUsage, HbmUsage.

A packet is one DMA engine's share of a transfer (`profile.measures.transfers`); an aggregated row
is the transfer. A queue is named after the engine that triggers it and its descriptors' type.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst, the tables of that name.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trnsim.isa import Instruction
from trnsim.memory import Tile
from trnsim.profile.measures.core import Core, ns
from trnsim.profile.measures.schema import Table
from trnsim.profile.measures.throughput import Throughput, throughput
from trnsim.profile.measures.transfers import QUEUE_TYPES


def packets(core: Core) -> Table:
    """One row per transfer and DMA engine; the engines share the bytes evenly."""
    dma_transfers = core.transfers
    transfer = np.repeat(np.arange(len(dma_transfers.index)), dma_transfers.packets)
    first_packet = np.repeat(
        np.cumsum(dma_transfers.packets) - dma_transfers.packets, dma_transfers.packets
    )
    packet = np.arange(len(transfer)) - first_packet
    shares = {
        "read_bytes": _share(
            dma_transfers.read_bytes[transfer], dma_transfers.packets[transfer], packet
        ),
        "write_bytes": _share(
            dma_transfers.write_bytes[transfer], dma_transfers.packets[transfer], packet
        ),
        "transfer_bytes": _share(
            dma_transfers.bytes[transfer], dma_transfers.packets[transfer], packet
        ),
    }
    start, end = ns(dma_transfers.start_s[transfer]), ns(dma_transfers.end_s[transfer])
    names = np.array(core.names(dma_transfers.index), np.object_)
    return {
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "pcore_idx": core.rank_column(len(transfer)),
        "id": core.ids(np.arange(len(transfer))),
        "packet_idx": packet,
        "packet_aggregation_id": core.ids(dma_transfers.index[transfer]),
        "engine_idx": packet,
        **shares,
        "throughput": _rate(
            shares["transfer_bytes"], (dma_transfers.end_s - dma_transfers.start_s)[transfer]
        ),
        "queue_type": [QUEUE_TYPES[kind] for kind in dma_transfers.queue_type[transfer]],
        "variable": names[transfer].tolist(),
        "queue_name": [dma_transfers.queues[queue] for queue in dma_transfers.queue[transfer]],
        "queue_idx": dma_transfers.queue[transfer],
    }


def aggregated_transfers(core: Core) -> Table:
    """One row per transfer, with the shapes that it reads and writes."""
    dma_transfers = core.transfers
    start, end = ns(dma_transfers.start_s), ns(dma_transfers.end_s)
    # indices of distinct instructions, by transfer
    which = core.spans.which[dma_transfers.index].tolist()
    checked = core.program.checked
    sides = {row: _sides(checked[row].instruction) for row in set(which)}
    return {
        "start_ts": start,
        "end_ts": end,
        "duration_ns": end - start,
        "id": core.ids(dma_transfers.index),
        "pcore_idx": core.rank_column(len(which)),
        "block_id": list(range(len(which))),
        "queue_idx": dma_transfers.queue,
        "queue_name": [dma_transfers.queues[queue] for queue in dma_transfers.queue],
        "queue_type": [QUEUE_TYPES[kind] for kind in dma_transfers.queue_type],
        "op": [checked[row].opcode for row in which],
        "variable": core.names(dma_transfers.index),
        "read_bytes": dma_transfers.read_bytes,
        "write_bytes": dma_transfers.write_bytes,
        "transfer_bytes": dma_transfers.bytes,
        "throughput": _rate(dma_transfers.bytes, dma_transfers.end_s - dma_transfers.start_s),
        **{name: [sides[row][name] for row in which] for name in _SIDE_COLUMNS},
    }


_SIDE_COLUMNS = (
    "source",
    "dest",
    "read_num_sbuf_partitions",
    "read_shape",
    "read_steps",
    "write_num_sbuf_partitions",
    "write_shape",
    "write_steps",
    "is_transpose_mode",
)


def _sides(instruction: Instruction) -> dict[str, Any]:
    """Source and destination of a transfer, each by its first tile."""
    sources, targets = instruction.accesses()
    columns: dict[str, Any] = {
        "source": f"[{sources[0].memory.value}]" if sources else "",
        "dest": f"[{targets[0].memory.value}]" if targets else "",
        "is_transpose_mode": "transpose" in instruction.opcode,
    }
    for side, tiles in (("read", sources), ("write", targets)):
        columns |= {f"{side}_{name}": value for name, value in _shape(tiles[:1]).items()}
    return columns


def _shape(tiles: list[Tile]) -> dict[str, Any]:
    if not tiles:
        return {"num_sbuf_partitions": 0, "shape": "[]", "steps": "[]"}
    (tile,) = tiles
    return {
        "num_sbuf_partitions": tile.partitions if tile.memory.is_on_chip else 0,
        "shape": str(list(tile.shape)),
        "steps": str(list(tile.pattern.strides_bytes)),
    }


def queues(core: Core) -> Table:
    """One row per queue and DMA engine."""
    dma_transfers = core.transfers
    engines = range(int(core.program.core.dma_engines))
    kinds = {
        int(queue): QUEUE_TYPES[int(kind)]
        for queue, kind in zip(dma_transfers.queue, dma_transfers.queue_type, strict=True)
    }
    rows = [
        (name, kinds[queue], queue, engine)
        for queue, name in enumerate(dma_transfers.queues)
        for engine in engines
    ]
    return {
        "name": [row[0] for row in rows],
        "type": [row[1] for row in rows],
        "pcore_idx": core.rank_column(len(rows)),
        "idx": [row[2] for row in rows],
        "engine_idx": [row[3] for row in rows],
    }


def dma_usage(core: Core) -> Table:
    """Bytes per second of all transfers: one row per change."""
    dma_transfers = core.transfers
    return _usage(core, throughput(dma_transfers.start_s, dma_transfers.end_s, dma_transfers.bytes))


def hbm_usage(core: Core) -> Table:
    """Bytes per second into and out of HBM: one row per change."""
    return _usage(core, core.hbm)


def _usage(core: Core, rate: Throughput) -> Table:
    return {
        "timestamp": ns(rate.time_s),
        "current_throughput": rate.bytes_per_s,
        "total_transfer_bytes": np.round(rate.total_bytes).astype(np.int64),
        "pcore_idx": core.rank_column(len(rate.time_s)),
    }


def _share(nbytes: Any, packets: Any, packet: Any) -> Any:
    """Bytes of packet number `packet` of `packets`; the first packets take the remainder."""
    return nbytes // packets + (packet < nbytes % packets)


def _rate(nbytes: Any, duration_s: Any) -> Any:
    return np.divide(nbytes, duration_s, out=np.zeros(len(nbytes)), where=duration_s > 0)
