"""Text that others wrote, as part of a file's name, as a cell of a table, as lines on a terminal.

Names of kernels and models, and cells of a user's table, may hold separators of folders, formulas
of spreadsheets and sequences that command a terminal.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Final

__all__ = ["file_name", "table_cell", "table_row", "terminal_text"]

_NAME_LENGTH_MAX: Final = 120
"""Characters; file systems allow 255 bytes, and suffixes follow."""
_NOT_IN_NAMES: Final = re.compile(r"[^\w.+=@,()\[\]{}#~ -]")
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices, with any suffix."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is a formula. Source: OWASP, CSV Injection."""


def file_name(text: str) -> str:
    """One component of a path, visible and of at most 120 characters, that resembles `text`."""
    name = _NOT_IN_NAMES.sub("_", text)[:_NAME_LENGTH_MAX].strip(" ").rstrip(".")
    if name.startswith("."):
        name = f"_{name[1:]}"
    return f"_{name}" if not name or _DEVICES.fullmatch(name) else name


def table_cell(text: str) -> str:
    """A cell of a CSV file, of which no spreadsheet makes a formula; numbers stay numbers."""
    if not text.startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def table_row(row: Sequence[object]) -> list[object]:
    """A row of a CSV file, of which no spreadsheet makes a formula."""
    return [table_cell(cell) if isinstance(cell, str) else cell for cell in row]


def terminal_text(text: str) -> str:
    r"""Lines for a terminal: control characters are spelled as Python spells them, as in ``\x1b``.

    Line ends and tabs stay. So do joiners within words of other scripts; characters that reorder
    what stands beside them do not.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(character if _is_plain(character) else _spelled(character) for character in text)


def _is_plain(character: str) -> bool:
    if character in "\n\t\u200c\u200d":
        return True
    return unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(character: str) -> str:
    """The escape of Python, which above ASCII's own controls is that of JSON too."""
    number = ord(character)
    if number < ord(" "):
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number <= 0xFFFF else f"\\U{number:08x}"  # noqa: PLR2004
