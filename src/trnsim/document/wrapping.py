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
    wide_count = sum(unicodedata.east_asian_width(character) in "WF" for character in line)
    combining_count = sum(unicodedata.combining(character) > 0 for character in line)
    return len(line) + wide_count - combining_count


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
    next_room = max(room - hanging, _NARROWEST)

    def with_fixed_spaces(match: re.Match[str]) -> str:
        return match[0].replace(" ", _FIXED_SPACE) if len(match[0]) <= next_room else match[0]

    pieces = _break_line(_COMMAND.sub(with_fixed_spaces, line), room, next_room, is_cell=is_cell)
    first_piece, *next_pieces = [piece.replace(_FIXED_SPACE, " ") for piece in pieces]
    next_indent = " " * (indent + hanging)
    return [" " * indent + first_piece, *(next_indent + piece for piece in next_pieces)]


def _break_line(line: str, first_room: int, next_room: int, *, is_cell: bool) -> list[str]:
    """Pieces of a line: the first of at most `first_room` columns, the others of `next_room`."""
    pieces = [""]
    for word in re.findall(" *[^ ]+", line):
        room = next_room if pieces[1:] else first_room
        if pieces[-1].strip() and columns_of(pieces[-1] + word) > room:
            pieces.append("")
        pieces[-1] += word if pieces[-1] or not pieces[1:] else word.lstrip()
        if not is_cell and _PLACE.fullmatch(word):
            continue
        while columns_of(pieces[-1]) > (room := next_room if pieces[1:] else first_room):
            cut = _cut(pieces[-1], room)
            cut = cut if is_cell else _cut_after_slash(pieces[-1], cut)
            pieces[-1:] = [pieces[-1][:cut], pieces[-1][cut:]]
    return pieces


def _cut_after_slash(line: str, cut: int) -> int:
    """The place after the last slash of a path or an address before `cut`, not to break a name."""
    start = len(line) - len(line.lstrip())
    new_cut = line.rfind("/", start, cut) + 1
    return new_cut if new_cut > start + _LEAST_PATH else cut


def _cut(line: str, room: int) -> int:
    """Characters of a line that fit, at least one."""
    count = 1
    while count < len(line) and columns_of(line[: count + 1]) <= room:
        count += 1
    return count
