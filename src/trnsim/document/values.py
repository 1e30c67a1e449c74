"""The writer of JSON: any value of the house as plain values, and these as text."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from importlib import resources
from pathlib import Path
from typing import Any, Final

import numpy as np

from trnsim.document.answer import Document

SCHEMA: Final = "schema"
"""The key of an answer that names its schema and the version of that: plan-train/1."""


def plain(value: Any) -> Any:
    """`value` as dicts, lists, strings, numbers, true, false and null.

    A dataclass becomes its fields, in their order; an enumeration its value; a day and a path their
    text; a fact its number; a number that is not finite null, as JSON has none.

    Raises:
        TypeError: for an object of another kind.
    """
    if isinstance(value, Enum):
        return plain(value.value)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value) if math.isfinite(value) else None
    return _plain_parts(value)


def _plain_parts(value: Any) -> Any:
    """A container, a day, a path or a dataclass as plain values."""
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(item) for key, item in value.items()}
    if isinstance(value, np.ndarray):
        return plain(value.tolist())
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, AbstractSet):
        return sorted(plain(member) for member in value)
    if isinstance(value, date | Path):
        return str(value)
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    raise TypeError(f"{type(value).__name__} is no part of an answer")


def picked(value: object, names: str, **further_values: Any) -> dict[str, Any]:
    """The attributes of `value` that `names`, divided by spaces, lists, then `further_values`.

    ``key=a.b`` names the attribute ``b`` of the attribute ``a``; None where ``a`` or `value` is
    None.
    """
    pairs = (name.partition("=") for name in names.split())
    attributes = {key: _attribute(value, path or key) for key, _, path in pairs}
    return {**attributes, **further_values}


def _attribute(value: object, path: str) -> Any:
    for name in path.split("."):
        value = None if value is None else getattr(value, name)
    return value


def json_text(value: Any) -> str:
    """`value`, made plain, as JSON of several lines, without a line end."""
    return json.dumps(plain(value), indent=1, allow_nan=False)


def json_line(value: Any) -> str:
    """`value`, made plain, as JSON of one line."""
    return json.dumps(plain(value), allow_nan=False)


def compact_json(value: Any) -> str:
    """Plain values as JSON of one line without spaces or escapes: files that may be large.

    Raises:
        ValueError: a number is not finite.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def with_schema(values: Any, name: str) -> Any:
    """An answer with the name of its schema as first key; of a list, each answer has it."""
    if isinstance(values, list):
        return [with_schema(answer, name) for answer in values]
    return {SCHEMA: name, **plain(values)} if name else values


def document_json(document: Document) -> str:
    """The values of a document with their schema, as JSON of several lines."""
    return json_text(with_schema(document.values, document.schema))


def schema(name: str) -> dict[str, Any]:
    """The JSON Schema of that name, as plan-train/1, which the wheel has as a file.

    Raises:
        FileNotFoundError: there is no schema of that name.
    """
    file = resources.files("trnsim.document") / "schemas" / f"{name.replace('/', '-')}.json"
    rules: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return rules
