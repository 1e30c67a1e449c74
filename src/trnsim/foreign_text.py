"""Text from others made safe: in names of files, on pages, in tables, on terminals, as source.

Names of kernels and models, and cells of a user's table, may hold separators of folders, formulas
of spreadsheets and sequences that command a terminal.
"""

from __future__ import annotations

import ast
import re
import unicodedata
import warnings
from collections.abc import Sequence
from typing import Final

_NAME_BYTES_MAX: Final = 120
"""Maximum number of bytes of a name in UTF-8; file systems allow 255, and suffixes follow."""
_NOT_IN_NAMES: Final = re.compile(r"[^\w.+=@,()\[\]{}#~ -]")
_DEVICES: Final = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
"""Names that Windows keeps for devices, with any suffix."""
_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A cell that begins so is a formula. Source: OWASP, CSV Injection."""
_MARKED: Final = re.compile(r"[\\`*<>|\[\]]|^(?:#|[-+](?= ))")
"""Characters of Markdown for code, emphasis, HTML, cells and links, and those that begin a heading
or an item at the start of a line; but not ``_``, which marks nothing inside a word."""
_UNUSUAL: Final = re.compile("[^\n\t -~\u200c\u200d]")
"""All but line ends, tabs, ASCII's visible characters and joiners of words."""


def file_name(text: str) -> str:
    """One component of a path, visible and of at most 121 bytes, that resembles `text`."""
    stored = _NOT_IN_NAMES.sub("_", text).encode("utf-8")[:_NAME_BYTES_MAX]
    name = stored.decode("utf-8", "ignore").lstrip(" ").rstrip(" .")
    if name.startswith("."):
        name = f"_{name[1:]}"
    return f"_{name}" if not name or _DEVICES.fullmatch(name) else name


def table_cell(text: str) -> str:
    """A cell of a CSV file that no spreadsheet takes for a formula; numbers stay numbers."""
    if not text.startswith(_FORMULA_STARTS):
        return text
    try:
        float(text)
    except ValueError:
        return f"'{text}"
    return text


def table_row(row: Sequence[object]) -> list[object]:
    """A row of a CSV file that no spreadsheet takes for formulas."""
    return [table_cell(cell) if isinstance(cell, str) else cell for cell in row]


def markdown_text(text: str) -> str:
    """Text on one line of Markdown that gives no HTML, link, cell, heading or item."""
    return _MARKED.sub(r"\\\g<0>", " ".join(text.split()))


def terminal_text(text: str) -> str:
    r"""Lines for a terminal: control characters are spelled as Python spells them, as in ``\x1b``.

    Line ends and tabs stay. So do joiners within words of other scripts; characters that reorder
    their neighbours do not.
    """
    return _UNUSUAL.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    """A character unchanged, or its escape if it commands a terminal.

    Above ASCII's own controls the escape is that of JSON, which stays JSON.
    """
    character = match[0]
    if unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Zl", "Zp"):
        return character
    if character < " ":
        return f"\\x{ord(character):02x}"
    units = character.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))


def syntax_tree(source: str | bytes) -> ast.Module:
    """The syntax tree of a user's Python, without warnings of it, such as of invalid escapes.

    Python warns of these where it runs the file; with `python -W error` they would end a reader.

    Raises:
        SyntaxError: it is no Python.
        ValueError: it has null bytes.
    """
    with warnings.catch_warnings(action="ignore"):
        return ast.parse(source)
