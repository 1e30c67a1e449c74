"""Barriers and exchanges between the NeuronCores of a logical core: core_barrier, sendrecv."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore, makes_pairs
from trnsim.behaviours.instructions import SENDRECV_OF_ANY_PARTITIONS
from trnsim.dtypes import Array
from trnsim.enumerations import Enumeration
from trnsim.formatting import counted
from trnsim.isa.language.declaration import names, reads, writes
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import CoreLink, Machine
from trnsim.isa.language.meeting import Meeting, meeting_of
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.support import check_support
from trnsim.memory import Tile

_PAIR = 2
_GROUP_PARTITIONS = 16
_GPSIMD_DMA_ELEMENTS = 256


class DmaEngine(Enumeration, public="nisa.dma_engine"):
    """The mechanism that moves data between cores. Source: nki.isa.dma_engine."""

    dma = 1
    gpsimd_dma = 2


class CoreInstruction(Instruction, engines=()):
    """Common base of core_barrier and sendrecv: checks of the chip and of the launch."""

    def _core_numbers(self, core: NeuronCore) -> tuple[int, ...]:
        """The numbers of the NeuronCores of a logical core, from 0 on.

        Raises:
            IllegalInstruction: if the chip has no logical cores.
        """
        check_support(self, core, makes_pairs, "launch on one core, or run with target='{target}'")
        return tuple(range(int(core.logical_core_max)))

    def _link(self, machine: Machine, *cores: int) -> CoreLink:
        """The link to the other cores; refuses numbers of `cores` that the launch does not have."""
        link = machine.core_link(self.opcode)
        if not all(core < link.cores for core in cores):
            self.refuse(
                f"core {max(cores)} in a kernel launched on {counted(link.cores, 'core')}; "
                f"legal: 0 to {link.cores - 1}",
                "name cores of the launch",
            )
        return link


class CoreBarrier(
    CoreInstruction,
    engines=(Engine.gpsimd, Engine.vector, Engine.scalar, Engine.tensor, Engine.sync),
):
    """The cores of a group wait for each other; then each sees the others' writes to `data`.

    It orders only accesses to `data`, and instructions that wait for these: see trnsim.hazards.

    Note:
        AWS publishes no cost; it is assumed.
    """

    data: Tile = names("", HBM)
    cores: tuple[int, ...]
    engine: Engine = Engine.unknown

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on, with two cores.

        - `cores` is (0, 1): two or more cores of the logical core, in ascending order.
        - `data` is in shared HBM.
        """
        del n
        numbers, cores = self._core_numbers(core), tuple(self.cores)
        is_group = cores == tuple(number for number in numbers if number in cores)
        if not is_group or len(cores) < _PAIR:
            legal = "" if len(numbers) == _PAIR else "two or more, in ascending order, of "
            self.refuse(f"cores={self.cores}; legal: {legal}{numbers}", "name the cores that wait")

    def meeting(self, core: int) -> Meeting:
        """The meeting of all of `cores`, at a barrier of these cores alone."""
        cores = tuple(self.cores)
        return meeting_of(cores, core, f"core_barrier(cores={cores})")

    def execute(self, machine: Machine) -> None:
        """No values change; the cores wait for each other."""
        link = self._link(machine, *self.cores)
        if link.core not in self.cores:
            self.refuse(
                f"cores={self.cores} on core {link.core}; legal: groups with this core",
                "issue the barrier on the cores that it names alone",
            )
        if not self.data.storage.is_shared:
            self.refuse(
                f"`data` is {self.data} in private HBM; legal: shared HBM",
                "allocate it with buffer=nl.shared_hbm; the other core does not see this one",
            )
        link.meet(self.meeting(link.core), data=self.data)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The time of a semaphore to the other cores and one back, once all have arrived."""
        del n
        return Cost(interval_s=core.core_barrier_s, latency_s=0.0)


class Sendrecv(CoreInstruction, engines=(Engine.dma, Engine.gpsimd)):
    """``dst = src of core recv_from_rank``, while this core's src goes to core send_to_rank.

    Exchanges with one `pipe_id` proceed together; their cores form a ring in which each core sends
    to the next.
    """

    src: Tile = reads("P F", SBUF)
    dst: Tile = writes("P F", SBUF)
    send_to_rank: int
    recv_from_rank: int
    pipe_id: int
    dma_engine: DmaEngine = DmaEngine.dma

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """GpSimd for its own DMA (gpsimd_dma), else the shared DMA engines."""
        del core
        return Engine.gpsimd if self.dma_engine is DmaEngine.gpsimd_dma else Engine.dma

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on, with two cores.

        - send_to_rank and recv_from_rank are 0 or 1, the cores of the logical core.
        - src and dst have one dtype, and one shape on both cores.
        - With gpsimd_dma at most 256 elements per partition: 1024 bytes of 32-bit elements, 512 of
          16-bit, 256 of 8-bit.
        """
        numbers = self._core_numbers(core)
        # nki-library 2.29 sends 20 rows through AWS's simulator of NKI 0.3.
        if n.P % _GROUP_PARTITIONS and not core.is_simulated:
            SENDRECV_OF_ANY_PARTITIONS.require(core.nki, f"{self.opcode}: src is {self.src}")
        for name in ("send_to_rank", "recv_from_rank"):
            if (number := getattr(self, name)) not in numbers:
                legal = " or ".join(map(str, numbers))
                self.refuse(f"{name}={number}; legal: {legal}", "name one of the cores")
        if self.src.dtype != self.dst.dtype:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal dtypes",
                "allocate dst with src.dtype",
            )
        limit = _GPSIMD_DMA_ELEMENTS * self.src.dtype.itemsize
        row_bytes = n.F * self.src.dtype.itemsize
        if self.dma_engine is DmaEngine.gpsimd_dma and row_bytes > limit:
            self.refuse(
                f"{row_bytes} bytes per partition by gpsimd_dma; legal for {self.src.dtype}: at "
                f"most {limit}",
                "send in parts, or use dma_engine=nisa.dma_engine.dma",
            )

    def meeting(self, core: int) -> Meeting:
        """The meeting with the cores that it receives from and sends to, on its pipe."""
        del core
        label = f"sendrecv(pipe_id={self.pipe_id})"
        return Meeting(label, int(self.recv_from_rank), int(self.send_to_rank))

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The elements of dst whose counterparts in src are written: the cores run one program."""
        del tile
        return [(self.dst, flags)] if flags.any() else None

    def execute(self, machine: Machine) -> None:
        """The values are copied bit for bit."""
        link = self._link(machine, int(self.send_to_rank), int(self.recv_from_rank))
        has_values = self.src.storage.data is not None
        dtype = self.src.dtype.dtype
        own_bits = self.src.bits().copy() if has_values else np.empty(self.src.shape, dtype)
        peer_bits = link.meet(self.meeting(link.core), own_bits)
        if (peer_bits.shape, peer_bits.dtype) != (self.dst.shape, dtype):
            self.refuse(
                f"dst is {self.dst} and the other core sends {list(peer_bits.shape)} "
                f"{peer_bits.dtype}; legal: equal shapes and dtypes",
                "send and receive tiles of one shape and dtype on both cores",
            )
        if has_values:
            self.dst.put(peer_bits)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """A DMA between the two SBUFs, after the cores have met."""
        nbytes = n.P * n.F * self.src.dtype.itemsize
        return Cost(
            issue_s=core.dma_issue_s,
            interval_s=nbytes / core.dma_bytes_per_s,
            latency_s=core.dma_start_s + core.dma_stagger_s + core.dma_end_s + core.core_barrier_s,
        )
