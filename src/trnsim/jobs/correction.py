"""Texts of fixes: the legal value to write in place of an illegal value of a spec."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from difflib import get_close_matches
from fractions import Fraction
from typing import Any, Final

_CUTOFF: Final = 0.75
_MOST_CHARS: Final = 60
_LEGAL: Final = "legal: "
_TRUE: Final = {"yes", "on", "y", "t", "1", "enabled"}
_FALSE: Final = {"no", "off", "n", "f", "0", "disabled"}
_FIXES: Final = {
    "a mapping": "the fields of NAME below it, each as FIELD: VALUE",
    "text": "NAME as one text",
}
_NUMBER: Final = re.compile(r"\s*(\d{1,9}(?:\.\d{1,6})?)\s*([A-Za-z]*)\.?\s*")
_SIZE_UNIT: Final = re.compile(r"([KMGTPE])(i?b?|bytes?)", re.IGNORECASE)
"""A unit of bytes, such as G, GB, GiB or gbytes."""
_TIME: Final = re.compile(
    r"(\d{1,9}(?:\.\d{1,6})?)\s*([dhms])(?:ays?|ou?rs?|rs?|in(?:ute)?s?|ecs?|econds?)?(?![a-z])\s*"
)
_CLOCK: Final = re.compile(r"(\d{1,6}):(\d{1,9}:\d{1,9}:\d{1,9})")
_UNIT_S: Final = {"d": 86_400, "h": 3_600, "m": 60, "s": 1}
_UNITS: Final = "KMGTPE"


def near_name(name: str, legal: Iterable[str]) -> str:
    """The legal name that is most similar to `name`, regardless of capitals; "" without one."""
    folded = {legal_name.casefold(): legal_name for legal_name in legal}
    near = get_close_matches(name[:_MOST_CHARS].casefold(), folded, 1, _CUTOFF)
    return folded[near[0]] if near else ""


def field_fix(name: str, why: str, value: Any) -> str:
    """The fix of a field that has no legal value.

    Args:
        name: the field.
        why: the reason; there is no fix unless it begins with "legal: ", which the legal values
            follow.
        value: the illegal value; None for a missing field.
    """
    if not why.startswith(_LEGAL):
        return ""
    legal = why.removeprefix(_LEGAL)
    if value is None:
        return f"add {name}: {legal}"
    if legal == "true, false":
        word = str(value).lower()
        return "write " + (
            "true" if word in _TRUE else "false" if word in _FALSE else "true or false"
        )
    if legal.startswith("a whole number"):
        return count_fix(value, legal)
    if legal.startswith("a list"):
        return f"write {name} as a list: each item after a dash, or in brackets"
    return f"write {_FIXES.get(legal, '') or legal}".replace("NAME", name)


def count_fix(value: Any, legal: str = "a whole number") -> str:
    """The fix of a count: the number in a text such as "4 nodes", or else the legal values."""
    match = _NUMBER.fullmatch(str(value))
    has_more_text = match is not None and match[1] != str(value) and "." not in match[1]
    return (
        f"write {int(match[1])}" if match and has_more_text and int(match[1]) else f"write {legal}"
    )


def quantity_fix(value: Any) -> str:
    """The fix of a quantity in Kubernetes' form: "write 64Gi" for the text "64 GB"."""
    match = _NUMBER.fullmatch(str(value))
    if match is None:
        return "write a number with or without a unit, as 8, 500m or 64Gi"
    unit = _SIZE_UNIT.fullmatch(match[2])
    return f"write {match[1]}{unit[1].upper()}i" if unit else f"write {match[1]}"


def memory_fix(text: str) -> str:
    """The fix of a size in Slurm's form: "write 64G" for the text "64 GiB"."""
    match = _NUMBER.fullmatch(text)
    size_unit = _SIZE_UNIT.fullmatch(match[2]) if match else None
    unit = size_unit[1].upper() if size_unit else ""
    if match is None or (match[2] and not unit) or unit in _UNITS[4:]:
        return "write 64G for 64 GiB, or 0 for all memory of a node"
    number, power = Fraction(match[1]), _UNITS.find(unit or "M")
    while number.denominator != 1 and power:
        number, power = number * 1024, power - 1
    return f"write {math.ceil(number)}{_UNITS[power]}"


def time_fix(text: str) -> str:
    """The fix of a time in Slurm's form: "write 1-12:00:00" for the texts "36h" and "1d12h"."""
    plain = text.strip().lower()
    parts = _TIME.findall(plain)
    if clock := _CLOCK.fullmatch(plain):
        return f"write {clock[1]}-{clock[2]}"
    if not parts or _TIME.sub("", plain):
        return "write 1-00:00:00 for a day, or 30 for half an hour"
    seconds = math.ceil(sum(Fraction(number) * _UNIT_S[unit] for number, unit in parts))
    return f"write {time_text(seconds)}"


def time_text(seconds: int) -> str:
    """A time in Slurm's form ``days-hours:minutes:seconds``; below a day without the days."""
    days, rest_s = divmod(seconds, _UNIT_S["d"])
    hours, rest_s = divmod(rest_s, _UNIT_S["h"])
    clock = f"{hours:02}:{rest_s // 60:02}:{rest_s % 60:02}"
    return f"{days}-{clock}" if days else clock
