"""Sorting and searching on the GpSimd Engine: topk, nonzero_with_count, sequence_bounds."""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import BFLOAT16, FLOAT32, INT32, UINT32
from trnsim.errors import Unspecified
from trnsim.isa.gpsimd.gather import GPSIMD_CORE_PARTITIONS
from trnsim.isa.gpsimd.pattern import Integer, check_int32, int32
from trnsim.isa.language.declaration import reads, reads_register, writes
from trnsim.isa.language.fields import are_tiles, is_whole
from trnsim.isa.language.instruction import SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.support import check_support
from trnsim.memory import Tile

_TOPK_N_RANGE: Final = (8, 1 << 16)
"""Range of topk's n: the least legal value and the exclusive end."""
_TOPK_K_END: Final = 1 << 15
"""Exclusive end of topk's K, the number of values that it returns."""
_BOUNDS_PER_ELEMENT: Final = 2
_TILE_RANK: Final = 2


def _first_columns(tile: Tile, columns: int) -> Tile:
    """The first `columns` of a two-dimensional tile; any other tile unchanged."""
    if len(tile.shape) != _TILE_RANK or not 0 < columns < tile.shape[1]:
        return tile
    return Tile(tile.storage, tile.dtype, tile.pattern.slice(1, 0, columns), tile.index)


def _partitions(tile: Tile) -> list[Tile]:
    """A tile for each partition of `tile`."""
    return [
        Tile(tile.storage, tile.dtype, tile.pattern.slice(0, row, row + 1))
        for row in range(tile.partitions)
    ]


def _first_partitions(tile: Tile) -> Tile:
    """The partitions 0, 16, 32, ... of `tile`: the first of each GpSimd core."""
    pattern = tile.pattern.slice(0, 0, tile.partitions, GPSIMD_CORE_PARTITIONS)
    return Tile(tile.storage, tile.dtype, pattern, tile.index)


