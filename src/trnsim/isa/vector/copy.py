"""Copies within a NeuronCore: tensor_copy, memset."""

from __future__ import annotations

import math

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import MEMSET_CASTS, MEMSET_PACKED
from trnsim.dtypes import round_to
from trnsim.errors import Unspecified
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.definedness import Movement, copy_src_to_dst, identity, is_plain_copy
from trnsim.isa.language.fields import are_tiles
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import copy_speedup, have_one_shape, is_16bit_float, lane_cost
from trnsim.isa.language.machine import BatchPlan, Machine, Plan
from trnsim.isa.language.modes import Engine
from trnsim.memory import SnakeIndex, Tile


class TensorCopy(Instruction, engines=(Engine.vector, Engine.scalar, Engine.gpsimd)):
    """``dst = src``, bit for bit where the dtypes are equal, else through float32."""

    indirect = ("dst", "src")

    dst: Tile = writes("P F", SBUF, PSUM)
    src: Tile = reads("P F", SBUF, PSUM)
    engine: Engine = Engine.unknown

    def check(self, core: NeuronCore, n: Dims) -> None:
        """GpSimd neither accesses PSUM nor copies `.indirect()` views.

        - The Scalar Engine of v2 has no tensor_copy; it copies by `activation`.
        """
        del n
        engine = self.chosen_engine(core)
        if engine is Engine.gpsimd and PSUM in (self.dst.memory, self.src.memory):
            self.refuse(
                "engine=nisa.engine.gpsimd with a tile in PSUM; legal: both tiles in SBUF",
                "use nisa.engine.vector or nisa.engine.scalar",
            )
        views = [t for t in (self.dst, self.src) if isinstance(t.index, SnakeIndex)]
        if engine is Engine.gpsimd and views:
            self.refuse(
                f"engine=nisa.engine.gpsimd with {views[0]}, an indirect view; legal: vector, "
                "scalar",
                "use nisa.engine.vector",
                "nki.isa.tensor_copy, Tensor indirection",
            )
        if engine is Engine.scalar and not core.features.scalar_tensor_copy:
            self.refuse(
                f"engine=nisa.engine.scalar on {core.name}; legal: vector, gpsimd",
                "use nisa.activation(op=nl.copy)",
            )

    def execute(self, machine: Machine) -> None:
        """Bit for bit where dtypes agree, on the Scalar Engine too from v3 on.

        Source: trainium2_arch.rst, Scalar Engine.
        """
        del machine
        if self.src.dtype == self.dst.dtype:
            self.dst.put(self.src.bits())
        else:
            self.dst.store(self.src.load())

    def plan(self) -> Plan | None:
        """A copy between tiles of the same dtype and shape."""
        return copy_src_to_dst if is_plain_copy(self.dst, self.src) else None

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """As for a single instruction, between tiles of one shape."""
        del core
        if not have_one_shape(self.dst, self.src):
            return None
        return BatchPlan(self.plan() or type(self).execute)

    def movement(self) -> Movement:
        """Element by element, in order."""
        return Movement(self.src, self.dst, identity)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F / speedup), where the speedup is that of the engine's performance mode."""
        engine = self.chosen_engine(core)
        return lane_cost(core, engine, n.F / copy_speedup(core, engine, self.dst, self.src))


class Memset(Instruction, engines=(Engine.vector, Engine.gpsimd)):
    """``dst = value`` in every element, rounded once to the dtype of `dst`.

    Note:
        NKI 0.3 refuses a float for an integer tile. A float zero is legal here: AWS's own library
        passes it for scales (nki-library 2.29, gate_up_projection_mx.py).
    """

    dst: Tile = writes("P F", SBUF, PSUM)
    value: float
    engine: Engine = Engine.unknown

    def check(self, core: NeuronCore, n: Dims) -> None:
        """The value matches the dtype.

        - `value` is a number; for an integer dtype an int that it holds; 0 for a packed one.
        - GpSimd cannot access PSUM.
        """
        del n
        if are_tiles(self.value):
            self.refuse(f"value is {self.value}; legal: a number", "use nisa.tensor_copy")
        dtype = self.dst.dtype
        if dtype.is_packed and self.value != 0:
            MEMSET_PACKED.require(core.nki, f"{self.opcode}: value {self.value} for {self.dst}")
            raise Unspecified(
                f"{self.opcode}: value {self.value} for {self.dst}; AWS does not say which bits "
                "NKI 0.2 writes into a packed element; legal in every version: 0",
                fix="view the tile as uint32 or uint16 and set its bits",
                source=MEMSET_PACKED.source,
            )
        is_whole = isinstance(self.value, int) or not self.value
        if not (dtype.is_packed or dtype.is_float or is_whole):
            MEMSET_CASTS.require(core.nki, f"{self.opcode}: value {self.value} for {self.dst}")
        self._check_range(self.value)
        if self.chosen_engine(core) is Engine.gpsimd and self.dst.memory is PSUM:
            self.refuse(
                "engine=nisa.engine.gpsimd with dst in PSUM; legal: dst in SBUF",
                "use nisa.engine.vector",
            )

    def _check_range(self, value: float) -> None:
        """Refuse a whole number that the integer dtype of dst cannot hold."""
        dtype = self.dst.dtype
        if dtype.dtype.kind not in "iu" or dtype.is_packed or not math.isfinite(value):
            return
        limits = np.iinfo(dtype.dtype)
        low, high, whole = int(limits.min), int(limits.max), int(value)
        if not low <= value <= high:
            raise Unspecified(
                f"{self.opcode}: value {value} for {self.dst}; legal: {low} to {high}, as AWS "
                "does not say which bits another number sets",
                fix=f"write the bits that you mean as a number of {dtype}: {whole} modulo "
                f"2**{limits.bits} is {(whole - low) % 2**limits.bits + low}",
                source=self.source,
            )

    def execute(self, machine: Machine) -> None:
        """One value in every element."""
        del machine
        value = round_to(np.asarray([self.value], np.float64), self.dst.dtype)
        self.dst.fill(value)

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """As for a single instruction."""
        del core
        return BatchPlan(type(self).execute) if have_one_shape(self.dst) else None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F/2) for zero in a 16-bit float dtype, else max(MIN_II, F)."""
        is_halved = self.value == 0 and is_16bit_float(self.dst)
        return lane_cost(core, self.chosen_engine(core), n.F / (2 if is_halved else 1))
