"""The shape at which a model is asked about: static, as everything on the chip is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput

PHASES: Final = ("encode", "prefill", "decode", "train")
"""All inputs at once; a prompt, scores of its last token; one more token; a step's gradients."""


@dataclass(frozen=True)
class ModelShape:
    """How much of a model is computed at once, and by how many ranks.

    Attributes:
        phase: one of `PHASES`.
        batch: sequences or images.
        sequence: tokens of each sequence; a decoder's next step takes one, whatever this says.
        past: keys and values of each sequence that lie in the cache; prefill has none before it.
        ranks: over which every layer is split (tensor parallelism).
        is_padded: whether heads that the ranks do not divide are made up with unused ones.
    """

    phase: str
    batch: int = 1
    sequence: int = 128
    past: int = 0
    ranks: int = 1
    is_padded: bool = False

    def __post_init__(self) -> None:
        if self.phase not in PHASES:
            raise BadInput(
                f"phase {self.phase!r}; legal: {', '.join(PHASES)}", fix="choose one of these"
            )
        for name, least in (("batch", 1), ("sequence", 1), ("ranks", 1), ("past", 0)):
            if getattr(self, name) < least:
                raise BadInput(
                    f"{name} of {getattr(self, name)}; legal: {least} and more",
                    fix="shapes on the chip are static: give the numbers of one compiled graph",
                )
        if self.past and self.phase != "decode":
            raise BadInput(
                f"past of {self.past} in phase {self.phase}; legal: a cache in decode alone",
                fix="leave past out, or ask for phase decode",
            )
        if self.phase == "decode" and not self.past:
            raise BadInput(
                "decode without a cache; legal: past of 1 and more",
                fix="give past: the number of keys in the cache before this step",
            )

    @property
    def tokens(self) -> int:
        """Of each sequence that pass through the layers."""
        return 1 if self.phase == "decode" else self.sequence
