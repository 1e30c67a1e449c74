"""Written elements of results, where an operand is only partly written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from trnsim.dtypes import Array
from trnsim.memory import Tile

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction


@dataclass(frozen=True, slots=True)
class Movement:
    """A pure data movement: bits that an instruction moves without using their values.

    Attributes:
        src: the tile whose bits move.
        dst: the tile to which they move.
        arrange: function from an array of src's shape to the rearranged array of dst's size.
    """

    src: Tile
    dst: Tile
    arrange: Callable[[Array], Array]


Dependence = Literal["", "same element", "elements so far", "row"]
"""The elements of an operand on which a result element depends: the one at the same place, this one
and all before it in the row, or the whole row. "": all, so the operand must be fully written."""


def result_flags(
    flags: Array, axes: tuple[str, ...], result: tuple[str, ...], dependence: Dependence
) -> Array:
    """Flags of the result elements that depend only on written elements; broadcasts to [P, F].

    An axis that only the operand has is reduced: all of its elements must be written. An axis that
    only the result has is broadcast.

    Args:
        flags: one boolean per element of the operand: whether it is written.
        axes: the operand's axis letters.
        result: the result's axis letters.
        dependence: the instruction's declared `result_depends_on`.
    """
    flags_so_far: Array = flags.reshape(len(flags), -1)
    if dependence == "elements so far":
        flags_so_far = np.logical_and.accumulate(flags_so_far, axis=1)
    elif dependence == "row":
        flags_so_far = flags_so_far & flags_so_far.all(axis=1, keepdims=True)
    for dim, axis in enumerate(axes):
        if axis not in result or axis == "1":
            flags_so_far = np.asarray(flags_so_far.all(axis=dim, keepdims=True))
    shared_axes = [axis for axis in axes if axis in result and axis != "1"]
    order = [axis for axis in result if axis in shared_axes]
    is_moved = any(result.index(axis) != axes.index(axis) for axis in shared_axes)
    return flags_so_far.T if is_moved or shared_axes != order else flags_so_far


def written_results(instruction: Instruction, tile: Tile, flags: Array) -> list[tuple[Tile, Array]]:
    """The written elements of each result if `tile` is written where `flags` says.

    Returns:
        Each written operand with a boolean per element; empty without a `result_depends_on`, or if
        an index decides where a result lies.
    """
    operands = instruction.operands
    values = {name: getattr(instruction, name) for name in operands}
    axes = next((operand.axes for name, operand in operands.items() if values[name] is tile), ())
    results: list[tuple[Tile, Array]] = []
    for name, operand in operands.items():
        result = values[name]
        if operand.access not in ("write", "update") or result is None:
            continue
        if not (instruction.result_depends_on and axes) or result.index is not None:
            return []
        written = result_flags(flags, axes, operand.axes, instruction.result_depends_on)
        flat = np.broadcast_to(written, (result.shape[0], prod(result.shape[1:])))
        results.append((result, flat.reshape(result.shape)))
    return results


def as_it_is(array: Array) -> Array:
    """The identity rearrangement."""
    return array


def transposed_rows(array: Array) -> Array:
    """The transpose of an array whose free axes are flattened."""
    return array.reshape(len(array), -1).T


def is_plain_copy(dst: Tile, src: Tile) -> bool:
    """True for tiles of equal dtype and shape at fixed addresses: `copying` copies between them."""
    return (
        dst.index is None
        and src.index is None
        and dst.dtype == src.dtype
        and dst.shape == src.shape
    )


def copying(instruction: Any, machine: object) -> None:
    """``dst = src`` as one copy."""
    del machine
    instruction.dst.array[...] = instruction.src.array
