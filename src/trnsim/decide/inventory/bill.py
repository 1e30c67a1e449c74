"""An AWS cost and usage report: hours and cost of accelerators by instance, purchase and region.

Only usage of EC2 instances counts, at its cost after discounts. Hours that a reservation or a
Savings Plan covers count at their effective cost, which includes their part of the fee: the fee
itself is not counted again. Taxes, credits and refunds are not counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import ClassVar, Final, Literal

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide.inventory.bill_rows import FIX, TAG, Line, bill_rows
from trnsim.decide.inventory.fields import MOST_GPU_HOURS, MOST_USD
from trnsim.errors import BadInput
from trnsim.price.quotes import today
from trnsim.reader import FileContent, ForeignRecord, between, declared, fault, record
from trnsim.reader.parsed import ParsedText

_BOX_USAGE_PATTERN: Final = re.compile(
    r"(?:[A-Z0-9]+-)?(?P<use>BoxUsage|UnusedBox|DedicatedUsage|SpotUsage|HeavyUsage):(?P<type>\S+)"
)
"""Usage types of EC2 instances that run. Source: AWS CUR user guide, "Line item details"."""
_COST_COLUMNS_BY_LINE_TYPE: Final = {
    "Usage": ("line_item_net_unblended_cost", "line_item_unblended_cost"),
    "DiscountedUsage": ("reservation_net_effective_cost", "reservation_effective_cost"),
    "SavingsPlanCoveredUsage": (
        "savings_plan_net_savings_plan_effective_cost",
        "savings_plan_savings_plan_effective_cost",
    ),
}
"""Columns of the cost, by type of line; the cost after private discounts comes first."""
_COST_COLUMNS: Final = tuple(
    name for names in _COST_COLUMNS_BY_LINE_TYPE.values() for name in names
)
_DAY_PATTERN: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MOST_SHOWN_TYPES: Final = 5
_Term = Literal["1yr", "3yr"]
_SHORT_TERMS: Final[dict[_Term, str]] = {"1yr": "1y", "3yr": "3y"}


def _day(text: str) -> date:
    """Day of a timestamp such as 2026-10-31T00:00:00Z."""
    day = _DAY_PATTERN.match(text)
    return date.fromisoformat(day[0] if day else text)


@dataclass(frozen=True, kw_only=True)
class CostLine(ForeignRecord):
    """Usage of an instance in a line of a report."""

    has_text_numbers: ClassVar[bool] = True

    line_item_line_item_type: str = declared(
        help="type of the line", legal=_COST_COLUMNS_BY_LINE_TYPE
    )
    line_item_usage_type: str = declared(help="how the instance was used")
    line_item_usage_start_date: date = declared(
        help="when the usage began", parse=_day, legal="a day as 2026-10-31T00:00:00Z"
    )
    line_item_usage_amount: float = between("hours of instances", 0, MOST_GPU_HOURS, unit="hours")
    usd: float = between("cost of the usage", 0, MOST_USD, unit="USD", alias=_COST_COLUMNS)
    line_item_currency_code: Literal["USD"] = declared("USD", help="currency of the cost")
    line_item_resource_id: str = declared("", help="the instance")
    product_region_code: str | None = declared(None, help="region")
    pricing_lease_contract_length: str = declared("", help="term of a reservation")
    savings_plan_purchase_term: _Term | None = declared(None, help="term of a Savings Plan")
    capacity_reservation_capacity_reservation_type: str = declared("", help="kind of a reservation")


@dataclass(frozen=True)
class Usage:
    """Hours and cost of one instance type in a month, at one purchase kind, region and tags.

    Attributes:
        month: YYYY-MM.
        kind: purchase kind, one of `trnsim.price.quotes.KINDS`.
        region: code of the AWS region; None if the report does not state it.
        hours: instance-hours.
        usd: cost of the hours; 0 for a capacity block, which is paid in advance.
        resource: id of the instance; "" in a report without resources.
        tags: cost allocation tags, as pairs of key and value.
        line: first line of the report with this usage.
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
    """Usage of accelerators in a report.

    Attributes:
        usage: usage of instances in the catalogue, in the order of months and instances.
        unknown: instance types that the catalogue lacks although it has their family, each with its
            cost in USD.
    """

    path: Path
    usage: tuple[Usage, ...]
    last_day: date
    unknown: tuple[tuple[str, float], ...] = ()

    @property
    def months(self) -> tuple[str, ...]:
        """Months with usage."""
        return tuple(sorted({usage.month for usage in self.usage}))

    @property
    def usd(self) -> float:
        """Cost of all accelerators."""
        return sum(usage.usd for usage in self.usage)


