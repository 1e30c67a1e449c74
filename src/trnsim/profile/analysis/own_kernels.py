"""Correction of a kernel's time by a user's own measurements of kernels."""

from __future__ import annotations

import math
from typing import Final

from trnsim.arch import TARGETS, NeuronCore
from trnsim.facts import P90_SIGMAS, Interval
from trnsim.profile.units import time_text
from trnsim.site import KERNELS_FAMILY, current, note_used

YOURS: Final = "yours, "
"""First words of a kernel's expected error that a user's measurements corrected."""


def own_interval(
    core: NeuronCore, total_s: float, interval: Interval, expected: str
) -> tuple[Interval, str]:
    """The interval of a kernel's time, and its expected error in words, by the current site.

    The median is `total_s` times the factor of kernels on the first chip with this core. Without a
    site, `interval` and `expected` are returned unchanged.
    """
    site = current()
    if site is None:
        return interval, expected
    correction = site.correction(chip_of(core), KERNELS_FAMILY)
    median_s = correction.factor("") * total_s
    sigma = correction.sigma
    if not correction.rows:
        sigma = max(sigma, math.log(interval.p90 / interval.p10) / (2 * P90_SIGMAS))
    width = math.exp(P90_SIGMAS * sigma)
    words = site.provenance(correction)
    note_used(words)
    note = f"{words}: P50 {time_text(median_s)}; without them {expected}"
    return Interval(median_s / width, median_s, median_s * width), note


def chip_of(core: NeuronCore) -> str:
    """The first chip with this core."""
    return next(
        (target.chip for target in TARGETS.values() if target.core.name == core.name), core.name
    )
