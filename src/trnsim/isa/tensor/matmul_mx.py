"""Microscaling on NeuronCore-v4: quantize_mx, nc_matmul_mx."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import MX_SCALE_TWICE_OCP, MX_SCALES_E8M0
from trnsim.dtypes import (
    BFLOAT16,
    FLOAT4_E2M1FN_X4,
    FLOAT8_E4M3FN_X4,
    FLOAT8_E5M2_X4,
    FLOAT8_E8M0FNU,
    FLOAT16,
    FLOAT32,
    UINT8,
    Array,
    Float32Array,
    ScaleRule,
    mx_dequantize,
    mx_quantize,
    pack_x4,
    unpack_x4,
)
from trnsim.errors import InternalError
from trnsim.isa.language.declaration import State, StateUse, reads, writes
from trnsim.isa.language.fields import are_tiles
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.support import check_support
from trnsim.isa.tensor.array_indirection import check_array_indirection, index_of, share_by_quadrant
from trnsim.isa.tensor.mx_layout import (
    GROUP_PARTITIONS,
    PACKED_ELEMENTS,
    QUADRANT,
    QUADRANT_GROUPS,
    from_scale_groups,
    scale_rows,
    scale_tiles,
    to_scale_groups,
)
from trnsim.isa.tensor.tensor_engine import (
    array_cost,
    check_limits,
    check_tiling,
    multiply_into,
    streaming_cycles,
)
from trnsim.memory import Tile

_SCALE_STARTS = (0, 4, 8, 12)
_SCALES = (FLOAT8_E8M0FNU, UINT8)
_MX = (FLOAT8_E5M2_X4, FLOAT8_E4M3FN_X4, FLOAT4_E2M1FN_X4)
_MX_FP8 = (FLOAT8_E5M2_X4, FLOAT8_E4M3FN_X4)
_INDEX_PARTNERS = {
    "stationary": "stationary",
    "moving": "moving",
    "stationary_scale": "",
    "moving_scale": "",
    "dst": "stationary",
}
_SCALE_LAYOUT = "mxfp-matmul.rst, Scale Tensor; Packing Scale Values"


class MxInstruction(Instruction, engines=()):
    """Common base of quantize_mx and nc_matmul_mx: checks of the core and of scale tiles."""

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """The operands; of a scale tile only the rows that hold the scales of its data."""
        read_tiles, written_tiles = super().accesses()
        return self._rows_in_use(read_tiles), self._rows_in_use(written_tiles)

    def fully_written_tiles(self) -> list[Tile]:
        """The tiles that it writes, without the other rows of a scale tile."""
        return self.accesses()[1]

    def _rows_in_use(self, tiles: list[Tile]) -> list[Tile]:
        """The tiles, with each scale tile replaced by its rows that hold scales."""
        partitions = {
            id(getattr(self, name)): data.partitions
            for name, data in self._scaled_tiles().items()
            if are_tiles(data)
        }
        parts: list[Tile] = []
        for tile in tiles:
            count = partitions.get(id(tile), 0)
            # Counts that `check` refuses have no rows of scales.
            is_undivided = count % QUADRANT or not 0 < scale_rows(count) <= tile.partitions
            parts += [tile] if is_undivided else scale_tiles(tile, count)
        return parts

    def _scaled_tiles(self) -> dict[str, Tile]:
        """Name of scale operand -> the tile whose scales it holds."""
        raise InternalError(f"{self.opcode} declares no scales")

    def _check_mx(self, core: NeuronCore, partitions: int) -> None:
        """Refuse cores without MX, partial quadrants of data, and misplaced scales."""
        check_support(
            self,
            core,
            lambda core: core.features.mx,
            "use nisa.nc_matmul with FP8 inputs, or run with target='{target}'",
        )
        if partitions % QUADRANT:
            self.refuse(
                f"{partitions} partitions; legal: multiples of {QUADRANT}, at most "
                f"{core.partitions}",
                "pad the contraction with zeros",
                f"{self.source}, Tile size",
            )
        for name, data in self._scaled_tiles().items():
            scale: Tile = getattr(self, name)
            if scale.dtype == FLOAT8_E8M0FNU:
                MX_SCALES_E8M0.require(core.nki, f"{self.opcode}: `{name}` is {scale}")
            rows = scale_rows(data.partitions)
            if scale.partitions < rows:
                self.refuse(
                    f"`{name}` is {scale} for data of {data.partitions} partitions; legal: at "
                    f"least {rows} partitions, 4 of each 32 in use",
                    "allocate it with as many partitions as the data",
                    _SCALE_LAYOUT,
                )
            self._check_quadrant(name, scale, data)

    def _check_quadrant(self, name: str, scale: Tile, data: Tile) -> None:
        """Refuse scales in another quadrant than their data, if the kernel fixed both addresses."""
        is_placed = scale.storage.is_placed and data.storage.is_placed
        quadrants = (scale.start_partition // QUADRANT, data.start_partition // QUADRANT)
        if is_placed and quadrants[0] != quadrants[1]:
            self.refuse(
                f"`{name}` starts in quadrant {quadrants[0]} and its data in quadrant "
                f"{quadrants[1]}; legal: the same quadrant",
                "place the scales in the quadrant of their data",
                _SCALE_LAYOUT,
            )

    def _verify_start(self, core: NeuronCore, name: str, tile: Tile) -> None:
        """As for any operand, but scales may start 4, 8 or 12 partitions into a quadrant."""
        if name not in self._scaled_tiles():
            super()._verify_start(core, name, tile)
        elif tile.start_partition % QUADRANT not in _SCALE_STARTS:
            self.refuse(
                f"`{name}` starts at partition {tile.start_partition}; legal: "
                f"{', '.join(map(str, _SCALE_STARTS))} within a quadrant of {QUADRANT}",
                "pack the scales of at most four tensors into one tile",
                _SCALE_LAYOUT,
            )


class QuantizeMx(MxInstruction, engines=(Engine.vector,)):
    """``dst, dst_scale = MXFP8(src)``, one scale per 8 partitions x 4 elements of src [P, F].

    The scale is ``2**(floor(log2(largest magnitude)) - (Emax - 1))``, or 2**-127 if all are zero;
    dst [P, F / 4] packs four elements into one. Rows of dst_scale between the scales keep their
    contents, so that further scales can be packed there, or become zero if unwritten (nki-library,
    test_quantize_to_mx.py: zero padding).

    Note:
        The block scale is twice that of the OCP spec, as AWS documents; before NKI 0.5 it is that
        of the OCP spec. Groups with an infinity or NaN are not documented, so they are refused.
    """

    written_flags_used = ("dst_scale",)

    dst: Tile = writes("P D", SBUF, dtypes=_MX_FP8)
    src: Tile = reads("P F", SBUF, dtypes=(FLOAT16, BFLOAT16))
    dst_scale: Tile = writes("", SBUF, dtypes=_SCALES)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v4 on.

        - P is a multiple of 32, at most 128; src has four elements per element of dst and of
          dst_scale.
        - dst_scale has all rows up to the last scale. Scales take 4 rows in each quadrant of 32,
          the quadrant of their data, from its partition 0, 4, 8 or 12.
        """
        self._check_mx(core, n.P)
        scales = self.dst_scale.pattern.elements // self.dst_scale.partitions
        if n.F != PACKED_ELEMENTS * n.D or scales != n.D:
            self.refuse(
                f"src is {self.src}, dst {self.dst}, dst_scale {self.dst_scale}; legal: free sizes "
                "F, F / 4 and F / 4",
                "allocate dst and dst_scale with a quarter of src's free size",
                "nki.isa.quantize_mx, Tile size",
            )

    def execute(self, machine: Machine) -> None:
        """Each group is divided by its scale, rounded and packed."""
        rule: ScaleRule = "aws" if machine.core.nki.follows(MX_SCALE_TWICE_OCP) else "ocp"
        element = self.dst.dtype.element
        if element is None:
            raise InternalError(f"{self.dst} is not packed")
        values = self.src.load()
        if not self.src.is_written():
            values = np.where(self.src.written_flags(), values, 0)
        groups = to_scale_groups(values.reshape(self.src.partitions, -1))
        blocks = mx_quantize(groups, element, rule)
        self.dst.put(pack_x4(from_scale_groups(blocks.elements)))
        self._pad_scales()
        codes = blocks.scales.view(self.dst_scale.dtype.dtype)
        for quadrant, rows in enumerate(scale_tiles(self.dst_scale, self.src.partitions)):
            first = quadrant * QUADRANT_GROUPS
            rows.put(codes[first : first + QUADRANT_GROUPS])

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F / 4): four elements per partition and cycle."""
        return lane_cost(core, Engine.vector, n.F / core.vector_quantize_elements_per_cycle)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The groups of which every element is written, and their scales."""
        del tile
        groups = np.asarray(to_scale_groups(flags.reshape(len(flags), -1)).all(axis=-1))
        if not groups.any():
            return None
        scales = scale_tiles(self.dst_scale, self.src.partitions)
        by_quadrant = np.split(groups, len(scales))
        return [
            (self.dst, groups.repeat(GROUP_PARTITIONS, axis=0)),
            *zip(scales, by_quadrant, strict=True),
        ]

    def _pad_scales(self) -> None:
        """Write zero to unwritten rows of dst_scale; scales that were packed there before stay."""
        scale = self.dst_scale
        if scale.index is None:
            scale.array.view(np.uint8)[~scale.written_flags()] = 0
            scale.mark_written()

    def _scaled_tiles(self) -> dict[str, Tile]:
        return {"dst_scale": self.src}


