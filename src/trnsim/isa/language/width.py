"""The refusal of int64 tiles: memory and scalars have int64, and no engine computes with it.

Source: nki.isa.scalar_load, "Unlike the compute instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction
    from trnsim.memory import Tile


def refuse_int64(instruction: Instruction, name: str, tile: Tile) -> NoReturn:
    """Refuse operand `name`, an int64 tile, of an instruction that does not take int64."""
    instruction.refuse(
        f"`{name}` is {tile}; legal: any other dtype, as no engine computes with int64",
        "cast an argument before the call: x.astype('int32'), or x.to(torch.int32) for torch's; "
        "move int64 with nisa.dma_copy, and compute with scalars: nisa.scalar_load",
        "nki.isa.scalar_load",
    )
