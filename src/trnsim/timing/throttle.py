"""The Tensor Engine's utilization limit, which slows it down after a pause.

On Trn2 and Trn3 the engine starts at about half of its rate and ramps to full over about 3 us of
work; the limit returns after a window of that length in which the engine was busy for less than
the initial share. Further limits (power, heat, peak current) are not modelled.

Source: aws-neuron-sdk tools/neuron-explorer/overview-summary-page.rst, Understanding throttling.
"""

from __future__ import annotations

from collections import deque
from math import sqrt

from trnsim.arch import NeuronCore


class UtilizationLimit:
    """The utilization limit over time; work must be reported in order.

    Between the start of a ramp and its end the limit rises linearly from `tensor_ramp_start` to 1.
    """

    def __init__(self, core: NeuronCore) -> None:
        self._floor = min(float(core.tensor_ramp_start), 1.0)
        self._window_s = float(core.tensor_ramp_s)
        self._slope_per_s = (1 - self._floor) / self._window_s
        self._ramp_start_s: float | None = None
        self._busy_spans_s: deque[tuple[float, float]] = deque()
        self._ramp_starts_s: list[float] = []

    def record_work(self, start_s: float, length_s: float) -> float:
        """Record work from `start_s` on, `length_s` long at full rate; return the time it takes."""
        if self._floor >= 1:
            return length_s
        self._restart_after_pause(start_s)
        taken_s = self._stretched_s(self.value_at(start_s), length_s)
        end_s = start_s + taken_s
        if self._busy_spans_s and self._busy_spans_s[-1][1] == start_s:
            self._busy_spans_s[-1] = (self._busy_spans_s[-1][0], end_s)
        else:
            self._busy_spans_s.append((start_s, end_s))
        return taken_s

    def value_at(self, time_s: float) -> float:
        """The limit at `time_s`, from `tensor_ramp_start` to 1."""
        if self._ramp_start_s is None:
            return self._floor
        return min(1.0, self._floor + self._slope_per_s * (time_s - self._ramp_start_s))

    def _restart_after_pause(self, now_s: float) -> None:
        ramp_start_s = self._ramp_start_s
        if ramp_start_s is not None and now_s - ramp_start_s < self._window_s:
            return  # its first window is not over
        since_s = now_s - self._window_s
        while self._busy_spans_s and self._busy_spans_s[0][1] <= since_s:
            self._busy_spans_s.popleft()
        if ramp_start_s is not None and self._was_busy(since_s):
            return
        self._ramp_start_s = now_s
        self._ramp_starts_s.append(now_s)

    def _was_busy(self, since_s: float) -> bool:
        """True if the engine was busy for at least the initial share of the window."""
        busy_s, enough_s = 0.0, self._floor * self._window_s
        for start_s, end_s in self._busy_spans_s:
            busy_s += end_s - (start_s if start_s > since_s else since_s)  # noqa: FURB136  faster
            if busy_s >= enough_s:
                return True
        return False

    def ramp_steps(self, parts: int) -> list[tuple[float, float, float]]:
        """(start, length, mean limit) of `parts` intervals of equal length in each ramp."""
        length_s = self._window_s / parts
        rise = (1 - self._floor) / parts
        return [
            (ramp_start_s + part * length_s, length_s, self._floor + rise * (part + 1 / 2))
            for ramp_start_s in self._ramp_starts_s
            for part in range(parts)
        ]

    def _stretched_s(self, limit: float, length_s: float) -> float:
        """The time that `length_s` of work takes at a rate that rises from `limit`."""
        slope = self._slope_per_s
        to_full_s = (1 - limit) / slope
        ramp_work_s = (limit + 1) / 2 * to_full_s
        if length_s >= ramp_work_s:
            return to_full_s + length_s - ramp_work_s
        return (sqrt(limit * limit + 2 * slope * length_s) - limit) / slope
