"""Tensor indirection: rules for operands that are gathered or scattered on chip.

Source: nki.isa, Tensor indirection (of tensor_scalar, tensor_tensor and others);
nki.language.NkiTensor.indirect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.arch import NeuronCore
from trnsim.isa.language.modes import Engine
from trnsim.isa.language.support import check_support
from trnsim.memory import Memory, SnakeIndex, Tile

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction

_INDIRECT = "nki.language.NkiTensor.indirect"


def check_indirection(
    instruction: Instruction, core: NeuronCore, scattered: str, gathered: str
) -> None:
    """Refuse `.indirect()` views before v4, of operands that do not allow them, or misaligned.

    The Scalar Engine can scatter only into SBUF.

    Args:
        instruction: the instruction whose operands are checked.
        core: the core that runs it.
        scattered: the name of the operand that may be scattered, or "".
        gathered: the name of the operand that may be gathered, or "".
    """
    views = {
        name: tile
        for name in instruction.operands
        if isinstance(tile := getattr(instruction, name), Tile)
        and isinstance(tile.index, SnakeIndex)
    }
    for name, tile in views.items():
        if name not in (scattered, gathered):
            legal = "no operand of this instruction"
            if scattered:
                legal = f"`{scattered}` and `{gathered}`"
            instruction.refuse(
                f"`{name}` is an indirect view; legal: {legal}",
                "gather it first, with nisa.tensor_copy",
            )
        check_support(
            instruction,
            core,
            lambda core: core.features.indirection,
            "run it on {target}, or gather with nisa.dma_copy and a vector_offset",
            request=f"`{name}` is an indirect view on {core.name}",
        )
        check_offsets(instruction, name, tile)
        check_index_start(instruction, core, name, tile)
    if views:
        _check_scattered(instruction, core, views.get(scattered), scattered)
        _check_partners(instruction, views, scattered, gathered)


def check_offsets(instruction: Instruction, name: str, tile: Tile) -> None:
    """Refuse an index of `tile` that is not an integer tile in SBUF, or has too few elements.

    A last group of fewer partitions than the others has too few unless it holds an offset for each
    element that is accessed.
    """
    index = tile.index
    if not isinstance(index, SnakeIndex):
        return
    offsets, group = index.source, index.group_partitions
    if offsets.memory is not Memory.SBUF or not offsets.dtype.is_integer:
        instruction.refuse(
            f"the index of `{name}` is {offsets}; legal: integers in SBUF",
            "copy it to an integer tile in SBUF with nisa.tensor_copy",
            _INDIRECT,
        )
    columns, remainder = offsets.pattern.elements // offsets.partitions, offsets.partitions % group
    legal = remainder or group * columns
    if index.count > legal:
        instruction.refuse(
            f"`{name}` is {tile} by an index {offsets}; legal: up to {legal} elements, as groups "
            f"of {group} partitions share their offsets",
            "pass num_elem, or an index of more columns and whole groups of partitions",
            _INDIRECT,
        )


def _check_scattered(
    instruction: Instruction, core: NeuronCore, tile: Tile | None, name: str
) -> None:
    """Refuse a scatter into PSUM on the Scalar Engine; `tile` is operand `name`, if scattered."""
    is_scalar = instruction.chosen_engine(core) is Engine.scalar
    if is_scalar and tile is not None and tile.memory is Memory.PSUM:
        instruction.refuse(
            f"`{name}` is an indirect view of {tile} on the Scalar Engine; legal: of SBUF",
            "scatter into a tile in SBUF, or use another engine",
            f"{instruction.source}, Tensor indirection",
        )


def check_index_start(
    instruction: Instruction, core: NeuronCore, name: str, tile: Tile, source: str = ""
) -> None:
    """Refuse an index with an explicit address that does not start a quadrant.

    Args:
        instruction: the instruction whose operand is checked.
        core: the core that runs it.
        name: the operand.
        tile: the operand's tile.
        source: the document, if not the instruction's own.
    """
    for index in tile.index_tiles():
        if index.storage.is_placed and index.start_partition % core.quadrant_partitions:
            instruction.refuse(
                f"the index of `{name}` starts at partition {index.start_partition}; legal: a "
                f"multiple of {core.quadrant_partitions}",
                "place the index at the start of a quadrant",
                source,
            )


def _check_partners(
    instruction: Instruction, views: dict[str, Tile], scattered: str, gathered: str
) -> None:
    """Refuse a gathered tile that starts at another partition than its index.

    Refuse a scatter's index that starts at another partition than the tile that is read, or if
    this tile is in PSUM, than the index by which this tile is gathered.
    """
    source: Tile = getattr(instruction, gathered)
    gathered_view, scattered_view = views.get(gathered), views.get(scattered)
    if gathered_view is not None:
        for index in gathered_view.index_tiles():
            subject = f"`{gathered}`"
            check_same_start(instruction, subject, gathered_view, f"its index {index}", index)
    if scattered_view is None:
        return
    partner = source
    if source.memory is Memory.PSUM:
        if gathered_view is None:
            return
        partner = gathered_view.index_tiles()[0]
    for index in scattered_view.index_tiles():
        check_same_start(instruction, f"the index of `{scattered}`", index, str(partner), partner)


def check_same_start(
    instruction: Instruction,
    subject: str,
    tile: Tile,
    partner_name: str,
    partner: Tile,
    source: str = "",
) -> None:
    """Refuse two tiles that start at different partitions, if the kernel fixed both addresses."""
    is_placed = tile.storage.is_placed and partner.storage.is_placed
    if is_placed and tile.start_partition != partner.start_partition:
        instruction.refuse(
            f"{subject} starts at partition {tile.start_partition} and {partner_name} at "
            f"{partner.start_partition}; legal: the same start partition",
            "place both at one start partition",
            source,
        )
