"""When groups of metrics are due: at the ends of whole periods, all counted from one moment.

So groups of 1 s and of 2 s are measured together, in one report.
"""

from __future__ import annotations

from math import floor
from typing import Final

_EARLY_S: Final = 0.005
"""A group that is due within this time is measured with those that are due now."""


def early_s(period_s: float) -> float:
    """How long before the end of a period it may be measured already."""
    return min(_EARLY_S, period_s / 2)


def end_s(now_s: float, began_s: float, period_s: float) -> float:
    """The end of the period that goes on; those that passed unseen are left out.

    Args:
        now_s: a moment.
        began_s: the moment from which periods count.
        period_s: their length.
    """
    passed = floor((now_s - began_s + early_s(period_s)) / period_s)
    return began_s + period_s * (passed + 1)
