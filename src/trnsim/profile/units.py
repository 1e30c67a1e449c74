"""Text of figures: times, bytes and rates with the unit that suits their size."""

from __future__ import annotations

from typing import Final

_TIME_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))
_BYTE_UNITS: Final = ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB"), (1.0, "B"))
_RATE_PREFIXES: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_WHOLE_PERCENT: Final = 9.95
"""Percentage that one decimal would round to 10.0; from here on there are no decimals."""
_SIGNIFICANT_DIGITS: Final = 3
_LEAST_IN_POWERS: Final = 1e15
"""Minimum value that is written with a power of ten instead of digits."""
_LEAST_IN_UNIT: Final = 0.9995
"""Least value that is written in a unit, as three digits round it to 1: 999.6 us are 1 ms."""


def time_text(time_s: float) -> str:
    """`time_s` with three significant digits: "8.42 us"."""
    return _with_unit(time_s, _TIME_UNITS)


def bytes_text(nbytes: float) -> str:
    """`nbytes` in binary units: "24 KiB"."""
    return _with_unit(nbytes, _BYTE_UNITS)


def rate_text(per_s: float, unit: str) -> str:
    """`per_s` in decimal multiples of `unit`: "312 GB/s"."""
    return _with_unit(per_s, tuple((size, prefix + unit) for size, prefix in _RATE_PREFIXES))


def count_text(count: float) -> str:
    """`count` in whole numbers: "1,024"."""
    return f"{count:,.0f}"


def percent_text(share: float) -> str:
    """`share` of one in percent: "71 %", with one decimal below ten percent."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent == 0 or percent >= _WHOLE_PERCENT else f"{percent:.1f} %"


def _with_unit(value: float, units: tuple[tuple[float, str], ...]) -> str:
    size, unit = next(((s, u) for s, u in units if abs(value) >= _LEAST_IN_UNIT * s), units[-1])
    number = value / size
    if abs(number) >= _LEAST_IN_POWERS:
        return f"{number:.{_SIGNIFICANT_DIGITS}g} {unit}"
    whole_digits = len(str(int(abs(number))))
    text = f"{number:.{max(_SIGNIFICANT_DIGITS - whole_digits, 0)}f}"
    if "." in text:
        text = text.rstrip("0").rstrip(".")
    return f"{text} {unit}"
