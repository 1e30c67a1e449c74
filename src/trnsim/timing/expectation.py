"""The expected error of an estimate: the errors for unseen kernels against published times.

Source: docs/generated/accuracy.md, Leaving a kernel out. Constants were chosen on other
kernels; each figure is of all published times of its size.
"""

from __future__ import annotations

from math import ceil, inf
from typing import Final, NamedTuple

from trnsim.arch import TARGETS, NeuronCore


class UnseenError(NamedTuple):
    """The errors of kernels of a size class that had no part in the choice of constants.

    Attributes:
        words: the size as text.
        below_s: upper limit of the size, launch included.
        rows: number of published times.
        median_percent: median of |estimate - published| / published.
        p90_percent: ninetieth percentile of the same.
    """

    words: str
    below_s: float
    rows: int
    median_percent: float
    p90_percent: float


UNSEEN: Final = (
    UnseenError("under 100 us", 100e-6, 80, 15.8, 30.5),
    UnseenError("of 100 us to 1 ms", 1e-3, 128, 10.5, 28.0),
    UnseenError("over 1 ms", inf, 55, 7.2, 20.1),
)


def unseen_error(core: NeuronCore, total_time_s: float) -> str:
    """The expected error of an estimate of `total_time_s` for a kernel on `core`, as text."""
    if not any(chip.validated for chip in TARGETS.values() if chip.core.name == core.name):
        return f"no published time of {core.name} to compare with"
    bracket = next(bracket for bracket in UNSEEN if total_time_s < bracket.below_s)
    median, p90 = ceil(bracket.median_percent), ceil(bracket.p90_percent)
    return (
        f"kernels {bracket.words} that the model had not seen were {median} % off in the median, "
        f"{p90} % at P90"
    )
