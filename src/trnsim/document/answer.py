"""A document: what a command answers, as one object from which all of its files are made.

    Document   title, subtitle, values, schema, sections, rows
    Section    heading, blocks
    block      Note, Items, Table, Drawing, MonospaceLines, FoldedBlocks
    Words      a text, or a sequence of texts, figures, marks and links

`values` is the answer as JSON. Blocks are its arrangement for people; a figure of theirs names the
place in `values` that it was read from. A block or column may be of the text alone, or of the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

Place: TypeAlias = Literal["everywhere", "text", "page"]
"""The outputs that show a block: text and page, or one of the two."""


@dataclass(frozen=True)
class Figure:
    """A value in words.

    Attributes:
        value: the value, in the unit of its place; None where it is not known.
        words: the value as people read it, with its unit unless a header names that.
        of: the JSON pointer of the value in the document's `values`; "" for a value of no place.
    """

    value: float | int | str | None
    words: str
    of: str = ""


@dataclass(frozen=True)
class Mark:
    """Words with a class of the page, "soft", "code", "verdict go"; `is_below`: below others."""

    words: Words
    kind: str = "soft"
    is_below: bool = False


@dataclass(frozen=True)
class PageLink:
    """Words that lead to a section of the page, "#ANCHOR", or to a file beside it."""

    words: str
    target: str


Words: TypeAlias = "str | Figure | Mark | PageLink | Sequence[Words]"
Cell: TypeAlias = Words
"""A cell of a table."""


@dataclass(frozen=True)
class Note:
    """A paragraph.

    Attributes:
        indent: columns before its first line in a text.
        hanging: further columns before its other lines.
        kind: its CSS class on a page.
    """

    words: Words
    indent: int = 0
    hanging: int = 4
    kind: str = ""
    place: Place = "everywhere"


@dataclass(frozen=True)
class Items:
    """A list; in a text each item begins a line, with its number if `is_numbered`."""

    items: Sequence[Words]
    indent: int = 0
    is_numbered: bool = False
    kind: str = ""
    place: Place = "everywhere"


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: its header.
        is_number: whether its cells are numbers, which the page aligns to the right.
        help: a sentence that the page shows above the header.
        is_right: whether the text aligns its cells to the right as well.
    """

    name: str
    is_number: bool = False
    help: str = ""
    place: Place = "everywhere"
    is_right: bool = False


@dataclass(frozen=True)
class Table:
    """Columns and rows of cells, a cell for each column.

    Attributes:
        indent: columns before each line in a text.
        kind: its CSS class on a page.
        marked: CSS classes of rows on a page, by the row's index.
        row_notes: notes below a row in a text, by the row's index.
        row_limit: maximum number of rows in a text; 0 for all.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    indent: int = 0
    kind: str = ""
    marked: Mapping[int, str] = field(default_factory=dict[int, str])
    row_notes: Mapping[int, Sequence[str]] = field(default_factory=dict[int, Sequence[str]])
    row_limit: int = 0
    place: Place = "everywhere"


@dataclass(frozen=True)
class Drawing:
    """A chart of `document.drawing`: markup, for the page alone."""

    markup: str
    is_wide: bool = False
    place: Place = "page"


@dataclass(frozen=True)
class MonospaceLines:
    """Lines as they are, in letters of one width."""

    lines: str
    place: Place = "everywhere"


@dataclass(frozen=True)
class FoldedBlocks:
    """Blocks that the page shows once its `summary` is opened."""

    summary: str
    blocks: Sequence[Block]
    place: Place = "everywhere"


Block: TypeAlias = Note | Items | Table | Drawing | MonospaceLines | FoldedBlocks


@dataclass(frozen=True)
class Section:
    """Blocks below each other; in the text a blank line stands between two sections.

    Attributes:
        heading: its title; "" for none.
        anchor: the name by which links lead to it.
        is_column: whether it stands beside its neighbours on a wide page.
        place: the outputs that show the section.
        heading_place: the outputs that show its heading.
    """

    heading: str
    blocks: Sequence[Block]
    anchor: str = ""
    is_column: bool = False
    place: Place = "everywhere"
    heading_place: Place = "everywhere"


@dataclass(frozen=True)
class Document:
    """An answer.

    Attributes:
        title: its heading on the page; the text begins with the first section.
        values: the answer as plain values, by `document.values.plain`.
        subtitle: beside the title.
        rows: the table for spreadsheets; None for the first table of the sections.
        schema: the name and version of the schema of `values`, as plan-train/1.
    """

    title: str
    values: Any
    sections: Sequence[Section]
    subtitle: str = ""
    rows: Table | None = None
    schema: str = ""


_BAR: Final = "|"


def columns(
    names: str, *, numbers_from: int = 1, numbers_to: int | None = None
) -> tuple[Column, ...]:
    """Columns by their names, divided by "|"; those of a slice hold numbers.

    >>> [column.name for column in columns("platform | copies | USD")]
    ['platform', 'copies', 'USD']
    """
    headers = [name.strip() for name in names.split(_BAR)]
    numbers = set(range(len(headers))[numbers_from:numbers_to])
    return tuple(Column(name, is_number=index in numbers) for index, name in enumerate(headers))


def label_table(rows: Sequence[tuple[str, Cell]], indent: int = 0) -> Table:
    """A table of two columns without headers: a label and its cell in each row."""
    return Table(columns(_BAR, numbers_from=2), rows, indent)


def records(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Table:
    """A table for spreadsheets: a row for each mapping of the columns `names` to values.

    Raises:
        KeyError: a row has no value of a column.
    """
    cells = [[_figure(row[name]) for name in names] for row in rows]
    return Table([Column(name) for name in names], cells)


def _figure(value: Any) -> Figure:
    """A figure of no place; a value that is not known has no words."""
    return Figure(value, "" if value is None else str(value))
