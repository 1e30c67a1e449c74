"""Predicted speed of a workload on an instance, and its doubt by cause."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from trnsim.arch.catalogue import Accelerator
from trnsim.estimate.choice import shared_spread


@dataclass(frozen=True)
class Speed:
    """Predicted speed of a group of instances.

    Attributes:
        units_per_s: tokens or items a second of the group, at the medians of all inputs.
        group: instances that work together; 1 if each works alone.
        doubts: by cause, one sigma of the logarithm of (true / predicted) time. Causes of the same
            name are the same error on two instances, which cancels between them.
        family: family of published times that the prediction is judged by.
        is_validated: True if published rows of its cell are, and the family's plans are near them.
        error: median and P90 of that family's errors.
        is_met: True if the promised latency is kept; None without a promise.
        layout: layout or deployment that the planner chose.
        ms: milliseconds by cause, of a step, a token or a batch.
        notes: notes for readers.
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
        """Units an hour of one instance of the group."""
        return 3600 * self.units_per_s / self.group


def doubts(chip: Accelerator, phase: str, sigma: float, share: float = 1.0) -> dict[str, float]:
    """Doubt about a phase on a chip: the share of its constants, and that of the chip alone.

    Constants of a phase are shared by all of AWS's chips, or by all GPUs: their error is equal on
    both sides. The remainder of `sigma`, in squares, belongs to the chip alone.

    Args:
        chip: the accelerator.
        phase: a `Phase`, or one of `trnsim.estimate.choice` for graphs.
        sigma: one sigma of the logarithm of (true / predicted) time, of the phase.
        share: share of the phase in the total time.
    """
    side = "AWS's chips" if chip.is_neuron else "GPUs"
    common = min(shared_spread(chip, phase), sigma)
    chip_sigma = math.sqrt(sigma**2 - common**2)
    sigmas = {f"{phase} on {side}": share * common, f"{phase} on {chip.name}": share * chip_sigma}
    return {name: value for name, value in sigmas.items() if value > 0}
