"""Fitting the few constants that no document gives, and what they leave unexplained.

Method: a grid over `GRID`, every combination on every row; the best has the least mean of |log
(estimate / measured)|, trimmed by nothing. Leaving a kernel out means choosing on the rows of the
other kernels and judging on its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from math import log

from trnsim.arch.neuroncore import NEURONCORE_V3
from trnsim.facts import assumed
from trnsim.timing import replay

# What is fitted: (field of the core, values). The launches only add, so they are cheap to vary.
ISSUE_S = (0.6e-6, 0.7e-6, 0.84e-6)
PAIRED_BYTES_PER_S = (310e9, 329e9, 350e9, 368e9)
LAUNCH_S = (0.0, 1e-6, 2e-6, 4e-6, 8e-6, 15e-6)
PAIRED_LAUNCH_S = tuple(us * 1e-6 for us in (0, 15, 18, 20, 22, 24, 26, 28, 30, 35))


@dataclass(frozen=True)
class Constants:
    """One point of the grid."""

    issue_s: float
    paired_bytes_per_s: float
    launch_s: float
    paired_launch_s: float

    def core(self, cores: int):
        """The core that a kernel on `cores` cores of Trn2 runs on."""
        core = replace(
            NEURONCORE_V3,
            dma_issue_s=_number(self.issue_s),
            dma_paired_bytes_per_s=_number(self.paired_bytes_per_s),
            launch_s=_number(self.launch_s),
            paired_launch_s=_number(self.paired_launch_s),
        )
        return core if cores == 1 else core.paired()


def _number(value):
    return assumed(value, "a point of the grid")


def device_times(programs):
    """Seconds on the device for each (issue, paired rate); cheap constants are added later."""
    times = {}
    for issue_s, rate in product(ISSUE_S, PAIRED_BYTES_PER_S if len(programs) > 1 else (0.0,)):
        core = Constants(issue_s, rate or 329e9, 0.0, 0.0).core(len(programs))
        times[issue_s, rate] = max(max(replay(p, core).end_s, default=0.0) for p in programs)
    return times


def estimate(times, cores, constants):
    """Seconds for a row of which `device_times` are known."""
    if cores == 1:
        return times[constants.issue_s, 0.0] + constants.launch_s
    return times[constants.issue_s, constants.paired_bytes_per_s] + constants.paired_launch_s


def fit(rows, curve):
    """The constants with the least mean |log error| on rows of (times, cores, measured seconds).

    `curve` are the rows of the DMA curve, (bytes, measured seconds), on which the issue interval
    stands as well.
    """

    def loss(constants):
        errors = [abs(log(estimate(t, n, constants) / s)) for t, n, s in rows]
        rate = float(NEURONCORE_V3.dma_bytes_per_s)
        errors += [abs(log(max(constants.issue_s, b / rate) / s)) for b, s in curve]
        return sum(errors) / len(errors)

    grid = product(ISSUE_S, PAIRED_BYTES_PER_S, LAUNCH_S, PAIRED_LAUNCH_S)
    return min((Constants(*point) for point in grid), key=loss)
