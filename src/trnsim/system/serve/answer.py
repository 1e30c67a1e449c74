"""Capacity answer: the cheapest fleet for a request rate, its headroom, and its load curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.facts import Interval
from trnsim.place.machine import Machine, machine, platforms
from trnsim.system.serve.capacity import SHORT_RUN, TOLERANCE, Capacity, LoadTest, RequestPattern
from trnsim.system.serve.curve import CurvePoint
from trnsim.system.serve.demand import Demand, Slo
from trnsim.system.serve.nearest import Nearest, keeps_alone, nearest
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.ranking import RankedUnit, Ranking, Tell
from trnsim.system.serve.server import Deployment
from trnsim.system.serve.sizing import (
    Sizing,
    Spare,
    check_units,
    is_set,
    repeated_deployment,
    unit_of,
    units_for,
    units_of_spare,
)
from trnsim.workload.architecture import Architecture

OPERATING_PART: Final = 0.8
"""Fraction of the capacity at which latencies are reported where the user names no rate. Assumed:
a fifth is left for minutes that are busier than their hour."""


@dataclass(frozen=True)
class CapacityAnswer:
    """A fleet of equal units (see `sizing`) and the load that it serves within its limits.

    Attributes:
        sizing: the number of units, and the load that it was chosen for.
        capacity: the highest request rate of one unit within the limits.
        unit_per_s: requests a second of `capacity` as an interval: its P10 is the capacity with
            all steps at the P90 of their times, its P90 that with all steps at their P10.
        has_slo: True if the limits are the user's SLO; False if they are those of the knee.
        tried: number of layouts compared.
        nearest: the feasible layout nearest to an SLO that no layout keeps; None if one keeps it.
        curve: load against latencies and cost; set once a price is known.
    """

    test: LoadTest
    sizing: Sizing
    capacity: Capacity
    unit_per_s: Interval
    has_slo: bool
    tried: int
    nearest: Nearest | None = None
    curve: tuple[CurvePoint, ...] = ()

    @property
    def deployment(self) -> Deployment:
        """The whole fleet, spare units included."""
        return repeated_deployment(self.test.deployment, self.sizing.units)

    @property
    def most_per_s(self) -> float:
        """Highest request rate of the fleet with no unit failed, in requests a second."""
        return self.sizing.most_per_s

    @property
    def load_per_s(self) -> float | None:
        """The demand's rate, or `OPERATING_PART` of the capacity without one; None if that is 0."""
        if self.sizing.rate_per_s is not None:
            return self.sizing.rate_per_s
        return OPERATING_PART * self.most_per_s or None

    def instances_for(self, rate_per_s: float, quantile: str = "p50") -> int | None:
        """Instances for a rate, spare included; None if a unit's capacity at `quantile` is 0."""
        unit_per_s: float = getattr(self.unit_per_s, quantile)
        if not unit_per_s:
            return None
        units = units_for(rate_per_s, unit_per_s, self.sizing.spare_units)
        return units * self.test.deployment.instances


def capacity_answer(
    deployments: Sequence[Deployment],
    demand: Demand,
    longest: int,
    slo: Slo,
    *,
    spare: Spare | None = None,
    is_brief: bool = False,
    tell: Tell = lambda _: None,
) -> CapacityAnswer:
    """The cheapest fleet among `deployments` for the request rate of a demand.

    Where the user set the number of instances, or names no rate, it is the fleet with the highest
    capacity per instance.

    Args:
        deployments: the layouts to choose from.
        demand: the requests.
        longest: tokens of the longest sequence, prompt and answer.
        slo: the limits; without any, those of the knee.
        spare: the failure to survive; by default an instance where the number of instances is
            searched, otherwise none.
        is_brief: shorter runs, and no interval.
        tell: called with a line of progress.

    Raises:
        BadInput: more instances are needed than any region has.
    """
    pattern = RequestPattern(demand.synthetic, demand.trace, longest)
    rate_per_s = None if demand.has_open_rate or demand.is_saturating else pattern.rate_per_s
    is_fixed = is_set(deployments[0].options) or rate_per_s is None
    spare = spare or (Spare.NONE if is_fixed else Spare.INSTANCE)
    units = [unit_of(deployment) for deployment in deployments]
    ranking = Ranking(
        units,
        pattern,
        demand.router,
        slo,
        rate_per_s=None if is_fixed else rate_per_s,
        spare=spare,
        is_brief=is_brief,
        tell=tell,
    )
    best = ranking.best()
    if best is None or best.capacity is None or not best.capacity.per_s:
        return _infeasible(ranking, slo, rate_per_s)
    unit = best.unit
    deployment = next(fleet for fleet in deployments if unit_of(fleet).options == unit.options)
    spare_units = units_of_spare(spare, unit.replicas)
    count, capacity = deployment.replicas // unit.replicas, best.capacity
    if not is_fixed and rate_per_s is not None:
        check_units(units_for(rate_per_s, capacity.per_s, spare_units), unit)
        capacity = _at_fewest(best.test, capacity, rate_per_s, spare_units)
        count = units_for(rate_per_s, capacity.per_s, spare_units)
    per_s = capacity.per_s
    sizing = Sizing(count, per_s, spare, spare_units, rate_per_s)
    interval = Interval(per_s, per_s, per_s) if is_brief else _interval(best, per_s, slo)
    return CapacityAnswer(best.test, sizing, capacity, interval, bool(slo), best.tried)


