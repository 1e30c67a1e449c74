"""Options on the command line: numbers, read as everywhere else, and chips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from trnsim.arch import TARGETS
from trnsim.text import listed

_Number = TypeVar("_Number", int, float)


def chip_names() -> str:
    """The chips that `--on` may name, in a sentence."""
    return listed(list(TARGETS), "or")


def as_number(read: Callable[[str], _Number]) -> Callable[[Any], _Number]:
    """A parser of an option from `read`; the command line gives it a default as it is."""

    def parse(given: Any) -> _Number:
        return read(given) if isinstance(given, str) else given

    return parse
