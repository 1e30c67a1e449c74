"""Remarks beside prices: kinds of purchase and days that do not compare, and the user's credits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.arch.catalogue import Catalogue
from trnsim.arch.prices import Price
from trnsim.errors import BadInput
from trnsim.price.quotes import STALE_AFTER, Quote

APART: Final = STALE_AFTER
"""Longest time between two prices that are compared without a note of both days."""


def caveats(quotes: Sequence[Quote], *, is_mixed_on_purpose: bool = False) -> tuple[str, ...]:
    """The notes that a figure comparing `quotes` needs; none for one kind and near days.

    Args:
        quotes: prices; those without a public price count by their kind, not by their day.
        is_mixed_on_purpose: allow different purchase kinds, which then is a caveat.

    Raises:
        BadInput: the kinds differ, and `is_mixed_on_purpose` is False.
    """
    kinds = list(dict.fromkeys(quote.kind for quote in quotes))
    notes: list[str] = []
    if len(kinds) > 1:
        if not is_mixed_on_purpose:
            price_names = " against ".join(f"{quote.instance} {quote.kind}" for quote in quotes)
            raise BadInput(
                f"{price_names}: different purchase kinds do not compare",
                fix="compare one kind, or pass is_mixed_on_purpose=True (--mixed-prices), and say "
                "so beside the figure",
            )
        notes.append(f"mixed prices: {', '.join(kinds)}")
    rows = [quote.row for quote in quotes if quote.row is not None]
    if rows:
        oldest_row = min(rows, key=lambda row: row.last_seen)
        notes += _distant_days(oldest_row, max(rows, key=lambda row: row.first_seen))
    return tuple(notes)


def _distant_days(old: Price, new: Price) -> list[str]:
    days = (new.first_seen - old.last_seen).days
    if days <= APART.days:
        return []
    dates = f"{old.last_seen} ({old.instance}) and {new.first_seen} ({new.instance})"
    return [f"prices of {dates}, {days} days apart"]


def credit_lines(rows: Catalogue) -> list[str]:
    """The user's credits, which AWS deducts from the bill and not from the price of an hour."""
    return [
        f"credit: {credit.usd:,.2f} USD"
        + (f" until {credit.until}" if credit.until else "")
        + (f" ({credit.note})" if credit.note else "")
        for credit in rows.credits
    ]
