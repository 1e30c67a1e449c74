"""A user's own prices, negotiated or discounted, and credits: they win over list prices."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.arch.prices import Credit, Price, Terms
from trnsim.cells import Cells, read_table
from trnsim.errors import BadInput, SourceLine
from trnsim.facts import Evidence, Provenance, Rate
from trnsim.price.quotes import KINDS, quote, today
from trnsim.price.regions import REGION, is_region

FIELDS: Final = (
    "instance",
    "kind",
    "usd_per_hour",
    "discount_percent",
    "credit_usd",
    "region",
    "as_of",
    "until",
    "shortest_days",
    "longest_days",
    "sizes",
    "source",
    "note",
)
"""The fields of a row. Each row has one of usd_per_hour, discount_percent and credit_usd."""

_AMOUNTS: Final = ("usd_per_hour", "discount_percent", "credit_usd")
_CREDIT_FIELDS: Final = ("credit_usd", "until", "source", "note")
_MOST_USD: Final = 1e9
_MOST_USD_PER_HOUR: Final = 1e5
_ALL: Final = 100
_ANY: Final = "*?["


def with_own_prices(path: Path | str, rows: Catalogue | None = None) -> Catalogue:
    """The catalogue of `rows` with the prices and credits of the file at `path` before its own.

    A price per hour is taken as it is. A discount is taken off the on-demand list price of every
    instance that its pattern names (``trn1.*``). A row without a region holds in every region.

    Args:
        path: a CSV or YAML table with the fields of `FIELDS`.
        rows: the catalogue; by default the one that ships with trnsim.

    Raises:
        BadInput: the file cannot be read, or a cell is not legal: file, line, field, legal values.
    """
    rows = rows or catalogue()
    prices: list[Price] = []
    credits_: list[Credit] = []
    seen: set[tuple[str, str, str, date]] = set()
    for cells in read_table(Path(path), FIELDS):
        amount = _amount(cells)
        if amount == "credit_usd":
            credits_.append(_credit(cells))
        else:
            made = _prices(cells, amount, rows)
            _check_once(cells, made, seen)
            prices += made
    return replace(rows, prices=(*prices, *rows.prices), credits=(*rows.credits, *credits_))


def _amount(cells: Cells) -> str:
    """Which of the three amounts a row has."""
    given = [field for field in _AMOUNTS if field in cells]
    if len(given) == 1:
        return given[0]
    what = " and ".join(given) if given else "no amount"
    raise BadInput(
        f"{cells.file}:{cells.line}: the row has {what}; legal: one of {', '.join(_AMOUNTS)}",
        line=SourceLine(cells.file, cells.line),
    )


def _credit(cells: Cells) -> Credit:
    for field in FIELDS:
        if field in cells and field not in _CREDIT_FIELDS:
            raise cells.refused(field, f"a credit has {', '.join(_CREDIT_FIELDS)} alone")
    usd = cells.number("credit_usd", above=0, at_most=_MOST_USD)
    until = cells.day("until") if "until" in cells else None
    return Credit(Rate(usd, _provenance(cells)), until, cells.values.get("note", ""))


def _provenance(cells: Cells, kind: Evidence = Evidence.DOCUMENTED, how: str = "") -> Provenance:
    parts = [cells.values.get("source", ""), how, f"{cells.file}:{cells.line}"]
    return Provenance(kind, "; ".join(filter(None, parts)))


def _prices(cells: Cells, amount: str, rows: Catalogue) -> list[Price]:
    kind = cells.one_of("kind", KINDS)
    as_of = cells.day("as_of", latest=today(rows))
    until = cells.day("until") if "until" in cells else None
    if until is not None and until < as_of:
        raise cells.refused("until", f"before as_of; legal: {as_of} or later")
    region = cells.values.get("region", "any")
    if region != "any" and not is_region(region):
        raise cells.refused("region", f"no region; legal: any, or {REGION}")
    price = Price(
        instance="",
        kind=kind,
        usd_per_hour=None,
        region=region,
        first_seen=as_of,
        last_seen=as_of if until is None else until,
        as_of=str(as_of) if until is None else f"{as_of}..{until}",
        source=f"{cells.file}:{cells.line}",
        note=cells.values.get("note", ""),
        terms=_terms(cells, rows.terms.get(kind)),
        is_own=True,
        until=until,
    )
    if amount == "usd_per_hour":
        usd = cells.number("usd_per_hour", above=0, at_most=_MOST_USD_PER_HOUR)
        rate = Rate(usd, _provenance(cells))
        return [replace(price, instance=_instance(cells, rows), usd_per_hour=rate)]
    return _discounted(cells, price, rows)


def _known(rows: Catalogue) -> list[str]:
    """Names of instances, also of those that have a price and no row of their own."""
    return list(dict.fromkeys([*rows.instances, *(price.instance for price in rows.prices)]))


def _instance(cells: Cells, rows: Catalogue) -> str:
    return cells.one_of("instance", _known(rows))


def _discounted(cells: Cells, price: Price, rows: Catalogue) -> list[Price]:
    """`price` of each instance that the row's pattern names, off its on-demand list price."""
    percent = cells.number("discount_percent", above=0, at_most=_ALL)
    if percent == _ALL:
        raise cells.refused("discount_percent", "legal: above 0 and below 100")
    pattern = cells.text("instance")
    is_pattern = any(mark in pattern for mark in _ANY)
    names = (
        [name for name in _known(rows) if fnmatchcase(name, pattern)]
        if is_pattern
        else [_instance(cells, rows)]
    )
    region = None if price.region == "any" else price.region
    found: list[Price] = []
    for name in names:
        listed = quote(name, "on_demand", as_of=price.first_seen, region=region, rows=rows)
        if listed.usd_per_hour is not None:
            how = f"{percent:g} % off {listed}"
            rate = Rate(
                listed.usd_per_hour * (1 - percent / _ALL),
                _provenance(cells, Evidence.DERIVED, how),
            )
            found.append(replace(price, instance=name, usd_per_hour=rate))
    if not found:
        raise cells.refused(
            "instance",
            "no on-demand list price to take a discount off"
            + (f" in {region}" if region else "")
            + f" on {price.first_seen}",
            "give usd_per_hour",
        )
    return found


