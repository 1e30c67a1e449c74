"""Dated prices, and the terms on which each kind of purchase is sold: frozen rows of the catalogue.

Nothing is chosen here: ``trnsim.price`` picks the price of a day and lists the offers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from typing import Any

from trnsim.facts import Provenance, Rate

Row = Mapping[str, Any]
ProvenanceMaker = Callable[[list[str], str], Provenance]
"""Function from the keys of sources in the catalogue, and a note, to a provenance."""


@dataclass(frozen=True)
class Terms:
    """The terms of a kind of purchase: durations, sizes, notice.

    Attributes:
        text: the offer in words.
        shortest_days: the shortest time that is charged; 0 for the second, minute or hour.
        longest_days: the longest time sold, or None: no end.
        daily_up_to_days: any number of whole days up to this is sold; 0: only `step_days` count.
        step_days: longer durations are sold in multiples of this; 0: in any number of days.
        sizes: legal numbers of instances in one order; empty: any number.
        most_instances: instances that one account may hold over all orders; None: its own quota.
        start_within_days: longest time until an order starts, or None: it starts at once.
        is_interruptible: whether AWS may take the instance back while it is paid for.
    """

    text: str
    shortest_days: int
    longest_days: int | None
    daily_up_to_days: int
    step_days: int
    sizes: tuple[int, ...]
    most_instances: int | None
    start_within_days: int | None
    is_interruptible: bool
    provenance: Provenance


@dataclass(frozen=True)
class Price:
    """One dated price of one way of buying one instance.

    Attributes:
        kind: the purchase option: on_demand, capacity_block, spot, ri_1y, ...
        usd_per_hour: price of the whole instance; None if AWS publishes no price.
        first_seen: earliest day on which the source states the price.
        last_seen: latest such day.
        as_of: the date as the source gives it.
        terms: its terms, or None where they are unknown.
        is_own: whether it is a user's own price, which precedes a list price.
        until: last day on which the user's own price holds, or None.
    """

    instance: str
    kind: str
    usd_per_hour: Rate | None
    region: str
    first_seen: date
    last_seen: date
    as_of: str
    source: str
    note: str
    terms: Terms | None = None
    is_own: bool = False
    until: date | None = None


@dataclass(frozen=True)
class Credit:
    """An amount that AWS deducts from the user's bill until a day.

    Attributes:
        usd: the remaining amount.
        until: last day on which it is deducted, or None: until it is spent.
    """

    usd: Rate
    until: date | None
    note: str


def read_terms(row: Row, provenance_of: ProvenanceMaker) -> Terms:
    """The terms in a stored row."""
    return Terms(
        text=row["text"],
        shortest_days=row["shortest_days"],
        longest_days=row["longest_days"],
        daily_up_to_days=row["daily_up_to_days"],
        step_days=row["step_days"],
        sizes=tuple(row["sizes"]),
        most_instances=row["most_instances"],
        start_within_days=row["start_within_days"],
        is_interruptible=row["is_interruptible"],
        provenance=provenance_of(row["source"], row.get("note") or ""),
    )


def read_price(row: Row, terms: Mapping[str, Terms], provenance_of: ProvenanceMaker) -> Price:
    """The price in a stored row; a row's own terms precede those of its kind."""
    first_seen, last_seen = seen_days(row["as_of"])
    provenance = provenance_of(row["source"], row.get("note") or "")
    usd_per_hour = row["usd_per_hour"]
    own_terms = row.get("terms")
    return Price(
        instance=row["instance"],
        kind=row["kind"],
        usd_per_hour=None if usd_per_hour is None else Rate(usd_per_hour, provenance),
        region=row["region"] or "-",
        first_seen=first_seen,
        last_seen=last_seen,
        as_of=row["as_of"],
        source=provenance.source,
        note=row.get("note") or "",
        terms=terms.get(row["kind"]) if own_terms is None else read_terms(own_terms, provenance_of),
    )


def seen_days(as_of: str) -> tuple[date, date]:
    """First and last day on which a price was seen, of a date or range ``A..B`` of its source.

    A month stands for its first day and a year for January 1, so that a price's age is never
    understated: "2024-12" gives 2024-12-01 twice. Words around a date ("until") are ignored.
    """
    first, _, last = as_of.partition("..")
    return _first_day(first), _first_day(last or first)


def _first_day(text: str) -> date:
    """The first day of the year, month or day that a text names."""
    iso_date = next(word for word in text.split() if word[:4].isdigit())
    parts = [int(part) for part in iso_date.split("-")]
    year, month, day = [*parts, 1, 1][:3]
    return date(year, month, day)
