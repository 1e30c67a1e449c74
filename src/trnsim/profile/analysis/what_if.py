"""Hypothetical instructions: wider tiles, fewer bits, another engine; costed by their own class.

Each change makes a legal instruction and uses its declared cost; it does not depend on the
computation of the instruction. Then the whole program is scheduled again with the new costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from trnsim.arch import NeuronCore
from trnsim.dtypes import BFLOAT16, FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import Cost, Engine, Instruction
from trnsim.memory import AccessPattern, Memory, Storage, Tile
from trnsim.timing import EnginePlacement


class Growth(NamedTuple):
    """The growth of all tiles of a shape.

    Attributes:
        rows: partitions of a tile that grows, or 0 for none.
        row_factor: factor by which these partitions increase.
        columns: length of the last axis of a tile that grows, or 0 for none.
        column_factor: factor by which it becomes longer.
    """

    rows: int = 0
    row_factor: int = 1
    columns: int = 0
    column_factor: int = 1

    @property
    def is_none(self) -> bool:
        """True if no tile changes."""
        return self.row_factor == self.column_factor == 1

    def concerns(self, shape: tuple[int, ...]) -> bool:
        """True if a tile of this shape grows."""
        is_tall = self.row_factor > 1 and shape[0] == self.rows
        return is_tall or (self.column_factor > 1 and len(shape) > 1 and shape[-1] == self.columns)


def scale(cost: Cost, share: float) -> Cost:
    """`share` of a cost: the part of one of several merged instructions."""
    return replace(
        cost,
        interval_s=cost.interval_s * share,
        latency_s=cost.latency_s * share,
        issue_s=cost.issue_s * share,
    )


def merge(
    instruction: Instruction, core: NeuronCore, factor: int, axis: str | None
) -> EnginePlacement | None:
    """The placement of `factor` instructions merged into one; None where that is illegal.

    The merged instruction's contiguous tiles grow along the free axis; with `axis`, only tiles that
    have it there.
    """
    column_factor: dict[str, Any] = {}
    for name, operand in instruction.operands.items():
        tile = getattr(instruction, name)
        if isinstance(tile, Tile) and (axis is None or operand.axes[-1:] == (axis,)):
            if len(tile.shape) == 1 and tile.memory.is_on_chip:
                return None
            column_factor[name] = _enlarge(tile, 1, factor)
    return _legal_placement(_with_changes(instruction, column_factor), core)


def grow(instruction: Instruction, core: NeuronCore, growth: Growth) -> EnginePlacement | None:
    """The placement of the instruction on grown tiles; None where that is illegal.

    A tile in HBM grows with the one on chip.
    """
    changes: dict[str, Any] = {}
    is_transfer = instruction.chosen_engine(core) is Engine.dma
    for name in instruction.operands:
        tile = getattr(instruction, name)
        if isinstance(tile, Tile) and (is_transfer or growth.concerns(tile.shape)):
            rows = growth.row_factor if is_transfer or tile.shape[0] == growth.rows else 1
            columns = growth.column_factor if is_transfer or tile.shape[-1] == growth.columns else 1
            changes[name] = _enlarge(tile, rows, columns)
    return _legal_placement(_with_changes(instruction, changes), core)


def place_in_groups(
    indices: Sequence[int], factor: int, merged: EnginePlacement, *, first: bool
) -> dict[int, EnginePlacement]:
    """Placements of instructions where every `factor` of them, in order, become `merged`.

    With `first`, as for loads, the first of a group bears the cost, and all results are ready with
    its own. Else the last one bears it: a product, an eviction or a store is done after the last.
    """
    engine, cost = merged
    latency_s = cost.latency_s if first else 0.0
    free_placement = EnginePlacement(engine, Cost(interval_s=0.0, latency_s=latency_s))
    placements: dict[int, EnginePlacement] = {}
    for start in range(0, len(indices), factor):
        group = indices[start : start + factor]
        placements |= dict.fromkeys(group, free_placement)
        placements[group[0 if first else -1]] = EnginePlacement(
            engine, scale(cost, len(group) / factor)
        )
    return placements


def narrow(instruction: Instruction, core: NeuronCore) -> EnginePlacement | None:
    """The instruction with bfloat16 in place of float32 in SBUF; None where that is illegal.

    Inputs and results are changed where that is legal, otherwise only inputs.
    """
    sbuf_tiles = {
        name: _halve(tile)
        for name in instruction.operands
        if isinstance(tile := getattr(instruction, name), Tile)
        and tile.memory is Memory.SBUF
        and tile.dtype == FLOAT32
    }
    inputs = {n: tile for n, tile in sbuf_tiles.items() if instruction.operands[n].access == "read"}
    for tiles in (sbuf_tiles, inputs):
        if (
            tiles
            and (placement := _legal_placement(_with_changes(instruction, tiles), core)) is not None
        ):
            return placement
    return None


def move(instruction: Instruction, core: NeuronCore, engine: Engine) -> EnginePlacement | None:
    """The instruction on `engine`; None where it has no such operand or the core refuses it."""
    if not hasattr(instruction, "engine") or engine not in instruction.engines:
        return None
    return _legal_placement(_with_changes(instruction, {"engine": engine}), core)


def _with_changes(instruction: Instruction, changes: dict[str, Any]) -> Instruction:
    changed_instruction: Instruction = replace(instruction, **changes)
    return changed_instruction


def _legal_placement(instruction: Instruction, core: NeuronCore) -> EnginePlacement | None:
    try:
        dims = instruction.verify(core)
    except IllegalInstruction:
        return None
    return EnginePlacement(instruction.chosen_engine(core), instruction.price(core, dims))


def _enlarge(tile: Tile, row_factor: int, column_factor: int) -> Tile:
    *outer_shape, columns = tile.shape
    shape = (*outer_shape, columns * column_factor)
    shape = (shape[0] * row_factor, *shape[1:])
    pattern = AccessPattern.dense(shape, tile.dtype.itemsize)
    nbytes = pattern.elements * tile.dtype.itemsize
    pitch_bytes = nbytes // shape[0] if tile.memory.is_on_chip else shape[-1] * tile.dtype.itemsize
    start = tile.start_partition if tile.memory.is_on_chip else 0
    storage = Storage(tile.memory, nbytes, pitch_bytes, start_partition=start)
    return Tile(storage, tile.dtype, pattern)


def _halve(tile: Tile) -> Tile:
    storage, pattern = tile.storage, tile.pattern
    storage = Storage(
        storage.memory,
        storage.nbytes // 2,
        storage.pitch_bytes // 2,
        start_partition=storage.start_partition,
    )
    strides = tuple(stride // 2 for stride in pattern.strides_bytes)
    return Tile(storage, BFLOAT16, AccessPattern(pattern.shape, strides, pattern.offset_bytes // 2))
