"""Numbers with units as people write them: 10B tokens, 30ms, 64MiB, 80%, 240/min, $1.5/hour.

One vocabulary for options of commands and for fields of files. A number without a unit has the
unit of its option or field. Values are exact: 0.1s and 100ms are the same float.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from fractions import Fraction
from functools import cache
from types import MappingProxyType
from typing import Final

_COUNTS: Final[Mapping[str, int]] = {
    "": 1,
    "k": 10**3,
    "K": 10**3,
    "M": 10**6,
    "B": 10**9,
    "G": 10**9,
    "T": 10**12,
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
}
_TIMES: Final[Mapping[str, tuple[Fraction, tuple[str, ...]]]] = {
    "ns": (Fraction(1, 10**9), ("nanosecond", "nanoseconds")),
    "us": (Fraction(1, 10**6), ("µs", "μs", "microsecond", "microseconds")),
    "ms": (Fraction(1, 10**3), ("millisecond", "milliseconds")),
    "s": (Fraction(1), ("second", "seconds")),
    "min": (Fraction(60), ("m", "minute", "minutes")),
    "h": (Fraction(3600), ("hour", "hours")),
    "d": (Fraction(86400), ("day", "days")),
    "w": (Fraction(7 * 86400), ("week", "weeks")),
}
"""By unit, its seconds and its other names."""
_SECONDS: Final[Mapping[str, Fraction]] = {
    name: seconds for unit, (seconds, names) in _TIMES.items() for name in (unit, *names)
}
_BYTES: Final[Mapping[str, int]] = {
    "B": 1,
    **{f"{prefix}B": _COUNTS[prefix] for prefix in "kKMGT"},
    **{f"{prefix}iB": 2 ** (10 * power) for power, prefix in enumerate("KMGT", 1)},
}
_WATTS: Final[Mapping[str, int]] = {"W": 1, "kW": 10**3, "MW": 10**6}
_MONEY: Final[Mapping[str, int]] = {
    **{prefix: size for prefix, size in _COUNTS.items() if not prefix.endswith("i")},
    "USD": 1,
    "kUSD": 10**3,
}
_SHOWN: Final = {
    "plain": ("k", "M", "B", "T", "Ki", "Mi", "Gi", "%"),
    "count": ("k", "M", "B", "T", "Ki", "Mi", "Gi"),
    "time": tuple(_TIMES),
    "bytes": ("B", "kB", "MB", "GB", "TB", "KiB", "MiB", "GiB", "TiB"),
    "share": ("%",),
    "power": tuple(_WATTS),
    "money": ("k", "M", "B", "USD"),
}
"""The units that errors name, of those that are legal."""
_WORDS: Final = {
    "thousand": "k",
    "million": "M",
    "mn": "M",
    "billion": "B",
    "bn": "B",
    "trillion": "T",
    "sec": "s",
    "secs": "s",
    "mins": "min",
    "hr": "h",
    "hrs": "h",
    "percent": "%",
}
"""Words that are no units here, and the units that they stand for."""
_SHORT: Final = {name: unit for unit, (_, names) in _TIMES.items() for name in names}
_EXAMPLES: Final = {
    "plain": "8k",
    "count": "1k",
    "bytes": "64MiB",
    "share": "80%",
    "power": "1.2kW",
}
_TIME_EXAMPLES: Final = {
    "ns": "2us",
    "us": "2ms",
    "ms": "1.5s",
    "s": "30ms",
    "min": "2h",
    "h": "90d",
    "d": "2w",
    "w": "10d",
}
_LARGEST: Final = 2**63
_MOST_DIGITS: Final = 400
"""More than a float has before or after the point; a number of more is not computed."""
_MOST_SHOWN_CHARS: Final = 60
"""Characters of a user's text in an error."""
_NEAR_CUTOFF: Final = 0.5
_NUMBER: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<money>\$?)\s*"
    r"(?P<digits>(\d+(_\d+)*)(\.(\d+(_\d+)*)?)?|\.\d+(_\d+)*)([eE](?P<exponent>[+-]?\d{1,9}))?"
    r"\s*(?P<unit>(\$?[A-Za-zµμ]*|%)(/[A-Za-zµμ]+)?)",
    re.ASCII,
)
_THOUSANDS: Final = re.compile(r"[1-9]\d{0,2}(\.\d{3})+")


