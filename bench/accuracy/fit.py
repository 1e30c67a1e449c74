"""Fitting the few constants that no document gives, and what they leave unexplained.

Method: a grid, every combination on every row of a kernel on Trn2; the best has the least mean of
|log(estimate / measured)|. Leaving a kernel out means choosing on the rows of the other kernels and
judging on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import log

from trnsim.arch import NEURONCORE_V3
from trnsim.facts import assumed
from trnsim.timing import replay_together

# The launches only add, so they are cheap to vary.
PAIRED_BYTES_PER_S = (310e9, 329e9, 350e9, 368e9)
LAUNCH_S = tuple(us * 1e-6 for us in (0, 1, 2, 4, 8, 15))
PAIRED_LAUNCH_S = tuple(us * 1e-6 for us in (0, 15, 18, 20, 22, 24, 26, 28, 30, 35))


@dataclass(frozen=True)
class Constants:
    """One point of the grid."""

    paired_bytes_per_s: float
    launch_s: float
    paired_launch_s: float


def device_times(programs):
    """Paired DMA rate -> seconds on the device; on one core there is none, and 0 stands for it."""
    times = {}
    for rate in PAIRED_BYTES_PER_S if len(programs) > 1 else (0.0,):
        core = NEURONCORE_V3
        if rate:
            core = replace(core, dma_paired_bytes_per_s=assumed(rate, "of the grid")).paired()
        schedules = replay_together(programs, core)
        times[rate] = max(max(schedule.end_s, default=0.0) for schedule in schedules)
    return times


def estimate(times, cores, constants):
    """Seconds for a row of which `device_times` are known."""
    if cores == 1:
        return times[0.0] + constants.launch_s
    return times[constants.paired_bytes_per_s] + constants.paired_launch_s


def fit(rows):
    """The constants with the least mean |log error| on rows of (times, cores, measured seconds)."""

    def loss(constants):
        errors = [abs(log(estimate(t, n, constants) / s)) for t, n, s in rows]
        return sum(errors) / len(errors)

    grid = product(PAIRED_BYTES_PER_S, LAUNCH_S, PAIRED_LAUNCH_S)
    return min((Constants(*point) for point in grid), key=loss)
