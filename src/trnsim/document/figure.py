"""Figures in a page, each with the place in the page's JSON file that it was read from.

    <data value="160000.0" data-of="/workloads/0/today/usd_per_month">160,000</data>

A place is a JSON pointer (RFC 6901), so what a page shows can be compared with its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

from trnsim.formatting import amount

Form = Callable[[float], str]


def pointer(*steps: str | int) -> str:
    """The JSON pointer of keys and indices."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def value_at(values: Any, place: str) -> Any:
    """The value at a JSON pointer.

    Raises:
        KeyError: there is none.
        IndexError: likewise.
    """
    for step in place.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        values = values[int(name)] if isinstance(values, list | tuple) else values[name]
    return values


def usd_per_hour(value: float) -> str:
    """A price of an hour: cents, or three digits of less than a dollar."""
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def percent(value: float) -> str:
    """A part of 1 as a whole percentage."""
    return f"{100 * value:.0f} %"


@dataclass(frozen=True)
class Figures:
    """The values of a page's JSON file, and markup of single ones."""

    values: dict[str, Any]

    def at(self, *steps: str | int) -> Any:
        """The value at a path of keys and indices."""
        return value_at(self.values, pointer(*steps))

    def usd(self, *steps: str | int, form: Form = amount) -> str:
        """Dollars as markup; a dash for null."""
        value = self.at(*steps)
        if value is None:
            return "-"
        place = escape(pointer(*steps))
        return f'<data class="usd" value="{value!r}" data-of="{place}">{form(value)}</data>'

    def usd_range(self, *steps: str | int) -> str:
        """P50 of dollars, with P10 and P90 behind it."""
        if self.at(*steps) is None:
            return "-"
        p10, p50, p90 = (self.usd(*steps, name) for name in ("p10", "p50", "p90"))
        return f'{p50} <span class="soft">({p10} to {p90})</span>'