def _kinds() -> dict[str, tuple[str, Fraction]]:
    """By the unit of an option or a field, its kind and its size in that kind's own unit."""
    counts = "tokens requests sequences items rows chips instances layouts pixels passes steps"
    times = {name: ("time", seconds) for name, seconds in _SECONDS.items() if name != "m"}
    return {
        "": ("plain", Fraction(1)),
        **dict.fromkeys(counts.split(), ("count", Fraction(1))),
        **times,
        "bytes": ("bytes", Fraction(1)),
        "share": ("share", Fraction(1)),
        "percent": ("share", Fraction(1, 100)),
        "W": ("power", Fraction(1)),
        "USD": ("money", Fraction(1)),
    }


UNITS: Final = MappingProxyType(_kinds())
"""Units that options and fields have, alone or before a slash as in tokens/s and USD/hour."""
_UNITS_BY_KIND: Final[Mapping[str, Mapping[str, Fraction | int]]] = {
    "plain": {**_COUNTS, "%": Fraction(1, 100)},
    "count": _COUNTS,
    "time": _SECONDS,
    "bytes": _BYTES,
    "share": {"%": Fraction(1, 100)},
    "power": _WATTS,
    "money": _MONEY,
}
"""By kind, the units that a number may have, and their sizes in the kind's own unit."""


def number(text: str, unit: str = "", *, has_fractions: bool = False) -> float:
    """The number that `text` states, in `unit`: 30ms is 0.03 of s, 80% is 0.8 of share.

    A point before three digits may separate thousands, unless `has_fractions` says that points
    stand before fractions here.

    Raises:
        ValueError: it is no finite number, or not of that unit; the message says what is legal.
    """
    try:
        return float(_value(text, unit, has_fractions=has_fractions))
    except OverflowError:
        raise ValueError(f"{_quoted(text)} is too large; the largest number is 1.7e308") from None


def whole(text: str, unit: str = "") -> int:
    """The whole number that `text` states, in `unit`: 1.5k is 1500 tokens.

    Raises:
        ValueError: as `number`, and for 1.5 and numbers from 2^63 on.
    """
    value = _value(text, unit)
    if value.denominator != 1:
        floor = f"{value.numerator // value.denominator}"
        suffix = f" of {unit}" if unit else ""
        raise ValueError(f"{_quoted(text)} is no whole number{suffix}; write for example {floor}")
    if abs(value) >= _LARGEST:
        raise ValueError(f"{_quoted(text)} is too large; the largest whole number is 9.2e18")
    return value.numerator


def wholes(text: str, unit: str = "", *, is_list: bool = False) -> tuple[int, ...]:
    """Whole numbers separated by commas: 8, or 8,16,32, or 1k,2k.

    Raises:
        ValueError: for anything else, a repeated number, and, unless the option always takes
            several (`is_list`), 8,128, which may be one number with a separator.
    """
    if not is_list and re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+", text.strip()):
        parts = " and ".join(text.strip().split(","))
        raise ValueError(
            f"{text!r} may be one number or several; write {text.replace(',', '')}, or {parts} as "
            f"'{text.replace(',', ', ')}'"
        )
    numbers = tuple(whole(part, unit) for part in text.split(","))
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{text!r} has a number twice; write each once")
    return numbers


def example(unit: str) -> str:
    """A number with a unit, as an option or a field of `unit` takes it."""
    numerator, _, denominator = unit.partition("/")
    kind, size = UNITS[numerator]
    if kind == "money":
        return f"$1.5/{denominator}" if denominator else "80k"
    if denominator:
        return "240/min" if denominator in _SECONDS else "10M"
    if numerator == "tokens":
        return "8k"
    if kind == "time":
        return next(_TIME_EXAMPLES[name] for name in _TIME_EXAMPLES if _SECONDS[name] == size)
    return _EXAMPLES[kind]


