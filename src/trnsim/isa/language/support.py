"""The refusal of features that a core lacks, in the same words for every instruction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.arch import Has, NeuronCore, advised, where

if TYPE_CHECKING:
    from trnsim.isa.language.instruction import Instruction


def check_support(
    instruction: Instruction,
    core: NeuronCore,
    predicate: Has,
    fix: str,
    *,
    request: str = "",
    source: str = "",
) -> None:
    """Refuse a feature that `core` lacks, naming the NeuronCores that have it.

    Args:
        instruction: the instruction that needs the feature.
        core: the core that would run it.
        predicate: whether a core has the feature.
        fix: the advice; ``{target}`` stands for the first target that has the feature.
        request: the feature and the core, if it is not the instruction as a whole.
        source: the document, if not the instruction's own.
    """
    if predicate(core):
        return
    reason = f"{request or f'on {core.name}'}; legal {where(predicate)}"
    instruction.refuse(reason, advised(fix, predicate), source)
