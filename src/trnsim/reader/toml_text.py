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
    return ParsedText(_dates_as_text(content), lambda keys: _line(text, keys))


def _dates_as_text(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _dates_as_text(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_dates_as_text(item) for item in value]
    return value.isoformat() if isinstance(value, date | datetime | time) else value


def _line(text: str, keys: Keys) -> int:
    """The first line of the statement that holds the value under `keys`, or else its table.

    A statement is the shortest run of lines that is valid TOML alone.
    """
    table: Keys = ()
    counts: dict[Keys, int] = {}
    longest_common, statement_line, start, statement = 0, 1, 1, ""
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
            table = _table_keys(path, counts, is_item=line.lstrip().startswith("[["))
        full_path = table if is_header else (*table, *path)
        common_length = _common_length(full_path, keys)
        if common_length > longest_common:
            longest_common, statement_line = common_length, start
    return statement_line


def _path(content: Any) -> Keys:
    """The names around the value of a statement, outermost first: ``a.b = 1`` has ("a", "b")."""
    path: list[str | int] = []
    while isinstance(content, dict) and len(content) == 1:
        ((name, content),) = content.items()
        path.append(name)
        if isinstance(content, list):
            break
    return tuple(path)


def _table_keys(path: Keys, counts: dict[Keys, int], *, is_item: bool) -> Keys:
    """The keys of a table, with the index of the last item of each array of tables on its way."""
    keys: list[str | int] = []
    for position, name in enumerate(path):
        keys.append(name)
        array = tuple(keys)
        if is_item and position == len(path) - 1:
            counts[array] = counts.get(array, -1) + 1
        if array in counts:
            keys.append(counts[array])
    return tuple(keys)


def _common_length(path: Keys, keys: Keys) -> int:
    """The length of the common prefix of two key sequences."""
    pairs = zip(path, keys, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
