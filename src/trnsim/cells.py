"""Tables that a user writes, CSV or YAML, as rows of cells that know their file and line.

A cell is text until it is asked for as a number, a day or a name; what it cannot be is refused with
file, line, field, the value given and the legal ones. What the columns mean is not known here.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Final, TypeVar

from trnsim import files, yaml_file
from trnsim.errors import BadInput, SourceLine
from trnsim.formatting import parse_number, parse_whole
from trnsim.yaml_file import Value

__all__ = ["Cells", "read_table"]

_YAML: Final = (".yaml", ".yml")
_SPREADSHEETS: Final = (".xlsx", ".xls", ".ods", ".numbers")
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_Parsed = TypeVar("_Parsed")


@dataclass(frozen=True)
class Cells:
    """One row of a table: its cells by field, and where it stands.

    Attributes:
        file: the table, as it was named.
        line: the line in it, from 1.
        values: the text of each cell that is not empty.
        lists: the values of each cell that YAML writes as a list.
        lines: of cells that have a line of their own, as in YAML.
    """

    file: str
    line: int
    values: Mapping[str, str]
    lists: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    lines: Mapping[str, int] = field(default_factory=dict[str, int])

    def __contains__(self, field: str) -> bool:
        return field in self.values

    def refused(self, field: str, why: str, fix: str = "") -> BadInput:
        """The error that the cell `field` of this row is `why`."""
        given = repr(self.values[field]) if field in self.values else "missing"
        line = self.lines.get(field, self.line)
        return _at(Path(self.file), line, f"{field} is {given}: {why}", fix)

    def text(self, field: str) -> str:
        """The text of a cell that must not be empty.

        Raises:
            BadInput: it is empty.
        """
        if field not in self.values:
            raise self.refused(field, "this field is required")
        return self.values[field]

    def items(self, field: str) -> tuple[str, ...]:
        """The values of a cell: those of a list in YAML, else those between semicolons."""
        if field in self.lists:
            return self.lists[field]
        parts = (part.strip() for part in self.values.get(field, "").split(";"))
        return tuple(part for part in parts if part)

    def one_of(self, field: str, legal: Collection[str]) -> str:
        """A name among `legal`.

        Raises:
            BadInput: it is another.
        """
        given = self.text(field)
        if given not in legal:
            near = get_close_matches(given, legal, 3)
            raise self.refused(
                field,
                f"not known; legal: {', '.join(legal)}",
                f"perhaps {' or '.join(map(repr, near))}" if near else "",
            )
        return given

    def number(self, field: str, *, above: float, at_most: float = math.inf) -> float:
        """A finite number in ``(above, at_most]``.

        Raises:
            BadInput: it is no number, or lies outside.
        """
        return self._within(field, parse_number, above, at_most)

    def number_from(self, field: str, least: float, *, at_most: float = math.inf) -> float:
        """A finite number in ``[least, at_most]``.

        Raises:
            BadInput: it is no number, or lies outside.
        """
        value = self._parsed(field, parse_number)
        if not (least <= value <= at_most and math.isfinite(value)):
            most = f" to {at_most:g}" if math.isfinite(at_most) else " or more"
            raise self.refused(field, f"legal: a finite number, {least:g}{most}")
        return value

    def whole(self, field: str, *, above: int, at_most: float = math.inf) -> int:
        """A whole number in ``(above, at_most]``.

        Raises:
            BadInput: it is no whole number, or lies outside.
        """
        return int(self._within(field, parse_whole, above, at_most))

    def day(self, field: str, *, latest: date | None = None) -> date:
        """A day, written YYYY-MM-DD, no later than `latest`.

        Raises:
            BadInput: it is no such day, or later.
        """
        day = self._parsed(field, _day)
        if latest is not None and day > latest:
            raise self.refused(field, f"a day in the future; legal: up to {latest}")
        return day

    def _within(
        self, field: str, parse: Callable[[str], float], above: float, at_most: float
    ) -> float:
        value = self._parsed(field, parse)
        if not (above < value <= at_most and math.isfinite(value)):
            most = f" and at most {at_most:g}" if math.isfinite(at_most) else ""
            raise self.refused(field, f"legal: a finite number above {above:g}{most}")
        return value

    def _parsed(self, field: str, parse: Callable[[str], _Parsed]) -> _Parsed:
        try:
            return parse(self.text(field))
        except ValueError as error:
            said = str(error).removeprefix(f"{self.values[field]!r} ")
            raise self.refused(field, said) from None


def _day(given: str) -> date:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", given):
        raise ValueError(f"{given!r} is no day; write it as 2026-11-21")
    try:
        return date.fromisoformat(given)
    except ValueError:
        raise ValueError(f"{given!r} is no day; write it as 2026-11-21") from None


def read_table(
    path: Path,
    fields: Sequence[str],
    *,
    required: Sequence[str] = (),
    is_yaml: bool | None = None,
) -> list[Cells]:
    """The rows of a CSV or YAML table whose columns are among `fields`.

    CSV has a line of field names first and commas between cells. YAML has a list of mappings.

    Args:
        path: the file; .yaml and .yml are YAML, all others CSV.
        fields: the legal names of columns.
        required: those that the first line of a CSV file must have.
        is_yaml: whether it is YAML; None for what its name says.

    Raises:
        BadInput: it cannot be read, a field is unknown or twice, or a line has other cells.
    """
    if path.suffix.lower() in _SPREADSHEETS:
        raise BadInput(f"{path} is a spreadsheet", fix="save it as CSV, UTF-8, with commas")
    if files.read_bytes(path)[:2] in _UTF16:
        raise BadInput(
            f"{path}:1: the file is UTF-16", fix="save it as UTF-8", line=SourceLine(str(path), 1)
        )
    text = files.read_text(path)
    if not text.strip():
        raise BadInput(f"{path} is empty; legal fields: {', '.join(fields)}")
    if path.suffix.lower() in _YAML if is_yaml is None else is_yaml:
        return list(_yaml_rows(path, fields))
    return list(_csv_rows(path, text, fields, required))


def _at(path: Path, line: int, reason: str, fix: str = "") -> BadInput:
    return BadInput(f"{path}:{line}: {reason}", fix=fix, line=SourceLine(str(path), line))


def _csv_rows(
    path: Path, text: str, fields: Sequence[str], required: Sequence[str]
) -> Iterator[Cells]:
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = [name.strip() for name in next(reader)]
        _check_header(path, header, fields, required)
        for cells in reader:
            if not any(cell.strip() for cell in cells):
                continue
            if len(cells) != len(header):
                raise _at(
                    path,
                    reader.line_num,
                    f"{len(cells)} cells, and the first line has {len(header)} fields",
                    "leave a cell empty between commas; put a text with a comma in double quotes",
                )
            values = {name: cell.strip() for name, cell in zip(header, cells, strict=True)}
            yield Cells(str(path), reader.line_num, {k: v for k, v in values.items() if v})
    except csv.Error as error:
        raise _at(path, reader.line_num, f"no CSV: {error}") from error


def _check_header(
    path: Path, header: Sequence[str], fields: Sequence[str], required: Sequence[str]
) -> None:
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        mark = "semicolons" if ";" in header[0] else "tabs"
        raise _at(path, 1, f"cells are divided by {mark}", "divide them by commas")
    for name in header:
        _check_field(path, 1, name, fields)
        if header.count(name) > 1:
            raise _at(path, 1, f"the field {name!r} stands twice")
    for name in required:
        if name not in header:
            raise _at(path, 1, f"the field {name!r} is missing; legal: {', '.join(fields)}")


def _check_field(path: Path, line: int, name: str, fields: Sequence[str]) -> None:
    if name not in fields:
        near = get_close_matches(name, fields, 1)
        raise _at(
            path,
            line,
            f"the field {name!r} is not known; legal: {', '.join(fields)}",
            f"perhaps {near[0]!r}" if near else "",
        )


def _yaml_rows(path: Path, fields: Sequence[str]) -> Iterator[Cells]:
    tree = yaml_file.read(path)
    if not isinstance(tree.content, tuple):
        raise _at(path, 1, "no list; write one row as '- field: value', its fields below it")
    for row in tree.content:
        if not isinstance(row.content, dict):
            raise _at(path, row.line.line, "no mapping of fields to values")
        values: dict[str, str] = {}
        lists: dict[str, tuple[str, ...]] = {}
        lines = {name: cell.line.line for name, cell in row.content.items()}
        for name, cell in row.content.items():
            _check_field(path, cell.line.line, name, fields)
            if isinstance(cell.content, tuple):
                lists[name] = tuple(_text(path, name, item) for item in cell.content)
            values[name] = " ".join(lists[name]) if name in lists else _text(path, name, cell)
        stated = {name: value for name, value in values.items() if value}
        yield Cells(str(path), row.line.line, stated, lists, lines)


def _text(path: Path, name: str, cell: Value) -> str:
    if isinstance(cell.content, str):
        return cell.content.strip()
    raise _at(path, cell.line.line, f"{name} is no single value")
