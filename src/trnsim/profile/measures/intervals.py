"""Unions of time intervals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trnsim.timing.occupancy import Seconds


class Intervals(NamedTuple):
    """Disjoint intervals in order of time."""

    start_s: Seconds
    end_s: Seconds

    @property
    def total_s(self) -> float:
        """The sum of their lengths."""
        return float((self.end_s - self.start_s).sum())


def union(start_s: Seconds, end_s: Seconds) -> Intervals:
    """The time that is in at least one of the intervals `start_s[i]` to `end_s[i]`."""
    order = np.argsort(start_s, kind="stable")
    start_s, end_s = start_s[order], end_s[order]
    is_nonempty = end_s > start_s
    start_s, end_s = start_s[is_nonempty], end_s[is_nonempty]
    if not len(start_s):
        return Intervals(start_s, end_s)
    reached_s = np.maximum.accumulate(end_s)
    is_start = np.append(True, start_s[1:] > reached_s[:-1])
    last = np.append(np.flatnonzero(is_start)[1:] - 1, len(start_s) - 1)
    return Intervals(start_s[is_start], reached_s[last])
