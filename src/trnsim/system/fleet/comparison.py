"""Policies side by side: the same demand, the same failures; figures as P10, P50 and P90."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.errors import BadInput
from trnsim.system.fleet.conditions import drawn, known
from trnsim.system.fleet.policies import separate, threshold
from trnsim.system.fleet.simulate import Outcome, simulate
from trnsim.system.fleet.solver import solved

if TYPE_CHECKING:
    from collections.abc import Callable

    from trnsim.system.fleet.plan import Plan
    from trnsim.system.fleet.scenario import Scenario

POLICIES: Final = ("separate", "threshold", "solver")
DRAWS: Final = 20


@dataclass(frozen=True)
class Result:
    """A policy's plan and what it brings.

    Attributes:
        plan: who has which blocks.
        outcome: under draws of demand and failures.
        expected: with the demand that was planned for, and the mean of failures.
        own: whether the plan is the policy's own; False where the solver's was no better than
            the threshold policy's, which is then taken.
    """

    plan: Plan
    outcome: Outcome
    expected: Outcome
    own: bool = True


def planned(scenario: Scenario, policy: str, tell: Callable[[str], None]) -> tuple[Plan, bool]:
    """The plan of a policy, and whether it is its own.

    Raises:
        BadInput: the policy is not known, or highspy is not installed.
    """
    if policy == "separate":
        return separate(scenario), True
    if policy == "threshold":
        return threshold(scenario), True
    if policy == "solver":
        return _best(scenario, tell)
    raise BadInput(f"--policy {policy!r} is not known; legal: {', '.join(POLICIES)}")


def _best(scenario: Scenario, tell: Callable[[str], None]) -> tuple[Plan, bool]:
    """The solver's plan, or the threshold policy's where that has fewer misses or USD.

    Both are run with the demand that is planned for.
    """
    own = solved(scenario, tell)
    other = threshold(scenario)
    conditions = known(scenario, scenario.planning.demand)
    one, two = (simulate(scenario, plan, conditions) for plan in (own, other))
    missed = float(one.missed.sum()), float(two.missed.sum())
    usd = float(one.usd[0]), float(two.usd[0])
    if missed[0] <= missed[1] * (1 + _EQUAL) + _EQUAL and usd[0] <= usd[1]:
        return own, True
    return other, False


_EQUAL: Final = 1e-9


def compare(
    scenario: Scenario,
    policies: tuple[str, ...] = POLICIES,
    *,
    draws: int = DRAWS,
    seed: int = 0,
    tell: Callable[[str], None] = lambda _: None,
) -> dict[str, Result]:
    """Each policy's plan under the same draws.

    Args:
        scenario: the fleet and its work.
        policies: among `POLICIES`.
        draws: of demand and failures.
        seed: of the draws.
        tell: called with what is done.

    Raises:
        BadInput: a policy is not known, or highspy is not installed.
    """
    plans: dict[str, tuple[Plan, bool]] = {}
    for one in policies:
        tell(f"plan of {one}")
        plans[one] = planned(scenario, one, tell)
    conditions = drawn(scenario, draws, seed)
    asked = known(scenario, scenario.planning.demand)
    found: dict[str, Result] = {}
    for name, (plan, own) in plans.items():
        tell(f"runs of {name}")
        expected = simulate(scenario, plan, asked)
        found[name] = Result(plan, simulate(scenario, plan, conditions), expected, own)
    return found
