"""JSON, and JSON lines: NaN and Infinity, which JSON lacks, and a key with two values are refused.

Source: RFC 8259, sections 4 (names within an object should be unique) and 6 (numbers).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final, NoReturn

from trnsim.reader.parsed import Keys, Malformed, ParsedText

__all__ = ["parse_json", "parse_json_lines"]

_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+', re.DOTALL)
_MOST_DEPTH: Final = 500
"""Deeper than any file that a user writes; Python's own parser gives up at about 1,000."""


def parse_json(text: str) -> ParsedText:
    """The one value of a JSON text.

    Raises:
        Malformed: it is not JSON.
    """
    return ParsedText(_value(text), _Lines(text).line_of)


def parse_json_lines(text: str) -> ParsedText:
    """The values of JSON texts, one per line.

    Raises:
        Malformed: a line is not JSON.
    """
    numbers: list[int] = []
    content: list[Any] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            content.append(_value(line))
        except Malformed as error:
            raise Malformed(number, error.why, error.fix) from error
        numbers.append(number)
    return ParsedText(content, lambda keys: numbers[int(keys[0])] if keys else 1)


def _value(text: str) -> Any:
    try:
        return json.loads(
            text, parse_constant=_no_constant, parse_float=_finite, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise Malformed(error.lineno, f"not JSON: {error.msg}", _fix(text, error)) from error
    except _RepeatedName as error:
        line = _line_of_second(text, error.name)
        why = f"{error.name} is given twice, with two values"
        raise Malformed(line, why, "leave one of them out") from error
    except (ValueError, RecursionError) as error:
        raise Malformed(_line_of_fault(text), f"not JSON: {error}") from error


def _fix(text: str, error: json.JSONDecodeError) -> str:
    """The change that makes a text JSON, where the fault is a usual one; else ""."""
    before, after = text[: error.pos].rstrip(), text[error.pos : error.pos + 1]
    if (before.endswith(",") and after in "}]" and after) or "trailing comma" in error.msg:
        return "take out the comma before the bracket"
    if after == "'":
        return "write texts in double quotes"
    if "',' delimiter" in error.msg:
        return "add a comma after the value before it, or close what is open"
    if "Unterminated" in error.msg or "control character" in error.msg:
        return "close the quote in the line where it begins"
    return "write the next JSON text into a file of its own" if error.msg == "Extra data" else ""


class _RepeatedName(Exception):
    """An object has a name with two values."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is beyond the numbers of 64 bits")
    return number


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        for name, value in pairs:
            if value != values[name]:
                raise _RepeatedName(name)
    return values


class _Lines:
    """The lines of the values of a JSON text, found when one of them is first asked for."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def _lines(self) -> dict[tuple[str | int | None, ...], int]:
        """The line of the first name or value under keys."""
        lines: dict[tuple[str | int | None, ...], int] = {}
        line, before = 1, 0
        for path, at, _ in _places(self._text):
            line += self._text.count("\n", before, at)
            before = at
            lines.setdefault(path, line)
        return lines

    def line_of(self, keys: Keys) -> int:
        """The line of the value under `keys`, or of the innermost value that exists on the way."""
        prefixes = (keys[:length] for length in range(len(keys), -1, -1))
        return next((self._lines[path] for path in prefixes if path in self._lines), 1)


def _line_of_second(text: str, name: str) -> int:
    """The line of a name that stands twice in its object."""
    seen: set[tuple[str | int | None, ...]] = set()
    for path, at, is_name in _places(text):
        if is_name and path[-1] == name and path in seen:
            return text.count("\n", 0, at) + 1
        seen.add(path)
    return 1


def _places(text: str) -> Iterator[tuple[tuple[str | int | None, ...], int, bool]]:
    """The keys and the start of each name and value of a JSON text, and whether it is a name."""
    path: list[str | int | None] = []
    for token in _TOKEN.finditer(text):
        mark, at = token[0], token.start()
        if mark in ("{", "["):
            yield tuple(path), at, False
            path.append(0 if mark == "[" else None)
        elif mark in ("}", "]"):
            path.pop()
        elif mark == "," and path:
            last = path[-1]
            path[-1] = last + 1 if isinstance(last, int) else None
        elif mark[0] == '"' and path and path[-1] is None:
            path[-1] = json.loads(mark)
            yield tuple(path), at, True
        elif mark != ":":
            yield tuple(path), at, False


def _line_of_fault(text: str) -> int:
    """The line of a number that JSON does not have, or of a value that is nested too deeply."""
    depth = 0
    for token in _TOKEN.finditer(text):
        mark = token[0]
        depth += (mark in ("{", "[")) - (mark in ("}", "]"))
        if depth > _MOST_DEPTH or not (mark[0] in '{}[],:"' or _is_plain(mark)):
            return text.count("\n", 0, token.start()) + 1
    return 1


def _is_plain(mark: str) -> bool:
    try:
        json.loads(mark, parse_constant=_no_constant, parse_float=_finite)
    except ValueError:
        return False
    return True
