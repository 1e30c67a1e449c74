"""Between the two NeuronCores of a logical core (LNC=2): core_barrier, sendrecv."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from trnsim.isa.language.declaration import names, reads, writes
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.dtypes import Array
    from trnsim.isa.language.machine import Machine

_RANKS = (0, 1)
_GPSIMD_DMA_BYTES_PER_ITEMSIZE = 256


class DmaEngine(Enum):
    """Which mechanism moves data between cores. Source: nki.isa.dma_engine."""

    dma = 1
    gpsimd_dma = 2


class CoreInstruction(Instruction, engines=()):
    """What the two have in common: generation and launch."""

    runs_without_values = True
    meets_cores = True

    def _check_pair(self, core: NeuronCore) -> None:
        if core.logical_core_max < len(_RANKS):
            self.refuse(
                f"on {core.name}; legal from NeuronCore-v3 on",
                "launch on one core, or run with target='trn2'",
            )


class CoreBarrier(
    CoreInstruction,
    engines=(Engine.gpsimd, Engine.vector, Engine.scalar, Engine.tensor, Engine.sync),
):
    """Both cores wait here for each other; what either did to `data` before is then visible.

    It orders accesses to `data` alone, and what waits for these: see trnsim.hazards.

    Note:
        AWS publishes no cost; it is assumed.
    """

    data: Tile = names("", HBM)
    cores: tuple[int, ...]
    engine: Engine = Engine.unknown

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on, with two cores.

        - `cores` is (0, 1).
        - `data` is in shared HBM.
        """
        del n
        self._check_pair(core)
        if tuple(self.cores) != _RANKS:
            self.refuse(f"cores={self.cores}; legal: (0, 1)", "name both cores")

    def execute(self, machine: Machine) -> None:
        """No values; the cores meet."""
        link = machine.partner(self.opcode)
        if not self.data.storage.is_shared:
            self.refuse(
                f"`data` is {self.data} in private HBM; legal: shared HBM",
                "allocate it with buffer=nl.shared_hbm; the other core does not see this one",
            )
        link.barrier(self.data)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """A semaphore to the other core and one back, once both have come."""
        del n
        return Cost(interval_s=float(core.core_barrier_s), latency_s=0.0)


class Sendrecv(CoreInstruction, engines=(Engine.dma, Engine.gpsimd)):
    """``dst on the other core = src`` and ``dst = src of the other core``, at once."""

    src: Tile = reads("P F", SBUF)
    dst: Tile = writes("P F", SBUF)
    send_to_rank: int
    recv_from_rank: int
    pipe_id: int
    dma_engine: DmaEngine = DmaEngine.dma

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """GpSimd triggers its own DMA; the shared DMA engines do the rest."""
        del core
        return Engine.gpsimd if self.dma_engine is DmaEngine.gpsimd_dma else Engine.dma

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on, with two cores.

        - Ranks are 0 or 1.
        - src and dst have one dtype, and one shape on both cores.
        - By gpsimd_dma at most 256 elements a partition: 1024 bytes of 32 bits, 512 of 16, 256 of
          8.
        """
        self._check_pair(core)
        for name in ("send_to_rank", "recv_from_rank"):
            if getattr(self, name) not in _RANKS:
                self.refuse(f"{name}={getattr(self, name)}; legal: 0 or 1", "name one of the cores")
        if self.src.dtype != self.dst.dtype:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal dtypes",
                "allocate dst with src.dtype",
            )
        limit = _GPSIMD_DMA_BYTES_PER_ITEMSIZE * self.src.dtype.itemsize
        row_bytes = n.F * self.src.dtype.itemsize
        if self.dma_engine is DmaEngine.gpsimd_dma and row_bytes > limit:
            self.refuse(
                f"{row_bytes} bytes a partition by gpsimd_dma; legal for {self.src.dtype}: at most "
                f"{limit}",
                "send in parts, or use dma_engine=nisa.dma_engine.dma",
            )

    def leaves_written(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """Of dst what is written of src, as the cores run one program."""
        del tile
        return [(self.dst, flags)] if flags.any() else None

    def execute(self, machine: Machine) -> None:
        """Bits as they are."""
        link = machine.partner(self.opcode)
        has_values = self.src.storage.data is not None
        sent = self.src.bits().copy() if has_values else np.empty(self.src.shape, np.void)
        received = link.exchange(
            self.pipe_id, int(self.send_to_rank), int(self.recv_from_rank), sent
        )
        if received.shape != self.dst.shape:
            self.refuse(
                f"dst is {self.dst} and the other core sends {list(received.shape)}; legal: equal "
                "shapes",
                "send and receive tiles of one shape on both cores",
            )
        if has_values:
            self.dst.put(received)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """As a DMA between the two SBUFs, after the cores have met."""
        nbytes = n.P * n.F * self.src.dtype.itemsize
        return Cost(
            interval_s=nbytes / core.dma_bytes_per_s,
            latency_s=core.dma_start_s + core.dma_end_s + core.core_barrier_s,
        )
