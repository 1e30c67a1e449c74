"""The expected error of an estimate: the errors for unseen kernels against published times.

Source: docs/generated/accuracy.md. A known kernel has a published time. It is estimated as if it
were unseen, with constants that are chosen without it; a figure is over all published times of
about the same length. `bench/accuracy` writes the figures to errors.json.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from trnsim.arch import TARGETS, NeuronCore
from trnsim.timing.interval import UnseenError, errors

OUTSIDE: Final = UnseenError("of other people", float("inf"), 10, 29.0)
"""The errors of an independent evaluation: ten kernels of any length, unknown to trnsim's authors.

Source: docs/generated/accuracy.md.
"""


def unseen_error(core: NeuronCore, total_time_s: float, publication: str = "") -> str:
    """The expected error of an estimate of `total_time_s` for a kernel on `core`, as text.

    `publication` names the publication that has times of the kernel's library; "" if none has.
    """
    if not any(chip.validated for chip in TARGETS.values() if chip.core.name == core.name):
        return f"no published time of {core.name} to compare with"
    # The errors of known kernels by length, and those of the length of this one.
    sizes = errors().unseen
    error = next((size for size in sizes if total_time_s < size.below_s), sizes[-1])
    median, p90 = ceil(error.median_percent), ceil(error.p90_percent)
    if errors().is_near(core, publication):
        return (
            f"published kernels {error.words}, each estimated without its own time, were {median} "
            f"% off in the median, {p90} % at P90"
        )
    return (
        f"kernels {OUTSIDE.words} were {ceil(OUTSIDE.median_percent)} % off in the median; "
        f"published kernels {error.words}, each estimated without its own time, {median} % in the "
        f"median, {p90} % at P90"
    )
