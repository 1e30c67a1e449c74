"""DMA copies: dma_copy, and checks shared by the DMA instructions."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.behaviours.instructions import DMA_READS_PSUM, HWDGE_OF_TWO_DTYPES
from trnsim.dtypes import INT64, Array, round_to, to_float32
from trnsim.errors import NotModelled, UndefinedBehavior
from trnsim.isa.dma.transfer import count_runs, transfer_cost
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.definedness import Movement, copy_src_to_dst, identity, is_plain_copy
from trnsim.isa.language.instruction import HBM, PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import have_one_shape
from trnsim.isa.language.machine import BatchPlan, Machine, Plan
from trnsim.isa.language.modes import DgeMode, Engine, OobMode
from trnsim.isa.language.support import check_support
from trnsim.memory import Tile, VectorIndex
from trnsim.memory.index import Indices

_PRIORITIES = range(4)
_DGE_ENGINES = (Engine.sync, Engine.scalar)
_DGE_SOURCE = "nki-dge.rst, Mode Selection Summary"
_INDIRECT_SOURCE = "nki.isa.dma_copy, Indirect addressing"
_ENGINE_SOURCE = 'nki.isa.dma_copy, engine: "Only valid when dge_mode=nisa.dge_mode.hwdge"'


class DmaCopy(Instruction, engines=(Engine.dma,)):
    """``dst = src`` between HBM and SBUF, through float32 where the dtypes differ.

    A vector index gathers rows of src or scatters to rows of dst. With oob_mode=skip the rows of
    dst whose index is out of bounds keep their values.
    """

    dst: Tile = writes("", SBUF, HBM)
    src: Tile = reads("", SBUF, HBM, formerly=((PSUM, DMA_READS_PSUM),))
    priority: int | None = None
    oob_mode: OobMode = OobMode.error
    dge_mode: DgeMode = DgeMode.unknown
    engine: Engine = Engine.unknown

    has_fixed_writes = True
    takes_int64 = True

    def chosen_engine(self, core: NeuronCore) -> Engine:
        """Always the DMA engines; the field `engine` names the generator of the descriptors."""
        del core
        return Engine.dma

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Equally many elements in src and dst.

        - dge_mode hwdge: from v3 on, and with equal dtypes; packed dtypes are never cast.
        - `priority` is 0 to 3, from v4 on.
        - `engine` is sync or scalar, and only with dge_mode hwdge.
        - A vector_offset: from v3 on, of a tensor in HBM, by an index in SBUF for each row, with
          dge_mode unknown or swdge.
        - Indices lie within the tensor, unless oob_mode is skip.
        """
        del n
        if self.dst.pattern.elements != self.src.pattern.elements:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal numbers of elements",
                "slice one of them to the size of the other",
                "nki.isa.dma_copy, Tile size",
            )
        self._check_dtypes(core)
        if self.dge_mode is DgeMode.hwdge:
            check_hardware_dge(self, core)
        check_priority(self, core, self.priority)
        self._check_engine()
        for name in ("dst", "src"):
            check_vector_index(self, core, name, getattr(self, name), self.dge_mode)
        check_rows(self, self.oob_mode, self.dst, self.src)

    def execute(self, machine: Machine) -> None:
        """Bit for bit where the dtypes agree, and with dge_mode hwdge; else a cast."""
        del machine
        rows = self._rows()
        bits = self.src.bits(rows)
        if self.src.dtype != self.dst.dtype:
            is_raw = self.dge_mode is DgeMode.hwdge
            dtype = self.dst.dtype
            bits = bits.view(dtype.dtype) if is_raw else round_to(to_float32(bits), dtype)
        self.dst.put(bits, rows)

    def plan(self) -> Plan | None:
        """A copy between tiles of the same dtype and shape, or one that gathers rows."""
        is_gather = isinstance(self.src.index, VectorIndex) and self.dst.index is None
        is_same_kind = self.src.dtype == self.dst.dtype and self.src.shape == self.dst.shape
        if is_gather and is_same_kind and self.oob_mode is OobMode.error:
            return _gather
        return copy_src_to_dst if is_plain_copy(self.dst, self.src) else None

    def batch_plan(self, core: NeuronCore) -> BatchPlan | None:
        """The plan of a single copy, for tiles of one shape, or for rows by a column of indices."""
        del core
        plan, index = self.plan(), self.src.index
        if isinstance(index, VectorIndex):
            is_column = index.source.shape == (self.src.shape[0], 1)
            can_gather = plan is _gather and self.src.storage is not self.dst.storage
            return BatchPlan(_gather_many, may_refuse=True) if is_column and can_gather else None
        is_raw = self.dge_mode is DgeMode.hwdge and self.src.dtype != self.dst.dtype
        if is_raw or not have_one_shape(self.dst, self.src):
            return None
        return BatchPlan(plan or type(self).execute)

    def movement(self) -> Movement:
        """Element by element."""
        return Movement(self.src, self.dst, identity)

    def fully_written_tiles(self) -> list[Tile]:
        """Dst, without the rows that keep their values as an index of src is out of bounds."""
        rows = self._rows() if self.dst.index is None else None
        return [self.dst] if rows is None else rows_of(self.dst, 0, rows)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """The longer of two times: of the bytes at the engines' bandwidth, and of the runs.

        A run is a contiguous range of bytes, which takes an engine a least time.
        """
        del n
        return transfer_cost(
            core,
            self.src,
            self.dst,
            nbytes=max(self.src.nbytes, self.dst.nbytes),
            runs=max(count_runs(self.src), count_runs(self.dst)),
            hbm_bytes=sum(t.nbytes for t in (self.src, self.dst) if t.memory is HBM),
            mode=self.dge_mode,
        )

    def _rows(self) -> Array | None:
        """One boolean per row: whether it is copied; None for all rows."""
        if self.oob_mode is not OobMode.skip:
            return None
        src_rows, dst_rows = self.src.legal_rows(), self.dst.legal_rows()
        if src_rows is None or dst_rows is None:
            return dst_rows if src_rows is None else src_rows
        return np.asarray(src_rows & dst_rows)

    def _check_dtypes(self, core: NeuronCore) -> None:
        """Refuse casts by the hardware DGE, and casts from or to packed dtypes and int64."""
        src, dst = self.src.dtype, self.dst.dtype
        if src == dst:
            return
        if self.dge_mode is DgeMode.hwdge:
            HWDGE_OF_TWO_DTYPES.require(
                core.nki, f"{self.opcode}: dge_mode hwdge from {src} to {dst}"
            )
            if src.itemsize != dst.itemsize:
                raise UndefinedBehavior(
                    f"{self.opcode}: dge_mode hwdge from {src} to {dst}, whose elements differ in "
                    "size, while it moves bytes; legal in NKI 0.2: elements of one size",
                    fix="leave dge_mode out for a cast, or view one tensor in the dtype of the "
                    "other",
                    source=HWDGE_OF_TWO_DTYPES.source,
                )
        elif src.is_packed or dst.is_packed:
            self.refuse(
                f"from {src} to {dst}; legal: equal dtypes, as packed formats have no values",
                "view one of the tensors in the dtype of the other",
                "nki.isa.dma_copy, Data types",
            )
        if INT64 in (src, dst):
            raise NotModelled(
                f"dma_copy from {src} to {dst}; emulated: int64 to int64, as the documents do not "
                "say how a DMA casts it",
                fix="keep both sides in nl.int64, or cast an argument before the call: "
                "x.astype('int32'), or x.to(torch.int32) for torch's",
                source="nki.isa.scalar_load",
            )

    def _check_engine(self) -> None:
        """Refuse `engine` unless it is sync or scalar, and dge_mode is hwdge.

        Source: nki.isa.dma_copy, engine: "the engine to use for HWDGE descriptor generation:
        nki.isa.engine.sync or nki.isa.engine.scalar. Only valid when dge_mode=nisa.dge_mode.hwdge."
        """
        if self.engine is Engine.unknown:
            return
        if self.dge_mode is not DgeMode.hwdge:
            self.refuse(
                f"engine {self.engine.name} with dge_mode {self.dge_mode.name}; legal: engine "
                "only with dge_mode=nisa.dge_mode.hwdge",
                "leave engine out, or add dge_mode=nisa.dge_mode.hwdge",
                _ENGINE_SOURCE,
            )
        if self.engine not in _DGE_ENGINES:
            self.refuse(
                f"engine {self.engine.name}; legal: nisa.engine.sync, nisa.engine.scalar",
                "leave engine out",
                _ENGINE_SOURCE,
            )


