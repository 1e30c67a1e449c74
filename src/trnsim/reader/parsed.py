"""The result of a parser: the values of a text and their lines, or the error of a line."""

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
        fractions: columns with a number whose point certainly is a decimal point.
    """

    content: Any
    line_of: Callable[[Keys], int]
    columns: tuple[str, ...] | None = None
    fractions: frozenset[str] = frozenset()


class Malformed(Exception):
    """Error of a text that is not of its format.

    Attributes:
        line: the line, from 1.
        why: the reason.
        fix: a remedy, or "".
    """

    def __init__(self, line: int, why: str, fix: str = "") -> None:
        super().__init__(why)
        self.line = line
        self.why = why
        self.fix = fix
