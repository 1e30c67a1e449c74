"""The capacity answer: the fleet of least cost for a rate, its headroom, and its curve."""

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
    is_set,
    lost_units,
    repeated,
    unit_of,
    units_for,
)
from trnsim.workload.architecture import Architecture

OPERATING_PART: Final = 0.8
"""Part of the most load at which figures stand where no rate is asked for. Assumed: a fifth is
left for minutes that are busier than their hour."""


@dataclass(frozen=True)
class CapacityAnswer:
    """A fleet with what it keeps.

    Attributes:
        test: the runs of a unit.
        sizing: the number of units, for which load.
        capacity: the most load of a unit.
        unit_per_s: its interval, at the P90, P50 and P10 of the times of steps.
        has_slo: whether the limits are the user's; those of the knee otherwise.
        tried: layouts that were compared.
        nearest: what would be feasible; None where the SLO is.
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
        """All units that are paid for."""
        return repeated(self.test.deployment, self.sizing.units)

    @property
    def most_per_s(self) -> float:
        """Most requests a second of the fleet while all of it works."""
        return self.sizing.most_per_s

    @property
    def load_per_s(self) -> float | None:
        """The rate of the demand, or the part of the most at which figures stand."""
        if self.sizing.rate_per_s is not None:
            return self.sizing.rate_per_s
        return OPERATING_PART * self.most_per_s or None

    def instances_for(self, rate_per_s: float, quantile: str = "p50") -> int | None:
        """Instances for a rate with the spare; None where no load is kept."""
        unit_per_s: float = getattr(self.unit_per_s, quantile)
        if not unit_per_s:
            return None
        units = units_for(rate_per_s, unit_per_s, self.sizing.lost)
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
    """The fleet of least cost among `deployments` for the rate of a demand.

    If the user set the number of instances, or named no rate, it is the fleet that serves the most
    requests per instance. A spare is added if the number of instances is searched, unless `spare`
    says otherwise. A brief answer is found sooner, by shorter runs and without an interval.
    """
    pattern = RequestPattern(demand.drawn, demand.trace, longest)
    rate_per_s = None if demand.is_free or demand.is_busy else pattern.rate_per_s
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
    whole = next(each for each in deployments if unit_of(each).options == unit.options)
    lost = lost_units(spare, unit.replicas)
    count, capacity = whole.replicas // unit.replicas, best.capacity
    if not is_fixed and rate_per_s is not None:
        capacity = _at_fewest(best.test, capacity, rate_per_s, lost)
        count = units_for(rate_per_s, capacity.per_s, lost)
    per_s = capacity.per_s
    sizing = Sizing(count, per_s, spare, lost, rate_per_s)
    interval = Interval(per_s, per_s, per_s) if is_brief else _interval(best, slo)
    return CapacityAnswer(best.test, sizing, capacity, interval, bool(slo), best.tried)


def measured_answer(deployment: Deployment, demand: Demand, slo: Slo) -> CapacityAnswer:
    """The capacity of one deployment for requests like those of a demand, at any rate."""
    free = replace(demand, is_free=True)
    return capacity_answer([deployment], free, deployment.engine.max_model_len, slo)


def _at_fewest(test: LoadTest, capacity: Capacity, rate_per_s: float, lost: float) -> Capacity:
    """The capacity at which fewer units would do, if it is within the tolerance and is kept.

    Of a hundred units or more, several lie within the tolerance.
    """
    most_per_s = (1 + 2 * TOLERANCE) * capacity.per_s
    while True:
        left = units_for(rate_per_s, capacity.per_s, lost) - 1 - lost
        if left <= 0 or rate_per_s / left > most_per_s:
            return capacity
        if not test.is_kept(capacity.limits, rate_per_s / left, capacity.requests):
            return capacity
        capacity = replace(capacity, per_s=rate_per_s / left)


def _interval(best: RankedUnit, slo: Slo) -> Interval:
    """The capacity with all steps at their P90, P50 and P10: short runs, as a ratio to its own."""
    per_s = best.per_s
    parts: dict[str, float] = {}
    for quantile in ("p10", "p90"):
        limits = best.test.limits(slo, quantile)
        kept = 0.0
        if limits.is_met(best.test.alone(quantile)):
            kept = best.test.most(limits, best.short_per_s, SHORT_RUN, quantile=quantile)
        parts[quantile] = per_s * kept / best.short_per_s
    low, high = sorted(parts.values())
    return Interval(min(low, per_s), per_s, max(high, per_s))


def _infeasible(ranking: Ranking, slo: Slo, rate_per_s: float | None) -> CapacityAnswer:
    """One unit of the layout that comes nearest."""
    near = nearest(ranking.tests, slo)
    limits = near.test.limits(slo)
    none = Capacity(0.0, limits, limits.worst(near.test.alone())[0], 0.0, 0)
    sizing = Sizing(1, 0.0, Spare.NONE, 0.0, rate_per_s)
    return CapacityAnswer(
        near.test, sizing, none, Interval(0.0, 0.0, 0.0), True, len(ranking.tests), near
    )


def other_instances(
    answer: CapacityAnswer, model: Architecture, where: Machine, options: ServerOptions, slo: Slo
) -> CapacityAnswer:
    """The answer with the instance types that keep an SLO which this one does not."""
    if answer.nearest is None:
        return answer
    others = dict.fromkeys(platforms().values())
    kept = [
        name
        for name in others
        if name != where.instance.name
        and keeps_alone(model, machine(name), options, answer.test.pattern, slo)
    ]
    return replace(answer, nearest=replace(answer.nearest, others=tuple(kept)))
