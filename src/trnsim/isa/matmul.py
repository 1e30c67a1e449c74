"""The Tensor Engine: nc_matmul, nc_transpose. A systolic array reads SBUF and writes PSUM."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    TFLOAT32,
)
from trnsim.errors import UndefinedBehavior
from trnsim.isa.instruction import PSUM, SBUF, Cost, Dims, Instruction, reads, writes
from trnsim.isa.lanes import lane_cost
from trnsim.isa.modes import Engine, MatmulPerfMode
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.isa.machine import Machine

_INPUTS = (BFLOAT16, FLOAT16, FLOAT32, TFLOAT32, FLOAT8_E4M3, FLOAT8_E5M2, FLOAT8_E4M3FN)
_WIDE = (FLOAT32, TFLOAT32)
_BF16_PSUM_GENERATION = 4


class NcMatmul(Instruction, engines=(Engine.tensor,)):
    """``dst (+)= stationary.T @ moving``, accumulated in float32.

    The stationary tile [K, M] is loaded into the array, the moving tile [K, N] streams through it.
    With accumulate=None the first matmul on each element of dst overwrites and later ones add.
    """

    dst: Tile = writes("M N", PSUM)
    stationary: Tile = reads("K M", SBUF, dtypes=_INPUTS)
    moving: Tile = reads("K N", SBUF, dtypes=_INPUTS)
    is_stationary_onezero: bool = False
    is_moving_onezero: bool = False
    is_transpose: bool = False
    accumulate: bool | None = None
    tile_position: tuple[int, ...] = ()
    tile_size: tuple[int, ...] = ()
    perf_mode: MatmulPerfMode = MatmulPerfMode.none

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Array limits, one PSUM bank, matching dtypes."""
        self._check_dtypes(core)
        if self.perf_mode is not MatmulPerfMode.none or self.tile_size or self.tile_position:
            self.refuse(
                f"perf_mode {self.perf_mode.name}, tile_size {self.tile_size} are not emulated yet",
                "use the whole array without a performance mode",
            )
        moving_max = int(core.moving_free_max)
        if core.generation >= _BF16_PSUM_GENERATION and self.dst.dtype == BFLOAT16:
            moving_max *= 2  # as many elements as fill PSUM
        limits = {"K": core.pe_rows, "M": core.pe_columns, "N": moving_max}
        if any(n[axis] > limit for axis, limit in limits.items()):
            self.refuse(
                f"[K={n.K}, M={n.M}] x [K={n.K}, N={n.N}]; legal on {core.name}: K <= "
                f"{core.pe_rows}, M <= {core.pe_columns}, N <= {moving_max}",
                "tile the matmul; nl.tile_size has the limits",
            )

    def execute(self, machine: Machine) -> None:
        """Product in float32; each element of dst is overwritten or added to."""
        stationary, moving = self.stationary.load(), self.moving.load()
        product = stationary.reshape(stationary.shape[0], -1).T @ moving.reshape(
            moving.shape[0], -1
        )
        dst = self.dst
        started = dst.storage.accumulating
        itemsize = dst.dtype.itemsize
        if self.accumulate:
            self._check_started(machine.core)
            dst.store(dst.load().reshape(product.shape) + product)
        elif self.accumulate is None and not started.is_disjoint(dst.pattern, itemsize):
            old = dst.load().reshape(product.shape)
            if not started.covers(dst.pattern, itemsize):
                old = np.where(started.of(dst.pattern, itemsize).reshape(product.shape), old, 0)
            dst.store(old + product)
        else:
            dst.store(product)
        started.add(dst.pattern, itemsize)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(N, min(64, M)) Tensor Engine cycles a pass; float32 takes four passes."""
        passes = core.fp32_passes if self.moving.dtype == FLOAT32 else 1
        cycles = passes * max(n.N, min(core.minimum_interval_cycles, n.M))
        clock_hz = core.tensor_clock_hz
        # The last column leaves the array after crossing its rows.
        drain_cycles = core.access_latency_cycles + core.pe_rows
        return Cost(
            interval_s=cycles / clock_hz,
            latency_s=drain_cycles / clock_hz,
            flops=2.0 * n.K * n.M * n.N,
        )

    def _check_dtypes(self, core: NeuronCore) -> None:
        stationary, moving, dst = self.stationary.dtype, self.moving.dtype, self.dst.dtype
        if (stationary in _WIDE) != (moving in _WIDE):
            self.refuse(
                f"stationary {stationary} with moving {moving}; legal: both float32/tfloat32, or "
                "neither",
                "cast one of them with nisa.tensor_copy into a tile of the other's dtype",
                "nki.isa.nc_matmul, Data types",
            )
        if FLOAT8_E4M3 in (stationary, moving) and FLOAT8_E4M3FN in (stationary, moving):
            self.refuse(
                "float8_e4m3 with float8_e4m3fn; legal: one of the two",
                "quantize both operands to the same format",
            )
        is_bf16_allowed = core.generation >= _BF16_PSUM_GENERATION or self.is_transpose
        legal = (FLOAT32, BFLOAT16) if is_bf16_allowed else (FLOAT32,)
        if self.is_transpose:
            legal = (stationary, *legal)
        if dst not in legal:
            self.refuse(
                f"`dst` is {self.dst}; legal on {core.name}: {' or '.join(map(str, legal))}",
                "accumulate in a float32 PSUM tile and cast when copying to SBUF",
                "nki.isa.nc_matmul, Data types",
            )

    def _check_started(self, core: NeuronCore) -> None:
        """accumulate=True needs a started accumulation; on v4 any written value will do."""
        dst, itemsize = self.dst, self.dst.dtype.itemsize
        if dst.storage.accumulating.covers(dst.pattern, itemsize):
            return
        is_written = dst.storage.written.covers(dst.pattern, itemsize)
        if is_written and core.generation >= _BF16_PSUM_GENERATION:
            return
        what = "was set by another instruction than a matmul" if is_written else "nothing wrote"
        raise UndefinedBehavior(
            f"nc_matmul: accumulate=True onto {dst}, which {what}; legal on {core.name}: PSUM that "
            "a matmul with accumulate=False has started",
            fix="use accumulate=False for the first matmul, or leave accumulate out",
            source="nki.isa.nc_matmul, Accumulation mode",
        )


class NcTranspose(Instruction, engines=(Engine.tensor, Engine.vector)):
    """``dst = data.T`` between the partition axis and the flattened free axis.

    The Tensor Engine does up to [128, 128] from SBUF to PSUM, the Vector Engine up to [32, 32].
    """

    dst: Tile = writes("F P", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """The Tensor Engine from SBUF to PSUM, else the Vector Engine."""
        del core
        if self.engine is not Engine.unknown:
            return self.engine
        is_tensor = self.data.memory is SBUF and self.dst.memory is PSUM
        return Engine.tensor if is_tensor else Engine.vector

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Equal dtypes, and the size and memories of the engine."""
        if self.dst.dtype != self.data.dtype:
            self.refuse(
                f"`dst` is {self.dst} and `data` is {self.data}; legal: equal dtypes",
                "allocate dst with data.dtype",
                "nki.isa.nc_transpose, Data types",
            )
        engine = self.chosen_engine(core)
        limit = core.pe_rows if engine is Engine.tensor else core.vector_transpose_partitions
        if max(n.P, n.F) > limit:
            self.refuse(
                f"data is [{n.P}, {n.F}] on the {engine.label}; legal: at most [{limit}, {limit}]",
                "transpose tile by tile",
                "nki.isa.nc_transpose, Tile size",
            )
        if engine is Engine.tensor and (self.data.memory, self.dst.memory) != (SBUF, PSUM):
            self.refuse(
                f"{self.data} to {self.dst} on the Tensor Engine; legal: SBUF to PSUM",
                "allocate dst in nl.psum",
                "nki.isa.nc_transpose, Memory types",
            )

    def execute(self, machine: Machine) -> None:
        """Bit-accurate."""
        del machine
        data = self.data.bits()
        self.dst.put(data.reshape(data.shape[0], -1).T)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """Tensor Engine: max(P, min(64, F)); Vector Engine: max(MIN_II, F)."""
        engine = self.chosen_engine(core)
        if engine is Engine.vector:
            return lane_cost(core, engine, n.F)
        passes = core.fp32_passes if self.data.dtype.itemsize == FLOAT32.itemsize else 1
        cycles = passes * max(n.P, min(core.minimum_interval_cycles, n.F))
        return Cost(
            interval_s=cycles / core.tensor_clock_hz,
            latency_s=(core.access_latency_cycles + core.pe_rows) / core.tensor_clock_hz,
        )
