"""Prices as tables and as JSON, and the terms of each kind of purchase in words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import date
from typing import Any, Final

from trnsim.arch.catalogue import Catalogue, Price, Terms
from trnsim.document.answer import Items, Note, Section, Table, columns
from trnsim.document.values import picked
from trnsim.formatting import counted, plural
from trnsim.price import Quote, history, purchase, quote, why_not

_OVERVIEW_COLUMNS: Final = columns(
    "instance | kind | USD/h | region | as of | remark", numbers_from=2, numbers_to=3
)
_HISTORY_COLUMNS: Final = columns(
    "kind | USD/h | a chip | region | days | source", numbers_from=1, numbers_to=3
)


def overview(quotes: Sequence[Quote]) -> Table:
    """A line for each quote; "none" where there is no public price."""
    rows = [
        (
            price.instance,
            price.kind,
            "none" if price.usd_per_hour is None else f"{price.usd_per_hour:.4g}",
            "-" if price.row is None else price.row.region,
            "-" if price.row is None else str(price.row.last_seen),
            remark(price),
        )
        for price in quotes
    ]
    return Table(_OVERVIEW_COLUMNS, rows)


def remark(price: Quote) -> str:
    """The remark beside a price: "own", "own ended DAY" or "N d old"; "" for none."""
    remarks: list[str] = []
    if price.row is not None and price.row.is_own:
        remarks.append("own")
    if price.own_ended is not None:
        remarks.append(f"own ended {price.own_ended}")
    if price.is_stale and price.age is not None:
        remarks.append(f"{price.age.days} d old")
    return ", ".join(remarks)


def quotes_of(
    instance: str, kinds: Iterable[str], as_of: date, region: str | None, rows: Catalogue
) -> list[Quote]:
    """A quote for each of `kinds` in which a price of `instance` is known on any day.

    A quote has no price if none was known by `as_of`; with a region, such quotes are left out.
    """
    sold_kinds = {price.kind for price in rows.prices if price.instance == instance}
    quotes = (
        quote(instance, kind, as_of=as_of, region=region, rows=rows)
        for kind in kinds
        if kind in sold_kinds
    )
    return [price for price in quotes if region is None or price.row is not None]


def history_sections(
    instance: str, quotes: Sequence[Quote], as_of: date, rows: Catalogue
) -> list[Section]:
    """Every price of `instance` until `as_of` by kind, newest first; their sources, if any."""
    lines: list[tuple[str, ...]] = []
    sources: list[str] = []
    chips = rows.instances[instance].count if instance in rows.instances else 0
    for kind_quote in quotes:
        known_prices = [
            price
            for price in history(instance, kind_quote.kind, rows=rows)
            if price.first_seen <= as_of
        ]
        if not known_prices:
            lines.append((kind_quote.kind, "none", "-", "-", "-", ""))
        for price in known_prices:
            if price.source not in sources:
                sources.append(price.source)
            lines.append(_line(price, chips, kind_quote, sources.index(price.source) + 1))
    sections = [Section("", [Table(_HISTORY_COLUMNS, lines)])]
    if sources:
        sections.append(Section("sources:", [Items(sources, indent=2, is_numbered=True)]))
    return sections


def _line(price: Price, chips: int, kind_quote: Quote, source: int) -> tuple[str, ...]:
    usd = float(price.usd_per_hour or 0.0)
    if price == kind_quote.row:
        mark = " ".join(filter(None, ["now", remark(kind_quote)]))
    else:
        mark = "own" if price.is_own else ""
    return (
        price.kind,
        f"{usd:.4f}",
        f"{usd / chips:.3f}" if chips else "-",
        price.region,
        price.as_of if ".." in price.as_of else str(price.last_seen),
        f"[{source}] {mark}".rstrip(),
    )


def sale_terms(quotes: Sequence[Quote], days: float | None, instances: int | None) -> list[Note]:
    """The terms of each kind of purchase.

    With `days` or `instances`, a further note says if it can be bought so.
    """
    notes: list[Note] = []
    for price in quotes:
        terms = price.row.terms if price.row else None
        text = "no public price" if terms is None else terms_text(terms)
        notes.append(Note(f"{price.kind}: {text}", indent=2, hanging=2))
        if days is not None or instances is not None:
            notes.append(
                Note(_availability(price, days, 1 if instances is None else instances), indent=4)
            )
    return notes


def _availability(price: Quote, days: float | None, instances: int) -> str:
    reason = why_not(price, days=days, instances=instances)
    if reason is not None:
        return f"cannot be bought: {reason}"
    is_interruptible = price.row and price.row.terms and price.row.terms.is_interruptible
    may_end = ", and AWS may take it back" if is_interruptible else ""
    if days is None:
        return f"can be bought: {instances} all year round{may_end}"
    offer = purchase(price, days=days, instances=instances)
    words = f"can be bought: {offer.instances} for {offer.days:g} {plural(offer.days, 'day')}, "
    words += f"{offer.usd:,.2f} USD"
    return f"{words}{may_end}"


def terms_text(terms: Terms) -> str:
    """The terms of a kind of purchase in words: the offer, days, sizes, most instances, start."""
    parts = [terms.text]
    if terms.longest_days is not None:
        steps = (
            f", in days up to {terms.daily_up_to_days} and then in steps of {terms.step_days}"
            if terms.step_days
            else ""
        )
        parts.append(f"{terms.shortest_days} to {terms.longest_days} days{steps}")
    elif terms.shortest_days:
        parts.append(f"{counted(terms.shortest_days, 'day')} at least")
    if terms.sizes:
        parts.append(f"sizes {', '.join(map(str, terms.sizes))}")
    if terms.most_instances is not None:
        most_instances = counted(terms.most_instances, "instance")
        parts.append(f"{most_instances} in all at most")
    if terms.start_within_days is not None:
        latest_start = counted(terms.start_within_days, "day")
        parts.append(f"to start within {latest_start}")
    return "; ".join(parts)


def quote_values(price: Quote) -> dict[str, Any]:
    """A quote as JSON, with its source, age and terms."""
    row, rate = price.row, price.usd_per_hour
    terms = row.terms if row else None
    days = "first_seen=row.first_seen last_seen=row.last_seen as_of age_days=age.days is_stale"
    limits = "text shortest_days longest_days daily_up_to_days step_days sizes most_instances"
    return {
        **picked(price, f"instance kind usd_per_hour region=row.region {days}"),
        "is_own": bool(row and row.is_own),
        **picked(
            price, "evidence=usd_per_hour.provenance.kind source=usd_per_hour.provenance.source"
        ),
        "own_ended": price.own_ended,
        "note": row.note if row else "",
        "said": "" if rate is not None else str(price),
        "terms": terms
        and picked(terms, f"{limits} start_within_days is_interruptible source=provenance.source"),
    }
