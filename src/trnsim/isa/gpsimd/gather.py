"""Gathers within SBUF on the GpSimd Engine: local_gather, nc_n_gather."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import UINT16, UINT32, Array
from trnsim.errors import UndefinedBehavior
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.instruction import SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

GPSIMD_CORE_PARTITIONS: Final = 16
"""Partitions served by each of the eight GpSimd cores: trainium_inferentia2_arch.rst."""

_ELEMENTS_PER_INDEX: Final = (1, 2, 4, 8, 16, 32)
_MAX_INDICES: Final = 4096
_WORD_BYTES: Final = 4
_GROUP_ELEMENTS: Final = 512


def free_size(tile: Tile) -> int:
    """Elements per partition."""
    return prod(tile.shape[1:])


def check_same_dtype(instruction: Instruction, dst: Tile, source: Tile, name: str) -> None:
    """Refuse a cast: a gather moves bits."""
    if dst.dtype != source.dtype:
        instruction.refuse(
            f"dst is {dst} but {name} is {source}; legal: equal dtypes",
            "allocate dst with the dtype of the source, and cast with nisa.tensor_copy",
        )


class LocalGather(Instruction, engines=(Engine.gpsimd,)):
    """``dst[p, i * e + j] = src_buffer[p, indices[i] + j]``, with the indices of p's GpSimd core.

    dst is [P, n * e], src_buffer [P, F], index [P, I] of uint16, where e is `num_elem_per_idx` and
    n is `num_valid_indices`, by default 16 * I. The indices of a GpSimd core are those in its 16
    partitions of `index`, column by column. An index counts elements, not groups of e elements.
    """

    dst: Tile = writes("P N", SBUF)
    src_buffer: Tile = reads("P F", SBUF)
    index: Tile = reads("P I", SBUF, dtypes=(UINT16,))
    num_elem_per_idx: int = 1
    num_valid_indices: int | None = None

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A multiple of 16 partitions.

        - index lies in the partitions of src_buffer.
        - dst has the dtype of src_buffer.
        - `num_elem_per_idx` is 1, 2, 4, 8, 16 or 32.
        - At most 4096 indices per GpSimd core, and no more than index holds; dst has
          num_elem_per_idx elements for each.
        - An index out of bounds is undefined.
        """
        del core
        if n.P % GPSIMD_CORE_PARTITIONS:
            self.refuse(
                f"{n.P} partitions; legal: a multiple of {GPSIMD_CORE_PARTITIONS}",
                "pad the tiles; a GpSimd core gathers in 16 partitions",
            )
        if self.index.start_partition != self.src_buffer.start_partition:
            self.refuse(
                f"index starts at partition {self.index.start_partition}, src_buffer at "
                f"{self.src_buffer.start_partition}; legal: the same partitions",
                "place the indices in the partitions of the data; each GpSimd core reads its own",
            )
        check_same_dtype(self, self.dst, self.src_buffer, "src_buffer")
        self._check_counts(n)

    def execute(self, machine: Machine) -> None:
        """Bit for bit; an index out of bounds is undefined."""
        del machine
        self.dst.put(self._gather(self.src_buffer.bits()))

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The gathered elements that are written; none if an index in use is unwritten."""
        if tile is self.index:
            dst_flags = np.full(self.dst.shape, self._used_indices(flags).all())
        else:
            dst_flags = self._gather(flags)
        return [(self.dst, dst_flags)] if dst_flags.any() else None

    def _used_indices(self, values: Array) -> Array:
        """The elements of `values`, an array of index's shape, that are used: [cores, indices].

        A row has those of one GpSimd core's partitions, column by column.
        """
        by_core = values.reshape(-1, GPSIMD_CORE_PARTITIONS, free_size(self.index))
        return by_core.transpose(0, 2, 1).reshape(len(by_core), -1)[:, : self._count()]

    def _gather(self, values: Array) -> Array:
        """The elements of `values`, an array of src_buffer's shape, in the order of dst."""
        source, per_index = self.src_buffer, self.num_elem_per_idx
        cores, limit = source.partitions // GPSIMD_CORE_PARTITIONS, free_size(source)
        indices = self._used_indices(self.index.bits())
        if int(indices.max()) + per_index > limit:
            raise UndefinedBehavior(
                f"local_gather: index {indices.max()} with {per_index} elements per index, of a "
                f"src_buffer with {limit} elements in a partition; legal: 0 to {limit - per_index}",
                fix="keep the indices within a partition of src_buffer; they count elements",
                source=self.source,
            )
        elements = indices[:, :, None].astype(np.int64) + np.arange(per_index)
        data = values.reshape(cores, GPSIMD_CORE_PARTITIONS, limit)
        return np.take_along_axis(data, elements.reshape(cores, 1, -1), axis=-1)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """150 + N / C cycles, where C = (28 + 4e) / 4e / min(4 / itemsize, e).

        e is `num_elem_per_idx`, N the free size of dst, itemsize that of src_buffer in bytes. The
        formula is that of SDK 2.26.
        """
        per_index = self.num_elem_per_idx
        step = core.gpsimd_gather_step_cycles * per_index
        words = min(_WORD_BYTES / self.src_buffer.dtype.itemsize, per_index)
        rate = (core.gpsimd_gather_overhead_cycles + step) / step / words
        return lane_cost(core, Engine.gpsimd, core.gpsimd_overhead_cycles + n.N / rate)

    def _count(self) -> int:
        """The number of indices of a GpSimd core."""
        if self.num_valid_indices is not None:
            return self.num_valid_indices
        return GPSIMD_CORE_PARTITIONS * free_size(self.index)

    def _check_counts(self, n: Dims) -> None:
        per_index, count = self.num_elem_per_idx, self._count()
        if per_index not in _ELEMENTS_PER_INDEX:
            self.refuse(
                f"num_elem_per_idx={per_index}; legal: {', '.join(map(str, _ELEMENTS_PER_INDEX))}",
                "gather in one of these lengths",
            )
        limit = min(GPSIMD_CORE_PARTITIONS * n.I, _MAX_INDICES)
        if not 1 <= count <= limit:
            self.refuse(
                f"{count} indices a GpSimd core; legal: 1 to {limit}, as many as index has in 16 "
                f"partitions and no more than {_MAX_INDICES}",
                "gather in several instructions, or pass num_valid_indices",
            )
        if count * per_index != n.N:
            self.refuse(
                f"dst is {self.dst}; legal: {count} indices x {per_index} elements = "
                f"{count * per_index} elements a partition",
                "size dst so that num_valid_indices * num_elem_per_idx is its free size, and pass "
                "both",
                "release-notes/components/nki.rst, NKI 0.6.0, Known Issues",
            )


