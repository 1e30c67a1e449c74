"""What a declaration says to people: a file to fill in, and a table of its fields."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import MISSING
from typing import Any, Final

from trnsim.formatting import markdown_table
from trnsim.reader.declaration import has_default, legal_text, rule_of, typed_fields

__all__ = ["field_table", "row_template"]

_WIDTH: Final = 94


def row_template(kind: type[Any]) -> str:
    """A row of YAML whose comments say what may stand in each field; ``*`` marks required ones."""
    lines: list[str] = []
    for name, (declaration, hint) in typed_fields(kind).items():
        rule = rule_of(declaration)
        mark = "" if has_default(declaration) else "*"
        said = f"{name}{mark}: {rule.help}; legal: {legal_text(hint, rule)}"
        lines += textwrap.wrap(said, _WIDTH, initial_indent="  # ", subsequent_indent="  #   ")
        start = "  " if any(line.startswith("- ") for line in lines) else "- "
        lines.append(f"{start}{name}: {rule.example}" if rule.example else f"  # {name}:")
    return "\n".join(lines) + "\n"


def field_table(kind: type[Any]) -> str:
    """The fields of a kind of file as a table of Markdown, those of inner mappings below theirs."""
    header = ("field", "meaning", "legal", "default")
    return markdown_table(header, list(_rows(kind, "")))


def _rows(kind: type[Any], inside: str) -> Iterator[tuple[str, str, str, str]]:
    for name, (declaration, hint) in typed_fields(kind).items():
        rule = rule_of(declaration)
        names = " or ".join(f"`{inside}{one}`" for one in (name, *rule.alias))
        default = "required"
        if has_default(declaration):
            value = declaration.default
            default = "" if value in (None, MISSING, ()) else str(value)
        yield names, rule.help, legal_text(hint, rule), default
