"""Need of services: blocks in each hour that serve a demand, start times included."""

from __future__ import annotations

import math
import sys
from typing import Final

import numpy as np

from trnsim.system.fleet.demand import HOUR_STEPS, STEP_S, Array
from trnsim.system.fleet.plan import Counts
from trnsim.system.fleet.scenario import Scenario, Service

_ROUNDING_BLOCKS: Final = 1e-9
"""Fraction of a block that is rounding error, and does not need another block."""
_MOST_BLOCKS: Final = float(1 << 53)
"""Largest need: more blocks than any fleet has, as a number that an int64 holds."""


def ready_steps(scenario: Scenario, service: Service) -> int:
    """Steps at the start of an hour in which a block received for it does not serve yet."""
    return min(math.ceil(scenario.ready_s(service) / STEP_S), HOUR_STEPS)


def needs(scenario: Scenario, quantile: str) -> Counts:
    """Blocks ``[hours, services]`` that serve a percentile of the demand without a missed request.

    An hour needs blocks for its own busiest step, and for those first steps of the next hour in
    which blocks received for the next hour do not serve yet.
    """
    columns = [
        _need(scenario, service, getattr(service.curve, quantile).reshape(-1, HOUR_STEPS))
        for service in scenario.services
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((scenario.hours, 0), np.int64)


def _need(scenario: Scenario, service: Service, demand: Array) -> Counts:
    peak = demand.max(axis=1)
    start_peak = demand[:, : ready_steps(scenario, service)].max(axis=1, initial=0.0)
    peak[:-1] = np.maximum(peak[:-1], start_peak[1:])
    # A block may serve next to nothing, or nothing where restarts after failures take all time.
    least_per_s = max(float(peak.max()) / _MOST_BLOCKS, sys.float_info.min)
    blocks = peak / max(scenario.block_requests_per_s(service), least_per_s)
    counts: Counts = np.ceil(blocks - _ROUNDING_BLOCKS).astype(np.int64)
    return counts


def allotment(scenario: Scenario, blocks_needed: Counts) -> Counts:
    """Blocks ``[hours, services]``: each service's need, or the rest after earlier services."""
    free_blocks = np.full(len(blocks_needed), scenario.blocks, np.int64)
    counts = np.zeros_like(blocks_needed)
    for service in range(blocks_needed.shape[1]):
        counts[:, service] = np.minimum(blocks_needed[:, service], free_blocks)
        free_blocks -= counts[:, service]
    return counts
