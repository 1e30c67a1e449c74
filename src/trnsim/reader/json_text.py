"""JSON and JSON lines, without NaN, Infinity, and keys with two values, which are refused.

Source: RFC 8259, sections 4 (names within an object should be unique) and 6 (numbers).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final, NoReturn

from trnsim.reader.parsed import Keys, Malformed, ParsedText

_TEXT: Final = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_TOKEN: Final = re.compile(rf'{_TEXT}|[{{}}\[\]]|[^\s{{}}\[\],:"]+', re.DOTALL)
_NAME_OR_BRACE: Final = re.compile(rf"(?P<text>{_TEXT})\s*(?P<colon>:)?|[{{}}]", re.DOTALL)
_SHORT: Final = re.compile(r"-?\d{1,300}(\.\d*)?|true|false|null")
"""Values that are taken as legal without a parser: short numbers, true, false and null."""
_SPACE: Final = re.compile(r"[ \t\n\r]*")
_DECODER: Final = json.JSONDecoder()
_MOST_DEPTH: Final = 500
"""Deeper than any file that a user writes; Python's own parser gives up at about 1,000."""


def parse_json(text: str) -> ParsedText:
    """The one value of a JSON text.

    Raises:
        Malformed: it is not JSON.
    """
    return ParsedText(_value(text), _Lines(text).line_of)


def parse_json_with_infinity(text: str) -> ParsedText:
    """The one value of a JSON text, in which Infinity and -Infinity are numbers, as Python has it.

    Raises:
        Malformed: it is not such JSON.
    """
    return ParsedText(_value(text, parse_constant=_infinity), _Lines(text).line_of)


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


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no number of JSON")


def _infinity(name: str) -> float:
    return _no_constant(name) if name == "NaN" else float(name)


def _value(text: str, *, parse_constant: Callable[[str], float] = _no_constant) -> Any:
    try:
        return json.loads(
            text, parse_constant=parse_constant, parse_float=_finite, object_pairs_hook=_object
        )
    except json.JSONDecodeError as error:
        raise Malformed(error.lineno, f"not JSON: {error.msg}", _fix(text, error)) from error
    except _RepeatedName as error:
        line = _line_of_second(text, error.name)
        why = f"{error.name} is given twice, with two values"
        raise Malformed(line, why, "leave one of them out") from error
    except (ValueError, RecursionError) as error:
        line = _line_of_fault(text, parse_constant)
        raise Malformed(line, f"not JSON: {error}") from error


def _fix(text: str, error: json.JSONDecodeError) -> str:
    """The change that makes a text JSON, for a usual fault; "" for any other fault."""
    text_before, text_after = text[: error.pos].rstrip(), text[error.pos : error.pos + 1]
    if (
        text_before.endswith(",") and text_after in "}]" and text_after
    ) or "trailing comma" in error.msg:
        return "take out the comma before the bracket"
    if text_after == "'":
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
    """The lines of the values of a valid JSON text, each looked up at the first request."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._offsets: dict[int, dict[str | int, int]] = {}
        """Offset of an object or a list -> the offsets of its members (`_members`)."""

    def line_of(self, keys: Keys) -> int:
        """The line of the value under `keys`, or of the innermost value that exists on the way."""
        text = self._text
        start = value = _after_space(text, 0)
        for key in keys:
            if value not in self._offsets:
                self._offsets[value] = _members(text, value)
            if key not in self._offsets[value]:
                break
            start = self._offsets[value][key]
            value = _after_name(text, start) if isinstance(key, str) else start
        return text.count("\n", 0, start) + 1


def _members(text: str, offset: int) -> dict[str | int, int]:
    """Offsets of an object's names, or of a list's values, by name or index.

    `offset` is the offset of the object or list; another value has no members. Values in it are
    decoded to find their ends, as Python's decoder is ten times as fast as a search for brackets.
    """
    is_object = text[offset] == "{"
    offsets: dict[str | int, int] = {}
    if not is_object and text[offset] != "[":
        return offsets
    offset = _after_space(text, offset + 1)
    while text[offset] not in "}]":
        key = _DECODER.raw_decode(text, offset)[0] if is_object else len(offsets)
        offsets.setdefault(key, offset)
        value = _after_name(text, offset) if is_object else offset
        offset = _after_space(text, _DECODER.raw_decode(text, value)[1])
        if text[offset] == ",":
            offset = _after_space(text, offset + 1)
    return offsets


def _after_name(text: str, offset: int) -> int:
    """The offset of the value whose name begins at `offset`."""
    colon = _after_space(text, _DECODER.raw_decode(text, offset)[1])
    return _after_space(text, colon + 1)


def _after_space(text: str, offset: int) -> int:
    spaces = _SPACE.match(text, offset)
    return spaces.end() if spaces else offset


def _line_of_second(text: str, name: str) -> int:
    """The line of a name that stands twice in its object."""
    has_name: list[bool] = []
    for token in _NAME_OR_BRACE.finditer(text):
        if token[0] == "{":
            has_name.append(False)
        elif token[0] == "}":
            has_name.pop()
        elif token["colon"] and _is_text_of(token["text"], name):
            if has_name[-1]:
                return text.count("\n", 0, token.start()) + 1
            has_name[-1] = True
    return 1


def _is_text_of(json_text: str, name: str) -> bool:
    """True if a JSON text, quotes included, is that of a name."""
    return json_text[1:-1] == name or ("\\" in json_text and json.loads(json_text) == name)


def _line_of_fault(text: str, parse_constant: Callable[[str], float]) -> int:
    """The line of a number that JSON does not have, or of a value that is nested too deeply."""
    depth = 0
    for token in _TOKEN.finditer(text):
        text_of_token = token[0]
        if text_of_token in ("{", "["):
            depth += 1
        elif text_of_token in ("}", "]"):
            depth -= 1
        if depth > _MOST_DEPTH or not (
            text_of_token[0] in '{}[]"' or _is_legal_scalar(text_of_token, parse_constant)
        ):
            return text.count("\n", 0, token.start()) + 1
    return 1


def _is_legal_scalar(text_of_token: str, parse_constant: Callable[[str], float]) -> bool:
    if _SHORT.fullmatch(text_of_token):
        return True
    try:
        json.loads(text_of_token, parse_constant=parse_constant, parse_float=_finite)
    except ValueError:
        return False
    return True
