"""Placements of a workload: instance type, number of instances, hours a month, and price.

    instance-hours = units a month / (units an hour of an instance), units: tokens or items
    instances      = instance-hours / hours until the deadline (of a service: hours of the month)

A service keeps whole instances on all month, enough for its busiest hour. Training and offline
inference pay for the hours of their work, on the fewest instances that meet the deadline. Prices
are of the purchase kind at which the workload is bought today. The origin is today's instance type,
a destination any other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import date
from typing import Final

from trnsim.arch import target_of_chip
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
"""Purchase kinds that anybody can buy; their prices show if a private quote is worth asking."""
MOST_INSTANCES: Final = 10_000
"""Instances of one type: more than any region is known to have."""
SHORTEST_MONTH_HOURS: Final = 28 * 24
LONGEST_MONTH_HOURS: Final = 31 * 24
COMMITTED: Final = ("ri_1y", "ri_3y", "ri_effective", "savings_plan_1y", "savings_plan_3y")
"""Purchase kinds that are paid for every hour of a year.

The work is assumed to come again each month, and other work to use the hours between.
"""
_MOST_ROUNDS: Final = 4
"""Predictions of training at most, on ever larger groups until one meets the deadline."""


def candidate_names(on: tuple[str, ...] = (), rows: Catalogue | None = None) -> tuple[str, ...]:
    """Instances to consider: all candidates, or those that `on` names by type, chip or family.

    Raises:
        BadInput: a name is no type, chip or family.
    """
    rows = rows or catalogue()
    if not on:
        return tuple(
            name
            for name, instance in rows.instances.items()
            if rows.accelerator(instance.accelerator).is_neuron or family(name) in GPUS
        )
    names = [name for selector in on for name in platform(selector, rows).instances]
    return tuple(dict.fromkeys(names))


@dataclass(frozen=True)
class WorkloadPlacement:
    """A workload on instances of one type.

    A group is the set of instances of one training job or one deployment (`Speed.group`).

    Attributes:
        chip: name of its chip in the catalogue.
        is_neuron: True if its chips are AWS's.
        is_open: True if a move to it may be recommended: its chip is an AWS chip that still gets
            new software, and trains if the workload is training.
        speed: speed of a group of instances; None if the workload is refused.
        hours: instance-hours a month, all inputs at their medians; of whole groups if
            `is_always_on`.
        load: groups that the work needs before rounding up: in the busiest hour if `is_always_on`,
            else on average over the month.
        is_always_on: True if whole groups are on all month.
        instances: instances in use at one time.
        price: price of the same purchase kind as today's.
        no_price: reason for the lack of a price.
        reference: cheapest price of the kinds in `PUBLIC`.
        refused: reason why the workload cannot run on this type.
        notes: remarks on the chip and the region of the price, for readers.
    """

    instance: Instance
    chip: str
    is_neuron: bool
    is_open: bool
    speed: Speed | None
    hours: float
    load: float
    is_always_on: bool
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
        kind: purchase kind of all prices; "" for today's kind of each workload.
        as_of: day of the prices.
        is_mixed: True if the price of another public kind may be used for an instance that is not
            on sale at the requested kind.
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
        """Purchase kind of the prices of today's instance and of all candidates."""
        return self._kind or workload.current.kind

    def origin(self, workload: Workload) -> WorkloadPlacement:
        """Placement on today's instance type."""
        count = workload.current.count
        name = workload.current.instance
        speed = self._predictor.speed(workload, name, count or 1).speed
        chips = self._rows.instances[name].count
        units = None if speed is None else units_per_month(workload, speed, chips)
        return self._placement(workload, name, units, count)

    def destination(
        self,
        workload: Workload,
        name: str,
        origin: WorkloadPlacement,
        *,
        is_brief: bool = False,
    ) -> WorkloadPlacement:
        """Placement of the same work on the instance type `name`.

        Args:
            workload: a workload of the inventory.
            name: instance type.
            origin: placement of today, whose speed gives the work if the volume is in hours.
            is_brief: True for a prediction of serving from shorter runs.
        """
        if name == origin.instance.name:
            return origin
        units = None
        if origin.speed is not None:
            units = units_per_month(workload, origin.speed, origin.instance.count)
        elif workload.volume_unit != "gpu_hours":
            units = workload.volume
        return self._placement(workload, name, units, None, is_brief=is_brief)

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
        target = target_of_chip(chip.name)
        is_open = target is not None and (workload.kind != "train" or target.is_for_training)
        is_always_on = workload.is_always_on
        speed, refused, instances, hours, load = self._speed_and_size(
            workload, name, units, count, is_brief=is_brief
        )
        price, no_price, reference = None, None, None
        if speed is not None:
            is_all_year = is_always_on or self.kind(workload) in COMMITTED
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
            is_always_on=is_always_on,
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
        """Speed, reason for its lack, instances, instance-hours a month, groups before rounding.

        Args:
            workload: a workload of the inventory.
            name: instance type.
            units: tokens or items a month; None if unknown.
            count: number of instances in use today; None to choose it.
            is_brief: True for a prediction of serving from shorter runs.
        """
        requested, rounds = count or 1, 0
        while True:
            answer = self._predictor.speed(workload, name, requested, is_brief=is_brief)
            rounds += 1
            speed = answer.speed
            if speed is None or units is None:
                why = answer.refused or "its volume is in hours of an instance that is refused"
                return None, why, 0, 0.0, 0.0
            hours = units / speed.units_per_hour
            if workload.is_always_on:
                load = hours / speed.group / HOURS_PER_MONTH * _peak_ratio(workload)
                instances = speed.group * max(math.ceil(load - 1e-9), 1)
                if instances > MOST_INSTANCES and name != workload.current.instance:
                    return None, _too_many(instances), 0, 0.0, 0.0
                return speed, None, instances, instances * HOURS_PER_MONTH, load
            limit_hours = min(workload.deadline_hours or HOURS_PER_MONTH, HOURS_PER_MONTH)
            groups = max(math.ceil(hours / limit_hours / speed.group - 1e-9), 1)
            fleet = speed.group * groups
            if count or workload.kind != "train" or fleet <= speed.group >= requested:
                break
            if speed.group >= MOST_TIMED or fleet <= requested or rounds == _MOST_ROUNDS:
                break
            requested = fleet
        instances = count or fleet
        if instances > MOST_INSTANCES:
            return None, _too_many(instances), 0, 0.0, 0.0
        return speed, None, instances, hours, hours / HOURS_PER_MONTH / speed.group

    def _price(
        self, workload: Workload, name: str, days: float | None, instances: int
    ) -> tuple[Quote | None, str | None]:
        """Price of today's kind that can be bought for this use, or the reason for its lack."""
        current = self._quote(name, self.kind(workload), workload)
        reason = why_not(current, days=days, instances=instances, is_together=False)
        if name == workload.current.instance and current.row is not None:
            return current, None  # today's instance is bought at this kind, on sale or not
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
        priced_quotes = [
            (price.usd_per_hour, price) for price in quotes if price.usd_per_hour is not None
        ]
        return min(priced_quotes, key=lambda pair: pair[0])[1] if priced_quotes else None

    def _quote(self, name: str, kind: str, workload: Workload) -> Quote:
        regional = quote(
            name, kind, as_of=self._as_of, region=workload.current.region, rows=self._rows
        )
        if regional.row is None and workload.current.region is not None:
            return quote(name, kind, as_of=self._as_of, rows=self._rows)
        return regional


