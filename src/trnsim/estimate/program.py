"""The time of a program whose instructions are known, as an `Estimate`.

A model with a formula has the time that its family's published rows give, not that of its program.
A model without a formula, such as an exported graph, has the time of its program.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from trnsim.arch import Target
from trnsim.estimate.constants import EXTRAPOLATED_SPREAD, PROGRAM_SPREAD
from trnsim.estimate.estimate import Estimate
from trnsim.estimate.site import site_program

PROGRAM: Final = "program"
"""Key of the source of a time by instructions in `Estimate.sources`."""
_BOUND_PART: Final = "what no program can be faster than"


def estimate_program(target: Target, parts_s: Mapping[str, float]) -> Estimate:
    """The time of a program on a chip.

    Args:
        target: the chip.
        parts_s: seconds of its critical path by engine, of its launch, and of exchanges outside.
    """
    spread = float(PROGRAM_SPREAD)
    source = "instructions of its program"
    if not target.is_fitted:
        spread = math.hypot(spread, float(EXTRAPOLATED_SPREAD))
        source += ", fitted to times of Trn1 and Inf2 alone"
    total_s = sum(parts_s.values())
    estimate = Estimate(dict(parts_s), {source: spread * total_s}, {PROGRAM: source})
    return site_program(estimate, target.chip)


def raise_to_bound(estimate: Estimate, least_s: float) -> Estimate:
    """The estimate, raised to `least_s`, below which no program can be."""
    if estimate.time_s >= least_s:
        return estimate
    more_s = least_s - estimate.time_s
    return replace(
        estimate.plus(_BOUND_PART, more_s),
        conditions=(*estimate.conditions, f"raised to {_BOUND_PART}"),
    )
