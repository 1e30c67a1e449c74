"""What an instruction moves without looking at it, and what of a tile has been written then."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Literal

import numpy as np

if TYPE_CHECKING:
    from trnsim.dtypes import Array
    from trnsim.isa.language.instruction import Instruction
    from trnsim.memory import Tile


@dataclass(frozen=True, slots=True)
class Movement:
    """Bits that an instruction moves without looking at them.

    Attributes:
        src: where they come from.
        dst: where they go.
        arrange: the rearrangement, of an array of src's shape into one of dst's size.
    """

    src: Tile
    dst: Tile
    arrange: Callable[[Array], Array]


Spread = Literal["", "elements", "prefixes", "rows"]
"""Which elements of an operand a result needs, where their axes have the same letters: those of its
own place, all before it in its row too, or its whole row. "" is for what cannot be read in part."""


def reached(flags: Array, axes: tuple[str, ...], result: tuple[str, ...], spread: Spread) -> Array:
    """Which elements of a result come of written ones, in a shape that broadcasts to [P, F].

    An axis that the result has not was reduced, and needs all; one that the operand has not was
    broadcast.

    Args:
        flags: whether each element of the operand is written.
        axes: the operand's letters.
        result: the result's letters.
        spread: how the instruction's elements depend on each other.
    """
    known: Array = flags.reshape(len(flags), -1)
    if spread == "prefixes":
        known = np.logical_and.accumulate(known, axis=1)
    elif spread == "rows":
        known = known & known.all(axis=1, keepdims=True)
    for dim, axis in enumerate(axes):
        if axis not in result or axis == "1":
            known = np.asarray(known.all(axis=dim, keepdims=True))
    kept = [axis for axis in axes if axis in result and axis != "1"]
    order = [axis for axis in result if axis in kept]
    is_moved = any(result.index(axis) != axes.index(axis) for axis in kept)
    return known.T if is_moved or kept != order else known


def spread_over_results(
    instruction: Instruction, tile: Tile, flags: Array
) -> list[tuple[Tile, Array]]:
    """What an instruction's `spread` says of its results where `tile` is written where `flags`.

    Returns:
        Each written operand with a boolean an element; nothing without a `spread`, and where an
        index decides where a result lies.
    """
    operands = instruction.operands
    held = {name: getattr(instruction, name) for name in operands}
    axes = next((operand.axes for name, operand in operands.items() if held[name] is tile), ())
    left: list[tuple[Tile, Array]] = []
    for name, operand in operands.items():
        result = held[name]
        if operand.access not in ("write", "update") or result is None:
            continue
        if not (instruction.spread and axes) or result.index is not None:
            return []
        known = reached(flags, axes, operand.axes, instruction.spread)
        flat = np.broadcast_to(known, (result.shape[0], prod(result.shape[1:])))
        left.append((result, flat.reshape(result.shape)))
    return left


def as_it_is(array: Array) -> Array:
    """No rearrangement."""
    return array


def transposed_rows(array: Array) -> Array:
    """The transpose of an array whose free axes are flattened."""
    return array.reshape(len(array), -1).T
