"""An inventory to fill in: every field with its meaning, unit and legal values."""

from __future__ import annotations

import textwrap
from typing import Final

from trnsim.decide.inventory.fields import FIELDS, Field

__all__ = ["template"]

_WIDTH: Final = 98
_HEAD: Final = """\
# An inventory for `trnsim assess`: a row for each workload. The same fields as the first line of a
# CSV file are legal too. A field that stands behind a # may be left out or filled in; one with a *
# has to be there. Of the three volumes a row has one. Paths lie in or below this file's folder.
"""


def template() -> str:
    """A YAML inventory of one workload, whose comments say what may stand in each field.

    It is legal where a ``config.json`` lies beside it.
    """
    rows = [_row(field, is_first=field is FIELDS[0]) for field in FIELDS]
    return _HEAD + "\n".join(rows) + "\n"


def _row(field: Field, *, is_first: bool) -> str:
    """The comment of a field, and the field."""
    mark = "*" if field.is_required else ""
    unit = f" [{field.unit}]" if field.unit else ""
    said = f"{field.name}{mark}: {field.meaning}{unit}; legal: {field.legal}"
    comment = textwrap.wrap(said, _WIDTH - 4, initial_indent="  # ", subsequent_indent="  #   ")
    start = "- " if is_first else "  "
    line = f"{start}{field.name}: {field.example}" if field.example else f"  # {field.name}:"
    return "\n".join([*comment, line])
