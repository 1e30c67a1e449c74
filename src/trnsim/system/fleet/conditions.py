"""Conditions of a simulation: demand by step, and failed UltraServers that no spare replaces."""

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
        missing_ultraservers: UltraServers under repair that no spare replaces ``[draws, steps]``.
        seed: the seed of the failures that services and jobs suffer; None for mean failures.
    """

    demand: Sequence[Array]
    missing_ultraservers: NDArray[np.int64]
    seed: int | None

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(self.missing_ultraservers)


def forecast_conditions(scenario: Scenario, quantile: str = "p50") -> FleetConditions:
    """Conditions of one draw: a percentile of the demand, mean failures, and enough spares."""
    demand = [getattr(service.curve, quantile)[None, :] for service in scenario.services]
    return FleetConditions(demand, np.zeros((1, scenario.steps), np.int64), None)


def drawn_conditions(scenario: Scenario, draws: int, seed: int) -> FleetConditions:
    """Conditions of `draws` random draws of demand and failures."""
    demand = [
        service.curve.at_scores(scores(draws, scenario.steps, np.random.default_rng([seed, index])))
        for index, service in enumerate(scenario.services)
    ]
    generator = np.random.default_rng([seed, len(demand)])
    return FleetConditions(
        demand, _missing_ultraservers(scenario.fleet, draws, scenario.steps, generator), seed
    )


def _missing_ultraservers(
    fleet: Fleet, draws: int, steps: int, generator: np.random.Generator
) -> NDArray[np.int64]:
    """UltraServers under repair, less the spares of their building: ``[draws, steps]``.

    An UltraServer is under repair for `repair_s` after its failure, so that the number under repair
    is the difference of two cumulative sums of failures. Failures begin `repair_s` before the first
    step.
    """
    repair_steps = math.ceil(fleet.repair_s / STEP_S)
    counts = np.zeros((draws, steps), np.int64)
    for name, count in fleet.ultraservers.items():
        mean = count * fleet.ultraserver_chips * STEP_S / fleet.chip_mtbf_s
        failures = generator.poisson(mean, (draws, repair_steps + steps)).cumsum(axis=1)
        under_repair = failures[:, repair_steps:] - failures[:, :steps]
        counts += np.clip(under_repair - fleet.spares[name], 0, count)
    return counts
