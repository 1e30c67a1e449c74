"""Tables on narrow pages: one that is too wide becomes a list for each row, as in a text.

No script measures a table, so its least width is estimated from its cells. It gets the class of the
first width in `WIDTHS_PX` that holds it, and each class of a page has a rule that applies below
that width.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from typing import Final

WIDTHS_PX: Final = (340, *range(360, 880, 20), 940, 1040, 1140, 1240, 1500)
_LETTER_PX: Final = 7.4
"""Width of a letter or digit at the size of tables, in the widest of the fonts of pages."""
_HEAD_LETTER_PX: Final = 7.2
"""Width of a letter of a column head, in the widest of the fonts."""
_ROOM_PX: Final = 18
"""Room right of each cell."""
_LEAST_PX: Final = 92
"""Minimum width of a column of words, `_ROOM_PX` included."""
_TAG: Final = re.compile(r"<[^>]*>")
_CLASS: Final = re.compile(r'<table\b[^>]*\bclass="(?:[^">]* )?w(\d+)"')
_PANEL_PX: Final = 31
"""Padding and borders of a panel, and one pixel more than the width at which a table is a list."""
_RULE: Final = """@container (max-width: {px}px) {{
.w{px}, .w{px} tbody, .w{px} tr, .w{px} td {{ display: block; width: auto; min-width: 0 }}
.w{px} thead {{ display: none }}
.w{px} tr {{ border-bottom: 1px solid var(--line); padding: 5px 0 }}
.w{px} td, .w{px} td.text, .w{px} td.number {{ display: flow-root; border: 0;
  padding: 1px 0 1px 44%; max-width: none; text-align: left; white-space: normal;
  overflow-wrap: anywhere }}
.w{px} td::before {{ content: attr(data-label); float: left; width: 75%; margin-left: -78.57%;
  color: var(--soft); font-size: 12px; overflow-wrap: anywhere }}
.w{px} td:empty {{ display: none }}
}}
.columns section:has(.w{px}) {{ min-width: min(100%, {panel_px}px) }}
"""


def rules(body: str) -> str:
    """The rules of the classes of a page's tables."""
    widths_px = {int(px) for px in _CLASS.findall(body)}
    return "".join(_RULE.format(px=px, panel_px=px + _PANEL_PX) for px in sorted(widths_px))


def width_class(
    heads: Sequence[str], are_numbers: Sequence[bool], rows: Sequence[Sequence[str]]
) -> str:
    """The class of a table by its headers and cells, as markup; "" for one that needs none."""
    by_column = zip(*rows, strict=True) if rows else ((),) * len(heads)
    columns = zip(heads, are_numbers, by_column, strict=True)
    needed_px = sum(_column_px(head, is_number, cells) for head, is_number, cells in columns)
    if needed_px <= WIDTHS_PX[0] - _ROOM_PX:
        return ""
    return f"w{next((px for px in WIDTHS_PX if needed_px <= px), WIDTHS_PX[-1])}"


def _column_px(head: str, is_number: bool, cells: Sequence[str]) -> float:
    """The least width of a column: numbers are not broken, words between each other."""
    texts = [unescape(_TAG.sub(" ", cell)) for cell in cells]
    if is_number:
        longest = max(map(len, texts), default=0)
        return max(_LETTER_PX * longest, _HEAD_LETTER_PX * len(head)) + _ROOM_PX
    words = [len(word) for text in texts for word in text.split()]
    heads = [len(word) for word in head.split()]
    longest_px = max(_LETTER_PX * max(words, default=0), _HEAD_LETTER_PX * max(heads, default=0))
    return max(longest_px + _ROOM_PX, _LEAST_PX)