def _terms(cells: Cells, terms: Terms | None) -> Terms | None:
    """The terms of the kind, with what the row itself says of durations and sizes."""
    if terms is None or not {"shortest_days", "longest_days", "sizes"} & cells.values.keys():
        return terms
    changed = replace(terms, provenance=_provenance(cells))
    if "shortest_days" in cells:
        changed = replace(changed, shortest_days=cells.whole("shortest_days", above=0))
    if "longest_days" in cells:
        longest = cells.whole("longest_days", above=0)
        if longest < changed.shortest_days:
            raise cells.refused("longest_days", f"legal: {changed.shortest_days} or more")
        changed = replace(changed, longest_days=longest)
    if "sizes" in cells:
        sizes = [
            _with(cells, "sizes", size).whole("sizes", above=0)
            for size in cells.text("sizes").split()
        ]
        changed = replace(changed, sizes=tuple(sorted(sizes)))
    return changed


def _with(cells: Cells, field: str, value: str) -> Cells:
    """`cells` with another text in one field."""
    return replace(cells, values={**cells.values, field: value})


def _check_once(cells: Cells, prices: list[Price], seen: set[tuple[str, str, str, date]]) -> None:
    """Refuse a row that says again what another says: instance, kind, region and first day."""
    for price in prices:
        key = (price.instance, price.kind, price.region, price.first_seen)
        if key in seen:
            raise cells.refused("instance", f"{', '.join(map(str, key))} is priced twice")
        seen.add(key)
