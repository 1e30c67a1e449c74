"""The static shape of a pass through a model, as a user states it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput

PHASES: Final = ("encode", "prefill", "decode", "train")
"""All inputs at once; a prompt, with scores of its last token; one more token; a training step."""


@dataclass(frozen=True)
class ModelShape:
    """Batch, lengths and ranks of a pass through a model.

    Attributes:
        phase: one of `PHASES`.
        batch: sequences or images.
        sequence: tokens of each sequence; ignored in a decode step, which takes one.
        past: cached tokens of each sequence; 0 except in a decode step.
        ranks: tensor ranks that divide every layer among them.
        is_padded: whether heads are padded to a multiple of the ranks.
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
        for name, minimum in (("batch", 1), ("sequence", 1), ("ranks", 1), ("past", 0)):
            value = getattr(self, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if not is_whole or value < minimum:
                legal = f"{minimum} and more" if is_whole else f"whole numbers, {minimum} and more"
                raise BadInput(
                    f"{name} of {value!r}; legal: {legal}",
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
                fix="give past (--past), the number of keys in the cache before this step",
            )

    @property
    def tokens(self) -> int:
        """Tokens of each sequence that pass through the layers."""
        return 1 if self.phase == "decode" else self.sequence
