"""One reader for the files that a user writes: YAML, CSV, JSON and TOML.

A kind of file is a frozen dataclass whose fields carry meaning, unit, limits, default and other
names (`declared`). `read` gives the one mapping of a file, `read_rows` the rows of a table.
Whatever they cannot be is refused with file, line, field, what was given, what is legal and what
was perhaps meant. What fields mean together is checked by who declares them (`Record.refused`).
"""

from trnsim.reader.declaration import Rule, between, declared
from trnsim.reader.document import (
    FileContent,
    SourcePlace,
    fault,
    line_in,
    load,
    load_documents,
    parse,
)
from trnsim.reader.reading import FileRecord, ForeignRecord, read, read_rows, record, rows
from trnsim.reader.template import field_table, row_template

__all__ = [
    "FileContent",
    "FileRecord",
    "ForeignRecord",
    "Rule",
    "SourcePlace",
    "between",
    "declared",
    "fault",
    "field_table",
    "line_in",
    "load",
    "load_documents",
    "parse",
    "read",
    "read_rows",
    "record",
    "row_template",
    "rows",
]
