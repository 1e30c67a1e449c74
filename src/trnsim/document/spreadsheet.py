"""The writer of CSV: a table of a document, a line for each row, values and not their words."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from trnsim.document.answer import Cell, Document, Figure, FoldedBlocks, Mark, PageLink, Table
from trnsim.document.text import words_text
from trnsim.foreign_text import table_row


def spreadsheet(document: Document) -> str:
    """The document's rows, else those of its first table, below a line of column names.

    A figure is its value; what is not known is an empty cell. No cell is a formula. Columns of the
    text alone are left out.
    """
    table = document.rows or _first_table(document)
    lines = io.StringIO()
    writer = csv.writer(lines, lineterminator="\n")
    if table is not None:
        indices = [index for index, column in enumerate(table.columns) if column.place != "text"]
        writer.writerow(table_row([table.columns[index].name for index in indices]))
        writer.writerows(
            table_row([cell_value(row[index]) for index in indices]) for row in table.rows
        )
    return lines.getvalue()


def cell_value(cell: Cell) -> str | int | float:
    """The content of a spreadsheet's cell."""
    if isinstance(cell, Figure):
        return "" if cell.value is None else cell.value
    if isinstance(cell, Sequence) and not isinstance(cell, str) and len(cell) == 1:
        return cell_value(cell[0])
    if isinstance(cell, Mark | PageLink):
        return cell_value(cell.words)
    return words_text(cell)


def _first_table(document: Document) -> Table | None:
    for section in document.sections:
        for block in section.blocks:
            for part in block.blocks if isinstance(block, FoldedBlocks) else (block,):
                if isinstance(part, Table):
                    return part
    return None
