"""Count of latencies beyond their limits, which stops a run that can no longer keep the limits.

    P99 of n latencies > limit   if more than n - floor(0.99 (n - 1)) latencies are > limit

The percentile lies between the sorted latencies at floor(0.99 (n - 1)) and the next, so this is a
proof. One latency more than the proof needs is waited for, so that rounding decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trnsim.system.serve.load import Load


class Breaches:
    """The latencies of a run that are beyond their limits.

    Args:
        limits_s: seconds by the names of latencies: ``ttft``, ``tpot``, ``e2e``.
        percentile: percent of the requests that keep each limit.
        load: the requests.
        around_s: tokens of a prompt -> seconds that the host spends on it outside of steps.

    Attributes:
        is_broken: True once a limit is broken for certain, whatever the running requests do.
    """

    def __init__(
        self,
        limits_s: Mapping[str, float],
        percentile: float,
        load: Load,
        around_s: Callable[[int], float],
    ) -> None:
        self._load = load
        self._around_s = around_s
        self._ttft_s = limits_s.get("ttft", math.inf)
        self._tpot_s = limits_s.get("tpot", math.inf)
        self._e2e_s = limits_s.get("e2e", math.inf)
        several = sum(request.output_tokens > 1 for request in load)
        counts = {"ttft": len(load), "tpot": several, "e2e": len(load)}
        self._left = {name: _enough(count, percentile) for name, count in counts.items()}
        self.is_broken = False

    def start(self, place: int, waited_s: float) -> None:
        """Count a first token that came `waited_s` after its request."""
        if waited_s + self._around_s(self._load[place].input_tokens) > self._ttft_s:
            self._count("ttft")

    def end(self, place: int, took_s: float, decoding_s: float) -> None:
        """Count a request that took `took_s`, of which `decoding_s` after its first token."""
        request = self._load[place]
        if took_s + self._around_s(request.input_tokens) > self._e2e_s:
            self._count("e2e")
        if request.output_tokens > 1 and decoding_s / (request.output_tokens - 1) > self._tpot_s:
            self._count("tpot")

    def _count(self, name: str) -> None:
        self._left[name] -= 1
        if not self._left[name]:
            self.is_broken = True


def _enough(count: int, percentile: float) -> int:
    """Number of latencies beyond a limit that puts the percentile of `count` beyond it."""
    return count - math.floor(percentile / 100 * (count - 1)) + 1
