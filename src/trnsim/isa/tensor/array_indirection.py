"""Tensor indirection on the Tensor Engine: rules for stationary, moving and dst.

Source: nki.isa.nc_matmul and nki.isa.nc_matmul_mx, Tensor indirection.
"""

from __future__ import annotations

from dataclasses import replace

from trnsim.arch import NeuronCore
from trnsim.isa.language.indirection import check_index_start, check_offsets, check_same_start
from trnsim.isa.language.instruction import Instruction
from trnsim.isa.language.support import check_support
from trnsim.memory import SnakeIndex, Tile

_GROUP_PARTITIONS = 32
"""Partitions that share their offsets. Source: nki.language.NkiTensor.indirect."""


def index_of(tile: object) -> SnakeIndex | None:
    """The index of an `.indirect()` view, else None."""
    if isinstance(tile, Tile) and isinstance(tile.index, SnakeIndex):
        return tile.index
    return None


def share_by_quadrant(instruction: Instruction, *names: str) -> None:
    """Make 32 partitions, instead of 16, share the offsets of the operands `names`.

    That is how the Tensor Engine reads the index of an `.indirect()` view.
    """
    for name in names:
        tile = getattr(instruction, name)
        index = index_of(tile)
        if index is not None and index.group_partitions != _GROUP_PARTITIONS:
            index = replace(index, group_partitions=_GROUP_PARTITIONS)
            setattr(instruction, name, Tile(tile.storage, tile.dtype, tile.pattern, index))


def check_array_indirection(
    instruction: Instruction,
    core: NeuronCore,
    partners: dict[str, str],
    position: tuple[int, ...] | None,
) -> None:
    """Refuse indirect operands before v4, off tile_position (0, 0), or with a misplaced index.

    Args:
        instruction: the instruction to check.
        core: the core that runs it.
        partners: operand that may be indirect -> the operand at whose start partition its index
            must start, or "".
        position: the instruction's tile_position.
    """
    source = f"{instruction.source}, Tensor indirection"
    for name, partner in partners.items():
        index = index_of(getattr(instruction, name))
        if index is None:
            continue
        check_support(
            instruction,
            core,
            lambda core: core.features.matmul_indirection,
            "run it with target='{target}', or gather with nisa.dma_copy and a vector_offset",
            request=f"`{name}` is indirect on {core.name}",
            source=source,
        )
        if any(position or ()):
            instruction.refuse(
                f"tile_position={position} with indirect `{name}`; legal: (0, 0)",
                "copy the gathered tile with nisa.tensor_copy first",
                source,
            )
        tile = getattr(instruction, name)
        check_offsets(instruction, name, tile)
        check_index_start(instruction, core, name, tile, source)
        if partner:
            check_same_start(
                instruction,
                f"the index of `{name}`",
                index.source,
                f"`{partner}`",
                getattr(instruction, partner),
                source,
            )
