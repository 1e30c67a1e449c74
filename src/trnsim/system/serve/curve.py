"""Load curve of a fleet: request rate against latencies, utilisation and USD per million tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.system.serve.capacity import Capacity, LoadTest
from trnsim.system.serve.sizing import Sizing

_FRACTIONS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Fractions of the capacity, in runs of `_POINT_RUN` requests."""
_NEAR_FRACTIONS: Final = (0.95, 1.0, 1.05)
"""Fractions near the capacity, whose runs are as long as the runs that measured it."""
_POINT_RUN: Final = 1024
_MILLION: Final = 1e6
_HOUR_S: Final = 3600.0


@dataclass(frozen=True)
class CurvePoint:
    """A load and the fleet's figures under it.

    Attributes:
        requests_per_s: the load of the whole fleet.
        latencies_s: seconds by figure: ``ttft_p99_s``.
        output_tokens_per_s: tokens of answers, of the whole fleet.
        utilisation: fraction of the time in which replicas work.
        usd_per_million_tokens: USD for a million output tokens; None without a price.
        is_kept: whether the load is within the capacity.
    """

    requests_per_s: float
    latencies_s: dict[str, float]
    output_tokens_per_s: float
    utilisation: float
    usd_per_million_tokens: float | None
    is_kept: bool


def curve(
    test: LoadTest,
    capacity: Capacity,
    sizing: Sizing,
    usd_per_hour: float | None,
    loads_per_s: Sequence[float] = (),
) -> tuple[CurvePoint, ...]:
    """The points of a fleet, by ascending load; none if its capacity is 0.

    Args:
        test: the load tests of one unit.
        capacity: the capacity of one unit.
        sizing: the number of units.
        usd_per_hour: price of the whole fleet.
        loads_per_s: further loads of the whole fleet to show, in requests a second.
    """
    if not capacity.per_s:
        return ()
    runs = {fraction * capacity.per_s: _POINT_RUN for fraction in _FRACTIONS}
    runs |= {load / sizing.units: _POINT_RUN for load in loads_per_s}
    for fraction in _NEAR_FRACTIONS:
        rate_per_s = fraction * capacity.per_s
        runs[rate_per_s] = test.requests(capacity.limits, rate_per_s, capacity.requests)
    return tuple(
        _point(test, capacity, sizing, usd_per_hour, rate_per_s, runs[rate_per_s])
        for rate_per_s in sorted(runs)
    )


def _point(
    test: LoadTest,
    capacity: Capacity,
    sizing: Sizing,
    usd_per_hour: float | None,
    rate_per_s: float,
    count: int,
) -> CurvePoint:
    """The point at which one unit has `rate_per_s`, by a run of `count` requests."""
    load, _, figures = test.run(rate_per_s, count)
    tokens = sum(request.output_tokens for request in load) / len(load)
    served_per_s = min(rate_per_s, figures.values["output_tokens_per_s"] * test.cells / tokens)
    tokens_per_s = sizing.units * served_per_s * tokens
    names = (
        "ttft_p50_s", "ttft_p99_s", "ttft_unloaded_p50_s", "ttft_queue_p50_s", "ttft_queue_p99_s",
        "tpot_p50_s", "tpot_p99_s", "e2e_p50_s", "e2e_p99_s",
    )  # fmt: skip
    return CurvePoint(
        sizing.units * rate_per_s,
        {name: figures.values[name] for name in names if name in figures.values},
        tokens_per_s,
        figures.values["utilisation"],
        None if usd_per_hour is None else usd_per_hour / _HOUR_S / tokens_per_s * _MILLION,
        rate_per_s <= capacity.per_s,
    )
