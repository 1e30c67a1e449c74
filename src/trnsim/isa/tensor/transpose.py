"""Transposes between partitions and the free axis: nc_transpose, and helpers for nc_matmul."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import NC_TRANSPOSE_ON_GIVEN_ENGINE
from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32, UINT16, Array, Dtype, to_float32
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.definedness import Movement, transposed_rows
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine, Plan
from trnsim.isa.language.modes import Engine
from trnsim.isa.tensor.tensor_engine import (
    array_cost,
    check_bank,
    check_dtypes,
    streaming_cycles,
)
from trnsim.memory import Tile

_MATRIX = 2
_WIDE_BYTES = 2
"""Bytes of an element to which FP8 is transposed."""


class NcTranspose(Instruction, engines=(Engine.tensor, Engine.vector)):
    """``dst = data.T`` between the partition axis and the flattened free axes.

    The Tensor Engine does up to [128, 128] from SBUF to PSUM, the Vector Engine up to [32, 32].
    The Tensor Engine of v2 multiplies by an identity matrix, so one NaN or infinity spreads over
    its row of dst; all others move bits. From v3 on the Tensor Engine writes FP8 as 16 bits:
    elements of dst that lie two bytes apart get a zero upper byte.
    """

    has_fixed_writes = True

    dst: Tile = writes("F P", SBUF, PSUM)
    data: Tile = reads("P F", SBUF, PSUM)
    engine: Engine = Engine.unknown

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """The engine that the kernel names; else the Tensor Engine from SBUF to PSUM.

        Else the Vector Engine. Some versions of NKI do not heed the engine that is named.
        """
        if self.engine is not Engine.unknown and core.nki.follows(NC_TRANSPOSE_ON_GIVEN_ENGINE):
            return self.engine
        is_tensor = self.data.memory is SBUF and self.dst.memory is PSUM
        return Engine.tensor if is_tensor else Engine.vector

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`data` and dst have one dtype.

        - The Tensor Engine takes up to [128, 128], from SBUF to PSUM, before v4 within one bank;
          from v3 on elements of FP8 in dst are two bytes apart.
        - The Vector Engine takes up to [32, 32], in SBUF and PSUM.
        """
        if self.dst.dtype != self.data.dtype:
            self.refuse(
                f"`dst` is {self.dst} and `data` is {self.data}; legal: equal dtypes",
                "allocate dst with data.dtype",
                "nki.isa.nc_transpose, Data types",
            )
        check_dtypes(self, core, self.data.dtype)
        engine = self.chosen_engine(core)
        limit = core.pe_rows if engine is Engine.tensor else core.vector_transpose_partitions
        if max(n.P, n.F) > limit:
            self.refuse(
                f"data is [{n.P}, {n.F}] on the {engine.label}; legal: at most [{limit}, {limit}]",
                "transpose tile by tile, or let the Tensor Engine do it at once, from SBUF to a "
                "dst in nl.psum",
                "nki.isa.nc_transpose, Tile size",
            )
        if engine is Engine.tensor and (self.data.memory, self.dst.memory) != (SBUF, PSUM):
            self.refuse(
                f"{self.data} to {self.dst} on the Tensor Engine; legal: SBUF to PSUM",
                "allocate dst in nl.psum",
                "nki.isa.nc_transpose, Memory types",
            )
        if engine is Engine.tensor:
            check_bank(self, core, self.dst)
            self._check_spacing(core)

    def _check_spacing(self, core: NeuronCore) -> None:
        """Refuse FP8 elements of dst side by side, where the Tensor Engine writes 16 bits each."""
        dtype = self.data.dtype
        if not core.features.bit_transpose or dtype.itemsize > 1 or not dtype.is_float:
            return
        if not _is_spaced(self.dst):
            self.refuse(
                f"`dst` is {self.dst}, whose elements lie one byte apart; legal on {core.name}: "
                f"{dtype} with elements two bytes apart, as each arrives as 16 bits with a zero "
                "upper byte",
                "allocate dst with twice the elements, and pass every other one: dst[:, ::2]; or "
                "cast data to nl.bfloat16 first",
                "trainium2_arch.rst, Built-in Transpose Support, note",
            )

    def execute(self, machine: Machine) -> None:
        """Bit for bit, except on the Tensor Engine of v2, which multiplies."""
        data = self.data.bits()
        # A copy first: numpy transposes packed rows in half the time of strided ones.
        flat = np.ascontiguousarray(data.reshape(data.shape[0], -1))
        core = machine.core
        is_tensor = self.chosen_engine(core) is Engine.tensor
        if not is_tensor:
            self.dst.put(flat.T)
        elif core.features.bit_transpose:
            put_transposed(self.dst, flat.T)
        elif _has_non_finite(flat, self.data.dtype):
            self.dst.store(to_float32(flat).T @ np.eye(len(flat), dtype=np.float32))
        else:
            self.dst.put(flat.T)

    def plan(self) -> Plan | None:
        """Two copies of numpy, for matrices of elements of two bytes or more."""
        tiles = (self.dst, self.data)
        is_plain = all(tile.index is None and len(tile.shape) == _MATRIX for tile in tiles)
        if not is_plain or self.dst.dtype is not self.data.dtype or self.dst.dtype.itemsize == 1:
            return None

        def run(transpose: NcTranspose, machine: Machine) -> None:
            if machine.core.features.bit_transpose:
                transpose.dst.array[...] = np.ascontiguousarray(transpose.data.array).T
            else:
                transpose.execute(machine)

        return run

    def movement(self) -> Movement:
        """The transpose of data with flattened free axes."""
        return Movement(self.data, self.dst, transposed_rows)

    def fully_written_tiles(self) -> list[Tile]:
        """Dst; on the Tensor Engine with the zero upper bytes of spaced FP8 elements."""
        may_be_on_array = self.engine is not Engine.vector and self.dst.memory is PSUM
        return [transposed_dst(self.dst) if may_be_on_array else self.dst]

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """Tensor Engine: max(P, min(64, F)) per pass; Vector Engine: max(MIN_II, F).

        On the Tensor Engine it is a matmul of data [P, F] with an identity matrix [P, P]. The data
        is loaded first in F / 2 cycles, unless its elements have four bytes. Four-byte data takes
        four passes, two from v3 on; v4 runs a transpose in the background of the next instruction.
        """
        if self.chosen_engine(core) is Engine.vector:
            return lane_cost(core, Engine.vector, n.F)
        passes = 1.0
        if self.data.dtype.itemsize == FLOAT32.itemsize:
            passes = core.fp32_passes / core.fp32_transpose_speedup
        passes = passes / core.background_transpose_speedup
        cycles = passes * streaming_cycles(core, n.P, n.F)
        columns = 0 if self.data.dtype.itemsize == FLOAT32.itemsize else n.F
        return array_cost(core, cycles, 2.0 * n.P * n.F * n.P, loaded_columns=columns)


