"""Formats of numbers and words, read and written; tables of Markdown."""

from __future__ import annotations

from collections.abc import Sequence

from trnsim.facts import Interval

_UNITS = ((86400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"), (1e-3, "ms"), (1e-6, "us"))
_LEAST_WHOLE = 999.5
"""Least number that three digits round to a thousand: from here on there are no decimals."""
_LEAST_INEXACT = 1e15
"""Least number whose digits are not all meant: a float holds about fifteen."""


def clipped(text: str, width: int) -> str:
    """`text` in at most `width` characters: where it is longer, its beginning and an ellipsis."""
    return text if len(text) <= width else f"{text[: width - 1]}…"


def enumerated(words: Sequence[str], conjunction: str) -> str:
    """`words` as one phrase, with a `conjunction` before the last: "a, b or c"."""
    *first, end = words
    return f"{', '.join(first)} {conjunction} {end}" if first else end


def plural(count: float, singular: str, plural_form: str = "") -> str:
    """`singular` for a count of 1, else `plural_form`, by default `singular` with an s."""
    return singular if count == 1 else plural_form or f"{singular}s"


def counted(count: float, singular: str, plural_form: str = "") -> str:
    """A number and its noun: "1 rank", "8 ranks"."""
    return f"{count} {plural(count, singular, plural_form)}"


def markdown_table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns are aligned, so that it reads without being rendered."""
    widths = [max(map(len, cells)) for cells in zip(header, *rows, strict=True)]
    rule = ["-" * width for width in widths]
    return "\n".join(
        "| " + " | ".join(map(str.ljust, line, widths)) + " |" for line in (header, rule, *rows)
    )


def seconds(value_s: float) -> str:
    """A duration in words, with three digits, in the largest unit of which it has one: "1.5 h"."""
    for unit_s, name in _UNITS:
        if float(f"{abs(value_s) / unit_s:.3g}") >= 1:
            return f"{amount(value_s / unit_s)} {name}"
    return f"{value_s:.3g} s"


def amount(value: float) -> str:
    """A number in words: three significant digits, from a thousand on all: "0.123", "1,234".

    Numbers of more than fifteen digits, which a float does not hold, have three again.
    """
    is_whole = _LEAST_WHOLE <= abs(value) < _LEAST_INEXACT
    return f"{value:,.0f}" if is_whole else f"{value:.3g}"


def durations(interval: Interval) -> str:
    """The quantiles of one duration in words: ``P50 (P10 to P90)``."""
    return f"{seconds(interval.p50)} ({seconds(interval.p10)} to {seconds(interval.p90)})"


def amounts(interval: Interval | None) -> str:
    """The quantiles of one number in words: ``P50 (P10 to P90)``; "-" for None."""
    if interval is None:
        return "-"
    return f"{amount(interval.p50)} ({amount(interval.p10)} to {amount(interval.p90)})"