def measured_answer(deployment: Deployment, demand: Demand, slo: Slo) -> CapacityAnswer:
    """The capacity of one deployment under a demand's requests, whatever the demand's own rate."""
    open_demand = replace(demand, has_open_rate=True)
    return capacity_answer([deployment], open_demand, deployment.engine.max_model_len, slo)


def _at_fewest(
    test: LoadTest, capacity: Capacity, rate_per_s: float, spare_units: float
) -> Capacity:
    """A capacity raised within the tolerance of bisection so that fewer units serve the rate.

    Each step removes one unit and runs the others at their larger share; it stands if that run
    keeps the limits. From about a hundred units on, several can be saved so.
    """
    most_per_s = (1 + 2 * TOLERANCE) * capacity.per_s
    while True:
        remaining_units = units_for(rate_per_s, capacity.per_s, spare_units) - 1 - spare_units
        if remaining_units <= 0 or rate_per_s / remaining_units > most_per_s:
            return capacity
        if not test.is_within(capacity.limits, rate_per_s / remaining_units, capacity.requests):
            return capacity
        capacity = replace(capacity, per_s=rate_per_s / remaining_units)


def _interval(best: RankedUnit, per_s: float, slo: Slo) -> Interval:
    """The capacity with all steps at their P90, P50 (which is `per_s`) and P10.

    P90 and P10 are measured in short runs, as ratios to the P50 of short runs.
    """
    rates_per_s = []
    for quantile in ("p10", "p90"):
        limits = best.test.limits(slo, quantile)
        rate = 0.0
        if limits.is_met(best.test.unloaded_figures(quantile)):
            rate = best.test.highest_rate(limits, best.short_per_s, SHORT_RUN, quantile=quantile)
        rates_per_s.append(per_s * rate / best.short_per_s)
    low, high = sorted(rates_per_s)
    return Interval(min(low, per_s), per_s, max(high, per_s))


def _infeasible(ranking: Ranking, slo: Slo, rate_per_s: float | None) -> CapacityAnswer:
    """The answer where no layout keeps the SLO: one unit of the layout nearest to it."""
    closest = nearest(ranking.tests, slo)
    limits = closest.test.limits(slo)
    no_capacity = Capacity(0.0, limits, limits.worst(closest.test.unloaded_figures())[0], 0.0, 0)
    sizing = Sizing(1, 0.0, Spare.NONE, 0.0, rate_per_s)
    no_rate = Interval(0.0, 0.0, 0.0)
    return CapacityAnswer(
        closest.test, sizing, no_capacity, no_rate, True, len(ranking.tests), closest
    )


def other_instances(
    answer: CapacityAnswer,
    model: Architecture,
    on_machine: Machine,
    options: ServerOptions,
    slo: Slo,
) -> CapacityAnswer:
    """The answer, and if it is infeasible the other instance types on which the SLO is feasible.

    `on_machine` is the machine of the answer.
    """
    if answer.nearest is None:
        return answer
    instance_names = dict.fromkeys(platforms().values())
    feasible_names = [
        name
        for name in instance_names
        if name != on_machine.instance.name
        and keeps_alone(model, machine(name), options, answer.test.pattern, slo)
    ]
    return replace(answer, nearest=replace(answer.nearest, instance_types=tuple(feasible_names)))
