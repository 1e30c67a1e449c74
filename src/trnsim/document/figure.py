"""Figures of a document that are read from its values, by their place there.

A place is a JSON pointer (RFC 6901), so what a page shows can be compared with its file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from trnsim.document.answer import Figure, Mark, Words
from trnsim.formatting import amount

Form = Callable[[float], str]
"""Function from a number to its words."""


def pointer(*steps: str | int) -> str:
    """The JSON pointer of keys and indices."""
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def value_at(values: Any, place: str) -> Any:
    """The value at a JSON pointer.

    Raises:
        KeyError: the values have no such key.
        IndexError: a list is shorter.
    """
    for step in place.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        values = values[int(name)] if isinstance(values, list | tuple) else values[name]
    return values


def usd_per_hour(value: float) -> str:
    """A price per hour: dollars with cents, or three digits of a price below one dollar."""
    return f"{value:,.2f}" if value >= 1 else f"{value:.3g}"


def percent(value: float) -> str:
    """A part of 1 as a whole percentage."""
    return f"{100 * value:.0f} %"


@dataclass(frozen=True)
class Figures:
    """The values of a document; its methods format single ones, with their places."""

    values: dict[str, Any]

    def at(self, *steps: str | int) -> Any:
        """The value at a path of keys and indices."""
        return value_at(self.values, pointer(*steps))

    def usd(self, *steps: str | int, form: Form = amount) -> Figure:
        """Dollars; a dash for null."""
        value = self.at(*steps)
        return Figure(value, "-" if value is None else form(value), pointer(*steps))

    def usd_range(self, *steps: str | int) -> Words:
        """P50 of dollars, with P10 and P90 behind it."""
        if self.at(*steps) is None:
            return "-"
        p10, p50, p90 = (self.usd(*steps, name) for name in ("p10", "p50", "p90"))
        return (p50, Mark((" (", p10, " to ", p90, ")")))
