"""Errors of plans against published times, by family.

Source: docs/generated/accuracy-models.md; a test compares the two.

A family is validated on a chip if published times of that chip are among its rows, and P90 of
the errors of held-out rows is at most `MOST_ERROR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Accelerator

MOST_ERROR: Final = 0.25
"""P90 of errors up to which a family's plans support a decision: the target of training, the
widest target that a family has met."""


@dataclass(frozen=True)
class Family:
    """A family of published rows.

    Attributes:
        name: name in the table.
        median: median of the sizes of errors of held-out rows.
        p90: their P90.
        is_for_training: True if its rows are of chips for training alone.
        is_for_inference: True if its rows are of chips for inference alone.
    """

    name: str
    median: float
    p90: float
    is_for_training: bool = False
    is_for_inference: bool = False

    @property
    def error(self) -> dict[str, float]:
        """Median and P90 of errors."""
        return {"median": self.median, "p90": self.p90}

    def is_validated(self, chip: Accelerator) -> bool:
        """True if decisions about `chip` may rest on this family."""
        target = next((target for target in TARGETS.values() if target.chip == chip.name), None)
        if target is None or not target.is_fitted or self.p90 > MOST_ERROR:
            return False
        is_for_other_use = self.is_for_inference if target.is_for_training else self.is_for_training
        return not is_for_other_use


ENCODERS: Final = Family("encoders and ViT", 0.051, 0.094)
CLIP: Final = Family("CLIP", 0.180, 0.306, is_for_inference=True)
TPOT: Final = Family("TPOT", 0.039, 0.115)
TTFT: Final = Family("TTFT", 0.204, 0.464)
NETWORKS: Final = Family("CNN and Perceiver", 0.156, 0.241, is_for_inference=True)
DIFFUSION: Final = Family("diffusion", 0.228, 0.423, is_for_inference=True)
TRAINING: Final = Family("training", 0.067, 0.219, is_for_training=True)
FAMILIES: Final = (ENCODERS, CLIP, TPOT, TTFT, NETWORKS, DIFFUSION, TRAINING)
