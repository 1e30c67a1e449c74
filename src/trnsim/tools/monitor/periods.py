"""Due times of groups of metrics: the ends of whole periods, all counted from one moment.

So groups of 1 s and of 2 s are measured together, in one report.
"""

from __future__ import annotations

from math import floor
from typing import Final

_EARLY_S: Final = 0.005
"""A group that is due within this time is measured with those that are due now."""


def early_s(period_s: float) -> float:
    """Seconds before the end of a period from which its group may be measured."""
    return min(_EARLY_S, period_s / 2)


def end_s(now_s: float, began_s: float, period_s: float) -> float:
    """The end of the current period; periods that passed without a measurement are left out.

    Args:
        now_s: the current time.
        began_s: start of the first period.
        period_s: length of a period.
    """
    periods = floor((now_s - began_s + early_s(period_s)) / period_s)
    return began_s + period_s * (periods + 1)