class NcNGather(Instruction, engines=(Engine.gpsimd,), opcode="nc_n_gather"):
    """``dst[p, i] = data[p, indices[p, i]]``, with the free axes of `data` flattened.

    dst and indices (uint32) are [P, I], data is [P, F].
    """

    dst: Tile = writes("P I", SBUF)
    data: Tile = reads("P F", SBUF)
    indices: Tile = reads("P I", SBUF, dtypes=(UINT32,))

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`dst` has the dtype of data.

        - Indices are less than the number of elements per partition of data.
        """
        del core, n
        check_same_dtype(self, self.dst, self.data, "data")

    def execute(self, machine: Machine) -> None:
        """Bit for bit; an index out of bounds is refused."""
        del machine
        self.dst.put(self._gather(self.data.bits()))

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The gathered elements that are written; None for indices, which must all be written."""
        if tile is self.indices:
            return None
        dst_flags = self._gather(flags)
        return [(self.dst, dst_flags)] if dst_flags.any() else None

    def _gather(self, values: Array) -> Array:
        """The elements of `values`, an array of data's shape, in the order of dst."""
        limit = free_size(self.data)
        indices: Array = self.indices.bits().reshape(self.data.partitions, -1).astype(np.int64)
        if int(indices.max()) >= limit:
            self.refuse(
                f"index {indices.max()} of {self.data}; legal: 0 to {limit - 1}",
                "keep the indices within a partition of data",
            )
        return np.take_along_axis(values.reshape(self.data.partitions, limit), indices, axis=1)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """I cycles, and 150 for each group of 512 elements; the price of a group is assumed.

        AWS gives the number of groups.
        """
        groups = -(-n.I // _GROUP_ELEMENTS)
        return lane_cost(core, Engine.gpsimd, groups * core.gpsimd_overhead_cycles + n.I)
