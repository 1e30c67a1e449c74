"""Transposes by the DMA engines: dma_transpose."""

from __future__ import annotations

from dataclasses import replace
from math import ceil, prod

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import (
    GATHER_TRANSPOSE_OF_FEW_COLUMNS,
    SCALAR_TRANSPOSE_SKIPS,
    TRANSPOSE_PADS_RANK,
    TRANSPOSE_RELAXED,
)
from trnsim.dtypes import UINT32, Array
from trnsim.isa.dma.dma_copy import (
    check_hardware_dge,
    check_priority,
    check_vector_index,
    rows_of,
)
from trnsim.isa.dma.transfer import count_runs, transfer_cost
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.definedness import Movement
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import DgeMode, Engine, OobMode
from trnsim.memory import ScalarIndex, Tile, VectorIndex

_AXES_BY_RANK = {2: (1, 0), 3: (2, 1, 0), 4: (3, 1, 2, 0)}
"""Rank of src -> the axes of src in the order of dst."""
_LEGAL_ITEMSIZES = (2, 4)
_HARDWARE_ITEMSIZE = 2
_LAST_AXIS_MAX = 128
_INDEX_PARTITIONS_MAX = 128
_HARDWARE_ROWS = (1, 2, 4, 8, 16)
_BLOCK_ROWS = 16
_MATRIX_RANK = 2
_FOUR_AXES = 4
_DIRECT_SOURCE = "nki.isa.dma_transpose, DMA Direct Transpose Constraints"
_GATHER_SOURCE = "nki.isa.dma_transpose, DMA Indirect Transpose Constraints"


