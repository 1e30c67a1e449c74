"""Bytes per second over time, summed over overlapping transfers."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from trnsim.timing.occupancy import Integers, Seconds


class Throughput(NamedTuple):
    """A rate as a step function.

    `bytes_per_s[i]` holds from `time_s[i]` on; `total_bytes[i]` were moved before that time.
    """

    time_s: Seconds
    bytes_per_s: Seconds
    total_bytes: Seconds


def throughput(start_s: Seconds, end_s: Seconds, nbytes: Integers | Seconds) -> Throughput:
    """The rate of transfers that each move `nbytes` evenly between their start and their end."""
    is_moving = (end_s > start_s) & (nbytes > 0)
    start_s, end_s, nbytes = start_s[is_moving], end_s[is_moving], nbytes[is_moving]
    rate = nbytes / (end_s - start_s)
    time_s, time_index = np.unique(np.concatenate([start_s, end_s]), return_inverse=True)
    change = np.zeros(len(time_s))
    np.add.at(change, time_index, np.concatenate([rate, -rate]))
    # Rates that start and end cancel only up to rounding.
    bytes_per_s = np.maximum(np.cumsum(change), 0.0)
    bytes_per_s[bytes_per_s < rate.min(initial=np.inf) / 2] = 0.0
    moved_bytes = np.concatenate([np.zeros(1), np.cumsum(bytes_per_s[:-1] * np.diff(time_s))])
    return Throughput(time_s, bytes_per_s, moved_bytes[: len(time_s)])