def _gather(copy: DmaCopy, machine: Machine) -> None:
    """``dst = src`` for rows of src by a vector of indices, without a temporary array."""
    src, dst = copy.src, copy.dst
    index = src.index
    if not isinstance(index, VectorIndex) or src.storage.data is dst.storage.data:
        copy.execute(machine)
        return
    rows = index.rows(src.shape[0])
    if _is_outside(rows, index.limit):
        copy.execute(machine)  # which refuses it
        return
    src.array.take(rows, axis=0, out=dst.array, mode="clip")


def _is_outside(rows: Indices, limit: int) -> bool:
    """True if an index is negative or not below `limit`."""
    unsigned = rows.view(np.uint64)  # a negative index is the largest
    highest: int = unsigned.item(unsigned.argmax())  # on few rows faster than `max`
    return highest >= limit


def _gather_many(copy: DmaCopy, machine: Machine) -> None:
    """``dst[i] = src[index[i]]`` for many tiles: dst [n, P, ...], indices [n, P, 1].

    Raises:
        IllegalInstruction: for an index out of bounds, without saying which.
    """
    del machine
    src, dst, index = copy.src, copy.dst, copy.src.index
    assert isinstance(index, VectorIndex)  # noqa: S101  ensured by `batch_plan`
    rows = index.source.array[..., 0].astype(np.int64)
    if _is_outside(rows, index.limit):
        copy.refuse("an index is out of bounds", "keep the indices within the tensor")
    src.array.take(rows, axis=0, out=dst.array, mode="clip")


