"""A declaration as a file to fill in, and as a table of its fields."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterable, Iterator
from typing import Any, Final

from trnsim.formatting import markdown_table
from trnsim.reader.declaration import DeclaredField, fields_of

_WIDTH: Final = 94


def row_template(kind: type[Any]) -> str:
    """A row of YAML with a comment on each field; ``*`` marks required fields."""
    lines: list[str] = []
    for name, field in fields_of(kind).items():
        mark = "" if field.is_optional else "*"
        text = f"{name}{mark}: {field.rule.help}; legal: {field.legal}"
        start = "  " if lines else "- "
        lines += textwrap.wrap(text, _WIDTH, initial_indent="  # ", subsequent_indent="  #   ")
        example = field.rule.example
        lines.append(f"{start}{name}: {example}" if example else f"  # {name}:")
    return "\n".join(lines) + "\n"


def field_table(kind: type[Any], names: Collection[str] | None = None) -> str:
    """The fields of a kind of file as a table of Markdown; ``*`` marks required fields.

    `names` selects fields; None for all.
    """
    fields = [field for name, field in fields_of(kind).items() if names is None or name in names]
    return markdown_table(("field", "meaning", "legal", "default"), list(_rows(fields)))


def _rows(fields: Iterable[DeclaredField]) -> Iterator[tuple[str, str, str, str]]:
    for field in fields:
        names = " or ".join(f"`{name}`" for name in field.names)
        has_default = field.is_optional and isinstance(field.default, int | float | str)
        default = str(field.default) if has_default else ""
        yield names + ("" if field.is_optional else " *"), field.rule.help, field.legal, default
