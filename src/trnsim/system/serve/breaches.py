"""Early stop of a run: counts of latencies over their limits that prove an SLO violated.

    P99 of n latencies > limit   if at least n - floor(0.99 (n - 1)) latencies are > limit

The percentile is interpolated between the sorted latencies at floor(0.99 (n - 1)) and the next, so
this is a proof. The run stops one latency later than the proof needs, so that rounding decides
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from trnsim.system.serve.load import Load


class Breaches:
    """Counts of the latencies of a run that are over their limits.

    Args:
        limits_s: seconds by the names of latencies: ``ttft``, ``tpot``, ``e2e``.
        percentile: percent of the requests that have to keep each limit.
        load: the requests; other methods name a request by its index in it.
        overhead_s: seconds of host time outside of steps, by tokens of the prompt.

    Attributes:
        is_broken: True once a limit is certainly broken, whatever the remaining requests do.
    """

    def __init__(
        self,
        limits_s: Mapping[str, float],
        percentile: float,
        load: Load,
        overhead_s: Callable[[int], float],
    ) -> None:
        self._load = load
        self._overhead_s = overhead_s
        self._ttft_s = limits_s.get("ttft", math.inf)
        self._tpot_s = limits_s.get("tpot", math.inf)
        self._e2e_s = limits_s.get("e2e", math.inf)
        with_gaps = sum(request.output_tokens > 1 for request in load)
        counts = {"ttft": len(load), "tpot": with_gaps, "e2e": len(load)}
        # A run stops one latency later than the proof needs.
        self._remaining_breaches = {
            name: count - math.floor(percentile / 100 * (count - 1)) + 1
            for name, count in counts.items()
        }
        self.is_broken = False

    def start(self, index: int, waited_s: float) -> None:
        """Count a first token that came `waited_s` after its request."""
        if waited_s + self._overhead_s(self._load[index].input_tokens) > self._ttft_s:
            self._count("ttft")

    def end(self, index: int, took_s: float, decoding_s: float) -> None:
        """Count a request that took `took_s` as a whole, and `decoding_s` after its first token."""
        request = self._load[index]
        if took_s + self._overhead_s(request.input_tokens) > self._e2e_s:
            self._count("e2e")
        if request.output_tokens > 1 and decoding_s / (request.output_tokens - 1) > self._tpot_s:
            self._count("tpot")

    def _count(self, name: str) -> None:
        self._remaining_breaches[name] -= 1
        if not self._remaining_breaches[name]:
            self.is_broken = True
