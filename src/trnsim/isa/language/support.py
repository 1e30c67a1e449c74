"""What a core has not: refused in the same words by every instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.arch import advised, where

if TYPE_CHECKING:
    from trnsim.arch import Has, NeuronCore
    from trnsim.isa.language.instruction import Instruction


def check_support(
    instruction: Instruction,
    core: NeuronCore,
    has: Has,
    fix: str,
    *,
    given: str = "",
    source: str = "",
) -> None:
    """Refuse what `core` has not, naming the NeuronCores that have it.

    Args:
        instruction: in whose name it is refused.
        core: where it would run.
        has: whether a core has it.
        fix: what to do instead; ``{target}`` stands for the first target that has it.
        given: what was asked for and on which core, if it is not the instruction as such.
        source: the document, if it is not the instruction's.
    """
    if has(core):
        return
    reason = f"{given or f'on {core.name}'}; legal {where(has)}"
    instruction.refuse(reason, advised(fix, has), source)
