"""Purchases: their durations, sizes and cost, by the terms of a price's kind."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.arch.prices import Terms
from trnsim.errors import BadInput
from trnsim.formatting import counted, plural
from trnsim.price.quotes import Quote

HOURS_PER_DAY: Final = 24
DAYS_PER_YEAR: Final = 365


@dataclass(frozen=True)
class Purchase:
    """The least purchase for the use of some instances for some days.

    Attributes:
        days: days paid for, at least those of the use.
        instances: instances paid for, at least those of the use.
        usd: days x 24 x instances x USD per hour.
    """

    days: float
    instances: int
    usd: float


def why_not(
    quote: Quote, *, days: float | None, instances: int, is_together: bool = True
) -> str | None:
    """The reason why `quote` cannot be bought for a use, or None if it can.

    A use is covered by the shortest time and the smallest size that are sold and not below it:
    15 days by a block of 21, 3 instances by a block of 4. `purchase` has the cost.

    Args:
        quote: a price.
        days: days of use, without a break; None: all year round.
        instances: instances in use at one time.
        is_together: whether they must be one order, side by side; else several orders will do.

    Raises:
        BadInput: days or instances are not positive.
    """
    _check(days, instances)
    if quote.usd_per_hour is None or quote.row is None:
        return str(quote)
    terms = quote.row.terms
    if terms is None:
        return None
    return _why_not_so_long(quote.kind, terms, days) or _why_not_so_many(
        quote.kind, terms, instances, is_together=is_together
    )


def _why_not_so_long(kind: str, terms: Terms, days: float | None) -> str | None:
    duration_days = DAYS_PER_YEAR if days is None else days
    if terms.longest_days is not None and duration_days > terms.longest_days:
        duration = "all year round" if days is None else f"{days:g} {plural(days, 'day')}"
        longest = counted(terms.longest_days, "day")
        return f"{kind} is sold for {longest} at most, not for {duration}"
    is_commitment = terms.longest_days is None and terms.shortest_days
    if is_commitment and days is not None and days < terms.shortest_days:
        shortest = counted(terms.shortest_days, "day")
        return f"{kind} is paid for {shortest} at least, not for {days:g}"
    return None


def _why_not_so_many(kind: str, terms: Terms, instances: int, *, is_together: bool) -> str | None:
    if terms.sizes and is_together and instances > max(terms.sizes):
        largest_size = counted(max(terms.sizes), "instance")
        return f"{kind} is sold in sizes of {largest_size} at most, not {instances}"
    if terms.most_instances is not None and instances > terms.most_instances:
        most_instances = counted(terms.most_instances, "instance")
        return f"{kind} is sold up to {most_instances} in all, not {instances}"
    return None


def purchase(quote: Quote, *, days: float, instances: int) -> Purchase:
    """The least purchase for the use of `instances` for `days` at `quote`, in one order.

    Raises:
        BadInput: it cannot be bought (`why_not`), or days or instances are not positive.
    """
    reason = why_not(quote, days=days, instances=instances)
    if reason is not None or quote.row is None or quote.usd_per_hour is None:
        raise BadInput(
            f"{quote.instance} cannot be bought for {days:g} {plural(days, 'day')} x "
            f"{counted(instances, 'instance')}: {reason}"
        )
    terms = quote.row.terms
    paid_days = days if terms is None else paid_for_days(terms, days)
    paid_instances = instances
    if terms is not None and terms.sizes:
        paid_instances = min(size for size in terms.sizes if size >= instances)
    return Purchase(
        paid_days, paid_instances, paid_days * HOURS_PER_DAY * paid_instances * quote.usd_per_hour
    )


def paid_for_days(terms: Terms, days: float) -> float:
    """The shortest duration sold that is not below `days`: 2 for 1.5, 21 for 15 in a block."""
    if days <= terms.shortest_days:
        return terms.shortest_days
    if not terms.step_days:
        return days
    if days <= terms.daily_up_to_days:
        return math.ceil(days)
    paid_days = math.ceil(days / terms.step_days) * terms.step_days
    return paid_days if terms.longest_days is None else min(paid_days, terms.longest_days)


def _check(days: float | None, instances: int) -> None:
    if days is not None and not 0 < days < math.inf:
        raise BadInput(f"days is {days:g}; legal: above 0, and finite")
    if instances < 1:
        raise BadInput(f"instances is {instances}; legal: from 1 on")
