"""Arguments of operators as JSON, and back; JSON of any other form is refused."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from torch import fx

INT_MAX: Final = (1 << 63) - 1
"""The largest integer of PyTorch's operators."""
_INT_MIN: Final = -INT_MAX - 1
DEPTH_MAX: Final = 8
"""Maximum number of levels of lists within lists; no schema of an operator has more than two."""
REFERENCE: Final = "%"
"""The key of a reference to a value of the program by its number."""

DTYPES: Final[dict[str, torch.dtype]] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        *(torch.float64, torch.float32, torch.bfloat16, torch.float16),
        *(torch.float8_e4m3fn, torch.float8_e5m2),
        *(torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool),
        *(torch.uint16, torch.uint32, torch.complex64, torch.complex128),
    )
}
_LAYOUTS: Final = {"strided": torch.strided}
_MEMORY_FORMATS: Final = {
    "contiguous_format": torch.contiguous_format,
    "preserve_format": torch.preserve_format,
    "channels_last": torch.channels_last,
    "channels_last_3d": torch.channels_last_3d,
}
_KIND_NAMES: Final[dict[type, str]] = {
    torch.dtype: "dtype",
    torch.layout: "layout",
    torch.memory_format: "memory_format",
}
NON_FINITE: Final = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
"""Floats that JSON lacks, by their names in a stored program."""


class MalformedProgram(ValueError):
    """Content that is no stored program."""


def encode_argument(value: Any, number_of: Callable[[fx.Node], int]) -> Any:
    """An argument of an operator as JSON.

    Raises:
        MalformedProgram: for a value of another type than operators take.
    """
    if isinstance(value, list | tuple):
        return [encode_argument(part, number_of) for part in value]
    if isinstance(value, fx.Node):
        return {REFERENCE: number_of(value)}
    if value is None or isinstance(value, bool | int | float | complex | str):
        return _encode_number(value)
    for kind, name in _KIND_NAMES.items():
        if isinstance(value, kind):
            return {name: str(value).removeprefix("torch.")}
    if isinstance(value, torch.device):
        return {"device": ""}  # the core on which the program runs
    raise MalformedProgram(f"an argument of type {type(value).__name__}")


def _encode_number(value: Any) -> Any:
    """A number, a text or None as JSON, which has no infinities and no complex numbers."""
    if isinstance(value, complex):
        return {"complex": [_encode_number(value.real), _encode_number(value.imag)]}
    is_finite = not isinstance(value, float) or math.isfinite(value)
    return value if is_finite else {"float": str(value)}


def decode_argument(
    value: Any, values: Sequence[fx.Node], device: torch.device, depth: int = 0
) -> Any:
    """The argument of an operator from JSON; its references are indices of `values`.

    Raises:
        MalformedProgram: for anything that `encode_argument` does not write.
    """
    if depth > DEPTH_MAX:
        raise MalformedProgram("an argument of lists within lists")
    if isinstance(value, list):
        return [decode_argument(part, values, device, depth + 1) for part in value]
    if isinstance(value, dict):
        return _decode_object(value, values, device, depth)
    if isinstance(value, int) and not _INT_MIN <= value <= INT_MAX:
        raise MalformedProgram("an integer beyond 64 bits")
    return value


def _decode_object(
    value: dict[str, Any], values: Sequence[fx.Node], device: torch.device, depth: int
) -> Any:
    if len(value) != 1:
        raise MalformedProgram(f"an argument of the keys {', '.join(value) or 'none'}")
    ((kind, content),) = value.items()
    if kind == REFERENCE:
        return values[checked_index(content, len(values), "a value")]
    if kind == "device":
        return device
    if kind == "complex":
        parts = decode_argument(content, values, device, depth + 1)
        if not isinstance(parts, list) or [type(part) for part in parts] != [float, float]:
            raise MalformedProgram("a complex number of other than two numbers")
        return complex(*parts)
    tables: dict[str, dict[str, Any]] = {
        "dtype": DTYPES,
        "layout": _LAYOUTS,
        "memory_format": _MEMORY_FORMATS,
        "float": NON_FINITE,
    }
    table = tables.get(kind, {})
    if not isinstance(content, str) or content not in table:
        raise MalformedProgram(f"{kind} {str(content)[:40]!r}")
    return table[content]


def checked_index(value: Any, count: int, subject: str) -> int:
    """`value` itself, an integer from 0 to `count` - 1.

    Raises:
        MalformedProgram: for another value, which the message calls `subject`.
    """
    if type(value) is not int or not 0 <= value < count:
        raise MalformedProgram(f"{subject} {str(value)[:40]}, of {count}")
    return value
