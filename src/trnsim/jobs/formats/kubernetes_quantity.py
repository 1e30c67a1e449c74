"""Quantities of Kubernetes: 2, 500m, 4Gi, 1e3.

Source: k8s.io/apimachinery pkg/api/resource/quantity.go, the grammar before `Quantity`.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

LEGAL: Final = "a quantity of Kubernetes, such as 8, 500m or 64Gi"

_QUANTITY: Final = re.compile(
    r"(?P<number>\+?(\d{1,30}(\.\d{0,30})?|\.\d{1,30}))"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?\d{1,2})?",
    re.ASCII,
)
_BINARY: Final = {f"{prefix}i": 1 << 10 * power for power, prefix in enumerate("KMGTPE", 1)}
_DECIMAL: Final = {
    "": 0,
    "n": -9,
    "u": -6,
    "m": -3,
    **{prefix: 3 * power for power, prefix in enumerate("kMGTPE", 1)},
}
_LARGEST: Final = 2**63 - 1
"""The largest quantity; Kubernetes caps larger ones, and here they are refused."""
_MILLI: Final = 1000


def parse_quantity(value: object) -> Fraction | None:
    """The exact quantity that a text or a number states; None for any other value, or below 0."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    match = _QUANTITY.fullmatch(str(value))
    if match is None:
        return None
    suffix = match["suffix"] or ""
    number = Fraction(match["number"].rstrip("."))
    if suffix in _BINARY:
        number *= _BINARY[suffix]
    else:
        power = _DECIMAL[suffix] if suffix in _DECIMAL else int(suffix[1:])
        number *= Fraction(10) ** power
    return number if number <= _LARGEST else None


def bytes_text(count: int) -> str:
    """A number of bytes in the largest binary unit that divides it: 64Gi, 1536Mi, 1000."""
    units = [unit for unit, size in _BINARY.items() if count and count % size == 0]
    return f"{count // _BINARY[units[-1]]}{units[-1]}" if units else str(count)


def cpu_value(vcpus: float) -> int | str | None:
    """The value of `cpu` in a manifest: the number 8, or the text 500m; None for a finer part."""
    milli = round(vcpus * _MILLI)
    if milli / _MILLI != vcpus:
        return None
    return milli // _MILLI if milli % _MILLI == 0 else f"{milli}m"
