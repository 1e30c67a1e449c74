"""What a declaration says to people: a file to fill in, and a table of its fields."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from typing import Any, Final

from trnsim.formatting import markdown_table
from trnsim.reader.declaration import fields_of

__all__ = ["field_table", "row_template"]

_WIDTH: Final = 94


def row_template(kind: type[Any]) -> str:
    """A row of YAML whose comments say what may stand in each field; ``*`` marks required ones."""
    lines: list[str] = []
    for name, one in fields_of(kind).items():
        said = f"{name}{'' if one.is_optional else '*'}: {one.rule.help}; legal: {one.legal}"
        start = "  " if lines else "- "
        lines += textwrap.wrap(said, _WIDTH, initial_indent="  # ", subsequent_indent="  #   ")
        example = one.rule.example
        lines.append(f"{start}{name}: {example}" if example else f"  # {name}:")
    return "\n".join(lines) + "\n"


def field_table(kind: type[Any]) -> str:
    """The fields of a kind of file as a table of Markdown; ``*`` marks those it must have."""
    return markdown_table(("field", "meaning", "legal", "default"), list(_rows(kind)))


def _rows(kind: type[Any]) -> Iterator[tuple[str, str, str, str]]:
    for one in fields_of(kind).values():
        names = " or ".join(f"`{name}`" for name in one.names)
        default = str(one.default) if one.is_optional and one.default not in (None, ()) else ""
        yield names + ("" if one.is_optional else " *"), one.rule.help, one.legal, default