def _has_non_finite(bits: Array, dtype: Dtype) -> bool:
    """True if one of the elements, as stored, is NaN or infinite."""
    return dtype.is_float and not np.isfinite(to_float32(bits)).all()


def transposed_dtypes(core: NeuronCore, source: Dtype, dst: Tile) -> tuple[Dtype, ...]:
    """The dtypes to which a transpose of dtype `source` may be written in PSUM.

    From v3 on FP8 arrives as 16 bits: as a two-byte element, or in every other byte of `dst`.
    """
    if not core.features.bit_transpose or source.itemsize > 1:
        return (source, FLOAT32)
    return (BFLOAT16, FLOAT16, UINT16, *((source,) if _is_spaced(dst) else ()))


def transposed_dst(dst: Tile) -> Tile:
    """The tile that a transpose writes: `dst`, with the zero upper bytes of spaced FP8 elements."""
    if dst.dtype.itemsize > 1 or not _is_spaced(dst):
        return dst
    return Tile(dst.storage, UINT16, dst.pattern, dst.index)


def put_transposed(dst: Tile, bits: Array) -> None:
    """Write `bits`, an array as stored, to dst.

    FP8 is written as 16 bits with a zero upper byte; a dst of another width gets the values.
    """
    target = transposed_dst(dst)
    if bits.dtype.itemsize == 1 and target.dtype.itemsize == _WIDE_BYTES:
        target.put(bits.view(np.uint8).astype(np.uint16).view(target.dtype.dtype))
    elif bits.dtype.itemsize == target.dtype.itemsize:
        target.put(bits)
    else:
        target.store(to_float32(bits))


def _is_spaced(dst: Tile) -> bool:
    """True if `dst` has one-byte elements two bytes apart, the first at an even byte."""
    pattern = dst.pattern
    axes = zip(pattern.strides_bytes, pattern.shape, strict=True)
    distances_bytes = [pattern.offset_bytes, pattern.strides_bytes[-1]]
    distances_bytes += [stride for stride, length in axes if length > 1]
    return all(distance % _WIDE_BYTES == 0 for distance in distances_bytes)
