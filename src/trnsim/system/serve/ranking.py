"""Ranking of layouts by capacity per instance, and by cost for a request rate.

Short runs of the same requests compare layouts, in the order of their closed-form estimates
(`saturated_per_s`, the rate of a full batch). A layout whose estimate is well below the capacity of
another is not run. Long runs decide between layouts that short runs cannot tell apart. Only the
winner has runs of full length; if they are longer, its rivals are compared with it once more in
runs of the same length.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from trnsim.formatting import counted
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
from trnsim.system.serve.sizing import Spare, units_for, units_of_spare

BOUND_SLACK: Final = 1.25
"""Greatest ratio of a layout's capacity to its closed-form estimate."""
_SHORT_ERROR: Final = 0.08
"""Greatest relative error of a capacity in short runs."""
_EQUAL_RATIO: Final = 0.98
"""Ratio at and above which two capacities count as equal; the lower unloaded latency then wins."""
_FIRST_RATIO: Final = 0.8
"""First guess of a capacity, as a fraction of the closed-form estimate."""
_MOST_RIVALS: Final = 3
"""Maximum number of layouts that long runs compare with the best."""

Tell = Callable[[str], None]
"""A callback that takes a line of progress."""


@dataclass(frozen=True)
class RankedUnit:
    """A unit with the highest request rate at which it keeps the limits.

    Attributes:
        short_per_s: highest rate in short runs, in requests a second.
        per_s: highest rate in the longest runs of the unit so far, in requests a second.
        requests: number of requests in each of its long runs; 0 if it had none.
        capacity: the capacity with its sampling error; None unless the unit was a winner.
        tried: number of layouts compared.
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
        """Highest request rate per instance, in requests a second."""
        return self.per_s / self.unit.instances


class Ranking:
    """Comparison of units by their cost for a request rate, or by their capacity per instance.

    Args:
        units: one unit of each layout that fits in memory.
        pattern: the requests.
        router: the rule that places requests on replicas.
        slo: the limits.
        rate_per_s: requests a second to serve; None to compare capacities per instance.
        spare: the failure to survive.
        is_brief: whether runs stay short and their sampling error is not reduced.
        tell: called with a line of progress.

    Attributes:
        tests: the load tests of the units, the highest closed-form estimate per instance first.
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
        """The unit with the highest capacity per instance; None if no unit keeps the limits.

        Another unit is returned for a rate at which it needs fewer instances.
        """
        ranked_units = self._short_runs()
        if not ranked_units:
            return None
        best = self._best_of_rivals(
            ranked_units, self._long_run(self._fastest(ranked_units)), self._long_run
        )
        winner = self._capacity_run(best)
        if winner.requests > best.requests:
            winner = self._best_of_rivals(ranked_units, winner, self._capacity_run)
        return replace(winner, tried=len(self.tests))

    def _best_of_rivals(
        self,
        ranked_units: Sequence[RankedUnit],
        best: RankedUnit,
        run: Callable[[RankedUnit], RankedUnit],
    ) -> RankedUnit:
        """The best unit after its rivals have had runs of the same length.

        A rival that costs less replaces the best: first by capacity per instance, then for the
        rate.
        """
        for rate_per_s in dict.fromkeys((None, self._rate_per_s)):
            for candidate in self._near_best(ranked_units, best, rate_per_s):
                self._tell(f"comparing {layout(candidate.unit)}")
                if self._is_better(candidate, best, rate_per_s):
                    rival = run(candidate)
                    if self._cost(rival, rate_per_s) < self._cost(best, rate_per_s):
                        best = rival
        return best

    def _short_runs(self) -> list[RankedUnit]:
        """The units whose capacity per instance is near the best, by short runs."""
        ranked_units: list[RankedUnit] = []
        best_per_s = 0.0
        for index, test in enumerate(self.tests):
            bound = self._bounds[id(test)]
            if BOUND_SLACK * bound < best_per_s:
                break
            self._tell(f"layout {index + 1} of {len(self.tests)}: {layout(test.deployment)}")
            limits, instances = test.limits(self.slo), test.deployment.instances
            if not limits.is_met(test.unloaded_figures()):
                continue
            guess = (1 - _SHORT_ERROR) * best_per_s * instances
            if guess and not test.is_within(limits, guess, SHORT_RUN):
                continue
            per_s = test.highest_rate(limits, guess or _FIRST_RATIO * bound * instances, SHORT_RUN)
            if per_s:
                ranked_units.append(RankedUnit(test, per_s, per_s))
                best_per_s = max(best_per_s, per_s / instances)
        return ranked_units

    def _fastest(self, ranked_units: Sequence[RankedUnit]) -> RankedUnit:
        """The unit of the lowest unloaded latency among units of about the highest capacity."""
        highest_per_s = max(unit.instance_rate_per_s for unit in ranked_units)
        equal_units = [
            unit
            for unit in ranked_units
            if unit.instance_rate_per_s >= _EQUAL_RATIO * highest_per_s
        ]
        return min(equal_units, key=lambda unit: unit.test.unloaded_figures().values["e2e_p50_s"])

    def _near_best(
        self, ranked_units: Sequence[RankedUnit], best: RankedUnit, rate_per_s: float | None
    ) -> list[RankedUnit]:
        """The units that may cost less than the best in long runs, by the error of short runs."""
        best_cost, factor = self._cost(best, rate_per_s), 1 + _SHORT_ERROR
        near_units = [
            unit
            for unit in ranked_units
            if unit.test is not best.test and self._cost(unit, rate_per_s, factor) < best_cost
        ]
        return sorted(near_units, key=lambda unit: -unit.instance_rate_per_s)[:_MOST_RIVALS]

    def _is_better(self, candidate: RankedUnit, best: RankedUnit, rate_per_s: float | None) -> bool:
        """True if `candidate` keeps the limits at a rate at which it costs less than `best`.

        Its run has as many requests as the runs of `best`.
        """
        needed_per_s = self._rate_to_beat(candidate.unit, best, rate_per_s)
        return needed_per_s is not None and candidate.test.is_within(
            candidate.test.limits(self.slo), needed_per_s, best.requests
        )

    def _rate_to_beat(
        self, unit: Deployment, best: RankedUnit, rate_per_s: float | None
    ) -> float | None:
        """The lowest capacity of `unit`, in requests a second, at which it costs less than `best`.

        None if no capacity is enough.
        """
        if rate_per_s is None:
            return (1 + 2 * TOLERANCE) * best.instance_rate_per_s * unit.instances
        units = (round(self._cost(best, rate_per_s)) - 1) // unit.instances
        working_units = units - units_of_spare(self._spare, unit.replicas)
        return rate_per_s / working_units if working_units > 0 else None

    def _long_run(self, ranked_unit: RankedUnit) -> RankedUnit:
        """A unit with the highest rate at which it keeps the limits in long runs."""
        self._tell(f"capacity of {layout(ranked_unit.unit)}")
        per_s, count = ranked_unit.test.highest_rate_in_long_runs(self.slo, ranked_unit.short_per_s)
        return replace(ranked_unit, per_s=per_s, requests=count)

    def _capacity_run(self, ranked_unit: RankedUnit) -> RankedUnit:
        """Measure the capacity of a unit, in runs as long as its sampling error needs."""
        long_unit = ranked_unit if ranked_unit.requests else self._long_run(ranked_unit)
        capacity = ranked_unit.test.final_capacity(self.slo, long_unit.per_s, long_unit.requests)
        return replace(
            long_unit, per_s=capacity.per_s, requests=capacity.requests, capacity=capacity
        )

    def _cost(
        self, ranked_unit: RankedUnit, rate_per_s: float | None, factor: float = 1.0
    ) -> float:
        """Number of instances for a rate; without a rate instance-seconds per request.

        The unit's capacity is multiplied by `factor`.
        """
        instance_rate_per_s = factor * ranked_unit.instance_rate_per_s
        if not instance_rate_per_s:
            return float("inf")
        if rate_per_s is None:
            return 1 / instance_rate_per_s
        unit = ranked_unit.unit
        spare_units = units_of_spare(self._spare, unit.replicas)
        return unit.instances * units_for(
            rate_per_s, instance_rate_per_s * unit.instances, spare_units
        )


def layout(deployment: Deployment) -> str:
    """A deployment's layout in words: ``8 x TP8, 32 sequences``."""
    options, sequences = deployment.options, deployment.engine.max_num_seqs
    return f"{deployment.replicas} x TP{options.tensor}, {counted(sequences, 'sequence')}"
