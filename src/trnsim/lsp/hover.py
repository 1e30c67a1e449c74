"""The documentation of the instruction below a cursor, in a few lines of `trnsim explain`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

_MODULE_ALIAS: Final = re.compile(r"(?<![\w.])(?:neuronxcc\.)?nki\.isa\s+as\s+(\w+)")
_FROM_IMPORT: Final = re.compile(
    r"^\s*from\s+(?:neuronxcc\.)?nki\s+import\s+(\([^)]*\)|.*)", re.MULTILINE
)
_IMPORTED_ISA: Final = re.compile(r"\bisa\b(?:\s+as\s+(\w+))?")
_COST: Final = re.compile(r"^## Cost\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL)
_SCHEMA: Final = "explain-instruction/1"


def instruction_at(source: str, line_text: str, column: int) -> str | None:
    """The name X of `nisa.X` at a column of a line; None without such a name.

    Names of nki.isa are read from the lines of import, so that the source need not parse.
    """
    names = {"nki.isa", "neuronxcc.nki.isa", *_MODULE_ALIAS.findall(source)}
    for import_names in _FROM_IMPORT.findall(source):
        names |= {alias or "isa" for alias in _IMPORTED_ISA.findall(import_names)}
    pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(names)))})\.(\w+)"
    for match in re.finditer(pattern, line_text):
        if match.start() <= column <= match.end():
            return match[1]
    return None


def hover_text(values: Mapping[str, Any]) -> str | None:
    """Call, values, cost and source of an instruction as Markdown; None for any other answer."""
    if values.get("schema") != _SCHEMA:
        return None
    cost = _COST.search(values["page"])
    parts = [f"```python\n{values['call']}\n```", values["values"]]
    if cost:
        parts.append(f"Cost: {cost[1]}")
    return "\n\n".join([*parts, f"Source: {values['source']}"])
