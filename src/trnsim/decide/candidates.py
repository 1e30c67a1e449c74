"""Placements of a workload: instances, their number for a month, and the price of an equal kind.

    instance-hours = units a month / (units an hour of an instance)
    instances      = instance-hours / hours until the deadline, or all month of a service

A service keeps whole instances on all month, enough for its busiest hour. Training and batches pay
for the hours that they take, on as many instances as end in time.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Final

from trnsim.arch import TARGETS
from trnsim.arch.catalogue import Accelerator, Catalogue, Instance, catalogue
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.times import Predictor, Speed
from trnsim.decide.times.training import MOST_TIMED
from trnsim.place.platform import family, platform
from trnsim.price import Quote, quote, why_not
from trnsim.price.payback import HOURS_PER_MONTH

GPUS: Final = ("p4d", "p4de", "p5", "p5e", "p5en", "p6", "g5", "g6", "g6e")
"""Families of GPU instances that are candidates by default, beside all with AWS's chips."""
PUBLIC: Final = ("on_demand", "capacity_block")
"""Kinds that anybody can buy: their price shows if a quote of another kind is worth a request."""
MOST: Final = 10_000
"""Instances of one type: more than any region is known to have."""
SHORTEST_MONTH: Final = 28 * 24
LONGEST_MONTH: Final = 31 * 24
COMMITTED: Final = ("ri_1y", "ri_3y", "ri_effective", "savings_plan_1y", "savings_plan_3y")
"""Kinds that are paid all year: a month's work comes again, other work has the hours between."""
_MOST_ROUNDS: Final = 4


def candidate_names(on: tuple[str, ...] = (), rows: Catalogue | None = None) -> tuple[str, ...]:
    """Instances to consider: all candidates, or those that `on` names by type, chip or family.

    Raises:
        BadInput: a name is none of these.
    """
    rows = rows or catalogue()
    if not on:
        return tuple(
            name
            for name, instance in rows.instances.items()
            if rows.accelerator(instance.accelerator).is_neuron or family(name) in GPUS
        )
    named = [name for selector in on for name in platform(selector, rows).instances]
    return tuple(dict.fromkeys(named))


@dataclass(frozen=True)
class WorkloadPlacement:
    """A workload on instances of one type.

    Attributes:
        instance: instance type.
        is_neuron: True if its chips are AWS's.
        is_open: True if a move there may be recommended: its chip still gets new software.
        speed: speed of a group of instances; None if the workload is refused.
        hours: instance-hours a month, all inputs at their medians.
        load: mean groups in use, a fraction; `hours` has whole groups if the service is steady.
        is_steady: True if whole groups are on all month.
        instances: instances in use at one time.
        price: price of the same kind as today's.
        no_price: reason for the lack of a price.
        reference: cheapest price of public kinds.
        refused: reason why it cannot run there.
    """

    instance: Instance
    chip: str
    is_neuron: bool
    is_open: bool
    speed: Speed | None
    hours: float
    load: float
    is_steady: bool
    instances: int
    price: Quote | None
    no_price: str | None
    reference: Quote | None
    refused: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def chips(self) -> int:
        """Chips in use at one time."""
        return self.instances * self.instance.count


