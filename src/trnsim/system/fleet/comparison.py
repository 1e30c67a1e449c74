"""Comparison of allocation policies under the same draws of demand and failures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from trnsim.errors import BadInput
from trnsim.system.fleet.conditions import drawn_conditions, forecast_conditions
from trnsim.system.fleet.plan import FleetPlan
from trnsim.system.fleet.policies import separate, threshold
from trnsim.system.fleet.scenario import Scenario
from trnsim.system.fleet.simulate import FleetOutcome, simulate
from trnsim.system.fleet.solver import solver_plan

POLICIES: Final = ("separate", "threshold", "solver")
DRAWS: Final = 20
"""Default number of draws of demand and failures."""


@dataclass(frozen=True)
class PolicyResult:
    """A policy's plan and its outcomes.

    Attributes:
        plan: allocation of blocks.
        outcome: outcome under draws of demand and failures.
        expected: outcome with the demand that was planned for, and the mean of failures.
        is_own_plan: False if the plan is the threshold policy's, because the solver's was no
            better.
    """

    plan: FleetPlan
    outcome: FleetOutcome
    expected: FleetOutcome
    is_own_plan: bool = True


def policy_plan(
    scenario: Scenario, policy: str, tell: Callable[[str], None]
) -> tuple[FleetPlan, bool]:
    """The plan of a policy, and False if the plan is another policy's.

    Raises:
        BadInput: the policy is unknown, or highspy is not installed.
    """
    if policy == "separate":
        return separate(scenario), True
    if policy == "threshold":
        return threshold(scenario), True
    if policy == "solver":
        return _best(scenario, tell)
    raise BadInput(f"--policy {policy!r} is not known; legal: {', '.join(POLICIES)}")


def _best(scenario: Scenario, tell: Callable[[str], None]) -> tuple[FleetPlan, bool]:
    """The solver's plan, or the threshold policy's if it misses fewer requests or costs less.

    Both are simulated with the demand that is planned for.
    """
    solution, rival = solver_plan(scenario, tell), threshold(scenario)
    conditions = forecast_conditions(scenario, scenario.planning.demand)
    solution_run, rival_run = (simulate(scenario, plan, conditions) for plan in (solution, rival))
    missed_requests = float(solution_run.missed.sum()), float(rival_run.missed.sum())
    usd = float(solution_run.usd[0]), float(rival_run.usd[0])
    if (
        missed_requests[0] <= missed_requests[1] * (1 + _EQUAL_SHARE) + _EQUAL_SHARE
        and usd[0] <= usd[1]
    ):
        return solution, True
    return rival, False


_EQUAL_SHARE: Final = 1e-9
"""Relative difference of missed requests up to which they count as equal."""


def compare(
    scenario: Scenario,
    policies: tuple[str, ...] = POLICIES,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, PolicyResult]:
    """Outcomes of each policy's plan under the same draws.

    Args:
        scenario: the fleet and its work.
        policies: among `POLICIES`.
        draws: number of draws of demand and failures.
        seed: the seed of the draws.
        tell: called with a line on progress.

    Raises:
        BadInput: a policy is not known, or highspy is not installed.
    """
    plans: dict[str, tuple[FleetPlan, bool]] = {}
    for policy in policies:
        tell(f"plan of {policy}")
        plans[policy] = policy_plan(scenario, policy, tell)
    conditions = drawn_conditions(scenario, draws, seed)
    forecast = forecast_conditions(scenario, scenario.planning.demand)
    results: dict[str, PolicyResult] = {}
    for name, (plan, is_own_plan) in plans.items():
        tell(f"runs of {name}")
        expected = simulate(scenario, plan, forecast)
        results[name] = PolicyResult(
            plan, simulate(scenario, plan, conditions), expected, is_own_plan
        )
    return results