class NcMatmulMx(MxInstruction, engines=(Engine.tensor,)):
    """``dst (+)= (stationary * scale).T @ (moving * scale)``, contracted over 4 K elements.

    Stationary [K, M] and moving [K, N] have packed elements of four FP8 or FP4 numbers; scales are
    laid out as by quantize_mx. Accumulation is as in nc_matmul.
    """

    state = (StateUse(State.accumulation, "update"),)
    indirect = ()  # array_indirection has the Tensor Engine's rules

    dst: Tile = writes("M N", PSUM, dtypes=(FLOAT32, BFLOAT16))
    stationary: Tile = reads("K M", SBUF, dtypes=_MX)
    moving: Tile = reads("K N", SBUF, dtypes=_MX)
    stationary_scale: Tile = reads("", SBUF, dtypes=_SCALES)
    moving_scale: Tile = reads("", SBUF, dtypes=_SCALES)
    tile_position: tuple[int, ...] | None = None
    tile_size: tuple[int, ...] | None = None
    accumulate: bool | None = None

    def __post_init__(self) -> None:
        """Set the number of partitions that share an index's offsets."""
        share_by_quadrant(self, *_INDEX_PARTNERS)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v4 on: K a multiple of 32 up to 128, M even up to 128, N up to 4096.

        - N is up to 8192 with a bfloat16 dst.
        - Only row tiles of the array: of length 128, 64 or 32, starting at a multiple of it.
        - Scales have one element per packed element, in the quadrant of their data.
        - `.indirect()` views: for dst, and for an input together with its scales by the same index,
          at tile_position (0, 0).
        """
        self._check_mx(core, n.K)
        if n.M % 2:
            self.refuse(
                f"`stationary` has M={n.M}; legal: even, at most {core.pe_columns}",
                "pad the stationary tile with a column of zeros",
                "nki.isa.nc_matmul_mx, Tile size",
            )
        for name, data in self._scaled_tiles().items():
            scale: Tile = getattr(self, name)
            free = data.pattern.elements // data.partitions
            if scale.pattern.elements != scale.partitions * free:
                self.refuse(
                    f"`{name}` is {scale} for {data}; legal: {free} elements a partition",
                    "slice the scales to the columns of the data",
                    _SCALE_LAYOUT,
                )
        check_tiling(self, core, n, self.tile_position, self.tile_size)
        if self.tile_size and self.tile_size[1] != core.pe_columns:
            self.refuse(
                f"tile_size={self.tile_size}; legal column size: {core.pe_columns}",
                "tile the rows alone",
                "nki.isa.nc_matmul_mx, Tiling Mode",
            )
        check_limits(self, core, n, self.dst)
        self._check_indirect(core)

    def execute(self, machine: Machine) -> None:
        """Inputs are dequantized to float32; each element of dst is overwritten or added to."""
        for name, data in self._scaled_tiles().items():
            indices = filter(None, map(index_of, (data, getattr(self, name))))
            if len({(index.source.storage, index.source.pattern) for index in indices}) > 1:
                self._refuse_pair(name)
        stationary = _dequantize(self.stationary, self.stationary_scale)
        moving = _dequantize(self.moving, self.moving_scale)
        multiply_into(self, machine.core, self.dst, stationary.T, moving, self.accumulate)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(N, min(64, M)): the time of bfloat16 for four times its contraction length.

        A stationary tile that the array does not hold is loaded first in M / 2 cycles.
        """
        cycles = streaming_cycles(core, n.N, n.M)
        flops = 2.0 * PACKED_ELEMENTS * n.K * n.M * n.N
        return array_cost(core, cycles, flops, self.tile_size, loaded_columns=n.M)

    def _scaled_tiles(self) -> dict[str, Tile]:
        return {"stationary_scale": self.stationary, "moving_scale": self.moving}

    def _check_indirect(self, core: NeuronCore) -> None:
        check_array_indirection(self, core, _INDEX_PARTNERS, self.tile_position)
        for name, data in self._scaled_tiles().items():
            if (index_of(data) is None) != (index_of(getattr(self, name)) is None):
                self._refuse_pair(name)

    def _refuse_pair(self, name: str) -> None:
        """Refuse a scale operand `name` that is not indexed as its data is."""
        self.refuse(
            f"`{name}` and its data differ in indirection; legal: the same index for both, or none",
            "pass both with .indirect() of one index",
            "nki.isa.nc_matmul_mx, Tensor indirection",
        )


def _dequantize(data: Tile, scale: Tile) -> Float32Array:
    """The values of packed data [K, F] as [4 K, F]."""
    rows = data.partitions
    elements = to_scale_groups(unpack_x4(data.bits().reshape(rows, -1), data.dtype))
    codes = np.concatenate([part.bits() for part in scale_tiles(scale, rows)])
    values = mx_dequantize(elements, codes.reshape(len(elements), -1))
    return values.transpose(0, 2, 1).reshape(PACKED_ELEMENTS * rows, -1)
