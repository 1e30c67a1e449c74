"""CSV as a list of rows: names of fields in the first line, commas, text in every cell."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from trnsim.quantities import is_fraction
from trnsim.reader.parsed import Keys, Malformed, ParsedText


def parse_csv(text: str) -> ParsedText:
    """A dict of name -> cell for each row, without empty cells.

    Raises:
        Malformed: the first line is missing or has a name twice, a row has another number of cells,
            or a quote does not end.
    """
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    rows: list[dict[str, str]] = []
    lines: list[int] = []
    try:
        first_cells = next((cells for cells in reader if any(cell.strip() for cell in cells)), None)
        if first_cells is None:
            raise Malformed(1, "no names of fields", "write them in the first line")
        header = [name.strip() for name in first_cells]
        _check_header(header, reader.line_num)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise Malformed(
                    reader.line_num,
                    f"{len(cells)} cells, and the first line has {len(header)} fields",
                    "leave a cell empty between commas; put a text with a comma in double quotes",
                )
            values = zip(header, (cell.strip() for cell in cells), strict=True)
            rows.append({name: cell for name, cell in values if cell})
            lines.append(reader.line_num)
    except csv.Error as error:
        raise Malformed(reader.line_num, f"no CSV: {error}") from error

    def line_of(keys: Keys) -> int:
        return lines[keys[0]] if keys and isinstance(keys[0], int) else 1

    return ParsedText(rows, line_of, tuple(header), frozenset(_fractions(header, rows)))


def _fractions(header: list[str], rows: list[dict[str, str]]) -> Iterator[str]:
    """The columns with a number whose point certainly is a decimal point."""
    for name in header:
        cells = (row.get(name, "") for row in rows)
        if any("." in cell and is_fraction(cell) for cell in cells):
            yield name


def _check_header(header: list[str], line: int) -> None:
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        mark = "semicolons" if ";" in header[0] else "tabs"
        raise Malformed(line, f"cells are divided by {mark}", "divide them by commas")
    for name in header:
        if header.count(name) > 1:
            raise Malformed(line, f"the field {name!r} stands twice", "leave one of them out")
