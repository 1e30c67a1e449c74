"""Numbers on the command line, read as everywhere else and never as another number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Number = TypeVar("_Number", int, float)


def as_number(read: Callable[[str], _Number]) -> Callable[[Any], _Number]:
    """A parser of an option from `read`; the command line gives it a default as it is."""

    def parse(given: Any) -> _Number:
        return read(given) if isinstance(given, str) else given

    return parse
