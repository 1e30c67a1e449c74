"""Value of a pilot: the worth of knowing the times before the decision, less the run's cost.

    net       = bills until the limit x (1 - ratio e^(sigma z)) - migration, z standard normal
    value     = E[max(0, net)] - max(0, E[net])
    net value = value - USD of the run - saving that is lost while it runs

The value is the expected value of perfect information about performance (Howard 1966). It has the
closed form of a put option, with K the highest cost on the candidate at which the move pays back in
time, and R the median cost on the candidate:

    E[max(0, net)] = K N(d) - R e^(sigma^2 / 2) N(d - sigma),  d = ln(K / R) / sigma
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

from trnsim.decide.pilot.sides import PilotSides
from trnsim.price.payback import HOURS_PER_MONTH

_NORMAL = NormalDist()


@dataclass(frozen=True)
class Stake:
    """Stakes of a move.

    Attributes:
        bill: today's bill in USD a month.
        ratio: predicted cost of the candidate / predicted cost of today's instance.
        sigma: one sigma of the logarithm of `ratio`, from performance alone.
        limit_months: months within which the move must pay back.
    """

    bill: float
    ratio: float
    sigma: float
    migration_usd: float
    limit_months: float

    @property
    def _most_usd(self) -> float:
        """K: highest cost until the limit, on the candidate, at which the move pays back."""
        return self.limit_months * self.bill - self.migration_usd

    @property
    def _median_usd(self) -> float:
        """R: median cost on the candidate until the limit."""
        return self.limit_months * self.bill * self.ratio

    @property
    def _mean_usd(self) -> float:
        """Expected cost on the candidate until the limit."""
        return self._median_usd * math.exp(self.sigma**2 / 2)

    @property
    def _d(self) -> float:
        """``ln(K / R) / sigma``: sigmas between median and highest cost; infinite if sigma is 0."""
        if self._most_usd <= 0:
            return -math.inf
        distance = math.log(self._most_usd / self._median_usd)
        return distance / self.sigma if self.sigma else math.copysign(math.inf, distance)

    @property
    def net_usd(self) -> float:
        """Expected USD that a move without a pilot gains until the limit."""
        return self._most_usd - self._mean_usd

    @property
    def value_usd(self) -> float:
        """USD value of knowing the times before the decision."""
        if self._most_usd <= 0 or not self.sigma:
            return 0.0
        option_usd = self._most_usd * _NORMAL.cdf(self._d) - self._mean_usd * _NORMAL.cdf(
            self._d - self.sigma
        )
        return max(option_usd - max(0.0, self.net_usd), 0.0)

    @property
    def wrong_probability(self) -> float:
        """Probability that the decision by expected values is wrong, between 0 and 1."""
        pays = _NORMAL.cdf(self._d) if math.isfinite(self._d) else float(self._d > 0)
        return 1 - pays if self.net_usd > 0 else pays

    @property
    def saving_usd_per_month(self) -> float:
        """Expected saving, which is lost while a move waits; 0 if none is expected."""
        return max(0.0, self.bill * (1 - self.ratio * math.exp(self.sigma**2 / 2)))


@dataclass(frozen=True)
class PilotValue:
    """Value and cost of a pilot of a workload.

    Attributes:
        instance: instance type to which the workload may move.
        value_usd: value of knowing its times before the decision.
        wrong_probability: probability that the decision by expected values is wrong.
        run_usd: cost of both sides' runs; None if a side has no public price.
        delay_usd: saving lost while they run.
        refused: reason why there can be no pilot, or None; with a reason the figures are 0.
    """

    workload: str
    instance: str
    value_usd: float = 0.0
    wrong_probability: float = 0.0
    run_usd: float | None = None
    delay_usd: float = 0.0
    hours: float = 0.0
    refused: str | None = None

    @property
    def net_usd(self) -> float:
        """Value less the costs of the run and of waiting; a run without a price is free."""
        return self.value_usd - (self.run_usd or 0.0) - self.delay_usd


def pilot_value(workload: str, stake: Stake, runs: PilotSides) -> PilotValue:
    """Value of a pilot of `workload` by `runs`, given the stakes of the move."""
    hours = max(runs.today.hours, runs.there.hours)
    costs = [side.usd for side in (runs.today, runs.there)]
    known_costs = [cost for cost in costs if cost is not None]
    return PilotValue(
        workload,
        runs.there.instance,
        value_usd=stake.value_usd,
        wrong_probability=stake.wrong_probability,
        run_usd=sum(known_costs) if len(known_costs) == len(costs) else None,
        delay_usd=stake.saving_usd_per_month * hours / HOURS_PER_MONTH,
        hours=hours,
    )