class DmaTranspose(Instruction, engines=(Engine.dma,)):
    """``dst = src.transpose(axes)``: (1, 0), (2, 1, 0) or (3, 1, 2, 0), by the rank of src.

    With a vector index the rows of src are gathered first, by indices that are read column by
    column. A row of src becomes an element along the last axis of dst; with oob_mode=skip the
    elements whose index is out of bounds keep their values.

    Note:
        AWS's page omits dge_mode none; nki-dge.rst and public kernels have it.
    """

    has_fixed_writes = True

    dst: Tile = writes("", SBUF)
    src: Tile = reads("", SBUF, HBM)
    axes: tuple[int, ...] | None = None
    priority: int | None = None
    dge_mode: DgeMode = DgeMode.unknown
    oob_mode: OobMode = OobMode.error

    def check(self, core: NeuronCore, n: Dims) -> None:
        """The axes of src's rank, one dtype of 2 or 4 bytes, and dst in the transposed shape.

        - Without indices dge_mode is unknown, none or hwdge.
        - hwdge, from v3 on: 2-byte dtypes; a last dimension of at most 128; with two axes a first
          dimension of 16; with more axes a first dimension of 1, 2, 4, 8 or 16 whose product with
          the last but one is a multiple of 16.
        - With indices, from v3 on: src in HBM, of 2 bytes, with a last dimension of at most 128 and
          a first that is a multiple of 16; of four axes the second or the third is 1.
        - Indices are a uint32 matrix in SBUF of 16 to 128 partitions, a multiple of 16, and of 128
          where there are several columns; at least one index for each row of src.
        - `priority` is 0 to 3, from v4 on; oob_mode skip needs an index.
        """
        del n
        self._check_shapes(core)
        if self.src.dtype != self.dst.dtype:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal dtypes",
                "allocate dst with src.dtype",
            )
        if self.src.dtype.chip_itemsize not in _LEGAL_ITEMSIZES:
            self.refuse(
                f"src is {self.src}; legal: dtypes of 2 or 4 bytes",
                "view pairs of bytes as one 16-bit element, or transpose with nisa.nc_transpose",
                "trainium2_arch.rst, DMA Transpose",
            )
        check_priority(self, core, self.priority)
        if self.oob_mode is OobMode.skip and self.src.index is None:
            self.refuse(
                "oob_mode skip without an index on src; legal: with one",
                "leave oob_mode out",
            )
        if self.oob_mode is OobMode.skip and isinstance(self.src.index, ScalarIndex):
            SCALAR_TRANSPOSE_SKIPS.require(core.nki, f"{self.opcode}: oob_mode skip of {self.src}")
        if isinstance(self.src.index, VectorIndex):
            if self.src.shape[-1] != _LAST_AXIS_MAX:
                request = f"src is {self.src} with a vector_offset"
                GATHER_TRANSPOSE_OF_FEW_COLUMNS.require(core.nki, f"{self.opcode}: {request}")
            check_vector_index(self, core, "src", self.src, self.dge_mode)
            self._check_gather(self.src.index.source)
        else:
            self._check_direct(core)

    def execute(self, machine: Machine) -> None:
        """Bits as they are."""
        del machine
        rows = self._rows()
        bits = self.src.bits(rows).transpose(self._permutation())
        if rows is None:
            self.dst.put(bits.reshape(self.dst.shape))
            return
        start = 0
        for tile in self.fully_written_tiles():
            end = start + tile.shape[-1]
            tile.put(bits[..., start:end])
            start = end

    def movement(self) -> Movement:
        """The axes in another order."""
        return Movement(
            self.src,
            self.dst,
            lambda array: array.transpose(self._permutation()).reshape(self.dst.shape),
        )

    def resolved(self) -> Instruction | None:
        """The instruction with its scalar indices applied.

        Its oob_mode is then error, as no index is left that could be skipped.
        """
        result = super().resolved()
        if isinstance(result, DmaTranspose) and result is not self:
            return replace(result, oob_mode=OobMode.error)
        return result

    def fully_written_tiles(self) -> list[Tile]:
        """Dst, without the elements that keep their values as an index is out of bounds."""
        rows = self._rows()
        return [self.dst] if rows is None else rows_of(self.dst, -1, rows)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The bytes of whole [128, 16] tiles of dst, at the DMA transpose's part of the copy rate.

        All 16 engines write one such tile at a time, so that partial tiles cost whole ones.

        Source: trainium2_arch.rst, DMA Transpose.
        """
        del n
        partitions, *middle, columns = self.dst.shape
        elements = ceil(partitions / core.partitions) * core.partitions
        elements *= ceil(columns / core.dma_engines) * core.dma_engines
        rows = self.src.pattern.elements // self.src.shape[-1]
        in_hbm = self.src.memory is HBM
        return transfer_cost(
            core,
            self.src,
            self.dst,
            nbytes=elements * prod(middle) * self.dst.dtype.itemsize,
            runs=max(count_runs(self.src), rows),
            hbm_bytes=self.src.nbytes if in_hbm else 0,
            efficiency=core.dma_transpose_efficiency
            if in_hbm
            else core.dma_transpose_on_chip_efficiency,
            mode=self.dge_mode,
        )

    def _permutation(self) -> tuple[int, ...]:
        """The axes of src in the order of dst."""
        return _AXES_BY_RANK[len(self.src.shape)]

    def _rows(self) -> Array | None:
        """One boolean per row of src: whether it is moved; None for all rows."""
        return self.src.legal_rows() if self.oob_mode is OobMode.skip else None

    def _check_shapes(self, core: NeuronCore) -> None:
        """Refuse axes other than those of src's rank, and a dst of another shape."""
        shape = self.src.shape
        legal = _AXES_BY_RANK.get(len(shape))
        if legal is None:
            self.refuse(f"src is {self.src}; legal: 2 to 4 dimensions", "reshape src")
        if self.axes is not None and tuple(self.axes) != legal:
            self.refuse(
                f"axes={self.axes} of src {self.src}; legal: {legal}",
                "leave axes out, or permute the view of src first",
            )
        dst_shape = tuple(shape[axis] for axis in legal)
        if self.dst.shape != dst_shape:
            is_shorter = len(self.dst.shape) < len(dst_shape)
            differs_by_ones = is_shorter and _without_ones(self.dst.shape) == _without_ones(
                dst_shape
            )
            if differs_by_ones and core.nki.follows(TRANSPOSE_PADS_RANK):
                return
            self.refuse(
                f"dst is {self.dst}; legal: {list(dst_shape)}, the shape of src transposed",
                "allocate dst with that shape, rank included",
                "release notes of NKI 0.4, nisa.dma_transpose",
            )

    def _check_direct(self, core: NeuronCore) -> None:
        """Refuse a dge_mode, shape or dtype that is illegal without a vector_offset."""
        # The instruction's page omits `none`; nki-dge.rst and public kernels have it.
        if self.dge_mode is DgeMode.swdge:
            self.refuse(
                f"dge_mode {self.dge_mode.name}; legal without an index: unknown, hwdge, none",
                "leave dge_mode out",
                _DIRECT_SOURCE,
            )
        if self.dge_mode is not DgeMode.hwdge:
            return
        check_hardware_dge(self, core)
        shape = self.src.shape
        if (shape[0], shape[-1]) != (_BLOCK_ROWS, _LAST_AXIS_MAX):
            TRANSPOSE_RELAXED.require(
                core.nki, f"{self.opcode}: src is {self.src} with dge_mode hwdge"
            )
        if len(shape) == _MATRIX_RANK:
            is_legal, legal = shape[0] == _BLOCK_ROWS, f"first dimension {_BLOCK_ROWS}"
        else:
            is_legal = shape[0] in _HARDWARE_ROWS and shape[0] * shape[-2] % _BLOCK_ROWS == 0
            legal = (
                f"first dimension {', '.join(map(str, _HARDWARE_ROWS))}, its product with the last "
                f"but one a multiple of {_BLOCK_ROWS}"
            )
        self._require(is_legal, f"dge_mode hwdge; legal: {legal}", _DIRECT_SOURCE)
        self._check_common("dge_mode hwdge", _DIRECT_SOURCE)

    def _check_gather(self, indices: Tile) -> None:
        """Refuse a src or `indices` that are illegal with a vector_offset."""
        shape, offsets = self.src.shape, f"vector_offset {indices}"
        if len(shape) == _FOUR_AXES:
            legal = "a vector_offset; legal: a second or third dimension of 1"
            self._require(1 in shape[1:3], legal, _GATHER_SOURCE)
        self._require(
            shape[0] % _BLOCK_ROWS == 0,
            f"a vector_offset; legal: a first dimension that is a multiple of {_BLOCK_ROWS}",
            _GATHER_SOURCE,
        )
        self._check_common("a vector_offset", _GATHER_SOURCE)
        is_matrix = len(indices.shape) == _MATRIX_RANK
        fix = "reshape or slice the indices to that"
        self._require(is_matrix, f"{offsets}; legal: 2 dimensions", _GATHER_SOURCE, fix)
        self._require(
            indices.dtype == UINT32,
            f"{offsets}; legal: uint32",
            _GATHER_SOURCE,
            "view the indices as such: indices.view(nl.uint32), or copy them to a uint32 tile",
        )
        rows = indices.shape[0]
        self._require(
            _BLOCK_ROWS <= rows <= _INDEX_PARTITIONS_MAX and rows % _BLOCK_ROWS == 0,
            f"{offsets}; legal: 16 to 128 partitions, a multiple of 16",
            _GATHER_SOURCE,
            fix,
        )
        self._require(
            indices.shape[1] == 1 or rows == _INDEX_PARTITIONS_MAX,
            f"{offsets}; legal: 128 partitions where there are several columns",
            _GATHER_SOURCE,
            fix,
        )

    def _check_common(self, form: str, source: str) -> None:
        """Refuse a last axis beyond 128 and dtypes other than of 2 bytes; `form` names the case."""
        is_legal = self.src.shape[-1] <= _LAST_AXIS_MAX
        self._require(is_legal, f"{form}; legal: a last dimension of at most 128", source)
        is_legal = self.src.dtype.chip_itemsize == _HARDWARE_ITEMSIZE
        fix = "cast src to a dtype of 2 bytes first, or transpose on chip with nisa.nc_transpose"
        self._require(is_legal, f"{form}; legal: dtypes of 2 bytes", source, fix)

    def _require(
        self, condition: bool, reason: str, source: str, fix: str = "tile or pad src to that"
    ) -> None:
        """Refuse unless `condition` holds; `reason` follows src in the message."""
        if not condition:
            self.refuse(f"src is {self.src} with {reason}", fix, source)


def _without_ones(shape: tuple[int, ...]) -> list[int]:
    """The lengths of a shape that are more than 1."""
    return [length for length in shape if length > 1]