class Topk(Instruction, engines=(Engine.gpsimd,)):
    """``val_dst = the K largest of n values, ascending``; `idx_dst` has their indices.

    val_dst and idx_dst are [P, K], src is [P, F]. Each GpSimd core reads its 16 partitions column
    by column: value i lies in partition i % 16, column i // 16. All 16 partitions receive the
    same result.

    Note:
        AWS does not say which partitions of a core receive the result (here all), nor how equal
        values are ordered (here the one with the lower index counts as larger). The order of NaN is
        not documented; NaN is refused.
    """

    val_dst: Tile = writes("P K", SBUF, dtypes=(BFLOAT16,))
    idx_dst: Tile = writes("P K", SBUF, dtypes=(UINT32,))
    src: Tile = reads("P F", SBUF, dtypes=(BFLOAT16,))
    n: int

    def check(self, core: NeuronCore, n: Dims) -> None:
        """A multiple of 16 partitions.

        - 8 <= n < 65536; 1 <= K < 32768; K <= n.
        - src has at least n / 16 columns.
        """
        del core
        low, high = _TOPK_N_RANGE
        if n.P % GPSIMD_CORE_PARTITIONS:
            self.refuse(
                f"{n.P} partitions; legal: a multiple of {GPSIMD_CORE_PARTITIONS}", "pad the tiles"
            )
        if not low <= self.n < high:
            self.refuse(f"n={self.n}; legal: {low} to {high - 1}", "split the values into parts")
        if n.K >= _TOPK_K_END or self.n < n.K:
            self.refuse(
                f"K={n.K}, the free size of val_dst, with n={self.n}; legal: 1 to "
                f"{min(self.n, _TOPK_K_END - 1)}",
                "ask for fewer values",
            )
        if self.n > n.F * GPSIMD_CORE_PARTITIONS:
            self.refuse(
                f"n={self.n} with src of {n.F} columns; legal: at least "
                f"{-(-self.n // GPSIMD_CORE_PARTITIONS)} columns",
                "lay the values out 16 to a column, one per partition",
            )

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """Reads the columns of `src` that hold the n values; writes both results."""
        read_tiles, written_tiles = super().accesses()
        if not is_whole(self.n):  # `verify` refuses it
            return read_tiles, written_tiles
        columns = -(-self.n // GPSIMD_CORE_PARTITIONS)
        return [_first_columns(tile, columns) for tile in read_tiles], written_tiles

    def execute(self, machine: Machine) -> None:
        """Values are compared as stored; NaN is refused, as its order is not documented."""
        del machine
        cores = self.src.partitions // GPSIMD_CORE_PARTITIONS
        by_core = self.src.load().reshape(cores, GPSIMD_CORE_PARTITIONS, -1)
        values = by_core.transpose(0, 2, 1).reshape(cores, -1)[:, : self.n]
        if np.isnan(values).any():
            raise Unspecified(
                "topk of values that hold NaN: AWS does not say where NaN is sorted",
                fix="replace NaN before, for example with nisa.select_reduce",
                source=self.source,
            )
        k = self.val_dst.pattern.elements // self.val_dst.partitions
        indices = np.argsort(-values, axis=1, kind="stable")[:, :k][:, ::-1]
        top_values = np.take_along_axis(values, indices, axis=1)
        self.val_dst.store(np.repeat(top_values, GPSIMD_CORE_PARTITIONS, axis=0))
        self.idx_dst.put(np.repeat(indices, GPSIMD_CORE_PARTITIONS, axis=0).astype(np.uint32))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """4n + K GpSimd Engine cycles."""
        cycles = core.gpsimd_topk_cycles_per_element * self.n + n.K
        return lane_cost(core, Engine.gpsimd, cycles)


class NonzeroWithCount(Instruction, engines=(Engine.gpsimd,)):
    """``dst = indices of the nonzero elements of src + index_offset, padding, and their number``.

    src is [P, T], dst [P, T + 1]. Only partitions 0, 16, 32, ... are read and written: each GpSimd
    core works on the first of its 16.
    """

    dst: Tile = writes("P N", SBUF, dtypes=(INT32,))
    src: Tile = reads("P T", SBUF, dtypes=(FLOAT32, INT32))
    index_offset: Integer = reads_register(default=0)
    padding_val: Integer = reads_register(default=-1)

    def check(self, core: NeuronCore, n: Dims) -> None:
        """From NeuronCore-v3 on.

        - dst has one element more per partition than src.
        - `index_offset` and `padding_val` are whole numbers of 32 bits, or registers.
        """
        check_support(
            self,
            core,
            lambda core: core.features.nonzero_with_count,
            "run it with target='{target}', or find the places on the host",
            request=f"not on {core.name}",
        )
        if n.N != n.T + 1:
            self.refuse(
                f"dst is {self.dst}; legal: {n.T} + 1 elements a partition, the last for the count",
                "allocate dst with one element more than src",
            )
        check_int32(self, "index_offset", "padding_val")

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """Writes every 16th partition of dst; reads those of src with any written element.

        Public kernels use only as many of the eight cores as they need; the results of the others
        are not read.
        """
        if not are_tiles(self.dst, self.src):  # `verify` refuses them
            return super().accesses()
        rows = _partitions(_first_partitions(self.src))
        written_rows = [row for row in rows if row.written_flags().any()]
        return written_rows or rows, [_first_partitions(self.dst)]

    def fully_written_tiles(self) -> list[Tile]:
        """Every 16th partition of dst."""
        return [_first_partitions(self.dst)]

    def execute(self, machine: Machine) -> None:
        """Integers; indices wrap around in int32."""
        del machine
        dst, src = _first_partitions(self.dst), _first_partitions(self.src)
        rows = src.bits().reshape(src.partitions, -1)
        results = np.full((len(rows), rows.shape[1] + 1), int32(self.padding_val), np.int32)
        for row, result in zip(rows, results, strict=True):
            indices = np.flatnonzero(row).astype(np.int32)
            result[: len(indices)] = indices + int32(self.index_offset)
            result[-1] = len(indices)
        dst.put(results)

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """150 + T GpSimd Engine cycles: assumed as iota; AWS publishes none."""
        return lane_cost(core, Engine.gpsimd, core.gpsimd_overhead_cycles + n.T)


class SequenceBounds(Instruction, engines=(Engine.gpsimd,)):
    """``dst[0, 0, i], dst[0, 1, i] = start, end of the segment of element i``.

    segment_ids is [1, F], dst [1, 2, F]. A segment is a run of equal ids. Its end is exclusive:
    nisa.range_select takes such ranges [start, end). Padding (id 0) has F as its start and -1 as
    its end: an empty range.
    """

    dst: Tile = writes("1 D", SBUF, dtypes=(FLOAT32, INT32))
    segment_ids: Tile = reads("1 F", SBUF, dtypes=(FLOAT32, INT32))

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`dst` has two bounds for each element.

        - Segment ids are whole and not negative.
        """
        del core
        if n.D != _BOUNDS_PER_ELEMENT * n.F:
            self.refuse(
                f"dst is {self.dst}; legal: [1, {_BOUNDS_PER_ELEMENT}, {n.F}]",
                "allocate dst with two rows",
            )

    def execute(self, machine: Machine) -> None:
        """Indices within the row; ids must be whole and not negative."""
        del machine
        ids = self.segment_ids.bits().reshape(-1)
        illegal_ids = ids[~((ids >= 0) & np.isfinite(ids) & (ids == np.floor(ids)))]
        if illegal_ids.size:
            self.refuse(
                f"segment id {illegal_ids[0]:g}; legal: whole numbers of at least 0",
                "number the segments from 1, and padding as 0",
            )
        length = len(ids)
        segment_starts = np.flatnonzero(np.append(True, ids[1:] != ids[:-1]))
        lengths = np.diff(np.append(segment_starts, length))
        starts = np.where(ids == 0, length, np.repeat(segment_starts, lengths))
        ends = np.where(ids == 0, -1, np.repeat(segment_starts + lengths, lengths))
        self.dst.store(np.stack((starts, ends)))

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """150 + 2F GpSimd Engine cycles: assumed, one pass per bound; AWS publishes none."""
        return lane_cost(
            core, Engine.gpsimd, core.gpsimd_overhead_cycles + _BOUNDS_PER_ELEMENT * n.F
        )
