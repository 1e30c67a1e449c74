"""Errors of predictions against published times, by family of measurements.

Source: docs/generated/accuracy-models.md; a test compares the two.

A prediction is validated if times of its model kind, phase and chip were published
(`trnsim.estimate.cells`), and P90 of its family's held-out errors is at most `MOST_ERROR`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

MOST_ERROR: Final = 0.25
"""Maximum P90 of relative errors of a family whose predictions support a decision.

It is the target of training in docs/generated/accuracy-models.md.
"""


@dataclass(frozen=True)
class RowFamily:
    """A family of published times, which are predicted with the same constants.

    Attributes:
        median: median of the absolute relative errors of held-out rows.
        p90: P90 of these errors.
    """

    name: str
    median: float
    p90: float

    @property
    def error(self) -> dict[str, float]:
        """Median and P90 of the errors, by name."""
        return {"median": self.median, "p90": self.p90}

    @property
    def is_accurate(self) -> bool:
        """True if its errors are small enough for decisions."""
        return self.p90 <= MOST_ERROR


ENCODERS: Final = RowFamily("encoders and ViT", 0.051, 0.094)
CLIP: Final = RowFamily("CLIP", 0.180, 0.306)
TPOT: Final = RowFamily("TPOT", 0.039, 0.115)
TTFT: Final = RowFamily("TTFT", 0.199, 0.464)
NETWORKS: Final = RowFamily("CNN and Perceiver", 0.152, 0.229)
DIFFUSION: Final = RowFamily("diffusion", 0.101, 0.239)
TRAINING: Final = RowFamily("training", 0.067, 0.219)
FAMILIES: Final = (ENCODERS, CLIP, TPOT, TTFT, NETWORKS, DIFFUSION, TRAINING)
