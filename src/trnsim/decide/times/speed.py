"""Predicted speed of a workload on an instance type, and its uncertainty by cause."""

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
        group: number of instances of a training job or a deployment; 1 if each works alone.
        sigmas: one sigma of the logarithm of (true / predicted) time, by cause. A cause that two
            instances have in common is the same error on both, and cancels in their ratio.
        family: family of published times whose errors the prediction is assumed to have.
        is_validated: True if times of such a model and phase on this chip were published, and the
            family's errors are small (`trnsim.decide.times.families`).
        error: median and P90 of the family's relative errors.
        is_met: True if the latency SLO is met; None without an SLO.
        layout: layout or deployment that the planner chose.
        ms: milliseconds by cause, of a step, a token or a batch.
    """

    units_per_s: float
    group: int
    sigmas: dict[str, float]
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


def phase_sigmas(
    chip: Accelerator, phase: str, sigma: float, share: float = 1.0
) -> dict[str, float]:
    """Uncertainty of a phase's time on a chip, split into a shared cause and the chip's own.

    ``sigma^2 = shared^2 + own^2``. The constants of a phase are shared by all of AWS's chips, or by
    all GPUs: their error is the same on both.

    Args:
        chip: the accelerator.
        phase: a `Phase`, or the kind of a captured graph (`trnsim.estimate.choice`).
        sigma: one sigma of the logarithm of (true / predicted) time of the phase.
        share: part of the phase in the total time, from 0 to 1.
    """
    side = "AWS's chips" if chip.is_neuron else "GPUs"
    shared_sigma = min(shared_spread(chip, phase), sigma)
    chip_spread = math.sqrt(sigma**2 - shared_sigma**2)
    sigmas = {
        f"{phase} on {side}": share * shared_sigma,
        f"{phase} on {chip.name}": share * chip_spread,
    }
    return {name: value for name, value in sigmas.items() if value > 0}
