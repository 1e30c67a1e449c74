"""The elements of a result that are written, if an operand is only partly written."""

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
"""The elements of an operand on which a result element depends: the element at the same position,
this one and all before it in the row, or the whole row. "": all, so the operand must be fully
written."""


def result_flags(
    flags: Array, axes: tuple[str, ...], result_axes: tuple[str, ...], dependence: Dependence
) -> Array:
    """One boolean per element of a result: whether it depends on written elements alone.

    An axis that only the operand has is reduced: all of its elements must be written. An axis that
    only the result has has length 1, to broadcast to the result's shape.

    Args:
        flags: one boolean per element of the operand: whether it is written.
        axes: the operand's axis letters.
        result_axes: the result's axis letters.
        dependence: the instruction's declared `result_depends_on`.
    """
    matrix: Array = flags.reshape(len(flags), -1)
    if dependence == "elements so far":
        matrix = np.logical_and.accumulate(matrix, axis=1)
    elif dependence == "row":
        matrix = matrix & matrix.all(axis=1, keepdims=True)
    for dim, axis in enumerate(axes):
        if axis not in result_axes or axis == "1":
            matrix = np.asarray(matrix.all(axis=dim, keepdims=True))
    shared_axes = [axis for axis in axes if axis in result_axes and axis != "1"]
    order = [axis for axis in result_axes if axis in shared_axes]
    is_moved = any(result_axes.index(axis) != axes.index(axis) for axis in shared_axes)
    return matrix.T if is_moved or shared_axes != order else matrix


def written_results(instruction: Instruction, tile: Tile, flags: Array) -> list[tuple[Tile, Array]]:
    """The written elements of each result, if operand `tile` is written only where `flags` holds.

    Returns:
        (result tile, a boolean per element) for each; empty without a `result_depends_on`, or if an
        index decides where a result lies.
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
        dst_flags = result_flags(flags, axes, operand.axes, instruction.result_depends_on)
        flat = np.broadcast_to(dst_flags, (result.shape[0], prod(result.shape[1:])))
        results.append((result, flat.reshape(result.shape)))
    return results


def identity(array: Array) -> Array:
    """The array itself: the `Movement.arrange` of a copy."""
    return array


def transposed_rows(array: Array) -> Array:
    """The transpose of an array with its free axes flattened: a `Movement.arrange`."""
    return array.reshape(len(array), -1).T


def is_plain_copy(dst: Tile, src: Tile) -> bool:
    """True for tiles of one dtype and shape at fixed addresses, which `copy_src_to_dst` takes."""
    return (
        dst.index is None
        and src.index is None
        and dst.dtype == src.dtype
        and dst.shape == src.shape
    )


def copy_src_to_dst(instruction: Any, machine: object) -> None:
    """``dst = src`` as one copy of numpy: the plan of a plain copy."""
    del machine
    instruction.dst.array[...] = instruction.src.array