def _too_many(instances: int) -> str:
    return f"{instances:,} instances are needed; legal: up to {MOST_INSTANCES:,}"


def _chip_notes(workload: Workload, chip: Accelerator, *, is_open: bool) -> tuple[str, ...]:
    """Note that a move to this AWS chip is not recommended, although it could be made."""
    if not chip.is_neuron or is_open:
        return ()
    has_software = target_of_chip(chip.name) is not None
    why = f"is not for kind {workload.kind}" if has_software else "gets no new software"
    return (f"no place to move to: {chip.name} {why}",)


def _region_notes(workload: Workload, price: Quote | None) -> tuple[str, ...]:
    """Note that a price of another region stands in for the workload's region."""
    region = workload.current.region
    if region is None or price is None or price.row is None or price.region is not None:
        return ()
    return (f"no price in {region} is known; that of {price.row.region} stands in",)


def units_per_month(workload: Workload, speed: Speed, chips_per_instance: int) -> float:
    """Tokens or items a month: the stated volume, or the speed x the stated accelerator-hours."""
    if workload.volume_unit != "gpu_hours":
        return workload.volume
    hours = workload.volume / chips_per_instance
    return speed.units_per_hour * (whole_months(hours) if workload.is_always_on else hours)


def whole_months(hours: float) -> float:
    """Instance-hours of whole instances in a mean month of 730 hours; other hours are unchanged.

    An instance that is on all October has 744 hours on the bill: it counts as 1 instance, not 1.02.

    Args:
        hours: instance-hours of a calendar month.
    """
    instances = round(hours / HOURS_PER_MONTH)
    if instances * SHORTEST_MONTH_HOURS <= hours <= instances * LONGEST_MONTH_HOURS:
        return instances * float(HOURS_PER_MONTH)
    return hours


def _peak_ratio(workload: Workload) -> float:
    """Demand of the busiest hour over the mean; 1 for accelerator-hours, which include the peak."""
    return 1.0 if workload.volume_unit == "gpu_hours" else workload.peak_ratio or 1.0
