"""The cost of a DMA transfer: issue by a queue, interval on the engines, latency to the reader.

A transfer is handed to one queue, which hands packets of it to the 16 DMA engines. A packet is
contiguous, in HBM or within a partition. Queues issue side by side, and all transfers share the
engines.
"""

from __future__ import annotations

from math import ceil

from trnsim.arch import NeuronCore
from trnsim.isa.language.instruction import SBUF, Cost
from trnsim.isa.language.lanes import maximum
from trnsim.isa.language.modes import DgeMode
from trnsim.memory import Tile


def transfer_cost(
    core: NeuronCore,
    *tiles: Tile,
    nbytes: float,
    runs: int,
    hbm_bytes: int,
    efficiency: float = 1.0,
    mode: DgeMode = DgeMode.unknown,
) -> Cost:
    """The cost of a transfer: interval = max(bytes / (bandwidth * efficiency), runs * t / engines).

    A contiguous run of bytes occupies its engine for at least the time t (`_run_s`). A long run is
    divided into packets for several engines.

    An engine always serves the same 8 partitions, so `tiles` on few partitions use few engines, and
    so do few packets. The transfer then takes longer, by all engines over the engines used; the
    extra time is latency, not interval, as other transfers use the idle engines.

    Args:
        core: the core.
        *tiles: the tiles on both sides.
        nbytes: bytes to move, padding included.
        runs: number of contiguous runs of bytes on the side that has more.
        hbm_bytes: bytes that cross the HBM interface.
        efficiency: the part, 0 to 1, of the copy bandwidth that this kind of transfer reaches.
        mode: the generator of the descriptors, which decides the issue time.

    Source: nki-dma-overview.rst, Performance Considerations and Examples 1 and 2; nki-dge.rst;
        compute-comm-overlap.rst, Adjusting Static DMA Priority.
    """
    engines, bytes_per_s = core.dma_engines, core.dma_bytes_per_s * efficiency
    packets = runs * ceil(nbytes / runs / core.dma_packet_bytes)
    run_s = _run_s(core, nbytes / runs)
    used_engines = engines_used(core, tiles, packets)
    used_bytes_per_s = bytes_per_s * used_engines / engines
    interval_s = maximum(nbytes / bytes_per_s, runs * run_s / engines)
    unshared_s = maximum(nbytes / used_bytes_per_s, ceil(runs / used_engines) * run_s)
    return Cost(
        issue_s=issue_s(core, mode),
        interval_s=interval_s,
        latency_s=round_trip_s(core, used_engines) + maximum(unshared_s - interval_s, 0.0),
        hbm_bytes=hbm_bytes,
    )


def issue_s(core: NeuronCore, mode: DgeMode) -> float:
    """A transfer's time in its queue: to trigger descriptors that wait in HBM, or to generate them.

    Before v3 the host makes all descriptors, except those of dynamic addresses.

    Source: trainium2_arch.rst, Descriptor Generation Engine.
    """
    is_static = mode is DgeMode.none or not core.features.hardware_dge
    return core.dma_static_issue_s if is_static else core.dma_issue_s


def engines_used(core: NeuronCore, tiles: tuple[Tile, ...], packets: int) -> int:
    """Number of engines: one for each 8 partitions of the longest tile in SBUF, or each packet.

    The smaller of the two numbers; all engines' 128 partitions count if no tile is in SBUF.
    """
    partitions = max((t.partitions for t in tiles if t.memory is SBUF), default=core.partitions)
    return min(packets, ceil(partitions * core.dma_engines / core.partitions))


def round_trip_s(core: NeuronCore, used_engines: int) -> float:
    """The time from the trigger to the first byte, and from the last byte to the reader.

    The engines start one after the other.
    """
    stagger_s = core.dma_stagger_s * (used_engines - 1) / (core.dma_engines - 1)
    return core.dma_start_s + stagger_s + core.dma_end_s


def count_runs(tile: Tile) -> int:
    """Number of contiguous runs of bytes; on chip, each partition has its own."""
    shape, strides = tile.pattern.shape, tile.pattern.strides_bytes
    first = 1 if tile.memory.is_on_chip else 0
    run_bytes = tile.dtype.itemsize
    runs = tile.pattern.elements
    for length, stride in zip(reversed(shape[first:]), reversed(strides[first:]), strict=True):
        if length != 1 and stride != run_bytes:
            break
        run_bytes *= length
        runs //= length
    return runs


def _run_s(core: NeuronCore, run_bytes: float) -> float:
    """The least time, in seconds, of a contiguous run of `run_bytes` on its engine.

    On v2 an engine moves runs of up to 1 KiB at two fifths of its bandwidth, and runs of a whole
    packet (4 KiB) at full bandwidth. Published are times for runs of 256 B and 1 KiB (three
    tutorial matmuls) and of 4 KiB and more. Between 1 and 4 KiB the rate is assumed to grow with
    the length: a run of 2 KiB takes 1.3 times as long as one of 1 KiB, where 1 to 2 times would
    agree with what is published.

    Source: matrix_multiplication.rst of SDK 2.26, latencies; nki_perf_guide.rst, Opt #9;
        nki-dma-bandwidth-guide.rst, Bandwidth vs. Payload Size.
    """
    short_bytes, packet_bytes = core.dma_short_run_bytes, core.dma_packet_bytes
    moved_bytes: float = min(run_bytes, short_bytes)
    rate: float = core.dma_short_run_bytes_per_s
    if 1 < short_bytes < run_bytes < packet_bytes:
        fraction = (run_bytes - short_bytes) / (packet_bytes - short_bytes)
        moved_bytes, rate = run_bytes, rate + fraction * (core.dma_bytes_per_s - rate)
    return maximum(core.dma_descriptor_s, moved_bytes * core.dma_engines / rate)
