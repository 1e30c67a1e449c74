"""Data movement by the DMA engines: dma_copy."""

from __future__ import annotations

from math import ceil
from typing import TYPE_CHECKING

from trnsim.dtypes import Array, round_to, to_float32
from trnsim.isa.instruction import HBM, SBUF, Cost, Dims, Instruction, reads, writes
from trnsim.isa.modes import DgeMode, Engine, OobMode
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.isa.machine import Machine


_DGE_GENERATION = 3
_QOS_GENERATION = 4
_PRIORITIES = range(4)


class DmaCopy(Instruction, engines=(Engine.dma,)):
    """``dst = src`` between HBM and SBUF, through float32 where the dtypes differ."""

    dst: Tile = writes("", SBUF, HBM)
    src: Tile = reads("", SBUF, HBM)
    priority: int | None = None
    oob_mode: OobMode = OobMode.error
    dge_mode: DgeMode = DgeMode.unknown
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """Always the DMA engines; the field `engine` names who makes the descriptors."""
        del core
        return Engine.dma

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Equal element counts; hardware DGE from v3 on, without casts; QoS from v4 on."""
        del n
        source = "nki.isa.dma_copy"
        if self.dst.pattern.elements != self.src.pattern.elements:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal numbers of elements",
                "slice one of them to the size of the other",
                f"{source}, Tile size",
            )
        if self.dge_mode is DgeMode.hwdge:
            if core.generation < _DGE_GENERATION:
                self.refuse(
                    f"dge_mode hwdge on {core.name}; legal from NeuronCore-v3 on",
                    "leave dge_mode out",
                )
            if self.dst.dtype != self.src.dtype:
                self.refuse(
                    f"dge_mode hwdge from {self.src.dtype} to {self.dst.dtype}; legal: equal "
                    "dtypes",
                    "cast on chip with nisa.tensor_copy, or leave dge_mode out",
                )
        if self.priority is not None and core.generation < _QOS_GENERATION:
            self.refuse(
                f"priority on {core.name}; legal from NeuronCore-v4 on", "leave priority out"
            )
        if self.priority not in (None, *_PRIORITIES):
            self.refuse(f"priority {self.priority}; legal: 0 to 3", "0 is the highest priority")
        is_software = self.engine is Engine.gpsimd and self.dge_mode is not DgeMode.hwdge
        if self.engine not in (Engine.unknown, Engine.sync, Engine.scalar) and not is_software:
            self.refuse(
                f"engine {self.engine.name}; legal: nisa.engine.sync, nisa.engine.scalar",
                "leave engine out",
            )

    def execute(self, machine: Machine) -> None:
        """Bits as they are where the dtypes agree."""
        del machine
        rows = None
        if self.oob_mode is OobMode.skip:
            rows = _both(self.src.legal_rows(), self.dst.legal_rows())
        bits = self.src.bits(rows)
        if self.src.dtype != self.dst.dtype:
            bits = round_to(to_float32(bits), self.dst.dtype)
        self.dst.put(bits, rows)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """Bytes at the sustained rate of the engines used, or descriptors at theirs.

        interval = max(bytes / bandwidth, descriptors * t / engines); a transfer of fewer
        descriptors than engines is slower by their ratio, which is latency, as other transfers use
        the idle engines meanwhile.
        """
        del n
        nbytes = max(self.src.nbytes, self.dst.nbytes)
        descriptors = max(_descriptors(self.src), _descriptors(self.dst))
        interval_s = max(
            nbytes / core.dma_bytes_per_s, descriptors * core.dma_descriptor_s / core.dma_engines
        )
        engines_used = min(descriptors, core.dma_engines)
        alone_s = max(
            nbytes / (core.dma_bytes_per_s * engines_used / core.dma_engines),
            ceil(descriptors / core.dma_engines) * core.dma_descriptor_s,
        )
        hbm_bytes = sum(t.nbytes for t in (self.src, self.dst) if t.memory is HBM)
        return Cost(
            interval_s=interval_s,
            latency_s=core.dma_start_s + core.dma_end_s + max(alone_s - interval_s, 0.0),
            hbm_bytes=hbm_bytes,
        )


def _both(first: Array | None, second: Array | None) -> Array | None:
    """Rows that both masks allow; None allows all."""
    if first is None or second is None:
        return second if first is None else first
    return first & second


def _descriptors(tile: Tile) -> int:
    """Contiguous runs of bytes: one DMA descriptor element each."""
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
