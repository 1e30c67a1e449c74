"""Rows of an AWS cost and usage report (CSV, gzipped CSV or Parquet), each as cells by column.

Columns have the names of CUR 2.0; names of the older report, such as ``lineItem/UsageType``, are
translated. Source: AWS Data Exports user guide, "Cost and Usage Report (CUR) 2.0".
"""

from __future__ import annotations

import csv
import gzip
import json
import re
import zlib
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any, Final

from trnsim import files
from trnsim.errors import BadInput
from trnsim.reader import fault

Line = tuple[int, dict[str, str]]
"""A line's number and its cells that are not empty, by column."""

REQUIRED: Final = (
    "line_item_line_item_type",
    "line_item_usage_type",
    "line_item_usage_start_date",
    "line_item_usage_amount",
    "line_item_unblended_cost",
)
COLUMNS: Final = (
    *REQUIRED,
    "line_item_net_unblended_cost",
    "line_item_currency_code",
    "line_item_resource_id",
    "line_item_product_code",
    "product_region_code",
    "pricing_lease_contract_length",
    "reservation_effective_cost",
    "reservation_net_effective_cost",
    "savings_plan_purchase_term",
    "savings_plan_savings_plan_effective_cost",
    "savings_plan_net_savings_plan_effective_cost",
    "capacity_reservation_capacity_reservation_type",
)
"""Columns that are read; a report may lack all but the `REQUIRED` ones."""
TAG: Final = "tag:"
"""Prefix of a column that holds the values of a tag, such as "tag:team"."""

_TAGS_COLUMN: Final = "resource_tags"
FIX: Final = "give an export of AWS Data Exports, table CUR 2.0, as CSV or Parquet"
_PARQUET_START: Final = b"PAR1"
_GZIP_START: Final = b"\x1f\x8b"
_BILL_HEADER_NAMES: Final = (b"line_item_usage_type", b"lineItem/UsageType")
_HEADER_BYTES: Final = 1 << 16
_INSTALL_FIX: Final = "pip install 'trnsim[parquet]'"
_BATCH_ROWS: Final = 10_000
_LINE_MAX: Final = 1 << 24
"""Maximum length of a line; a report of 300 columns with tags has lines of some thousands."""


def is_bill(path: Path) -> bool:
    """True if the file at `path` begins like a cost and usage report.

    Raises:
        BadInput: it cannot be read.
    """
    files.check_readable(path)
    with path.open("rb") as stream:
        start = stream.read(_HEADER_BYTES)
    if start.startswith((_PARQUET_START, _GZIP_START)):
        return True
    return any(mark in start.partition(b"\n")[0] for mark in _BILL_HEADER_NAMES)


def bill_rows(path: Path) -> Iterator[Line]:
    """Rows of the report at `path`, in its order; a row of Parquet counts as a line.

    Raises:
        BadInput: it cannot be read, or lacks a column.
    """
    files.check_readable(path, FIX)
    with path.open("rb") as stream:
        start = stream.read(len(_PARQUET_START))
    if start == _PARQUET_START:
        return _parquet_rows(path)
    return _csv_rows(path, is_gzip=start.startswith(_GZIP_START))


def _column(name: str) -> str:
    """Name of a column in CUR 2.0: ``lineItem/UsageType`` is ``line_item_usage_type``."""
    return _snake_case(name.strip()).replace("a_r_n", "arn") if "/" in name else name.strip()