def legal_units(unit: str) -> str:
    """The units in which an option or a field of `unit` may be stated, in words."""
    numerator, _, denominator = unit.partition("/")
    shown = ", ".join(_SHOWN[UNITS[numerator][0]])
    if not denominator:
        return shown
    return f"{shown}, /{', /'.join(_TIMES) if denominator in _SECONDS else denominator}"


@cache
def _scales(unit: str) -> Mapping[str, Fraction]:
    """The size in `unit` of each unit that a number may have."""
    numerator, _, denominator = unit.partition("/")
    kind, size = UNITS[numerator]
    scales = {name: Fraction(scale) / size for name, scale in _UNITS_BY_KIND[kind].items()}
    if not denominator:
        return scales
    denominators = _SECONDS if denominator in _SECONDS else {denominator: Fraction(1)}
    rates = {
        f"{name}/{other}": scale * denominators[denominator] / other_size
        for name, scale in {"": Fraction(1), **scales}.items()
        for other, other_size in denominators.items()
    }
    return {**scales, **rates}


def is_fraction(text: str) -> bool:
    """True if a point stands before the fraction of a number: 0.125 and 1.5, but not 1.125."""
    match = _NUMBER.fullmatch(text.strip())
    return match is not None and "." in match["digits"] and not _may_be_thousands(match)


def _may_be_thousands(match: re.Match[str]) -> bool:
    return match["exponent"] is None and _THOUSANDS.fullmatch(match["digits"]) is not None


def _value(text: str, unit: str, *, has_fractions: bool = False) -> Fraction:
    """The exact value in `unit`; `has_fractions` as in `number`.

    Raises:
        ValueError: `text` states none.
    """
    match = _NUMBER.fullmatch(text.strip())
    if match is None or (match["money"] and not unit.startswith("USD")):
        raise ValueError(_no_number(text, unit))
    if _may_be_thousands(match) and (not has_fractions or match["digits"].count(".") > 1):
        tail = match["unit"]
        plain = match["digits"].replace(".", "")
        raise ValueError(
            f"{_quoted(text)} may have a separator of thousands; write {plain}{tail}, or "
            f"{match['digits']}0{tail} for a fraction"
        )
    scales, spelled = _scales(unit), match["unit"]
    if spelled and spelled not in scales:
        raise ValueError(_unknown(text, spelled, unit))
    power, digits = int(match["exponent"] or 0), match["digits"].replace("_", "")
    if abs(power) > _MOST_DIGITS or len(digits) > _MOST_DIGITS:
        raise ValueError(f"{_quoted(text)} is too {'small' if power < 0 else 'large'}")
    value = Fraction(f"{match['sign']}{digits}") * Fraction(10) ** power
    return value * scales[spelled] if spelled else value


def _unknown(text: str, spelled: str, unit: str) -> str:
    """The message for a unit that a number cannot have here."""
    amount = text.strip()[: -len(spelled)]
    names = _similar_units(spelled, list(_scales(unit)))
    perhaps = f"; perhaps {' or '.join(amount + name for name in names)}" if names else ""
    return f"{_quoted(text)} has the unit {spelled!r}; legal: {legal_units(unit)}{perhaps}"


def _similar_units(spelled: str, legal: list[str]) -> list[str]:
    """Legal units that resemble `spelled`: those that differ in case, else by similar letters."""
    legal = [name for name in legal if name]
    word = _WORDS.get(spelled.casefold())
    if word in legal:
        return [word]
    folded = [name for name in legal if name.casefold() == spelled.casefold()]
    names = folded or get_close_matches(spelled[:_MOST_SHOWN_CHARS], legal, 2, _NEAR_CUTOFF)
    return list(dict.fromkeys(_SHORT.get(name, name) for name in names))


def _no_number(text: str, unit: str) -> str:
    """The message for what is no number, and how to write one of `unit`."""
    is_infinite = text.strip().lstrip("+-").casefold() in ("nan", "inf", "infinity")
    suffix = f" [{unit}]" if unit else ""
    return (
        f"{_quoted(text)} is no {'finite ' if is_infinite else ''}number{suffix}; write it without "
        f"separators, with a unit or without: 8000, 8e3 or {example(unit)}"
    )


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _MOST_SHOWN_CHARS else f"{text[:_MOST_SHOWN_CHARS]}...")
