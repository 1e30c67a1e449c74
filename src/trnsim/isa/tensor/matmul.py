"""Matrix multiplication: nc_matmul, from SBUF through the systolic array to PSUM."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import MATMUL_MIXES_E4M3
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT8_E4M3,
    FLOAT8_E4M3FN,
    FLOAT8_E5M2,
    FLOAT16,
    FLOAT32,
    TFLOAT32,
    Dtype,
)
from trnsim.errors import Unspecified
from trnsim.isa.language.declaration import State, StateUse, reads, writes
from trnsim.isa.language.definedness import Movement, transposed_rows
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import maximum
from trnsim.isa.language.machine import Machine, Plan
from trnsim.isa.language.modes import Engine, MatmulPerfMode
from trnsim.isa.language.support import check_support
from trnsim.isa.tensor.array_indirection import check_array_indirection, index_of, share_by_quadrant
from trnsim.isa.tensor.tensor_engine import (
    array_cost,
    check_dtypes,
    check_limits,
    check_tiling,
    dst_dtypes,
    mark_started,
    multiply_into,
    product_of,
    streaming_cycles,
)
from trnsim.isa.tensor.transpose import (
    put_transposed,
    transposed_dst,
    transposed_dtypes,
)
from trnsim.memory import Tile

_FP8 = (FLOAT8_E4M3, FLOAT8_E5M2, FLOAT8_E4M3FN)
_INPUTS = (BFLOAT16, FLOAT16, FLOAT32, TFLOAT32, *_FP8)
_FOUR_BYTE_INPUTS = (FLOAT32, TFLOAT32)
_INDIRECT_INPUTS = (BFLOAT16, FLOAT16, *_FP8)
_MATRIX = 2
_DOUBLE_ROWS = 2
"""Contraction elements that a processing element takes at once with perf_mode double_row."""
_INDEX_PARTNERS = {"stationary": "stationary", "moving": "moving", "dst": "stationary"}
_TYPES = "nki.isa.nc_matmul, Data types"
_DOUBLE_ROW = "trainium2_arch.rst, Double FP8 Matmul Performance"
_TRANSPOSE = "trainium2_arch.rst, Built-in Transpose Support"


class NcMatmul(Instruction, engines=(Engine.tensor,)):
    """``dst (+)= stationary.T @ moving``, accumulated in float32.

    The stationary tile [K, M] is loaded into the array, the moving tile [K, N] streams through it.
    With accumulate=None the first matmul onto each element of dst overwrites it, later ones add.
    With perf_mode=double_row (FP8) the tiles are [K, 2, M] and [K, 2, N], contracted over both
    K and 2. With is_transpose=True the moving tile is an identity matrix, and from v3 on
    ``dst = stationary.T`` bit for bit.

    Note:
        AWS's page describes column tiles, but then restricts the parameters to column 0 and size
        128; column tiles are legal here. The result of is_transpose with another matrix or with
        accumulate=True is not documented, so both are refused. The order in which the array adds
        is not documented.
    """

    state = (StateUse(State.accumulation, "update"),)
    indirect = ()  # array_indirection has the Tensor Engine's rules

    has_fixed_writes = True

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

    def __post_init__(self) -> None:
        """Set the number of partitions that share an index's offsets."""
        share_by_quadrant(self, *_INDEX_PARTNERS)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """K and M up to 128, N up to 512; on v4 N up to 4096, or 8192 with a bfloat16 dst.

        - dst is float32, from v4 on also bfloat16; before v4 it stays within one PSUM bank.
        - Both inputs are float32 or tfloat32, or neither; float8_e4m3fn from v4 on, and not with
          float8_e4m3.
        - tile_position and tile_size go together: sizes of 128, 64 and from v3 on 32, starts a
          multiple of them, and a stationary tile that fits.
        - double_row: from v3 on, FP8, a first free axis of 2, no column tiles, not with
          is_transpose.
        - is_transpose: dst has the dtype of stationary or is float32; FP8 from v3 on into elements
          of two bytes; moving is an identity matrix.
        - `.indirect()` views: from v4 on, for stationary, moving and dst, at tile_position (0, 0),
          in bfloat16, float16 or FP8.
        - accumulate=True: onto elements that a matmul has written; on v4 onto any written ones.
        - Before v4 only matmuls may have written to an accumulation since it started.
        """
        self._check_dtypes(core)
        self._check_double_row(core)
        self._check_dst(core)
        check_tiling(self, core, n, self.tile_position, self.tile_size)
        check_limits(self, core, n, self.dst)
        check_array_indirection(self, core, _INDEX_PARTNERS, self.tile_position)
        self._check_indirect()

    def execute(self, machine: Machine) -> None:
        """Product in float32; each element of dst is overwritten or added to."""
        if self.is_transpose and machine.core.features.bit_transpose:
            self._transpose()
            return
        rows = self.stationary.partitions * self._rows_at_once
        stationary = self.stationary.load().reshape(rows, -1)
        moving = self.moving.load().reshape(rows, -1)
        multiply_into(self, machine.core, self.dst, stationary.T, moving, self.accumulate)

    def plan(self) -> Plan | None:
        """One product into PSUM, or added to what earlier matmuls have written there."""
        tiles = (self.dst, self.stationary, self.moving)
        is_plain = all(tile.index is None and len(tile.shape) == _MATRIX for tile in tiles)
        is_usual = self.perf_mode is MatmulPerfMode.none and not self.is_transpose
        if not (is_plain and is_usual and self.dst.dtype is FLOAT32) or self.accumulate is True:
            return None

        def run(matmul: NcMatmul, machine: Machine) -> None:
            dst, started = matmul.dst, matmul.dst.storage.accumulation_mask
            is_first = matmul.accumulate is False or started.is_empty
            if (
                dst.storage.is_placed
                or machine.core.is_simulated
                or not (is_first or (started.is_full and not dst.storage.is_set_by_others))
            ):
                matmul.execute(machine)
                return
            left, right, out = matmul.stationary.load().T, matmul.moving.load(), dst.array
            if is_first:
                product_of(left, right, out)
                mark_started(dst)
            else:
                np.add(product_of(left, right), out, out=out)

        return run

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(N, min(64, M)) Tensor Engine cycles per pass; float32 takes four passes.

        Float32 takes two passes if an input is declared to have only ones and zeros, or in
        transpose mode from v3 on; v4 runs a transpose in the background of the next instruction. A
        stationary tile that the array does not hold is loaded first in M / 2 cycles; a float32 tile
        is loaded in the background.
        """
        passes = 1.0
        if self.moving.dtype == FLOAT32:
            is_onezero = self.is_stationary_onezero or self.is_moving_onezero
            passes = core.fp32_passes / maximum(
                core.fp32_transpose_speedup if self.is_transpose else 1.0,
                core.fp32_onezero_speedup if is_onezero else 1.0,
            )
        if self.is_transpose:
            passes = passes / core.background_transpose_speedup
        cycles = passes * streaming_cycles(core, n.N, n.M)
        flops = 2.0 * n.K * self._rows_at_once * n.M * n.N
        columns = 0 if self.moving.dtype == FLOAT32 else n.M
        return array_cost(core, cycles, flops, self.tile_size, loaded_columns=columns)

    def movement(self) -> Movement | None:
        """In transpose mode: the transpose of the stationary tile."""
        if not self.is_transpose:
            return None
        return Movement(self.stationary, self.dst, transposed_rows)

    def fully_written_tiles(self) -> list[Tile]:
        """Dst, with the zero bytes that an FP8 transpose adds to each element."""
        return [transposed_dst(self.dst)] if self.is_transpose else [self.dst]

    @property
    def _rows_at_once(self) -> int:
        """Contraction elements that a processing element takes at once."""
        return _DOUBLE_ROWS if self.perf_mode is MatmulPerfMode.double_row else 1

    def _bind(self, name: str, axes: tuple[str, ...], tile: Tile, n: Dims) -> None:
        """As for any operand, but double_row contracts over the first free axis as well."""
        if self.perf_mode is MatmulPerfMode.double_row and name != "dst":
            if len(tile.shape) <= _DOUBLE_ROWS or tile.shape[1] != _DOUBLE_ROWS:
                self.refuse(
                    f"`{name}` is {tile} with perf_mode double_row; legal: [K, 2, free]",
                    "split the contraction in two halves along the first free axis",
                    "nki.isa.nc_matmul, Layout",
                )
            tile = Tile(tile.storage, tile.dtype, tile.pattern.select(1, 0))
        super()._bind(name, axes, tile, n)

    def _check_dtypes(self, core: NeuronCore) -> None:
        """Refuse dtypes that the core lacks, and pairs of inputs that do not go together."""
        inputs = (self.stationary.dtype, self.moving.dtype)
        check_dtypes(self, core, *inputs)
        stationary, moving = inputs
        if (stationary in _FOUR_BYTE_INPUTS) != (moving in _FOUR_BYTE_INPUTS):
            self.refuse(
                f"stationary {stationary} with moving {moving}; legal: both float32/tfloat32, or "
                "neither",
                "cast one of them with nisa.tensor_copy into a tile of the other's dtype",
                _TYPES,
            )
        if FLOAT8_E4M3 in inputs and FLOAT8_E4M3FN in inputs:
            MATMUL_MIXES_E4M3.require(core.nki, "nc_matmul: float8_e4m3 with float8_e4m3fn")

    def _check_double_row(self, core: NeuronCore) -> None:
        """Refuse perf_mode double_row without FP8, with column tiles or with is_transpose."""
        if self.perf_mode is not MatmulPerfMode.double_row:
            return
        check_support(
            self,
            core,
            lambda core: core.fp8_double_row_contraction > core.pe_rows,
            "leave perf_mode out, or run with target='{target}'",
            request=f"perf_mode double_row on {core.name}",
            source="nki.isa.nc_matmul, Performance mode",
        )
        for name in ("stationary", "moving"):
            tile = getattr(self, name)
            if tile.dtype not in _FP8:
                self.refuse(
                    f"`{name}` is {tile} with perf_mode double_row; legal dtypes: "
                    f"{' or '.join(map(str, _FP8))}",
                    "quantize it to FP8, or leave perf_mode out",
                    _TYPES,
                )
        if self.tile_size and self.tile_size[-1] != core.pe_columns:
            self.refuse(
                f"perf_mode double_row with tile_size={self.tile_size}; legal: column size "
                f"{core.pe_columns}",
                "tile the rows alone",
                _DOUBLE_ROW,
            )
        if self.is_transpose:
            self.refuse(
                "perf_mode double_row with is_transpose=True; legal: one of the two",
                "transpose without a performance mode",
                _DOUBLE_ROW,
            )

    def _check_dst(self, core: NeuronCore) -> None:
        """Refuse a dtype of dst that the matmul, or the transpose, cannot write."""
        legal: tuple[Dtype, ...] = dst_dtypes(core)
        if self.is_transpose:
            legal = transposed_dtypes(core, self.stationary.dtype, self.dst)
        if self.dst.dtype in legal:
            return
        if self.is_transpose and self.stationary.dtype in _FP8:
            self.refuse(
                f"`dst` is {self.dst} for the transpose of {self.stationary.dtype}; legal on "
                f"{core.name}: {' or '.join(map(str, legal))}, or {self.stationary.dtype} with "
                "elements two bytes apart",
                "allocate dst with twice the elements and pass every other one",
                _TRANSPOSE,
            )
        self.refuse(
            f"`dst` is {self.dst}; legal on {core.name}: {' or '.join(map(str, legal))}",
            "accumulate in a float32 PSUM tile and cast when copying to SBUF",
            _TYPES,
        )

    def _check_indirect(self) -> None:
        """Refuse an indirect identity matrix, and indirect inputs of other dtypes."""
        source = "nki.isa.nc_matmul, Tensor indirection"
        if self.is_transpose and index_of(self.moving):
            self.refuse(
                "`moving` is indirect with is_transpose=True; legal: an identity matrix as it is",
                "pass the identity matrix without .indirect()",
                source,
            )
        for name in ("stationary", "moving"):
            tile = getattr(self, name)
            if index_of(tile) and tile.dtype not in _INDIRECT_INPUTS:
                self.refuse(
                    f"`{name}` is {tile}, and indirect; legal dtypes: "
                    f"{' or '.join(map(str, _INDIRECT_INPUTS))}",
                    "cast it to bfloat16 with nisa.tensor_copy first",
                    source,
                )

    def _transpose(self) -> None:
        """Each column of the moving tile picks a row of the stationary one, bit for bit."""
        if self.accumulate:
            raise Unspecified(
                "nc_matmul: is_transpose=True with accumulate=True; AWS documents transposes that "
                "overwrite",
                fix="transpose into a tile of its own, and add with nisa.tensor_tensor",
                source="nki.isa.nc_matmul, Transpose mode",
            )
        rows = self.stationary.partitions
        moving = self.moving.load().reshape(rows, -1)
        is_one = moving != 0
        ones_by_column = is_one.sum(axis=0)
        if (ones_by_column > 1).any() or (moving[is_one] != 1).any():
            raise Unspecified(
                f"nc_matmul: is_transpose=True with moving {self.moving}, which is no identity "
                "matrix; AWS documents identity matrices alone",
                fix="pass nl.shared_identity_matrix, or leave is_transpose out",
                source="nki.isa.nc_matmul, Transpose mode",
            )
        bits = self.stationary.bits().reshape(rows, -1)[is_one.argmax(axis=0)]
        bits[ones_by_column == 0] = 0
        put_transposed(self.dst, bits.T)
        mark_started(self.dst)
