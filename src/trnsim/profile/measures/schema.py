"""The columns of Neuron Explorer's tables: names and types, in its order.

Source: aws-neuron-sdk tools/neuron-explorer/profile-schema-reference.rst. Its "number (float)" is
float32 here, its "integer (int64)" is int64, and so on.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from importlib import resources
from typing import Any, Final

import numpy.typing as npt

VERSION: Final = "7.4.0"
"""The schema's version, in Neuron SDK 2.31. Source: first section of the page above."""

Column = Sequence[Any] | npt.NDArray[Any]
Table = dict[str, Column]
"""A table's values, column by column."""

Columns = dict[str, str]
"""Type by name of column: "int64", "int32", "float32", "string" or "bool"."""


@cache
def tables() -> dict[str, Columns]:
    """The columns of each table that a report writes."""
    text = (resources.files("trnsim.profile.measures") / "schema.json").read_text(encoding="utf-8")
    columns_of_tables: dict[str, Columns] = json.loads(text)
    return columns_of_tables


def summary_names() -> tuple[str, ...]:
    """The 101 names of the Summary table."""
    return tuple(tables()["Summary"])
