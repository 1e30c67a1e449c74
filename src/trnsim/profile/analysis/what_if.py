"""Hypothetical instructions: wider tiles, fewer bits, another engine; costed by their own class.

Each change makes a legal instruction and takes its declared cost, without knowing what the
instruction computes. Then the whole program is scheduled again with the new costs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from trnsim.dtypes import BFLOAT16, FLOAT32
from trnsim.errors import IllegalInstruction
from trnsim.isa import Cost, Engine, Instruction
from trnsim.memory import AccessPattern, Memory, Storage, Tile
from trnsim.timing import Placement

if TYPE_CHECKING:
    from trnsim.arch import NeuronCore
    from trnsim.program import Program


def recorded(program: Program) -> list[Placement]:
    """The placement of each distinct instruction as it was recorded."""
    return [Placement(checked.engine, checked.cost) for checked in program.checked]


def scaled(cost: Cost, share: float) -> Cost:
    """`share` of a cost: the part of one of several merged instructions."""
    return replace(
        cost,
        interval_s=cost.interval_s * share,
        latency_s=cost.latency_s * share,
        issue_s=cost.issue_s * share,
    )


def merged(
    instruction: Instruction, core: NeuronCore, factor: int, axis: str | None
) -> Placement | None:
    """The placement of one of `factor` instructions merged into one; None where that is illegal.

    The merged instruction's contiguous tiles grow along the free axis; with `axis`, only tiles that
    have it there. Each of the `factor` instructions carries an equal share of issue, interval
    and latency.
    """
    wider: dict[str, Any] = {}
    for name, operand in instruction.operands.items():
        tile = getattr(instruction, name)
        if isinstance(tile, Tile) and (axis is None or operand.axes[-1:] == (axis,)):
            if len(tile.shape) == 1 and tile.memory.is_on_chip:
                return None
            wider[name] = _widened(tile, factor)
    placement = _priced(_with(instruction, wider), core)
    if placement is None:
        return None
    return Placement(placement.engine, scaled(placement.cost, 1 / factor))


def narrowed(instruction: Instruction, core: NeuronCore) -> Placement | None:
    """The instruction with bfloat16 in place of float32 in SBUF; None where that is illegal.

    Inputs and results are changed where that is legal, else inputs alone.
    """
    in_sbuf = {
        name: _halved(tile)
        for name in instruction.operands
        if isinstance(tile := getattr(instruction, name), Tile)
        and tile.memory is Memory.SBUF
        and tile.dtype == FLOAT32
    }
    inputs = {n: tile for n, tile in in_sbuf.items() if instruction.operands[n].access == "read"}
    for tiles in (in_sbuf, inputs):
        if tiles and (placement := _priced(_with(instruction, tiles), core)) is not None:
            return placement
    return None


def moved(instruction: Instruction, core: NeuronCore, engine: Engine) -> Placement | None:
    """The instruction on `engine`; None where it has no such operand or the core refuses it."""
    if not hasattr(instruction, "engine") or engine not in instruction.engines:
        return None
    return _priced(_with(instruction, {"engine": engine}), core)


def _with(instruction: Instruction, changes: dict[str, Any]) -> Instruction:
    changed: Instruction = replace(instruction, **changes)
    return changed


def _priced(instruction: Instruction, core: NeuronCore) -> Placement | None:
    try:
        dims = instruction.verify(core)
    except IllegalInstruction:
        return None
    return Placement(instruction.chosen_engine(core), instruction.price(core, dims))


def _widened(tile: Tile, factor: int) -> Tile:
    *outer, last = tile.shape
    shape = (*outer, last * factor)
    pattern = AccessPattern.dense(shape, tile.dtype.itemsize)
    nbytes = pattern.elements * tile.dtype.itemsize
    pitch_bytes = nbytes // shape[0] if tile.memory.is_on_chip else shape[-1] * tile.dtype.itemsize
    start = tile.start_partition if tile.memory.is_on_chip else 0
    storage = Storage(tile.memory, nbytes, pitch_bytes, start_partition=start)
    return Tile(storage, tile.dtype, pattern)


def _halved(tile: Tile) -> Tile:
    bare, pattern = tile.storage, tile.pattern
    storage = Storage(
        bare.memory, bare.nbytes // 2, bare.pitch_bytes // 2, start_partition=bare.start_partition
    )
    strides = tuple(stride // 2 for stride in pattern.strides_bytes)
    return Tile(storage, BFLOAT16, AccessPattern(pattern.shape, strides, pattern.offset_bytes // 2))
