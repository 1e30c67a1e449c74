"""An AWS cost and usage report: hours and cost of accelerators by instance, purchase and region.

What is counted is the use of EC2 instances, at its cost after discounts: covered hours of
reservations and Savings Plans at their effective cost, so that fees are not counted twice. Taxes,
credits and refunds are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.cells import Cells
from trnsim.decide.inventory.bill_rows import TAG, bill_rows
from trnsim.decide.inventory.fields import MOST_GPU_HOURS, MOST_USD
from trnsim.errors import BadInput
from trnsim.price.quotes import today

__all__ = ["Bill", "Usage", "read_bill"]

_BOX: Final = re.compile(
    r"(?:[A-Z0-9]+-)?(?P<use>BoxUsage|UnusedBox|DedicatedUsage|SpotUsage|HeavyUsage):(?P<type>\S+)"
)
"""Usage types of running instances. Source: AWS CUR user guide, "Line item details"."""
_COSTS: Final = {
    "Usage": ("line_item_net_unblended_cost", "line_item_unblended_cost"),
    "DiscountedUsage": ("reservation_net_effective_cost", "reservation_effective_cost"),
    "SavingsPlanCoveredUsage": (
        "savings_plan_net_savings_plan_effective_cost",
        "savings_plan_savings_plan_effective_cost",
    ),
}
"""By type of line, the columns of its cost, that after private discounts first."""
_YEARS: Final = {"1yr": "1y", "3yr": "3y"}
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_SHOWN: Final = 5


@dataclass(frozen=True)
class Usage:
    """Hours and cost of one instance type in one month, as far as everything else is equal.

    Attributes:
        month: "2026-10".
        kind: of purchase, one of `trnsim.price.quotes.KINDS`.
        hours: of instances.
        usd: their cost; 0 for a capacity block, which is paid in advance.
        resource: the instance's id, or "" in a report without resources.
        tags: pairs of key and value.
        line: the first line of the report with it.
    """

    month: str
    instance: str
    kind: str
    region: str | None
    hours: float
    usd: float
    resource: str
    tags: tuple[tuple[str, str], ...]
    line: int


@dataclass(frozen=True)
class Bill:
    """What a report says of accelerators.

    Attributes:
        usage: of instances that the catalogue has, in the order of months and instances.
        last_day: the last day with usage of them.
        unknown: USD of instances of a family with accelerators, in a size that it lacks.
    """

    path: Path
    usage: tuple[Usage, ...]
    last_day: date
    unknown: tuple[tuple[str, float], ...] = ()

    @property
    def months(self) -> tuple[str, ...]:
        """The months with usage."""
        return tuple(sorted({one.month for one in self.usage}))

    @property
    def usd(self) -> float:
        """The cost of all accelerators."""
        return sum(one.usd for one in self.usage)


def read_bill(path: Path | str, rows: Catalogue | None = None) -> Bill:
    """What the cost and usage report at `path` says of accelerators.

    Raises:
        BadInput: it cannot be read, a cell is not legal, or no accelerator was used.
    """
    rows = rows or catalogue()
    path = Path(path)
    sums: dict[tuple[object, ...], Usage] = {}
    unknown: dict[str, float] = {}
    others: dict[str, int] = {}
    last = date.min
    families = {_family(name) for name in rows.instances}
    for cells, instance in _boxes(bill_rows(path)):
        if instance not in rows.instances:
            if _family(instance) in families:
                unknown[instance] = unknown.get(instance, 0) + _usage(cells, instance, rows)[1].usd
            others[instance] = others.get(instance, 0) + 1
            continue
        day, one = _usage(cells, instance, rows)
        last = max(last, day)
        key = (one.month, one.instance, one.kind, one.region or "", one.resource, one.tags)
        sums[key] = _added(sums[key], one) if key in sums else one
    if not sums:
        raise _no_accelerators(path, others)
    usage = tuple(sums[key] for key in sorted(sums, key=str))
    return Bill(path, usage, last, tuple(sorted(unknown.items())))


def _family(instance: str) -> str:
    return instance.partition(".")[0]


def _boxes(rows: Iterator[Cells]) -> Iterator[tuple[Cells, str]]:
    """The lines of running instances, each with the type of the instance."""
    for cells in rows:
        box = _BOX.fullmatch(cells.values.get("line_item_usage_type", ""))
        if box and cells.values.get("line_item_line_item_type") in _COSTS:
            yield cells, box["type"]


def _usage(cells: Cells, instance: str, rows: Catalogue) -> tuple[date, Usage]:
    """The day of a line, and what it says."""
    currency = cells.values.get("line_item_currency_code", "USD")
    if currency != "USD":
        raise cells.refused("line_item_currency_code", "legal: USD")
    columns = _COSTS[cells.text("line_item_line_item_type")]
    column = next((name for name in columns if name in cells), columns[-1])
    hours = cells.number_from("line_item_usage_amount", 0, at_most=MOST_GPU_HOURS)
    usd = cells.number_from(column, 0, at_most=MOST_USD)
    day = _day(cells, rows)
    return day, Usage(
        month=f"{day:%Y-%m}",
        instance=instance,
        kind=_kind(cells, is_free=usd == 0 and hours > 0),
        region=cells.values.get("product_region_code"),
        hours=hours,
        usd=usd,
        resource=cells.values.get("line_item_resource_id", ""),
        tags=tuple(
            sorted((k.removeprefix(TAG), v) for k, v in cells.values.items() if k.startswith(TAG))
        ),
        line=cells.line,
    )


def _day(cells: Cells, rows: Catalogue) -> date:
    """The day on which the usage of a line began."""
    given = cells.text("line_item_usage_start_date")
    found = _DAY.match(given)
    try:
        day = date.fromisoformat(found[0]) if found else None
    except ValueError:
        day = None
    if day is None:
        why = "no day; legal: 2026-10-31T00:00:00Z"
        raise cells.refused("line_item_usage_start_date", why)
    if day > (latest := today(rows)):
        raise cells.refused("line_item_usage_start_date", f"in the future; legal: up to {latest}")
    return day


def _kind(cells: Cells, *, is_free: bool) -> str:
    """The kind of purchase of a line."""
    line_type = cells.text("line_item_line_item_type")
    if line_type == "DiscountedUsage":
        years = _YEARS.get(cells.values.get("pricing_lease_contract_length", ""))
        return f"ri_{years}" if years else "ri_effective"
    if line_type == "SavingsPlanCoveredUsage":
        return f"savings_plan_{_YEARS[cells.one_of('savings_plan_purchase_term', _YEARS)]}"
    if "SpotUsage" in cells.text("line_item_usage_type"):
        return "spot"
    reservation = cells.values.get("capacity_reservation_capacity_reservation_type", "")
    is_block = is_free or "block" in reservation.lower()
    return "capacity_block" if is_block else "on_demand"


def _added(one: Usage, other: Usage) -> Usage:
    return replace(one, hours=one.hours + other.hours, usd=one.usd + other.usd)


def _no_accelerators(path: Path, others: dict[str, int]) -> BadInput:
    seen = sorted(others, key=lambda name: -others[name])[:_SHOWN]
    what = f"only {', '.join(seen)}" if seen else "no running instance at all"
    return BadInput(
        f"{path}: no usage of accelerators; the report has {what}",
        fix="give the report of an account that runs instances of `trnsim instances`",
    )
