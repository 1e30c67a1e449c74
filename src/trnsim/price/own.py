"""A user's own prices, negotiated or discounted, and credits: they win over list prices."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.arch.prices import Credit, Price, Terms
from trnsim.facts import Evidence, Provenance, Rate
from trnsim.price.quotes import KINDS, quote, today
from trnsim.price.regions import LEGAL_REGION, is_region
from trnsim.reader import FileRecord, Rule, declared, read_rows

_MOST_USD: Final = 1e9
_MOST_USD_PER_HOUR: Final = 1e5
_ALL_PERCENT: Final = 100
_WILDCARDS: Final = "*?["
_AMOUNT_FIELDS: Final = ("usd_per_hour", "discount_percent", "credit_usd")
_CREDIT_FIELDS: Final = ("credit_usd", "until", "source", "note")
_FIX: Final = (
    "write the first line instance,kind,usd_per_hour and rows such as trn2.48xlarge,private,24.50; "
    "docs/generated/user-files.md, Own prices, has all fields"
)


def _checked_region(code: str) -> str:
    """A region's code, or "any"."""
    if code != "any" and not is_region(code):
        raise ValueError(code)
    return code


@dataclass(frozen=True, kw_only=True)
class OwnPrice(FileRecord):
    """A row of a user's own prices: a price, a discount off list prices, or a credit."""

    instance: str = declared(
        "", help="the instance, or with a discount a pattern of names", example="trn1.*"
    )
    kind: str = declared("", help="the kind of purchase", legal=KINDS, example="private")
    usd_per_hour: float | None = declared(
        None, help="a price", unit="USD/hour", exclusive_minimum=0, maximum=_MOST_USD_PER_HOUR
    )
    discount_percent: float | None = declared(
        None,
        help="a discount off the on-demand list price, in place of a price",
        unit="percent",
        exclusive_minimum=0,
        exclusive_maximum=_ALL_PERCENT,
        example="20",
    )
    credit_usd: float | None = declared(
        None,
        help="a credit, in place of a price",
        unit="USD",
        exclusive_minimum=0,
        maximum=_MOST_USD,
    )
    region: str = declared(
        "any",
        help="the region in which the price holds",
        parse=_checked_region,
        legal=f"any, or {LEGAL_REGION}",
        example="any",
    )
    as_of: date | None = declared(None, help="the first day of the price", example="2026-01-01")
    until: date | None = declared(None, help="the last day of the price or credit")
    shortest_days: int | None = declared(
        None, help="the shortest time that is sold", unit="days", exclusive_minimum=0
    )
    longest_days: int | None = declared(
        None, help="the longest time that is sold", unit="days", exclusive_minimum=0
    )
    sizes: tuple[int, ...] = declared(
        (), help="counts of instances that are sold", divider=None, each=Rule(exclusive_minimum=0)
    )
    source: str = declared("", help="where the price is written")
    note: str = declared("", help="anything else")


def with_own_prices(path: Path | str, rows: Catalogue | None = None) -> Catalogue:
    """The catalogue of `rows` with the prices and credits of the file at `path` before its own.

    A price per hour is taken as it is. A discount is taken off the on-demand list price of every
    instance that its pattern names (``trn1.*``). A row without a region holds in every region.

    Args:
        path: a table of `OwnPrice`.
        rows: the catalogue; by default the one that ships with trnsim.

    Raises:
        BadInput: the file cannot be read, or a cell is not legal: file, line, field, legal values.
    """
    rows = rows or catalogue()
    prices: list[Price] = []
    credits_: list[Credit] = []
    priced_keys: set[tuple[str, str, str, date]] = set()
    for row in read_rows(OwnPrice, path, _FIX):
        amount = _amount_field(row)
        if amount == "credit_usd":
            credits_.append(_credit(row))
        else:
            row_prices = _prices_of_row(row, amount, rows)
            _check_once(row, row_prices, priced_keys)
            prices += row_prices
    return replace(rows, prices=(*prices, *rows.prices), credits=(*rows.credits, *credits_))


def _amount_field(row: OwnPrice) -> str:
    """The field of the amount that a row states: exactly one of `_AMOUNT_FIELDS`."""
    amounts = [field for field in _AMOUNT_FIELDS if field in row]
    if len(amounts) == 1:
        return amounts[0]
    names = " and ".join(amounts) if amounts else "no amount"
    raise row.record_error(f"the row has {names}; legal: one of {', '.join(_AMOUNT_FIELDS)}")


