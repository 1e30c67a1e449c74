"""Cost, saving and payback of a workload on another instance, at the medians and over draws.

    ratio           = (hours x USD/h of the destination) / (hours x USD/h of the origin)
    saving          = 1 - ratio
    payback months  = migration USD / (today's bill in USD a month x saving)

The origin is today's instance type, the destination a candidate. An error of the model that is the
same on both sides cancels in the ratio; staying has the ratio 1.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import numpy as np

from trnsim.decide.candidates import WorkloadPlacement
from trnsim.decide.decision import Candidate, DatedPrice, Migration, Months, Swing, Today
from trnsim.decide.draws import (
    DEMAND,
    DEMAND_SPREAD,
    EFFORT,
    EFFORT_SPREAD,
    Draws,
    Samples,
    at_quantile,
    interval_around,
)
from trnsim.decide.inventory.workload import Workload
from trnsim.price import Quote
from trnsim.price.payback import HOURS_PER_MONTH

_HOURS_UNIT: Final = "gpu_hours"


def listed_price(quote: Quote | None) -> DatedPrice | None:
    """Dated price of a quote; None without a public price."""
    if quote is None or quote.row is None or quote.usd_per_hour is None:
        return None
    row = quote.row
    source = quote.usd_per_hour.provenance.source
    usd = float(quote.usd_per_hour)
    return DatedPrice(usd, quote.kind, row.region, row.as_of, source, quote.is_stale)


def origin_price(workload: Workload, origin: WorkloadPlacement) -> DatedPrice | None:
    """Price of today's instance: from the catalogue, or the bill over its hours.

    Hours of the bill, the first that is known: `count` instances all month, the accelerator-hours
    of the inventory, the hours that the model predicts.
    """
    price = listed_price(origin.price)
    if price is not None:
        return price
    deployment, hours = workload.current, 0.0
    if deployment.count:
        hours, basis = deployment.count * float(HOURS_PER_MONTH), "count x 730 hours"
    elif workload.volume_unit == _HOURS_UNIT:
        hours, basis = workload.volume / origin.instance.count, "gpu_hours"
    else:
        hours, basis = origin.hours, "hours as predicted"
    if not hours:
        return None
    usd = deployment.usd_per_month / hours
    day = "" if workload.as_of is None else str(workload.as_of)
    region = deployment.region or "not stated"
    return DatedPrice(usd, deployment.kind, region, day, f"the bill over {basis}")


@dataclass(frozen=True)
class WorkloadComparison:
    """Comparison of a workload's candidate placements with today's.

    Attributes:
        origin: placement of today.
        draws: Monte Carlo draws of the uncertain inputs.
        limit_months: months within which a move must pay back.
    """

    workload: Workload
    origin: WorkloadPlacement
    draws: Draws
    limit_months: float

    @cached_property
    def price(self) -> DatedPrice | None:
        """Price of an hour on today's instance."""
        return origin_price(self.workload, self.origin)

    @property
    def bill(self) -> float:
        """Today's bill, in USD a month."""
        return self.workload.current.usd_per_month

    @property
    def bill_ratio(self) -> float | None:
        """Today's bill over the cost predicted for today's instance.

        None without a prediction, or if the known price is of another purchase kind than the bill.
        """
        kind = self.workload.current.kind
        if self.price is None or self.origin.speed is None or self.price.kind != kind:
            return None
        return self.bill / (self.origin.hours * self.price.usd_per_hour)

    def today(self) -> Today:
        """Today's instances, bill and price, with the hours predicted for them."""
        origin, deployment = self.origin, self.workload.current
        is_predicted = origin.speed is not None
        return Today(
            instance=deployment.instance,
            count=deployment.count,
            kind=deployment.kind,
            usd_per_month=deployment.usd_per_month,
            hours=interval_around(origin.hours, self._hour_draws(origin)) if is_predicted else None,
            paid_hours=origin.hours if is_predicted else None,
            price=self.price,
            refused=origin.refused,
        )

    def candidate(self, destination: WorkloadPlacement, migration: Migration) -> Candidate:
        """A placement as a candidate: cost, saving and payback."""
        speed, price = destination.speed, listed_price(destination.price)
        candidate = Candidate(
            instance=destination.instance.name,
            is_neuron=destination.is_neuron,
            refused=destination.refused,
            no_price=destination.no_price,
            price=price,
            kind="" if price is None else price.kind,
        )
        if speed is None:
            return candidate
        candidate = replace(
            candidate,
            instances=destination.instances,
            hours=interval_around(destination.hours, self._hour_draws(destination)),
            paid_hours=destination.hours,
            break_even_usd_per_hour=self.break_even(destination, migration),
            family=speed.family,
            is_validated=speed.is_validated and destination.is_open,
            error=speed.error,
            slo=None if speed.is_met is None else "met" if speed.is_met else "missed",
            layout=speed.layout,
            ms=speed.ms,
            notes=(*speed.notes, *destination.notes),
        )
        ratio = self.ratio(destination)
        return (
            candidate
            if ratio is None
            else self._with_prices(candidate, destination, ratio, migration)
        )

    def ratio(self, destination: WorkloadPlacement) -> float | None:
        """Cost of the candidate / cost of today's instance at the medians; None without prices."""
        price = listed_price(destination.price)
        if price is None or self.price is None or self.origin.speed is None:
            return None
        return (
            destination.hours * price.usd_per_hour / (self.origin.hours * self.price.usd_per_hour)
        )

    def break_even(self, destination: WorkloadPlacement, migration: Migration) -> float | None:
        """Highest USD an hour at which the move pays back in time; None if no price does."""
        if self.price is None or self.origin.speed is None or destination.speed is None:
            return None
        budget = 1 - migration.usd / (self.limit_months * self.bill)
        usd = budget * self.origin.hours * self.price.usd_per_hour / destination.hours
        return usd if usd > 0 else None

    def _with_prices(
        self,
        candidate: Candidate,
        destination: WorkloadPlacement,
        ratio: float,
        migration: Migration,
    ) -> Candidate:
        """The candidate with the figures that need prices on both sides."""
        saving = 1 - self.ratio_draws(destination, ratio)
        months = self._payback_months(saving, migration)
        total_ms, usd = sum(candidate.ms.values()), self.bill * ratio
        return replace(
            candidate,
            usd_per_month=interval_around(usd, self.bill * (1 - saving)),
            saving=interval_around(1 - ratio, saving),
            pays_back_months=_months_quantiles(months, migration.usd, self.bill * (1 - ratio)),
            share_paying_back=float(np.mean(months <= self.limit_months)),
            usd={cause: usd * ms / total_ms for cause, ms in candidate.ms.items()},
        )

    def ratio_draws(self, destination: WorkloadPlacement, ratio: float) -> Samples:
        """Draws of the cost of the candidate / the cost of today's instance."""
        hours = self._hour_draws(destination) / self._hour_draws(self.origin)
        prices = self.draws.factor(self._price_sigmas(destination))
        prices = prices / self.draws.factor(self._price_sigmas(self.origin))
        return ratio * hours / (destination.hours / self.origin.hours) * prices

    def _payback_months(self, saving: Samples, migration: Migration) -> Samples:
        """Draws of the months until a migration is paid back; infinite where nothing is saved."""
        saved_usd = self.bill * self._demand_factors() * saving
        cost = migration.usd * self.draws.factor({EFFORT: float(EFFORT_SPREAD)})
        return np.where(saved_usd > 0, cost / np.where(saved_usd > 0, saved_usd, 1.0), np.inf)

    def _demand_factors(self) -> Samples:
        return self.draws.factor({DEMAND: float(DEMAND_SPREAD)})

    def _hour_draws(self, place: WorkloadPlacement) -> Samples:
        """Draws of instance-hours: performance and demand."""
        return _scaled_hours(place, self._demand_factors() * self._time_factors(place))

    def _time_factors(self, place: WorkloadPlacement) -> Samples:
        """Draws of true over predicted time.

        If the volume is hours on today's bill, today's true hours are known: the draws are then the
        factor of `place` over today's factor.
        """
        times = self.draws.factor({} if place.speed is None else place.speed.sigmas)
        if self.workload.volume_unit != _HOURS_UNIT or self.origin.speed is None:
            return times
        return times / self.draws.factor(self.origin.speed.sigmas)

    @staticmethod
    def _price_sigmas(place: WorkloadPlacement) -> dict[str, float]:
        """One sigma of the logarithm of a placement's price, by cause; empty without a price."""
        quote = place.price
        if quote is None or quote.usd_per_hour is None:
            return {}
        return {f"price of {quote.instance}": quote.usd_per_hour.provenance.spread}

    def tornado(self, destination: WorkloadPlacement, migration: Migration) -> tuple[Swing, ...]:
        """Net saving with one input at a time at its P10 and its P90, the widest range first.

        Net saving = saving - cost of the migration / sum of today's bills until the payback limit.
        """
        ratio = self.ratio(destination)
        if ratio is None or destination.speed is None or self.origin.speed is None:
            return ()
        performance = difference_sigma(destination.speed.sigmas, self.origin.speed.sigmas)
        prices = difference_sigma(self._price_sigmas(destination), self._price_sigmas(self.origin))
        migration_share = migration.usd / (self.limit_months * self.bill)

        def net(ratio: float, effort: float = 1.0, demand: float = 1.0) -> float:
            return 1 - ratio - migration_share * effort / demand

        swings: list[Swing] = []
        for cause, sigma in (("performance", performance), ("price", prices)):
            low, high = (net(ratio * at_quantile(sigma, name)) for name in ("p10", "p90"))
            swings.append(Swing(cause, low, high))
        low, high = (net(ratio, at_quantile(float(EFFORT_SPREAD), name)) for name in ("p10", "p90"))
        swings.append(Swing(EFFORT, low, high))
        low, high = (
            net(ratio * self._ratio_factor_at(destination, demand), demand=demand)
            for demand in (at_quantile(float(DEMAND_SPREAD), name) for name in ("p10", "p90"))
        )
        swings.append(Swing(DEMAND, low, high))
        return tuple(sorted(swings, key=lambda swing: -abs(swing.high - swing.low)))

    def _ratio_factor_at(self, destination: WorkloadPlacement, demand: float) -> float:
        """Ratio at `demand` x today's work over the ratio now; not 1 if groups are rounded up."""
        factor = np.array([demand])
        scale = _scaled_hours(destination, factor) / _scaled_hours(self.origin, factor)
        return float(scale[0]) / (destination.hours / self.origin.hours)


