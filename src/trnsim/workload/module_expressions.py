"""Regular expressions of other people's files, matched in a time that their length bounds.

Python's own matching tries one way after another, which takes forever for ``(a+)+$``. Where there
may be many ways, each part of an expression is tried here once at each place of a text, and gives
all places where it may end. Python's parser of expressions reads them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from functools import cache
from importlib import import_module
from typing import Any, Final

_parser: Final[Any] = import_module("re._parser")
_kinds: Final[Any] = import_module("re._constants")

_MOST_DEPTH: Final = 100
_MOST_WAYS: Final = 1e8
_NAME_CHARS: Final = 60
"""Characters of a long name of a module."""
_REPEATS: Final = (_kinds.MAX_REPEAT, _kinds.MIN_REPEAT)
_CHARACTERS: Final = (_kinds.LITERAL, _kinds.NOT_LITERAL, _kinds.ANY, _kinds.IN)
_ASSERTIONS: Final = (_kinds.ASSERT, _kinds.ASSERT_NOT)
_OTHER_KINDS: Final = (_kinds.BRANCH, _kinds.SUBPATTERN, _kinds.AT, _kinds.FAILURE)
_LEGAL_KINDS: Final = (*_REPEATS, *_CHARACTERS, *_ASSERTIONS, *_OTHER_KINDS)
_IS_OF_CATEGORY: Final[dict[Any, Callable[[str], Any]]] = {
    getattr(_kinds, f"CATEGORY_{name}"): re.compile(expression).match
    for name, expression in {
        "DIGIT": r"\d",
        "NOT_DIGIT": r"\D",
        "SPACE": r"\s",
        "NOT_SPACE": r"\S",
        "WORD": r"\w",
        "NOT_WORD": r"\W",
    }.items()
}
_IS_AT: Final[dict[Any, Callable[[str, int], Any]]] = {
    getattr(_kinds, f"AT_{name}"): re.compile(expression).match
    for name, expression in {
        "BEGINNING": "^",
        "BEGINNING_STRING": r"\A",
        "BOUNDARY": r"\b",
        "NON_BOUNDARY": r"\B",
        "END": "$",
        "END_STRING": r"\Z",
    }.items()
}


class ModuleExpression:
    """A regular expression, for names of modules.

    Attributes:
        match: the function that is True for a text, without line ends, whose start matches.
    """

    def __init__(self, expression: str) -> None:
        """An expression in Python's syntax.

        Raises:
            re.error: the text is no expression, or a part of it depends on the match of another.
        """
        pattern = re.compile(expression)
        self._cases = (str.lower, str.upper) if pattern.flags & re.IGNORECASE else (str,)
        self._parts = _parser.parse(expression)
        _check(self._parts, expression)
        self._pattern = pattern if _ways(self._parts) <= _MOST_WAYS else None
        self.match = cache(self._match)

    def _match(self, text: str) -> bool:
        if self._pattern is not None:
            return self._pattern.match(text) is not None
        return bool(_Matching(text, self._cases).ends(self._parts, 0))


def _check(parts: Any, expression: str, depth: int = 0) -> None:
    """Refuse parts that are not matched here, and those nested too deeply.

    Raises:
        re.error: names the part.
    """
    if depth > _MOST_DEPTH:
        raise re.error(f"more than {_MOST_DEPTH} parts in one another", expression)
    for kind, operand in parts:
        if kind not in _LEGAL_KINDS or (kind is _kinds.SUBPATTERN and (operand[1] or operand[2])):
            name = str(kind).lower().replace("_", " ")
            raise re.error(f"its {name} is not matched here", expression)
        for inner in _inner(kind, operand):
            _check(inner, expression, depth + 1)


def _inner(kind: Any, operand: Any) -> Iterable[Any]:
    """The sequences of parts in a part."""
    if kind is _kinds.BRANCH:
        return list(operand[1])
    return [operand[-1]] if kind in (*_REPEATS, *_ASSERTIONS, _kinds.SUBPATTERN) else []


def _ways(parts: Any) -> float:
    """The most ways in which Python tries to match a sequence of parts with a name."""
    return math.prod((_ways_of(kind, operand) for kind, operand in parts), start=1.0)


def _ways_of(kind: Any, operand: Any) -> float:
    ways = sum(map(_ways, _inner(kind, operand)))
    if kind not in _REPEATS:
        return max(ways, 1)
    _, most_repeats, body = operand
    if most_repeats == 1:
        return 1 + ways
    return _NAME_CHARS if len(body) == 1 and body[0][0] in _CHARACTERS else math.inf


class _Matching:
    """Matches of the parts of an expression with one text."""

    def __init__(self, text: str, cases: tuple[Callable[[str], str], ...]) -> None:
        self._text, self._cases = text, cases
        self._ends: dict[tuple[int, int], frozenset[int]] = {}

    def ends(self, parts: Any, start: int) -> frozenset[int]:
        """The places where a sequence of parts that begins at `start` may end."""
        key = id(parts), start
        if key not in self._ends:
            places = {start}
            for kind, operand in parts:
                places = {end for place in places for end in self._part(kind, operand, place)}
            self._ends[key] = frozenset(places)
        return self._ends[key]

    def _part(self, kind: Any, operand: Any, place: int) -> Iterable[int]:
        if kind in _REPEATS:
            return self._repeated(place, *operand)
        if kind in _CHARACTERS:
            is_there = place < len(self._text) and self._fits(kind, operand, self._text[place])
            return (place + 1,) if is_there else ()
        if kind in _ASSERTIONS:
            return (place,) if self._holds(place, *operand) is (kind is _kinds.ASSERT) else ()
        if kind is _kinds.AT:
            return (place,) if _IS_AT[operand](self._text, place) else ()
        return {end for inner in _inner(kind, operand) for end in self.ends(inner, place)}

    def _repeated(self, place: int, least_repeats: int, most_repeats: int, body: Any) -> set[int]:
        places = {place}
        for _ in range(least_repeats):
            next_places = self._all_ends(body, places)
            if next_places == places:
                break
            places = next_places
        new_places, optional_repeats = places, most_repeats - least_repeats
        while new_places and optional_repeats:
            new_places, optional_repeats = (
                self._all_ends(body, new_places) - places,
                optional_repeats - 1,
            )
            places = places | new_places
        return places

    def _all_ends(self, body: Any, starts: set[int]) -> set[int]:
        return {end for start in starts for end in self.ends(body, start)}

    def _holds(self, place: int, direction: int, body: Any) -> bool:
        """True if `body` matches from `place` on (`direction` 1), or ends there (-1)."""
        if direction > 0:
            return bool(self.ends(body, place))
        start = place - body.getwidth()[0]
        return start >= 0 and place in self.ends(body, start)

    def _fits(self, kind: Any, operand: Any, character: str) -> bool:
        if kind is _kinds.ANY:
            return True
        options = operand if kind is _kinds.IN else [(_kinds.LITERAL, operand)]
        is_negated = kind is _kinds.NOT_LITERAL or options[0][0] is _kinds.NEGATE
        forms = {case(character) for case in self._cases}
        return any(_is_in(form, *option) for form in forms for option in options) != is_negated


def _is_in(character: str, kind: object, operand: Any) -> bool:
    """True if a character equals a literal, lies in a range, or is of a category."""
    if kind is _kinds.LITERAL:
        return bool(ord(character) == operand)
    if kind is _kinds.RANGE:
        return bool(operand[0] <= ord(character) <= operand[1])
    return kind is _kinds.CATEGORY and _IS_OF_CATEGORY[operand](character) is not None
