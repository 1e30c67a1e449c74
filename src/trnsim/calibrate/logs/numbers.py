"""Numbers in tables that programs write: 1.066 is a fraction there, and not 1,066."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from trnsim.reader import FileContent


def with_numbers(document: FileContent, names: Collection[str]) -> FileContent:
    """The table with the plain numbers of these fields read as numbers.

    A number with a unit, such as 2ms, stays text: the field's declaration reads it.
    """
    parsed = document.parsed
    if not isinstance(parsed.content, list):
        return document
    content = [
        {name: _number(cell) if name in names else cell for name, cell in row.items()}
        if isinstance(row, dict)
        else row
        for row in parsed.content
    ]
    return replace(document, parsed=replace(parsed, content=content))


def _number(cell: Any) -> Any:
    """The number that a text is, or the text."""
    if not isinstance(cell, str) or "_" in cell:
        return cell
    try:
        value = float(cell)
    except ValueError:
        return cell
    return value if math.isfinite(value) else cell