class WorkloadPlacements:
    """Maker of placements of workloads.

    Args:
        predictor: predictor of speeds.
        rows: catalogue of instances and prices.
        kind: purchase kind of all prices; "" for today's of each workload.
        as_of: day of the prices.
        is_mixed: True if another public kind may stand in for one that is not on sale.
    """

    def __init__(
        self,
        predictor: Predictor,
        rows: Catalogue | None = None,
        *,
        kind: str = "",
        as_of: date | None = None,
        is_mixed: bool = False,
    ) -> None:
        self._predictor = predictor
        self._rows = rows or catalogue()
        self._kind = kind
        self._as_of = as_of
        self._is_mixed = is_mixed

    def kind(self, workload: Workload) -> str:
        """The purchase kind of both sides."""
        return self._kind or workload.current.kind

    def here(self, workload: Workload) -> WorkloadPlacement:
        """The workload on its instances of today."""
        count = workload.current.count
        name = workload.current.instance
        speed = self._predictor.speed(workload, name, count or 1).speed
        units = None if speed is None else units_per_month(workload, speed, self._chip_count(name))
        return self._placement(workload, name, units, count)

    def there(
        self,
        workload: Workload,
        name: str,
        here: WorkloadPlacement,
        *,
        is_brief: bool = False,
    ) -> WorkloadPlacement:
        """The same work on instances of the type `name`; a brief answer is from shorter runs."""
        if name == here.instance.name:
            return here
        units = None
        if here.speed is not None:
            units = units_per_month(workload, here.speed, here.instance.count)
        elif workload.volume_unit != "gpu_hours":
            units = workload.volume
        return self._placement(workload, name, units, None, is_brief=is_brief)

    def _chip_count(self, name: str) -> int:
        return self._rows.instances[name].count

    def _placement(
        self,
        workload: Workload,
        name: str,
        units: float | None,
        count: int | None,
        *,
        is_brief: bool = False,
    ) -> WorkloadPlacement:
        instance = self._rows.instances[name]
        chip = self._rows.accelerator(instance.accelerator)
        target = next((target for target in TARGETS.values() if target.chip == chip.name), None)
        is_open = target is not None and (workload.kind != "train" or target.is_for_training)
        is_steady = _is_steady(workload)
        speed, refused, instances, hours, load = self._speed_and_size(
            workload, name, units, count, is_brief=is_brief
        )
        price, no_price, reference = None, None, None
        if speed is not None:
            is_all_year = is_steady or self.kind(workload) in COMMITTED
            days = None if is_all_year else hours / instances / 24
            price, no_price = self._price(workload, name, days, instances)
            reference = self._cheapest_public_price(workload, name)
        return WorkloadPlacement(
            instance=instance,
            chip=chip.name,
            is_neuron=chip.is_neuron,
            is_open=is_open,
            speed=speed,
            hours=hours,
            load=load,
            is_steady=is_steady,
            instances=instances,
            price=price,
            no_price=no_price,
            reference=reference,
            refused=refused,
            notes=(
                *_chip_notes(workload, chip, is_open=is_open),
                *_region_notes(workload, price),
            ),
        )

    def _speed_and_size(
        self,
        workload: Workload,
        name: str,
        units: float | None,
        count: int | None,
        *,
        is_brief: bool,
    ) -> tuple[Speed | None, str | None, int, float, float]:
        """Speed, reason for its lack, instances, instance-hours a month, and groups in use."""
        requested, rounds = count or 1, 0
        while True:
            answer = self._predictor.speed(workload, name, requested, is_brief=is_brief)
            rounds += 1
            speed = answer.speed
            if speed is None or units is None:
                why = answer.refused or "its volume is in hours of an instance that is refused"
                return None, why, 0, 0.0, 0.0
            hours = units / speed.units_per_hour
            if _is_steady(workload):
                load = hours / speed.group / HOURS_PER_MONTH * _peak_ratio(workload)
                instances = speed.group * max(math.ceil(load - 1e-9), 1)
                if instances > MOST and name != workload.current.instance:
                    return None, _too_many(instances), 0, 0.0, 0.0
                return speed, None, instances, instances * HOURS_PER_MONTH, load
            limit = min(workload.deadline_hours or HOURS_PER_MONTH, HOURS_PER_MONTH)
            needed = speed.group * math.ceil(hours / limit / speed.group - 1e-9)
            if count or workload.kind != "train" or needed <= speed.group >= requested:
                break
            if speed.group >= MOST_TIMED or needed <= requested or rounds == _MOST_ROUNDS:
                break
            requested = needed
        instances = max(count or needed, 1)
        if instances > MOST:
            return None, _too_many(instances), 0, 0.0, 0.0
        return speed, None, instances, hours, hours / HOURS_PER_MONTH / speed.group

    def _price(
        self, workload: Workload, name: str, days: float | None, instances: int
    ) -> tuple[Quote | None, str | None]:
        """Price of today's kind that can be bought for this use, or the reason for its lack."""
        current = self._quote(name, self.kind(workload), workload)
        reason = why_not(current, days=days, instances=instances, is_together=False)
        if name == workload.current.instance and current.row is not None:
            return current, None  # it is bought so today
        if reason is None:
            return current, None
        if self._is_mixed:
            for kind in PUBLIC:
                public = self._quote(name, kind, workload)
                if why_not(public, days=days, instances=instances, is_together=False) is None:
                    return public, None
        return None, reason

    def _cheapest_public_price(self, workload: Workload, name: str) -> Quote | None:
        quotes = [self._quote(name, kind, workload) for kind in PUBLIC]
        priced = [(price.usd_per_hour, price) for price in quotes if price.usd_per_hour is not None]
        return min(priced, key=lambda pair: pair[0])[1] if priced else None

    def _quote(self, name: str, kind: str, workload: Workload) -> Quote:
        regional = quote(
            name, kind, as_of=self._as_of, region=workload.current.region, rows=self._rows
        )
        if regional.row is None and workload.current.region is not None:
            return quote(name, kind, as_of=self._as_of, rows=self._rows)
        return regional


def _too_many(instances: int) -> str:
    return f"{instances:,} instances are needed; legal: {MOST:,}"


def _chip_notes(workload: Workload, chip: Accelerator, *, is_open: bool) -> tuple[str, ...]:
    """Note that no move to one of AWS's chips is recommended although it could run the workload."""
    if not chip.is_neuron or is_open:
        return ()
    is_kept = any(target.chip == chip.name for target in TARGETS.values())
    why = f"is not for kind {workload.kind}" if is_kept else "gets no new software"
    return (f"no place to move to: {chip.name} {why}",)


def _region_notes(workload: Workload, price: Quote | None) -> tuple[str, ...]:
    """Note that a price of another region stands in for the workload's region."""
    region = workload.current.region
    if region is None or price is None or price.row is None or price.region is not None:
        return ()
    return (f"no price in {region} is known; that of {price.row.region} stands in",)


def units_per_month(workload: Workload, speed: Speed, accelerators: int) -> float:
    """Tokens or items a month: as stated, or as predicted in the accelerator-hours of the bill."""
    if workload.volume_unit != "gpu_hours":
        return workload.volume
    hours = workload.volume / accelerators
    return speed.units_per_hour * (whole_months(hours) if _is_steady(workload) else hours)


def whole_months(hours: float) -> float:
    """`hours` of an instance as whole instances in a mean month, if they are so in a real month.

    A bill of October has 744 hours of an instance that is on all month: 1 instance, not 1.02.
    """
    instances = round(hours / HOURS_PER_MONTH)
    if instances * SHORTEST_MONTH <= hours <= instances * LONGEST_MONTH:
        return instances * float(HOURS_PER_MONTH)
    return hours


def _is_steady(workload: Workload) -> bool:
    """True if users wait for the answers, so that instances are on all month."""
    slo = workload.slo
    return workload.kind == "serve" or slo.latency_s is not None


def _peak_ratio(workload: Workload) -> float:
    """Demand of the busiest hour over the mean; accelerator-hours of a bill include it already."""
    return 1.0 if workload.volume_unit == "gpu_hours" else workload.peak_ratio or 1.0