def check_hardware_dge(instruction: Instruction, core: NeuronCore) -> None:
    """Refuse a core without hardware descriptor generation."""
    check_support(
        instruction,
        core,
        lambda core: core.features.hardware_dge,
        "leave dge_mode out",
        request=f"dge_mode hwdge on {core.name}",
    )


def check_priority(instruction: Instruction, core: NeuronCore, priority: int | None) -> None:
    """Refuse a priority other than 0 to 3, and any priority on a core without them."""
    if priority is not None:
        check_support(
            instruction,
            core,
            lambda core: core.features.dma_priority,
            "leave priority out",
            request=f"priority on {core.name}",
        )
    if priority not in (None, *_PRIORITIES):
        instruction.refuse(f"priority {priority}; legal: 0 to 3", "0 is the highest priority")


def check_vector_index(
    instruction: Instruction, core: NeuronCore, name: str, tile: Tile, mode: DgeMode
) -> None:
    """Refuse a vector index of operand `name`, unless it picks rows in HBM by indices in SBUF.

    Its descriptors are generated by software: dge_mode `mode` is unknown or swdge.
    """
    index = tile.index
    if not isinstance(index, VectorIndex):
        return
    if tile.memory is not HBM:
        instruction.refuse(
            f"`{name}` is {tile} with a vector_offset; legal: a tensor in HBM",
            "index it on chip with nisa.nc_n_gather or nisa.local_gather",
            _INDIRECT_SOURCE,
        )
    if index.source.memory is not SBUF:
        instruction.refuse(
            f"the vector_offset of `{name}` is {index.source}; legal: a tensor in SBUF",
            "load the indices with nisa.dma_copy first",
            _INDIRECT_SOURCE,
        )
    if index.source.pattern.elements < tile.shape[0]:
        instruction.refuse(
            f"the vector_offset of `{name}` is {index.source} for {tile.shape[0]} rows; legal: an "
            "index for each row",
            "take as many rows as there are indices",
            _INDIRECT_SOURCE,
        )
    _check_software_dge(instruction, core, name, mode)


def _check_software_dge(
    instruction: Instruction, core: NeuronCore, name: str, mode: DgeMode
) -> None:
    """Refuse a vector index on a core without it, or with a dge_mode but unknown and swdge."""
    check_support(
        instruction,
        core,
        lambda core: core.features.indirect_dma,
        "copy row by row, or run with target='{target}'",
        request=f"`{name}` has a vector_offset on {core.name}",
        source=_DGE_SOURCE,
    )
    if mode not in (DgeMode.unknown, DgeMode.swdge):
        instruction.refuse(
            f"dge_mode {mode.name} with a vector_offset of `{name}`; legal: unknown, swdge",
            "leave dge_mode out",
            "nki-dge.rst, How .ap() Affects DGE Mode",
        )


def check_rows(instruction: Instruction, mode: OobMode, *tiles: Tile) -> None:
    """Refuse tiles with different numbers of rows, if an index may skip rows (oob_mode `mode`)."""
    is_indexed = any(isinstance(tile.index, VectorIndex) for tile in tiles)
    if is_indexed and mode is OobMode.skip and len({tile.shape[0] for tile in tiles}) > 1:
        raise NotModelled(
            f"{instruction.opcode}: oob_mode skip between {' and '.join(map(str, tiles))}, whose "
            "first dimensions differ",
            fix="reshape the tensors to the same first dimension",
            source=_INDIRECT_SOURCE,
        )


def rows_of(tile: Tile, dim: int, mask: Array) -> list[Tile]:
    """A tile for each run of consecutive indices along `dim` at which `mask` is true."""
    edges = np.flatnonzero(np.diff(mask.astype(np.int8), prepend=0, append=0)).tolist()
    return [
        Tile(tile.storage, tile.dtype, tile.pattern.slice(dim, first, end))
        for first, end in zip(edges[::2], edges[1::2], strict=True)
    ]
