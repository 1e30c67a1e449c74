"""The layout of least cost: the one that serves the most requests per instance within the limits.

1. `saturated_per_s` gives a bound for each layout. Layouts are tried in the order of their bounds,
   the highest first, in short runs of the same requests. A layout whose bound is well below what
   another one has served is not run.
2. Long runs compare the best layout with those that were nearly as good.
3. The longest runs measure the capacity of the winner. If they are longer than those of step 2,
   step 2 is repeated with runs as long.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.system.serve.capacity import (
    SHORT_RUN,
    TOLERANCE,
    Capacity,
    LoadTest,
    RequestPattern,
    saturated_per_s,
)
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.server import Deployment
from trnsim.system.serve.sizing import Spare, lost_units, units_for

BOUND_SLACK: Final = 1.25
"""Ratio of the load that a layout may serve to its bound, which is an estimate."""
_SHORT_ERROR: Final = 0.08
"""Relative difference that the capacities of short and long runs may have."""
_EQUAL_RATIO: Final = 0.98
"""Ratio from which capacities count as equal.

Among equal layouts the one is taken that answers a request without others the soonest.
"""
_FIRST_PART: Final = 0.8
"""The first rate that is tried, as a part of the bound."""
_MOST_LONG: Final = 3
"""Layouts besides the best that long runs compare with it."""

Tell = Callable[[str], None]


@dataclass(frozen=True)
class RankedUnit:
    """A unit, which is a deployment of one layout, with the load that it serves within the limits.

    Attributes:
        test: the load test, which runs it.
        short_per_s: most requests a second in short runs.
        per_s: most requests a second in its longest runs until now.
        requests: requests of each of its long runs; 0 if it had only short ones.
        capacity: the capacity, with its sampling error; None if it was not measured.
        tried: number of layouts that were compared.
    """

    test: LoadTest
    short_per_s: float
    per_s: float
    requests: int = 0
    capacity: Capacity | None = None
    tried: int = 1

    @property
    def unit(self) -> Deployment:
        """The deployment."""
        return self.test.deployment

    @property
    def instance_rate_per_s(self) -> float:
        """Most requests a second, divided by the instances of the unit."""
        return self.per_s / self.unit.instances


class Ranking:
    """Units compared for a rate, or for the most load.

    Args:
        units: all units whose model fits in memory.
        pattern: the requests.
        router: the rule by which a request is placed on a replica.
        slo: the limits.
        rate_per_s: requests a second that must be served; None for the most load.
        spare: the failure during which the rest must serve the load.
        is_brief: whether capacities are measured briefly.
        tell: called with what is being tried.
    """

    def __init__(
        self,
        units: Sequence[Deployment],
        pattern: RequestPattern,
        router: Router,
        slo: Slo,
        *,
        rate_per_s: float | None = None,
        spare: Spare = Spare.NONE,
        is_brief: bool = False,
        tell: Tell = lambda _: None,
    ) -> None:
        self.tests = [LoadTest(unit, pattern, router, is_brief=is_brief) for unit in units]
        self.slo = slo
        self._rate_per_s = rate_per_s
        self._spare = spare
        self._tell = tell
        self._bounds = {
            id(test): saturated_per_s(test.deployment, pattern) / test.deployment.instances
            for test in self.tests
        }
        self.tests.sort(key=lambda test: -self._bounds[id(test)])

    def best(self) -> RankedUnit | None:
        """The unit that serves the most requests per instance; None if none is within the limits.

        For a stated rate it is another unit if that takes fewer instances.
        """
        ranked = self._short_runs()
        if not ranked:
            return None
        best = self._improved(ranked, self._long_run(self._fastest(ranked)), self._long_run)
        winner = self._capacity_run(best)
        if winner.requests > best.requests:
            winner = self._improved(ranked, winner, self._capacity_run)
        return replace(winner, tried=len(self.tests))

    def _improved(
        self,
        ranked: Sequence[RankedUnit],
        best: RankedUnit,
        run: Callable[[RankedUnit], RankedUnit],
    ) -> RankedUnit:
        """The best unit, or a nearly as good one that costs less in the same kind of run.

        The cost is compared per request, and then for the stated rate.

        Args:
            ranked: all units.
            best: the best until now.
            run: runs a unit as `best` was run.
        """
        for rate_per_s in dict.fromkeys((None, self._rate_per_s)):
            for other in self._near_best(ranked, best, rate_per_s):
                self._tell(f"comparing {layout(other.unit)}")
                if self._is_better(other, best, rate_per_s):
                    rival = run(other)
                    if self._cost(rival, rate_per_s) < self._cost(best, rate_per_s):
                        best = rival
        return best

    def _short_runs(self) -> list[RankedUnit]:
        """The units that serve nearly as much as the best, in short runs."""
        ranked: list[RankedUnit] = []
        most = 0.0
        for place, test in enumerate(self.tests):
            bound = self._bounds[id(test)]
            if BOUND_SLACK * bound < most:
                break
            self._tell(f"layout {place + 1} of {len(self.tests)}: {layout(test.deployment)}")
            limits, instances = test.limits(self.slo), test.deployment.instances
            if not limits.is_met(test.alone()):
                continue
            guess = (1 - _SHORT_ERROR) * most * instances
            if guess and not test.is_kept(limits, guess, SHORT_RUN):
                continue
            per_s = test.most(limits, guess or _FIRST_PART * bound * instances, SHORT_RUN)
            if per_s:
                ranked.append(RankedUnit(test, per_s, per_s))
                most = max(most, per_s / instances)
        return ranked

    def _fastest(self, ranked: Sequence[RankedUnit]) -> RankedUnit:
        """Of the units with the most load per instance, the fastest with one request at a time."""
        most = max(each.instance_rate_per_s for each in ranked)
        equal = [each for each in ranked if each.instance_rate_per_s >= _EQUAL_RATIO * most]
        return min(equal, key=lambda each: each.test.alone().values["e2e_p50_s"])

    def _near_best(
        self, ranked: Sequence[RankedUnit], best: RankedUnit, rate_per_s: float | None
    ) -> list[RankedUnit]:
        """The units that may cost less than the best in long runs."""
        least, more = self._cost(best, rate_per_s), 1 + _SHORT_ERROR
        near = [
            each
            for each in ranked
            if each.test is not best.test and self._cost(each, rate_per_s, more) < least
        ]
        return sorted(near, key=lambda each: -each.instance_rate_per_s)[:_MOST_LONG]

    def _is_better(self, other: RankedUnit, best: RankedUnit, rate_per_s: float | None) -> bool:
        """True if a long run of the other costs less than the best."""
        needed_per_s = self._rate_to_beat(other.unit, best, rate_per_s)
        return needed_per_s is not None and other.test.is_kept(
            other.test.limits(self.slo), needed_per_s, best.requests
        )

    def _rate_to_beat(
        self, unit: Deployment, best: RankedUnit, rate_per_s: float | None
    ) -> float | None:
        """The load at which a unit would cost less than the best one; None if there is none."""
        if rate_per_s is None:
            return (1 + 2 * TOLERANCE) * best.instance_rate_per_s * unit.instances
        units = (round(self._cost(best, rate_per_s)) - 1) // unit.instances
        left = units - lost_units(self._spare, unit.replicas)
        return rate_per_s / left if left > 0 else None

    def _long_run(self, ranked: RankedUnit) -> RankedUnit:
        """Run a unit in long runs; the unit with their figures."""
        self._tell(f"capacity of {layout(ranked.unit)}")
        per_s, count = ranked.test.long_most(self.slo, ranked.short_per_s)
        return replace(ranked, per_s=per_s, requests=count)

    def _capacity_run(self, ranked: RankedUnit) -> RankedUnit:
        """Measure the capacity of a unit, in runs as long as its sampling error needs."""
        compared = ranked if ranked.requests else self._long_run(ranked)
        capacity = ranked.test.final_capacity(self.slo, compared.per_s, compared.requests)
        return replace(
            compared, per_s=capacity.per_s, requests=capacity.requests, capacity=capacity
        )

    def _cost(self, ranked: RankedUnit, rate_per_s: float | None, more: float = 1.0) -> float:
        """Instances for a rate; without one, instance-seconds of a request.

        The load that the unit serves is taken `more` times as high.
        """
        instance_rate_per_s = more * ranked.instance_rate_per_s
        if not instance_rate_per_s:
            return float("inf")
        if rate_per_s is None:
            return 1 / instance_rate_per_s
        unit = ranked.unit
        lost = lost_units(self._spare, unit.replicas)
        return unit.instances * units_for(rate_per_s, instance_rate_per_s * unit.instances, lost)


def layout(deployment: Deployment) -> str:
    """A layout in words: ``8 x TP8, 32 sequences``."""
    options, sequences = deployment.options, deployment.engine.max_num_seqs
    return f"{deployment.replicas} x TP{options.tensor}, {sequences} sequences"
