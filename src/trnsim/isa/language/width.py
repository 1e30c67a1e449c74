"""The width of integers: int64 is a format of memory and of scalars, and of no engine.

Source: nki.isa.scalar_load, "Unlike the compute instructions".
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction
    from trnsim.memory import Tile


def refuse_int64(instruction: Instruction, name: str, tile: Tile) -> NoReturn:
    """Refuse the int64 tile that is operand `name` of an instruction without int64."""
    instruction.refuse(
        f"`{name}` is {tile}; legal: any other dtype, as no engine computes with int64",
        "cast an argument before the call: x.astype('int32'), or x.to(torch.int32) for torch's; "
        "move int64 with nisa.dma_copy, and compute with scalars: nisa.scalar_load",
        "nki.isa.scalar_load",
    )