def read_bill(path: Path | str, rows: Catalogue | None = None) -> Bill:
    """Usage of accelerators in the cost and usage report at `path`.

    Raises:
        BadInput: it cannot be read, a cell is not legal, or no accelerator was used.
    """
    rows = rows or catalogue()
    path = Path(path)
    sums: dict[tuple[object, ...], Usage] = {}
    unknown_usd: dict[str, float] = {}
    other_types: dict[str, int] = {}
    last_day = date.min
    families = {_family(name) for name in rows.instances}
    for line, instance in _instance_lines(bill_rows(path)):
        if instance not in rows.instances:
            if _family(instance) in families:
                usd = _dated_usage(path, line, instance, rows)[1].usd
                unknown_usd[instance] = unknown_usd.get(instance, 0) + usd
            other_types[instance] = other_types.get(instance, 0) + 1
            continue
        day, use = _dated_usage(path, line, instance, rows)
        last_day = max(last_day, day)
        key = (use.month, use.instance, use.kind, use.region or "", use.resource, use.tags)
        sums[key] = _usage_sum(sums[key], use) if key in sums else use
    if not sums:
        raise _no_accelerators(path, other_types)
    usages = tuple(sums[key] for key in sorted(sums, key=str))
    return Bill(path, usages, last_day, tuple(sorted(unknown_usd.items())))


def _family(instance: str) -> str:
    return instance.partition(".")[0]


def _instance_lines(lines: Iterator[Line]) -> Iterator[tuple[Line, str]]:
    """Lines of running instances, each with its instance type."""
    for line in lines:
        match = _BOX_USAGE_PATTERN.fullmatch(line[1].get("line_item_usage_type", ""))
        if match and line[1].get("line_item_line_item_type") in _COST_COLUMNS_BY_LINE_TYPE:
            yield line, match["type"]


def _dated_usage(path: Path, line: Line, instance: str, rows: Catalogue) -> tuple[date, Usage]:
    """Day and usage of a line."""
    number, cells = line
    columns = _COST_COLUMNS_BY_LINE_TYPE[cells["line_item_line_item_type"]]
    column = next((name for name in columns if name in cells), columns[-1])
    values = {
        name: cell for name, cell in cells.items() if name == column or name not in _COST_COLUMNS
    }
    document = FileContent(str(path), ParsedText(values, lambda _: number), FIX)
    if column not in cells:
        raise document.refused(number, f"{column} is missing")
    row = record(CostLine, document.root)
    day = row.line_item_usage_start_date
    if day > (latest := today(rows)):
        why = f"in the future; legal: up to {latest}"
        raise row.refused("line_item_usage_start_date", why)
    return day, Usage(
        month=f"{day:%Y-%m}",
        instance=instance,
        kind=_purchase_kind(row),
        region=row.product_region_code,
        hours=row.line_item_usage_amount,
        usd=row.usd,
        resource=row.line_item_resource_id,
        tags=tuple(
            sorted(
                (column.removeprefix(TAG), value)
                for column, value in cells.items()
                if column.startswith(TAG)
            )
        ),
        line=number,
    )


def _purchase_kind(row: CostLine) -> str:
    """Purchase kind of a line.

    Usage without a cost belongs to a capacity block, which is paid in advance.
    """
    if row.line_item_line_item_type == "DiscountedUsage":
        years = {str(term): short_term for term, short_term in _SHORT_TERMS.items()}
        term = row.pricing_lease_contract_length
        return f"ri_{years[term]}" if term in years else "ri_effective"
    if row.line_item_line_item_type == "SavingsPlanCoveredUsage":
        if row.savings_plan_purchase_term is None:
            raise row.refused("savings_plan_purchase_term", f"legal: {', '.join(_SHORT_TERMS)}")
        return f"savings_plan_{_SHORT_TERMS[row.savings_plan_purchase_term]}"
    if "SpotUsage" in row.line_item_usage_type:
        return "spot"
    is_free = row.usd == 0 and row.line_item_usage_amount > 0
    is_block = "block" in row.capacity_reservation_capacity_reservation_type.lower()
    return "capacity_block" if is_free or is_block else "on_demand"


def _usage_sum(left: Usage, right: Usage) -> Usage:
    """Sum of two usages that are alike in all but hours and cost."""
    return replace(left, hours=left.hours + right.hours, usd=left.usd + right.usd)


def _no_accelerators(path: Path, other_types: dict[str, int]) -> BadInput:
    frequent_types = sorted(other_types, key=lambda name: -other_types[name])[:_MOST_SHOWN_TYPES]
    content = (
        f"only {', '.join(frequent_types)}" if frequent_types else "no running instance at all"
    )
    return fault(
        path,
        f"no usage of accelerators; the report has {content}",
        fix="give the report of an account that runs instances of `trnsim instances`",
    )
