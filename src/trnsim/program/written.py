"""Written elements: those that an instruction may read, and those of its results.

Results that depend on unwritten elements are unwritten themselves; reading them is an error where
an instruction needs them, and so is reading bytes that another tensor has overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from trnsim.dtypes import Array
from trnsim.errors import UninitializedRead
from trnsim.isa import Instruction
from trnsim.memory import Tile

PartialWrites: TypeAlias = list[tuple[Tile, Array]]
"""Results that an instruction writes in part, with a boolean per element: True if written."""


def refuse_unreadable(
    instruction: Instruction, tile: Tile, unwritten_shared: list[UninitializedRead]
) -> None:
    """Raise if a tile has bytes that no instruction wrote, or that another tensor overwrote.

    An unwritten tensor that cores share is no error yet, because another core may still write it:
    its error is added to `unwritten_shared`.
    """
    storage = tile.storage
    if storage.written.is_full and not storage.is_placed:
        return
    if not (tile.is_written() or storage.has_sentinels):
        error = UninitializedRead(
            f"{instruction.opcode} reads {tile}, some elements of which no instruction has "
            f"written (allocated at {tile.storage.line})",
            fix="write the whole tile first: nisa.dma_copy, nisa.memset or a computation",
            source="nki_simulator.rst, Uninitialized Memory Detection",
        )
        if not tile.storage.is_shared:
            raise error
        unwritten_shared.append(error)
    tile.require_intact(instruction.opcode)


def partly_written(
    instruction: Instruction, reads: Iterable[Tile], unwritten_shared: list[UninitializedRead]
) -> PartialWrites:
    """The results that are written in part because operands are, with flags of written elements.

    Raises:
        UninitializedRead: an input has unwritten elements that the instruction needs, or bytes that
            another tensor overwrote.
    """
    partial_writes: PartialWrites = []
    for tile in reads:
        if tile.index is None and not tile.storage.written.is_full:
            if tile.is_written():
                tile.require_intact(instruction.opcode)
                continue
            writes = instruction.elements_written_after(tile, tile.written_flags())
            if writes is not None:
                tile.require_intact(instruction.opcode)
                partial_writes = _merge_flags(partial_writes, writes)
                continue
        refuse_unreadable(instruction, tile, unwritten_shared)
    return partial_writes


def shared_tiles(
    reads: Iterable[Tile], writes: Iterable[Tile], has_values: bool
) -> tuple[list[Tile], list[Tile]]:
    """The tiles in memory that cores share; without values, those at known addresses."""
    shared_reads, shared_writes = (
        [t for t in tiles if t.storage.is_shared and (has_values or t.index is None)]
        for tiles in (reads, writes)
    )
    return shared_reads, shared_writes


def note_written(tiles: Iterable[Tile], partial_writes: PartialWrites, *, by_matmul: bool) -> None:
    """Mark `tiles` as written by their instruction; tiles in `partial_writes` where flagged."""
    for tile in tiles:
        storage = tile.storage
        if not storage.written.is_full or storage.is_placed or storage.changed is not None:
            tile.mark_written()
        if storage.is_accumulated and (not by_matmul or storage.is_set_by_others):
            tile.note_psum_write(by_matmul=by_matmul)
    for tile, flags in partial_writes:
        tile.mark_written_where(flags)


def _merge_flags(first: PartialWrites, second: Sequence[tuple[Tile, Array]]) -> PartialWrites:
    """The elements that are written according to both lists of flags."""
    if not first:
        return list(second)
    return [
        (tile, flags & more_flags)
        for (tile, flags), (_, more_flags) in zip(first, second, strict=True)
    ]
