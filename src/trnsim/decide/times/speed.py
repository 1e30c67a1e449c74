"""What a predictor says of a workload on an instance, and the doubt about it by cause."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trnsim.estimate.choice import shared_spread

if TYPE_CHECKING:
    from trnsim.arch.catalogue import Accelerator


@dataclass(frozen=True)
class Speed:
    """What a group of instances does.

    Attributes:
        units_per_s: tokens or items a second of the group, at the medians of all inputs.
        group: instances that work together; 1 where each works alone.
        doubts: by cause, one sigma of the logarithm of (true / predicted) time. Causes of the same
            name are the same error on two instances, which cancels between them.
        family: of published times that the prediction is judged by.
        is_validated: whether times of this chip are among these, and plans near them.
        error: of that family: its median and its P90.
        is_met: whether the promised latency is kept; None without one.
        layout: what the planner chose.
        ms: milliseconds by cause, of a step, a token or a batch.
        notes: what a reader must know.
    """

    units_per_s: float
    group: int
    doubts: dict[str, float]
    family: str
    is_validated: bool
    error: dict[str, float]
    is_met: bool | None = None
    layout: str = ""
    ms: dict[str, float] = field(default_factory=dict[str, float])
    notes: tuple[str, ...] = ()

    @property
    def units_per_hour(self) -> float:
        """Of one instance of the group."""
        return 3600 * self.units_per_s / self.group


def doubts(chip: Accelerator, phase: str, sigma: float, share: float = 1.0) -> dict[str, float]:
    """The doubt about a phase on a chip: what the constants carry, and what is the chip's own.

    Constants of a phase are shared by all of AWS's chips, or by all GPUs: their error is the same
    on both sides. The rest of `sigma`, in squares, is of the chip alone.

    Args:
        chip: the accelerator.
        phase: a `Phase`, or one of `trnsim.estimate.choice` for graphs.
        sigma: one sigma of the logarithm of (true / predicted) time, of the phase.
        share: of the phase in the whole time.
    """
    side = "AWS's chips" if chip.is_neuron else "GPUs"
    common = min(shared_spread(chip, phase), sigma)
    chip_sigma = math.sqrt(sigma**2 - common**2)
    sigmas = {f"{phase} on {side}": share * common, f"{phase} on {chip.name}": share * chip_sigma}
    return {name: value for name, value in sigmas.items() if value > 0}
