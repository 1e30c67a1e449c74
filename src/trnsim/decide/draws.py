"""Monte Carlo draws of uncertain inputs: performance, prices, effort and demand.

Each input is a lognormal factor of median 1. Draws are a Latin hypercube: the values of an input
are the midpoints of equal shares of its distribution, in random order. A single input then has no
sampling error, and several together have little. The order depends only on the seed, the workload's
name and the input's name: two instances with the same input have the same draws of it, and the
order of an inventory's rows does not matter.
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
CLOSE_STANDARD_ERRORS: Final = 3.0
"""The true share may lie on the other side of a threshold within this number of standard errors."""
DEMAND_SPREAD: Final = assumed(0.20, "one sigma of next year's volume over this year's; no source")
EFFORT_SPREAD: Final = assumed(
    0.30, "one sigma of engineer-weeks: that of all assumed numbers; no source"
)
DEMAND: Final = "demand"
EFFORT: Final = "effort"
"""Names of the inputs demand (of next year) and effort (engineer-weeks of a migration)."""
_SIGMAS_OF_QUANTILE: Final = {"p10": -P90_SIGMAS, "p90": P90_SIGMAS}


class Draws:
    """Draws for one workload."""

    def __init__(self, name: str, seed: int = 0, count: int = DRAWS) -> None:
        self.count = count
        self._name = name
        self._seed = seed
        self._normals: dict[str, Samples] = {}

    def normal(self, input_: str) -> Samples:
        """Draws of the standard normal variable z of the input called `input_`."""
        if input_ not in self._normals:
            # A name of YAML or JSON may have a lone surrogate, which UTF-8 cannot encode.
            texts = (self._name, input_)
            names = [zlib.crc32(text.encode(errors="surrogatepass")) for text in texts]
            order = np.random.default_rng([self._seed, *names]).permutation(self.count)
            self._normals[input_] = _quantiles(self.count)[order]
        return self._normals[input_]

    def factor(self, sigmas: Mapping[str, float]) -> Samples:
        """Draws of ``exp(sum of sigma z)`` over inputs.

        Args:
            sigmas: one sigma of the logarithm, by the name of the input.
        """
        log_sum = np.zeros(self.count)
        for name, sigma in sigmas.items():
            log_sum = log_sum + sigma * self.normal(name)
        return np.exp(log_sum)


@lru_cache(maxsize=4)
def _quantiles(count: int) -> Samples:
    """Standard normal quantiles at the midpoints of `count` equal shares of probability."""
    normal = NormalDist()
    return np.array([normal.inv_cdf((rank + 0.5) / count) for rank in range(count)])


def at_quantile(sigma: float, quantile: str) -> float:
    """Value at "p10" or "p90" of a lognormal factor of median 1; `sigma` is of its logarithm."""
    return math.exp(_SIGMAS_OF_QUANTILE[quantile] * sigma)


def interval_around(median: float, samples: Samples) -> Interval:
    """P10 and P90 of `samples` around `median`, moved outwards where `median` lies beyond them."""
    p10, p90 = (float(percentile) for percentile in np.percentile(samples, [10, 90]))
    return Interval(min(p10, median), median, max(p90, median))


def is_close(share: float, threshold: float, count: int) -> bool:
    """True if a share of draws is too near a threshold to tell on which side the true share lies.

    The standard error of the share is ``sqrt(threshold (1 - threshold) / count)``.

    Args:
        share: share of the draws.
        threshold: share at which a verdict changes.
        count: number of draws.
    """
    error = math.sqrt(threshold * (1 - threshold) / count)
    return abs(share - threshold) <= CLOSE_STANDARD_ERRORS * error