def _snake_case(name: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return re.sub(r"[^a-z0-9]+", "_", words.lower())


def _check_columns(path: Path, names: list[str]) -> None:
    missing_names = [name for name in REQUIRED if name not in names]
    if missing_names:
        raise fault(path, f"columns missing: {', '.join(missing_names)}", FIX)


def _csv_rows(path: Path, *, is_gzip: bool) -> Iterator[Line]:
    line = 1
    try:
        with _text_stream(path, is_gzip=is_gzip) as stream:
            reader = csv.reader(_lines(path, stream), strict=True)
            names = [_column(name) for name in next(reader, [])]
            _check_columns(path, names)
            for cells in filter(None, reader):  # a blank line has no cells
                line = reader.line_num
                if len(cells) != len(names):
                    reason = f"{len(cells)} cells, and the first line has {len(names)} columns"
                    raise _refusal(path, line, reason)
                yield _cells(path, line, dict(zip(names, cells, strict=True)))
    except (csv.Error, UnicodeDecodeError) as error:
        raise _refusal(path, line, f"no CSV in UTF-8: {error}") from error
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise _refusal(path, line, f"the compressed file is broken: {error}") from error


def _lines(path: Path, stream: IO[str]) -> Iterator[str]:
    """Lines of a file, read one by one: a compressed file may be larger than memory."""
    number = 0
    while text := stream.readline(_LINE_MAX):
        number += 1
        if len(text) == _LINE_MAX:
            raise _refusal(path, number, f"a line of {_LINE_MAX:,} characters or more")
        yield text


def _text_stream(path: Path, *, is_gzip: bool) -> IO[str]:
    if is_gzip:
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def _parquet_rows(path: Path) -> Iterator[Line]:
    if find_spec("pyarrow") is None:
        raise fault(path, "Parquet needs pyarrow, which is not installed", fix=_INSTALL_FIX)
    arrow: Any = import_module("pyarrow")
    parquet: Any = import_module("pyarrow.parquet")
    try:
        with parquet.ParquetFile(path) as file:
            names = [_column(name) for name in file.schema_arrow.names]
            _check_columns(path, names)
            source_names = [name for name in file.schema_arrow.names if _is_read(_column(name))]
            line = 1
            for batch in file.iter_batches(_BATCH_ROWS, columns=source_names):
                for row in batch.to_pylist():
                    line += 1
                    yield _cells(path, line, {_column(name): value for name, value in row.items()})
    except (arrow.ArrowException, OSError, UnicodeDecodeError) as error:
        raise fault(path, f"no Parquet: {error}", fix=FIX) from error


def _is_read(name: str) -> bool:
    return name in COLUMNS or name.startswith(_TAGS_COLUMN)


def _cells(path: Path, line: int, row: Mapping[str, Any]) -> Line:
    """A row's number and its cells in `COLUMNS`, with a cell for each tag."""
    values = {name: _text(row.get(name)) for name in COLUMNS}
    for name, value in row.items():
        tags: Mapping[str, Any] = {}
        if name == _TAGS_COLUMN:
            tags = _row_tags(path, line, value)
        elif name.startswith(f"{_TAGS_COLUMN}_"):
            tags = {name.removeprefix(f"{_TAGS_COLUMN}_"): value}
        values |= {TAG + tag_key(key): text for key, tag in tags.items() if (text := _text(tag))}
    return line, {name: value for name, value in values.items() if value}


def tag_key(key: str) -> str:
    """Key of a tag as columns have it: ``cost_center`` for ``CostCenter``, ``user:CostCenter``.

    Source: AWS CUR user guide, "Running Amazon Athena queries", names of columns.
    """
    return _snake_case(re.sub(r"^user[_:]", "", key)).strip("_") or key


def _text(value: object) -> str:
    return "" if value is None else str(value).strip()


def _row_tags(path: Path, line: int, value: object) -> dict[str, Any]:
    """Tags of a row: JSON in CSV, pairs in Parquet."""
    if isinstance(value, list) and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    text = _text(value)
    try:
        tags = json.loads(text) if text else {}
    except (ValueError, RecursionError) as error:
        raise _refusal(path, line, f"{_TAGS_COLUMN} is no JSON: {error}") from error
    if not isinstance(tags, dict):
        raise _refusal(path, line, f"{_TAGS_COLUMN} is {text!r}; legal: a JSON object of tags")
    return tags


def _refusal(path: Path, line: int, reason: str) -> BadInput:
    return fault(path, reason, FIX, line)
