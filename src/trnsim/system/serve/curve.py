"""The curve of a fleet: load against P99 latencies, use, and USD of a million tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trnsim.system.serve.capacity import Capacity, LoadTest
from trnsim.system.serve.sizing import Sizing

_PARTS: Final = (0.1, 0.25, 0.5, 0.75, 0.9)
"""Parts of the most load, in runs of `_POINT_RUN`."""
_NEAR_PARTS: Final = (0.95, 1.0, 1.05)
"""Parts around the capacity, in runs as long as those that measured it."""
_POINT_RUN: Final = 1024
_TOKENS: Final = 1e6
_SECONDS: Final = 3600.0


@dataclass(frozen=True)
class CurvePoint:
    """A load and what it does to the fleet.

    Attributes:
        requests_per_s: the load of the whole fleet.
        latencies_s: by name, as ``ttft_p99_s``.
        output_tokens_per_s: tokens of answers.
        utilisation: part of the time in which replicas work.
        usd_per_million_tokens: USD for a million output tokens; None without a price.
        is_kept: whether it is within the most load.
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
    """The points of a fleet of units like that of `test`, with those of `loads_per_s`.

    `usd_per_hour` is that of the whole fleet.
    """
    if not capacity.per_s:
        return ()
    runs = {part * capacity.per_s: _POINT_RUN for part in _PARTS}
    runs |= {load / sizing.units: _POINT_RUN for load in loads_per_s}
    for part in _NEAR_PARTS:
        rate_per_s = part * capacity.per_s
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
    """The point at a rate of one unit."""
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
        None if usd_per_hour is None else usd_per_hour / _SECONDS / tokens_per_s * _TOKENS,
        rate_per_s <= capacity.per_s,
    )
