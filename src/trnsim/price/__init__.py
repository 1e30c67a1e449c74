"""Dated, sourced prices, and the formulas that turn them into cost per work done.

A price is valid only with its purchase kind, region and date. AWS sells Trainium2 in capacity
blocks only and publishes nothing for Trainium3, so "no public price" is an answer here, not an
error. This room knows nothing about performance: rates of work come from ``trnsim.system``.
"""

from trnsim.price.comparison import caveats, credit_lines
from trnsim.price.formulas import relative_cost, usd_per_million_tokens
from trnsim.price.own import with_own_prices
from trnsim.price.quotes import (
    KINDS,
    Quote,
    check_day,
    check_kind,
    history,
    priced_kinds,
    quote,
    today,
)
from trnsim.price.terms import Purchase, purchase, why_not

__all__ = [
    "KINDS",
    "Purchase",
    "Quote",
    "caveats",
    "check_day",
    "check_kind",
    "credit_lines",
    "history",
    "priced_kinds",
    "purchase",
    "quote",
    "relative_cost",
    "today",
    "usd_per_million_tokens",
    "why_not",
    "with_own_prices",
]