def _scaled_hours(place: WorkloadPlacement, factor: Samples) -> Samples:
    """Instance-hours at `factor` x the work: whole groups all month, or the hours of the work."""
    if not place.is_always_on or place.speed is None:
        return place.hours * factor
    groups = np.maximum(np.ceil(place.load * factor - 1e-9), 1.0)
    return groups * place.speed.group * HOURS_PER_MONTH


def difference_sigma(left: dict[str, float], right: dict[str, float]) -> float:
    """One sigma of the logarithm of a ratio; equal causes on both sides cancel.

    Args:
        left: one sigma of the logarithm of the numerator, by cause.
        right: one sigma of the logarithm of the denominator, by cause.
    """
    names = left.keys() | right.keys()
    return math.hypot(*(left.get(name, 0.0) - right.get(name, 0.0) for name in names))


def _months_quantiles(months: Samples, migration_usd: float, saved_usd: float) -> Months:
    """P10 and P90 of `months`, and between them the months at the medians of all inputs.

    Args:
        months: draws of the months until the migration is paid back.
        migration_usd: cost of the migration at its median.
        saved_usd: USD saved a month at the medians of all inputs.
    """
    median = migration_usd / saved_usd if saved_usd > 0 else math.inf
    p10, p90 = (float(np.quantile(months, level, method="nearest")) for level in (0.1, 0.9))
    quantiles = (min(p10, median), median, max(p90, median))
    return Months(*(months if math.isfinite(months) else None for months in quantiles))
