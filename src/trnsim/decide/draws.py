"""Draws of uncertain inputs: performance, prices, effort and demand, together.

Each input is a lognormal factor of median 1. Its values are the quantiles of equal shares, in an
order that is drawn: the sample of one input has no sampling error, that of several has little. The
order of an input depends on the seed, the workload's name and the input's name alone, so that two
instances with the same input have the same draws of it, and lines of an inventory may change place.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import Final

import numpy as np
from numpy.typing import NDArray

from trnsim.facts import P90_SIGMAS, Interval, assumed

Samples = NDArray[np.float64]

DRAWS: Final = 4000
ERRORS: Final = 3.0
"""Standard errors within which a share may lie on either side of a threshold."""
DEMAND_SPREAD: Final = assumed(0.20, "one sigma of next year's volume over this year's; no source")
EFFORT_SPREAD: Final = assumed(0.30, "one sigma of engineer-weeks, as of any assumed number here")
DEMAND: Final = "demand"
EFFORT: Final = "effort"
_SIGMAS_OF_QUANTILE: Final = {"p10": -P90_SIGMAS, "p90": P90_SIGMAS}


class Draws:
    """Draws for one workload.

    Args:
        name: name of the workload.
        seed: seed of all draws.
        count: number of draws.
    """

    def __init__(self, name: str, seed: int = 0, count: int = DRAWS) -> None:
        self.count = count
        self._name = name
        self._seed = seed
        self._normals: dict[str, Samples] = {}

    def normal(self, input_: str) -> Samples:
        """Draws of a standard normal, by the name of an input."""
        if input_ not in self._normals:
            names = [zlib.crc32(text.encode()) for text in (self._name, input_)]
            order = np.random.default_rng([self._seed, *names]).permutation(self.count)
            self._normals[input_] = _quantiles(self.count)[order]
        return self._normals[input_]

    def factor(self, sigmas: Mapping[str, float]) -> Samples:
        """``exp(sum of sigma z)`` over inputs."""
        total = np.zeros(self.count)
        for name, sigma in sigmas.items():
            total = total + sigma * self.normal(name)
        return np.exp(total)


@lru_cache(maxsize=4)
def _quantiles(count: int) -> Samples:
    normal = NormalDist()
    return np.array([normal.inv_cdf((at + 0.5) / count) for at in range(count)])


def at_quantile(sigma: float, quantile: str) -> float:
    """The factor of a lognormal at "p10" or "p90"."""
    return math.exp(_SIGMAS_OF_QUANTILE[quantile] * sigma)


def interval_around(median: float, samples: Samples) -> Interval:
    """P10 and P90 of samples, with the figure at the medians of all inputs between them."""
    p10, p90 = (float(percentile) for percentile in np.percentile(samples, [10, 90]))
    return Interval(min(p10, median), median, max(p90, median))


def is_close(share: float, threshold: float, count: int) -> bool:
    """True if the sampling error of a share of draws covers a threshold.

    Its standard error is ``sqrt(threshold (1 - threshold) / count)``.
    """
    error = math.sqrt(threshold * (1 - threshold) / count)
    return abs(share - threshold) <= ERRORS * error
