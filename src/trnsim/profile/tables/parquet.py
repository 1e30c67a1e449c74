"""Tables -> Parquet files: TABLE.parquet in a folder, with the names and types of the schema.

pyarrow writes them. It is an extra, `trnsim[parquet]`, and is imported only here.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from trnsim.errors import BadInput
from trnsim.files import Draft
from trnsim.profile.measures.schema import VERSION, Table, tables

EXTRA = "pip install 'trnsim[parquet]'"


def is_available() -> bool:
    """True if the library that writes Parquet is installed."""
    return find_spec("pyarrow") is not None


def write_tables(tables: Mapping[str, Table], folder: Path | str) -> Path:
    """Write a Parquet file for each table to `folder`, each whole or not at all; `folder`.

    Raises:
        BadInput: without pyarrow, or where the folder cannot be written.
    """
    if not is_available():
        raise BadInput("Parquet tables need pyarrow, which is not installed", fix=EXTRA)
    folder = Path(folder)
    for name, table in tables.items():
        _write(name, table, folder / f"{name}.parquet")
    return folder


def _write(name: str, table: Table, path: Path) -> None:
    arrow: Any = import_module("pyarrow")
    writer: Any = import_module("pyarrow.parquet")
    types = {kind: arrow.type_for_alias(kind) for kind in set(tables()[name].values())}
    fields = [arrow.field(column, types[kind]) for column, kind in tables()[name].items()]
    schema = arrow.schema(fields, metadata={"profile_schema_version": VERSION})
    columns = [arrow.array(table[field.name], type=field.type) for field in schema]
    with Draft(path, parents=True) as draft_path:
        writer.write_table(arrow.table(columns, schema=schema), draft_path)
