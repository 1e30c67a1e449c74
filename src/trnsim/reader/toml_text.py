"""TOML, with days and times as text in the form of ISO 8601."""

from __future__ import annotations

import re
import tomllib
from datetime import date, datetime, time
from itertools import takewhile
from typing import Any

from trnsim.reader.parsed import Keys, Malformed, ParsedText


def parse_toml(text: str) -> ParsedText:
    """The tables of a TOML text.

    Raises:
        Malformed: it is not TOML.
    """
    try:
        content = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        place = re.search(r" \(at (?:line (\d+), column \d+|end of document)\)", str(error))
        line = int(place[1]) if place and place[1] else text.count("\n") + 1 if place else 1
        why = str(error)[: place.start()] if place else str(error)
        raise Malformed(line, f"not TOML: {why}") from error
    return ParsedText(_without_dates(content), lambda keys: _line(text, keys))


def _without_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_dates(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_dates(item) for item in value]
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _line(text: str, keys: Keys) -> int:
    """The first line of the statement of the value under `keys`; if missing, of its table.

    A statement is the shortest run of lines that is TOML of its own.
    """
    table: Keys = ()
    counts: dict[Keys, int] = {}
    best, line_of_best, start, statement = 0, 1, 1, ""
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        start = start if statement else number
        statement += line
        try:
            content = tomllib.loads(statement)
        except ValueError:
            continue
        is_header, statement = statement.lstrip().startswith("["), ""
        path = _path(content)
        if is_header:
            table = _numbered(path, counts, is_item=line.lstrip().startswith("[["))
        full_path = table if is_header else (*table, *path)
        shared = _shared(full_path, keys)
        if shared > best:
            best, line_of_best = shared, start
    return line_of_best


def _path(content: Any) -> Keys:
    """The names that a statement nests its value in: ``a.b = 1`` is ("a", "b")."""
    path: list[str | int] = []
    while isinstance(content, dict) and len(content) == 1:
        ((name, content),) = content.items()
        path.append(name)
        if isinstance(content, list):
            break
    return tuple(path)


def _numbered(path: Keys, counts: dict[Keys, int], *, is_item: bool) -> Keys:
    """The keys of a table, with the index of the last item of each array of tables on its way."""
    keys: list[str | int] = []
    for at, name in enumerate(path):
        keys.append(name)
        array = tuple(keys)
        if is_item and at == len(path) - 1:
            counts[array] = counts.get(array, -1) + 1
        if array in counts:
            keys.append(counts[array])
    return tuple(keys)


def _shared(path: Keys, keys: Keys) -> int:
    """The length of the common prefix of two key sequences."""
    pairs = zip(path, keys, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