def _credit(row: OwnPrice) -> Credit:
    for field in fields(row):
        if field.name in row and field.name not in _CREDIT_FIELDS:
            raise row.refused(field.name, f"a credit has {', '.join(_CREDIT_FIELDS)} alone")
    return Credit(Rate(row.credit_usd or 0.0, _provenance(row)), row.until, row.note)


def _provenance(
    row: OwnPrice, kind: Evidence = Evidence.DOCUMENTED, derivation: str = ""
) -> Provenance:
    return Provenance(kind, "; ".join(filter(None, [row.source, derivation, str(row.line)])))


def _prices_of_row(row: OwnPrice, amount: str, rows: Catalogue) -> list[Price]:
    kind = row.choice("kind", KINDS)
    as_of, until = row.as_of, row.until
    if as_of is None:
        raise row.refused("as_of", "this field is required")
    if as_of > (latest := today(rows)):
        raise row.refused("as_of", f"a day in the future; legal: up to {latest}")
    if until is not None and until < as_of:
        raise row.refused("until", f"before as_of; legal: {as_of} or later")
    price = Price(
        instance="",
        kind=kind,
        usd_per_hour=None,
        region=row.region,
        first_seen=as_of,
        last_seen=as_of if until is None else until,
        as_of=str(as_of) if until is None else f"{as_of}..{until}",
        source=str(row.line),
        note=row.note,
        terms=_terms(row, rows.terms.get(kind)),
        is_own=True,
        until=until,
    )
    if amount == "usd_per_hour":
        rate = Rate(row.usd_per_hour or 0.0, _provenance(row))
        instance = row.choice("instance", _known_names(rows))
        return [replace(price, instance=instance, usd_per_hour=rate)]
    return _discounted_prices(row, price, rows)


def _known_names(rows: Catalogue) -> list[str]:
    """Names of instances, also of those that have a price and no row of their own."""
    return list(dict.fromkeys([*rows.instances, *(price.instance for price in rows.prices)]))


def _discounted_prices(row: OwnPrice, price: Price, rows: Catalogue) -> list[Price]:
    """`price` of each instance that the row's pattern names, off its on-demand list price."""
    percent, pattern = row.discount_percent or 0.0, row.instance
    is_pattern = any(mark in pattern for mark in _WILDCARDS)
    names = (
        [name for name in _known_names(rows) if fnmatchcase(name, pattern)]
        if is_pattern
        else [row.choice("instance", _known_names(rows))]
    )
    region = None if price.region == "any" else price.region
    discounted_prices: list[Price] = []
    for name in names:
        base_quote = quote(name, "on_demand", as_of=price.first_seen, region=region, rows=rows)
        if base_quote.usd_per_hour is not None:
            derivation = f"{percent:g} % off {base_quote}"
            rate = Rate(
                base_quote.usd_per_hour * (1 - percent / _ALL_PERCENT),
                _provenance(row, Evidence.DERIVED, derivation),
            )
            discounted_prices.append(replace(price, instance=name, usd_per_hour=rate))
    if not discounted_prices:
        raise row.refused(
            "instance",
            "no on-demand list price to take a discount off"
            + (f" in {region}" if region else "")
            + f" on {price.first_seen}",
            "give usd_per_hour",
        )
    return discounted_prices


def _terms(row: OwnPrice, terms: Terms | None) -> Terms | None:
    """The terms of the kind of purchase, with the durations and sizes that the row states."""
    if terms is None or not any(name in row for name in ("shortest_days", "longest_days", "sizes")):
        return terms
    shortest_days = row.shortest_days or terms.shortest_days
    longest_days = row.longest_days or terms.longest_days
    if longest_days is not None and longest_days < shortest_days:
        if row.longest_days is None:
            why = f"legal: {longest_days} or less, unless longest_days is given too"
            raise row.refused("shortest_days", why)
        raise row.refused("longest_days", f"legal: {shortest_days} or more")
    return replace(
        terms,
        provenance=_provenance(row),
        shortest_days=shortest_days,
        longest_days=longest_days,
        sizes=tuple(sorted(row.sizes)) or terms.sizes,
    )


def _check_once(
    row: OwnPrice, prices: list[Price], priced_keys: set[tuple[str, str, str, date]]
) -> None:
    """Refuse a row with the instance, kind, region and first day of an earlier row."""
    for price in prices:
        key = (price.instance, price.kind, price.region, price.first_seen)
        if key in priced_keys:
            raise row.refused("instance", f"{', '.join(map(str, key))} is priced twice")
        priced_keys.add(key)
