"""Refusals of operands for their shape: lengths that disagree, gaps between partitions."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from trnsim.memory import Tile

if TYPE_CHECKING:
    from collections.abc import Iterator

    from trnsim.isa.language.instruction import Instruction


def refuse_length(
    instruction: Instruction, name: str, axis: str, expected: int, tile: Tile
) -> NoReturn:
    """Refuse the length of an axis of an operand.

    Args:
        instruction: the instruction.
        name: the operand.
        axis: the letter of the axis; "1" for a length of one.
        expected: the length that an earlier operand gave the axis.
        tile: the operand's tile.

    Raises:
        IllegalInstruction: names both operands, and the shape to give.
    """
    operand = instruction.operands[name]
    length = next(n for n in _axis_lengths(operand.axes, axis, tile) if n != expected)
    shape = f"[{', '.join(operand.axes)}]"
    if axis == "1":
        instruction.refuse(
            f"axis 1 must be 1 but {length} in `{name}`, which is {tile}",
            f"give `{name}` the shape {shape}"
            + (", or pass a number" if operand.is_immediate else ""),
        )
    reason = f"axis {axis} is {expected} elsewhere but {length} in `{name}`, which is {tile}"
    fix = f"give `{name}` the shape {shape} with {axis} = {expected}"
    for other, partner in _with_length(instruction, axis, expected):
        instruction.refuse(
            f"{reason}; it is {expected} in `{other}`, which is {partner}",
            f"{fix}, or `{other}` with {axis} = {length}",
        )
    instruction.refuse(reason, fix)


def _with_length(instruction: Instruction, axis: str, length: int) -> Iterator[tuple[str, Tile]]:
    """(name, tile) of each operand whose axis `axis` has `length`."""
    for name, operand in instruction.operands.items():
        value: Any = getattr(instruction, name)
        for tile in value if isinstance(value, tuple) else (value,):
            if isinstance(tile, Tile) and length in _axis_lengths(operand.axes, axis, tile):
                yield name, tile


def _axis_lengths(axes: tuple[str, ...], axis: str, tile: Tile) -> list[int]:
    """The lengths of the axes named `axis`: the tile's partitions, its elements per partition."""
    lengths = (tile.shape[0], prod(tile.shape[1:]))
    return [n for letter, n in zip(axes, lengths, strict=False) if letter == axis]


def check_partition_step(instruction: Instruction, name: str, tile: Tile) -> None:
    """Refuse a tile on chip with gaps between its partitions.

    Raises:
        IllegalInstruction: names the step.
    """
    step = tile.pattern.strides_bytes[0] / tile.storage.pitch_bytes
    if tile.partitions > 1 and step != 1:
        instruction.refuse(
            f"`{name}` is {tile}, whose partitions lie {step:g} apart; legal: 1 apart",
            "copy the partitions that you need to a tile of their own with nisa.dma_copy",
            "nki-aps.rst, Restriction on SBUF/PSUM Tensors",
        )
