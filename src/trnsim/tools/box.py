"""Tables in boxes as neuron-ls draws them: centred titles, cells aligned to the left."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

Row = tuple[str, ...]


def box(header: Sequence[str], groups: Sequence[Sequence[Row]], *, is_ruled: bool = False) -> str:
    """`groups` of rows below `header`, whose cells may have several lines.

    Args:
        header: one cell per column.
        groups: groups of rows, in which a cell that would repeat the cell above it is blank.
        is_ruled: True for a line of dashes between groups.
    """
    titles = [cell.split("\n") for cell in header]
    height = max(len(lines) for lines in titles)
    rows = [row for group in groups for row in group]
    widths = [
        max([*map(len, lines), *(len(row[column]) for row in rows)])
        for column, lines in enumerate(titles)
    ]
    rule = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
    heads = [
        _line([_middle(lines[row] if row < len(lines) else "", width)
               for lines, width in zip(titles, widths, strict=True)])
        for row in range(height)
    ]  # fmt: skip
    parts = [rule, *heads, rule]
    for group, next_group in pairwise([*groups, ()]):
        parts += [_line([c.ljust(w) for c, w in zip(row, widths, strict=True)]) for row in group]
        if is_ruled and next_group:
            parts.append(rule)
    return "\n".join([*parts, rule])


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _middle(text: str, width: int) -> str:
    """`text` centred in `width`; the larger half of an odd number of spaces follows it."""
    before = (width - len(text)) // 2
    return " " * before + text + " " * (width - len(text) - before)
