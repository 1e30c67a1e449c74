"""Wrapping of lines at words: wide characters take two columns, a command is not broken."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

WIDTH: Final = 100
"""Columns of a text that no terminal shows."""
_COMMAND: Final = re.compile(
    r"trnsim (?:(?:guard|pilot|plan|prices|profile) )?[a-z-]+"
    r"(?: --[a-z][\w-]*(?: \"[^\"]*\"| [^\s;,-][^\s;,]*)?)*"
    r"|pip install [^\s;,]+|--[a-z][\w-]* (?:\"[^\"]*\"|[^\s;,]+)"
)
"""Words that one copies together: a command of trnsim, an installation, an option and its value.

A value in double quotes may hold spaces.
"""
_PLACE: Final = re.compile(r" *\S+\.\w+:\d+[.,;:)]*")
"""A word that names a line of a file, which editors and terminals open."""
_FIXED_SPACE: Final = "\ue000"
_LEAST_PATH: Final = 8
"""Characters of a path before a slash at which it may be broken; else it is broken in a name."""
_NARROWEST: Final = 8
"""Columns of text beside an indent; a narrower terminal breaks the lines."""


class Emphasis(NamedTuple):
    """The terminal's codes before and after a line of a heading; none by default."""

    start: str = ""
    end: str = ""


def columns_of(line: str) -> int:
    """Columns of a terminal that a line takes."""
    if line.isascii():
        return len(line)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in line)
    return len(line) + wide - sum(unicodedata.combining(character) > 0 for character in line)


def wrapped(
    line: str, width: int = WIDTH, indent: int = 0, hanging: int = 0, *, is_cell: bool = False
) -> list[str]:
    """A line as lines of at most `width` columns, the first behind `indent`.

    Spaces within the line stay, but where it is broken; a word that is longer than a line is broken
    as well. A command that fits on a line is not broken, nor is FILE:LINE, which may be wider than
    a line unless it `is_cell` of a table.
    """
    room = max(width - indent, _NARROWEST)
    if columns_of(line) <= room:
        return [f"{' ' * indent}{line}".rstrip()]
    rest = max(room - hanging, _NARROWEST)

    def unbroken(match: re.Match[str]) -> str:
        return match[0].replace(" ", _FIXED_SPACE) if len(match[0]) <= rest else match[0]

    pieces = _broken(_COMMAND.sub(unbroken, line), room, rest, is_cell=is_cell)
    first, *others = [piece.replace(_FIXED_SPACE, " ") for piece in pieces]
    return [" " * indent + first, *(f"{' ' * (indent + hanging)}{other}" for other in others)]


def _broken(line: str, first: int, rest: int, *, is_cell: bool) -> list[str]:
    """Pieces of a line: the first of at most `first` columns, the others of `rest`."""
    pieces = [""]
    for word in re.findall(" *[^ ]+", line):
        if pieces[-1].strip() and columns_of(pieces[-1] + word) > (rest if pieces[1:] else first):
            pieces.append("")
        pieces[-1] += word if pieces[-1] or not pieces[1:] else word.lstrip()
        if not is_cell and _PLACE.fullmatch(word):
            continue
        while columns_of(pieces[-1]) > (room := rest if pieces[1:] else first):
            cut = _cut(pieces[-1], room)
            cut = cut if is_cell else _behind_slash(pieces[-1], cut)
            pieces[-1:] = [pieces[-1][:cut], pieces[-1][cut:]]
    return pieces


def _behind_slash(line: str, cut: int) -> int:
    """The place behind the last slash of a path or an address before `cut`, not to break a name."""
    start = len(line) - len(line.lstrip())
    behind = line.rfind("/", start, cut) + 1
    return behind if behind > start + _LEAST_PATH else cut


def _cut(line: str, room: int) -> int:
    """Characters of a line that fit, at least one."""
    at = 1
    while at < len(line) and columns_of(line[: at + 1]) <= room:
        at += 1
    return at
