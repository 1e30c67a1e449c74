"""Sums inside the DMA engines: dma_compute."""

from __future__ import annotations

import numpy as np

from trnsim.arch import NeuronCore
from trnsim.dtypes import BFLOAT16, FLOAT32, Array, Float32Array, round_to, to_float32
from trnsim.errors import UndefinedBehavior
from trnsim.isa.dma.dma_copy import check_rows, check_vector_index
from trnsim.isa.dma.transfer import count_runs, transfer_cost
from trnsim.isa.language.declaration import reads_many, writes
from trnsim.isa.language.fields import are_tiles
from trnsim.isa.language.instruction import HBM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import DgeMode, Engine, OobMode
from trnsim.memory import ScalarIndex, SnakeIndex, Tile, VectorIndex

_SOURCES_MAX = 16
_PAIR = 2
_READ_MODIFY_WRITE = "nki.isa.dma_compute, Read-Modify-Write with vector_offset"


class DmaCompute(Instruction, engines=(Engine.dma,)):
    """``dst = srcs[0] + srcs[1] + ...``, up to 16 sources, in float32 and rounded once.

    With a vector index it is a read-modify-write of two sources: a scatter,
    ``dst(HBM)[indices] += src(SBUF)``, or a gather, ``dst(SBUF) += src(HBM)[indices]``.
    """

    dst: Tile = writes("", SBUF, HBM)
    srcs: tuple[Tile, ...] = reads_many(SBUF, HBM)
    reduce_op: str
    scales: tuple[float, ...] | None = None
    unique_indices: bool = True
    oob_mode: OobMode = OobMode.error

    def check(self, core: NeuronCore, n: Dims) -> None:
        """Sums of up to 16 sources.

        - `reduce_op` is add, and every scale 1.0.
        - All tensors have equally many elements; addresses are known at compile time; no packed
          dtypes.
        - With a vector_offset: two sources, one of them dst itself. Of dst and the other source,
          one is indexed in HBM and the other is in SBUF; indices are distinct.
        - oob_mode skip needs a vector_offset.
        """
        del n
        if self.reduce_op != "add":
            self.refuse(f"reduce_op {self.reduce_op}; legal: nl.add", "add the sources")
        count = len(self.srcs)
        if count > _SOURCES_MAX:
            self.refuse(
                f"{count} srcs; legal: 1 to {_SOURCES_MAX}", "add them in several instructions"
            )
        if self.scales is not None and tuple(self.scales) != (1.0,) * count:
            self.refuse(
                f"scales={self.scales} for {count} srcs; legal: 1.0 for each, or None",
                "scale the sources with nisa.tensor_scalar first",
            )
        elements = self.dst.pattern.elements
        for tile in (self.dst, *self.srcs):
            if tile.pattern.elements != elements:
                self.refuse(
                    f"dst is {self.dst} and a source is {tile}; legal: equal numbers of elements",
                    "slice them to one size",
                    "nki.isa.dma_compute, Tile size",
                )
            self._check_addressing(tile)
        if self._is_indexed():
            self._check_read_modify_write(core)
        elif self.oob_mode is OobMode.skip:
            self.refuse(
                "oob_mode skip without a vector_offset; legal: with one", "leave oob_mode out"
            )

    def execute(self, machine: Machine) -> None:
        """Sums in float32, in order of the sources, rounded once on write."""
        del machine
        if self._is_indexed():
            self._check_pairing()
            self._check_unique()
        rows = self._rows()
        total = self._values(self.srcs[0], rows)
        for source in self.srcs[1:]:
            total = total + self._values(source, rows)
        self.dst.put(round_to(total, self.dst.dtype), rows)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The elements that are written in every source."""
        del tile
        return [(self.dst, flags)] if flags.any() and not self._is_indexed() else None

    def signature(self) -> tuple[object, ...]:
        """The signature of all instructions, and which sources are `dst`."""
        return (*super().signature(), *self._are_dst())

    def outline(self) -> DmaCompute:
        """The instruction without values, in which a source that is `dst` stays `dst`."""
        outline = self.with_tiles(Tile.without_bytes)
        pairs = zip(outline.srcs, self._are_dst(), strict=True)
        outline.srcs = tuple(outline.dst if is_dst else source for source, is_dst in pairs)
        return outline

    def _are_dst(self) -> list[bool]:
        """For each source, True if it has the elements of `dst`, addressed by the same indices."""
        sources = [tile for operand, tile in self.tiles() if operand.is_many]
        return [are_tiles(self.dst) and _is_same(source, self.dst) for source in sources]

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """Half of all sources' bytes, or dst's if these are more, at half the copy rate.

        NeuronCore-v4 adds to a tile in SBUF at the full copy rate, if all tiles are bfloat16 or all
        are float32.

        Source: trainium3_arch.rst, SBUF Read-Add-Write.
        """
        del n
        tiles = (self.dst, *self.srcs)
        read_bytes = sum(tile.nbytes for tile in self.srcs)
        dtypes = {tile.dtype for tile in tiles}
        adds_in_place = (
            len(self.srcs) == _PAIR
            and self.dst.memory is SBUF
            and any(self._are_dst())
            and dtypes in ({BFLOAT16}, {FLOAT32})
        )
        return transfer_cost(
            core,
            *tiles,
            nbytes=max(read_bytes / _PAIR, self.dst.nbytes),
            runs=max(count_runs(tile) for tile in tiles),
            hbm_bytes=sum(tile.nbytes for tile in tiles if tile.memory is HBM),
            efficiency=core.dma_read_add_write_efficiency
            if adds_in_place
            else core.dma_compute_efficiency,
        )

    def _is_indexed(self) -> bool:
        """True if an operand has a vector_offset."""
        return any(isinstance(tile.index, VectorIndex) for tile in (self.dst, *self.srcs))

    def _rows(self) -> Array | None:
        """One boolean per row: whether it is added; None for all rows."""
        if self.oob_mode is not OobMode.skip:
            return None
        masks = [tile.legal_rows() for tile in (self.dst, *self.srcs)]
        return next((mask for mask in masks if mask is not None), None)

    def _values(self, tile: Tile, rows: Array | None) -> Float32Array:
        """The values of a source in dst's shape; of `rows` alone unless they are None."""
        shape = self.dst.shape if rows is None else (int(rows.sum()), *self.dst.shape[1:])
        return to_float32(tile.bits(rows)).reshape(shape)

    def _check_addressing(self, tile: Tile) -> None:
        """Refuse dynamic addresses other than a vector_offset, and packed dtypes."""
        if isinstance(tile.index, ScalarIndex | SnakeIndex):
            self.refuse(
                f"an operand is {tile} at a dynamic address; legal: addresses known at compile "
                "time, or a vector_offset",
                "copy the part to a tile of its own with nisa.dma_copy",
                "nki.isa.dma_compute, Memory types",
            )
        if tile.dtype.is_packed:
            self.refuse(
                f"an operand is {tile}; legal: dtypes with values", "add the unquantized tensors"
            )

    def _check_read_modify_write(self, core: NeuronCore) -> None:
        """Refuse a vector_offset, unless dst is one of two sources and each index is distinct."""
        if len(self.srcs) != _PAIR or not self.unique_indices:
            self.refuse(
                f"{len(self.srcs)} srcs, unique_indices={self.unique_indices} with a "
                "vector_offset; legal: 2 srcs, unique_indices=True",
                "pass dst and what is added to it, with each index once",
                _READ_MODIFY_WRITE,
            )
        check_vector_index(self, core, "dst", self.dst, DgeMode.swdge)
        for tile in self.srcs:
            check_vector_index(self, core, "srcs", tile, DgeMode.swdge)
        check_rows(self, self.oob_mode, self.dst, *self.srcs)
        self._check_pairing()

    def _check_pairing(self) -> None:
        """Refuse unless one source is dst, and one of dst and the other source is indexed.

        The tile that is not indexed must be in SBUF.
        """
        tiles = [self.dst, *(tile for tile in self.srcs if not _is_same(tile, self.dst))]
        plain_tiles = [tile for tile in tiles if not isinstance(tile.index, VectorIndex)]
        if len(tiles) == _PAIR and [tile.memory for tile in plain_tiles] == [SBUF]:
            return
        self.refuse(
            f"dst is {self.dst} and srcs are {', '.join(map(str, self.srcs))}; legal with a "
            "vector_offset: dst itself and a tile in SBUF (scatter), or dst in SBUF itself and an "
            "indexed tensor in HBM (gather)",
            "pass dst as one of srcs, with the same vector_offset",
            _READ_MODIFY_WRITE,
        )

    def _check_unique(self) -> None:
        """Refuse a scatter that writes a row more than once; skipped rows are not written."""
        index = self.dst.index
        if not isinstance(index, VectorIndex):
            return
        rows = index.rows(self.dst.shape[0])
        mask = self._rows()
        rows = rows if mask is None else rows[mask]
        if len(np.unique(rows)) != len(rows):
            values, counts = np.unique(rows, return_counts=True)
            raise UndefinedBehavior(
                f"dma_compute: index {values[counts > 1][0]} occurs more than once in a scatter "
                "with unique_indices=True; legal: each index once",
                fix="add the rows of equal indices first",
                source="nki.isa.dma_compute, unique_indices",
            )


def _is_same(tile: Tile, other: Tile) -> bool:
    """True if both have the same elements, addressed by the same indices."""
    if tile.storage is not other.storage or tile.dtype != other.dtype:
        return False
    if tile.pattern != other.pattern:
        return False
    index, other_index = tile.index, other.index
    if isinstance(index, VectorIndex) and isinstance(other_index, VectorIndex):
        return index.stride_bytes == other_index.stride_bytes and _is_same(
            index.source, other_index.source
        )
    return index is None and other_index is None
