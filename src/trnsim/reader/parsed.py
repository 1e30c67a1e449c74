"""The answer of a parser: values and a way to their lines, or the line where it stopped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Keys = tuple[str | int, ...]
"""Names of fields and indexes of items that lead to a value."""


@dataclass(frozen=True)
class ParsedText:
    """The values of a text.

    Attributes:
        content: text, numbers, True and False, None, lists and dicts.
        line_of: function from keys to the line, from 1, of the value under them, or of the mapping
            or list that lacks it.
        columns: the names in the first line of a table in CSV.
        fractions: those columns in which a number shows that points stand before fractions.
    """

    content: Any
    line_of: Callable[[Keys], int]
    columns: tuple[str, ...] | None = None
    fractions: frozenset[str] = frozenset()


class Malformed(Exception):
    """The text is not of its format: in which line, why, and what to do, or ""."""

    def __init__(self, line: int, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.line = line
        self.why = why
        self.fix = fix
