"""The price of an instance, by kind of purchase and date."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from difflib import get_close_matches
from functools import partial
from typing import Final

from trnsim.arch.catalogue import Catalogue, Price, catalogue
from trnsim.errors import BadInput
from trnsim.facts import Rate
from trnsim.price.regions import check_region, codes, covers

KINDS: Final = (
    "on_demand",
    "capacity_block",
    "capacity_block_paid",
    "spot",
    "spot_paid",
    "ri_1y",
    "ri_3y",
    "ri_effective",
    "savings_plan_1y",
    "savings_plan_3y",
    "private",
    "sagemaker_hosting",
)
"""Kinds of purchase. ``_paid`` is a price that a customer was charged, ``private`` a user's own
agreement with AWS, all others are AWS's list prices; ``ri_effective`` is a reserved instance whose
term the source does not state."""
_FIRST_KINDS: Final = ("capacity_block", "on_demand")
"""Kinds that are named first among those that have a price."""

STALE_AFTER: Final = timedelta(days=90)
_REGION_TEXTS: Final = {
    "any": "any region",
    "most": "most regions",
    "not stated": "region not stated",
}
"""Regions of prices that are no names of regions, as text."""


def check_kind(kind: str, spelling: str) -> None:
    """Refuse an unknown kind of purchase; `spelling` is how it was given, with its option.

    Raises:
        BadInput: lists the kinds, and near ones.
    """
    if kind not in KINDS:
        similar_kinds = get_close_matches(kind, KINDS, 2)
        raise BadInput(
            f"{spelling}; legal: {', '.join(KINDS)}",
            fix=f"perhaps {' or '.join(similar_kinds)}"
            if similar_kinds
            else "trnsim explain price compares them",
        )


@dataclass(frozen=True)
class Quote:
    """The price of `instance` bought as `kind` on `as_of`.

    Attributes:
        row: the catalogue's row with the price; None without a public price.
        region: the requested region, or None for any.
        first_known: the first day after `as_of` with a price; None if there is none, or with a
            price on `as_of`.
        own_ended: last day of a price of the user's own that no longer holds, or None.
    """

    instance: str
    kind: str
    as_of: date
    row: Price | None
    region: str | None = None
    first_known: date | None = None
    own_ended: date | None = None

    @property
    def usd_per_hour(self) -> Rate | None:
        """USD per hour of the whole instance; None without a public price."""
        return None if self.row is None else self.row.usd_per_hour

    @property
    def age(self) -> timedelta | None:
        """Time from the last day on which the price is known to hold until `as_of`, 0 at least."""
        return None if self.row is None else max(self.as_of - self.row.last_seen, timedelta())

    @property
    def is_stale(self) -> bool:
        """True if the price is older than `STALE_AFTER`."""
        return self.usd_per_hour is not None and self.age is not None and self.age > STALE_AFTER

    def __str__(self) -> str:
        end_text = f" (own price ended {self.own_ended})" if self.own_ended else ""
        if self.row is None or self.usd_per_hour is None:
            place = f" in {self.region}" if self.region else ""
            if self.first_known is not None:
                first_text = f"the first known is of {self.first_known}"
                return (
                    f"no price known on {self.as_of} ({self.kind}){place}; {first_text}{end_text}"
                )
            return f"no public price ({self.kind}){place}{end_text}"
        region = _REGION_TEXTS.get(self.row.region, self.row.region)
        price_text = f"{self.usd_per_hour:.2f} USD/h {self.kind} {region} {self.row.as_of}"
        if self.is_stale and self.age is not None:
            price_text += f" (warning: {self.age.days} days old)"
        return f"{price_text} (own price)" if self.row.is_own else f"{price_text}{end_text}"


def today(rows: Catalogue | None = None) -> date:
    """Today in UTC, or the day of the catalogue where the clock is behind it."""
    rows = rows or catalogue()
    return max(datetime.now(tz=UTC).date(), rows.generated)


def history(instance: str, kind: str, *, rows: Catalogue | None = None) -> list[Price]:
    """All prices of `instance` bought as `kind`, newest first, without rows that lack a figure.

    Raises:
        BadInput: no such instance, or no such kind.
    """
    rows = rows or catalogue()
    _check(instance, kind, rows)
    prices = [
        price
        for price in rows.prices
        if price.instance == instance and price.kind == kind and price.usd_per_hour is not None
    ]
    return sorted(prices, key=lambda price: price.last_seen, reverse=True)


def quote(
    instance: str,
    kind: str,
    *,
    as_of: date | None = None,
    region: str | None = None,
    rows: Catalogue | None = None,
) -> Quote:
    """The newest price of `instance` bought as `kind`, among those known on `as_of` (today).

    No kind stands in for another: where AWS publishes no price of this kind, the quote is empty.
    A user's own price comes before a list price; of one day, one that names `region` comes first.

    Raises:
        BadInput: no such instance, no such kind, no legal region, or a day in the future.
    """
    rows = rows or catalogue()
    as_of = as_of or today(rows)
    check_day(as_of, rows)
    if region is not None:
        check_region(region)
    sold_rows = [
        row for row in history(instance, kind, rows=rows) if region is None or covers(row, region)
    ]
    own_end_days = [row.until for row in sold_rows if row.until is not None and row.until < as_of]
    valid_rows = [row for row in sold_rows if row.first_seen <= as_of <= (row.until or as_of)]
    best_row = max(valid_rows, key=partial(_rank, region), default=None)
    next_day = min((row.first_seen for row in sold_rows if row.first_seen > as_of), default=None)
    return Quote(
        instance,
        kind,
        as_of,
        best_row,
        region,
        first_known=None if best_row else next_day,
        own_ended=None if best_row and best_row.is_own else max(own_end_days, default=None),
    )


def priced_kinds(
    instance: str, as_of: date, *, region: str | None = None, rows: Catalogue | None = None
) -> list[str]:
    """The kinds in which `instance` has a price on `as_of`, capacity blocks and on demand first."""
    rows = rows or catalogue()
    row_kinds = {row.kind for row in rows.prices if row.instance == instance}
    kinds = (kind for kind in dict.fromkeys((*_FIRST_KINDS, *KINDS)) if kind in row_kinds)
    quotes = (quote(instance, kind, as_of=as_of, region=region, rows=rows) for kind in kinds)
    return [offer.kind for offer in quotes if offer.usd_per_hour is not None]


def _rank(region: str | None, row: Price) -> tuple[bool, bool, date, bool]:
    """Sort key: own prices first, of these one that names the region; then the newest."""
    is_named = region is not None and region in codes(row)
    return row.is_own, row.is_own and is_named, row.last_seen, is_named


def check_day(day: date, rows: Catalogue | None = None) -> date:
    """`day`, if it is not in the future.

    Raises:
        BadInput: it is in the future.
    """
    latest = today(rows)
    if day > latest:
        raise BadInput(f"{day} is in the future; legal: up to {latest}, as no later price is known")
    return day


def _check(instance: str, kind: str, rows: Catalogue) -> None:
    check_kind(kind, f"purchase kind {kind!r} is not known")
    if all(price.instance != instance for price in rows.prices):
        rows.instance(instance)
