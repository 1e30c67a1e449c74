"""Conditions of a simulation: demand by step, and UltraServers that are failed and not replaced."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trnsim.system.fleet.demand import STEP_S, Array, scores
from trnsim.system.fleet.scenario import Fleet, Scenario


@dataclass(frozen=True)
class FleetConditions:
    """Draws of demand and failures.

    Attributes:
        demand: for each service, requests a second ``[draws, steps]``.
        short: UltraServers under repair beyond the spares of their buildings ``[draws, steps]``.
        seed: the seed of failures that hit services and jobs; None for their mean.
    """

    demand: Sequence[Array]
    short: NDArray[np.int64]
    seed: int | None

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(self.short)


def forecast_conditions(scenario: Scenario, quantile: str = "p50") -> FleetConditions:
    """Conditions of one draw: a percentile of the demand, mean failures, and enough spares."""
    demand = [getattr(service.curve, quantile)[None, :] for service in scenario.services]
    return FleetConditions(demand, np.zeros((1, scenario.steps), np.int64), None)


def drawn_conditions(scenario: Scenario, draws: int, seed: int) -> FleetConditions:
    """Conditions of `draws` random draws of demand and failures."""
    demand = [
        service.curve.at_scores(scores(draws, scenario.steps, np.random.default_rng([seed, at])))
        for at, service in enumerate(scenario.services)
    ]
    generator = np.random.default_rng([seed, len(demand)])
    return FleetConditions(demand, _short(scenario.fleet, draws, scenario.steps, generator), seed)


def _short(
    fleet: Fleet, draws: int, steps: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """The number of UltraServers that are missing, ``[draws, steps]``.

    These are the UltraServers under repair less the spares of their building.

    An UltraServer is under repair for `repair_s` after its failure, so that the number under repair
    is the difference of two cumulative sums of failures. Failures begin `repair_s` before the first
    step.
    """
    repair = math.ceil(fleet.repair_s / STEP_S)
    short = np.zeros((draws, steps), np.int64)
    for name, count in fleet.ultraservers.items():
        mean = count * fleet.ultraserver_chips * STEP_S / fleet.chip_mtbf_s
        failed = generator.poisson(mean, (draws, repair + steps)).cumsum(axis=1)
        under = failed[:, repair:] - failed[:, :steps] if repair else 0 * failed
        short += np.clip(under - fleet.spares[name], 0, count)
    return short
