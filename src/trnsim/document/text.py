"""The writer of text: a document in any width, wrapped at words.

A table that is wider than the text wraps the cells of its widest columns; where that does not help,
each row becomes a list of its cells. Text that others wrote cannot command the terminal
(`foreign_text.terminal_text`). Widths are in columns of the terminal: a wide character of Unicode
takes two.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from trnsim.document.answer import (
    Block,
    Column,
    Document,
    Drawing,
    Figure,
    FoldedBlocks,
    Items,
    Mark,
    MonospaceLines,
    Note,
    PageLink,
    Table,
    Words,
)
from trnsim.document.wrapping import WIDTH, Emphasis, columns_of, wrapped
from trnsim.foreign_text import terminal_text

__all__ = ["WIDTH", "section_text", "text", "words_text", "wrapped"]

_GAP: Final = 2
_PLAIN: Final = Emphasis()
_LEAST_CELL_WIDTH: Final = 12
"""Width below which no cell is narrowed, unless its text is shorter."""
_LONG_WORD_WIDTH: Final = 24
"""Width from which a word of a cell, such as a path, may be broken to keep the table a table."""


def text(document: Document, width: int = WIDTH, emphasis: Emphasis = _PLAIN) -> str:
    """The document in lines of at most `width` columns, without a line end."""
    text_sections = (section for section in document.sections if section.place != "page")
    parts = (
        section_text(
            "" if section.heading_place == "page" else section.heading,
            section.blocks,
            width,
            emphasis,
        )
        for section in text_sections
    )
    return "\n\n".join(part for part in parts if part)


def section_text(
    heading: str, blocks: Sequence[Block], width: int = WIDTH, emphasis: Emphasis = _PLAIN
) -> str:
    """Blocks below each other, below their heading."""
    lines = _emphasise(wrapped(words_text(heading), width), emphasis) if heading else []
    for block in blocks:
        lines += _lines(block, width, emphasis)
    return "\n".join(lines)


def _emphasise(lines: Iterable[str], emphasis: Emphasis) -> list[str]:
    return [f"{emphasis.start}{line}{emphasis.end}" for line in lines]


def words_text(words: Words) -> str:
    """The text of words in one line; each `Mark` that `is_below` begins a further line."""
    if isinstance(words, str | Figure | PageLink):
        line_text = terminal_text(words if isinstance(words, str) else words.words)
        return " ".join(line_text.split()) if "\n" in line_text else line_text
    if isinstance(words, Mark):
        mark_text = words_text(words.words)
        return f"\n{mark_text}" if words.is_below and mark_text else mark_text
    return "".join(map(words_text, words))


def _lines(block: Block, width: int, emphasis: Emphasis) -> list[str]:
    lines: list[str] = []
    if block.place == "page":
        return lines
    match block:
        case Note():
            line_text = words_text(block.words).replace("\n", " ")
            lines = wrapped(line_text, width, block.indent, block.hanging)
            lines = _emphasise(lines, emphasis) if block.kind == "strong" else lines
        case Items():
            lines = _items(block, width)
        case Table():
            lines = _table(block, width, emphasis)
        case FoldedBlocks():
            lines = [line for part in block.blocks for line in _lines(part, width, emphasis)]
        case MonospaceLines():
            lines = [terminal_text(line) for line in block.lines.splitlines()]
        case Drawing():
            pass
    return lines


def _items(block: Items, width: int) -> list[str]:
    lines: list[str] = []
    for number, item in enumerate(block.items, 1):
        mark = f"[{number}] " if block.is_numbered else ""
        line_text = words_text(item).replace("\n", " ")
        lines += wrapped(mark + line_text, width, block.indent, 4)
    return lines


def _pad(cell: str, width: int, *, is_right: bool) -> str:
    space = " " * (width - columns_of(cell))
    return space + cell if is_right else cell + space


def _table(block: Table, width: int, emphasis: Emphasis) -> list[str]:
    indices = [index for index, column in enumerate(block.columns) if column.place != "page"]
    columns = [block.columns[index] for index in indices]
    rows = [
        [words_text(row[index]) for index in indices]
        for row in block.rows[: block.row_limit or None]
    ]
    header = [words_text(column.name) for column in columns]
    are_right = [column.is_right for column in columns]
    room = width - block.indent
    widths = _widths([header, *rows], columns, room)
    lines: list[str] = []
    if widths is None:
        for number, row in enumerate(rows):
            lines += _card(header, row, room)
            lines += _row_notes(block, number, room)
    else:
        lines += _emphasise(_row(header, widths, are_right) if any(header) else [], emphasis)
        for number, row in enumerate(rows):
            lines += _row(row, widths, are_right)
            lines += _row_notes(block, number, room)
    return [f"{' ' * block.indent}{line}".rstrip() for line in lines]


def _row_notes(block: Table, number: int, room: int) -> list[str]:
    return [
        line
        for note in block.row_notes.get(number, ())
        for line in wrapped(words_text(note), room, 4)
    ]


def _widths(
    rows: Sequence[Sequence[str]], columns: Sequence[Column], room: int
) -> list[int] | None:
    """The width of each column of the table; None where no wrapping makes them fit.

    Columns of words are narrowed before columns of numbers. A word is broken only where wrapping
    between words does not suffice.
    """
    cells = [
        [part for cell in column for part in cell.split("\n")] for column in zip(*rows, strict=True)
    ]
    widths = [max(map(columns_of, column)) for column in cells]
    word_widths = [
        max(columns_of(word) for part in column for word in part.split(" ")) for column in cells
    ]
    number_widths = [
        width if column.is_number else 0 for width, column in zip(widths, columns, strict=True)
    ]
    for least_widths in (
        map(max, word_widths, number_widths),
        (max(_LONG_WORD_WIDTH, width) for width in number_widths),
        word_widths,
    ):
        new_widths = _narrow(widths, list(least_widths), room)
        if new_widths is not None:
            return new_widths
    return _narrow(widths, [_LONG_WORD_WIDTH] * len(widths), room)


def _narrow(widths: Sequence[int], least_widths: Sequence[int], room: int) -> list[int] | None:
    """`widths` reduced to fit into `room`, the widest first; None if the least are too wide."""
    new_widths = list(widths)
    least_widths = [
        min(width, max(_LEAST_CELL_WIDTH, limit))
        for width, limit in zip(widths, least_widths, strict=True)
    ]
    for _ in range(sum(widths) + _GAP * (len(widths) - 1) - room):
        widest = max(
            range(len(new_widths)),
            key=lambda index: (new_widths[index] > least_widths[index], new_widths[index]),
        )
        if new_widths[widest] == least_widths[widest]:
            return None
        new_widths[widest] -= 1
    return new_widths


def _row(cells: Sequence[str], widths: Sequence[int], are_right: Sequence[bool]) -> list[str]:
    """A row of a table, whose cells may have several lines."""
    parts = [
        [line for part in cell.split("\n") for line in wrapped(part, width, is_cell=True)]
        for cell, width in zip(cells, widths, strict=True)
    ]
    gap = " " * _GAP
    return [
        gap.join(
            _pad(part[number] if number < len(part) else "", width, is_right=is_right)
            for part, width, is_right in zip(parts, widths, are_right, strict=True)
        ).rstrip()
        for number in range(max(map(len, parts), default=0))
    ]


def _card(header: Sequence[str], row: Sequence[str], room: int) -> list[str]:
    """A row as a list: its first cell, then a line for each other cell, behind its header."""
    lines = wrapped(row[0].replace("\n", "; "), room)
    for name, cell in zip(header[1:], row[1:], strict=True):
        if cell:
            line_text = cell.replace("\n", "; ")
            lines += wrapped(f"{name}: {line_text}" if name else line_text, room, 2, 2)
    return lines
