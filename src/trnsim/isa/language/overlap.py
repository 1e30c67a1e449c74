"""Refusal of results that overlap an operand, shifted against it.

A result in place of an operand is well defined: each element is read before it is written. Where
dst covers other elements of src, values depend on how far an engine has read when it writes, which
AWS does not document.

Source: trainium_inferentia2_arch.rst, Vector Engine and Scalar Engine: lanes "stream data from a
SBUF/PSUM partition, perform mathematical operations, and write data back to each SBUF/PSUM
partition in a deeply pipelined fashion".
"""

from __future__ import annotations

from functools import lru_cache

from trnsim.errors import UndefinedBehavior
from trnsim.isa.language.definedness import identity
from trnsim.isa.language.instruction import Instruction
from trnsim.memory import AccessPattern, ByteMask, Tile

_MOST_CACHED_PAIRS = 1 << 12


def is_streaming(instruction: Instruction) -> bool:
    """True for an instruction that writes elements while it reads others."""
    return (
        instruction.result_depends_on in {"same element", "elements so far"}
        or instruction.movement() is not None
    )


def keeps_order(instruction: Instruction) -> bool:
    """True if element i of an operand goes to element i of the result: false for transposes."""
    movement = instruction.movement()
    return movement is None or movement.arrange is identity


def refuse_overlap(instruction: Instruction, dst: Tile, src: Tile) -> None:
    """Raise if elements of `dst` share bytes with other elements of `src`, in the same storage.

    Operands of another size, such as a bias for each partition, are read as a whole.

    Raises:
        UndefinedBehavior: names both tiles.
    """
    dst_layout, src_layout = dst.layout, src.layout
    may_overlap = dst_layout.box.overlaps(src_layout.box)
    if not may_overlap or dst.index is not None or src.index is not None:
        return
    if dst.pattern.elements != src.pattern.elements:
        return
    is_in_place = dst_layout is src_layout or dst.pattern.order == src.pattern.order
    if is_in_place and keeps_order(instruction):
        return
    if share_bytes(dst.storage.nbytes, dst_layout.runs, src_layout.runs):
        raise UndefinedBehavior(
            f"{instruction.opcode} writes {dst} over other elements of {src}, both of the tensor "
            f"allocated at {dst.storage.line}: AWS does not say which of them are read first",
            fix="write to a tensor of its own and copy it back, or write in place: dst and "
            "operand the same view",
            source="trainium_inferentia2_arch.rst, Vector Engine: engines read and write in a "
            "deeply pipelined fashion",
        )


@lru_cache(maxsize=_MOST_CACHED_PAIRS)
def share_bytes(
    nbytes: int, first: tuple[AccessPattern, int], second: tuple[AccessPattern, int]
) -> bool:
    """True if two patterns of a storage of `nbytes`, with the bytes of their runs, overlap."""
    mask = ByteMask(nbytes)
    mask.add(*first)
    return not mask.is_disjoint(*second)
