"""The documentation of the instruction below a cursor, in a few lines of `trnsim explain`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["hover_text", "instruction_at"]

_ALIAS: Final = re.compile(
    r"^\s*(?:import\s+(?:nki|neuronxcc\.nki)\.isa\s+as\s+(\w+)"
    r"|from\s+(?:nki|neuronxcc\.nki)\s+import\s+isa(?:\s+as\s+(\w+))?)",
    re.MULTILINE,
)
_COST: Final = re.compile(r"^## Cost\n\n(.+?)\n\n", re.MULTILINE | re.DOTALL)
_SCHEMA: Final = "explain-instruction/1"


def instruction_at(source: str, line_text: str, column: int) -> str | None:
    """The name X of `nisa.X` around a column of a line; None where there is none.

    The source need not parse: names of nki.isa are read from its lines of import.
    """
    names = {"nki.isa"} | {new or plain or "isa" for new, plain in _ALIAS.findall(source)}
    pattern = rf"(?<![\w.])(?:{'|'.join(map(re.escape, sorted(names)))})\.(\w+)"
    for match in re.finditer(pattern, line_text):
        if match.start() <= column <= match.end():
            return match[1]
    return None


def hover_text(values: Mapping[str, Any]) -> str | None:
    """Markdown of an answer about an instruction: call, values, cost, source; else None."""
    if values.get("schema") != _SCHEMA:
        return None
    cost = _COST.search(values["page"])
    parts = [f"```python\n{values['call']}\n```", values["values"]]
    if cost:
        parts.append(f"Cost: {cost[1]}")
    return "\n\n".join([*parts, f"Source: {values['source']}"])
