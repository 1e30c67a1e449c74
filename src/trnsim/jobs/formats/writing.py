"""Documents of specs as text, with the fields that were kept from a document of the same format."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

import yaml

from trnsim.jobs.job import KeptField

__all__ = ["in_order", "json_spec", "with_kept", "without_empty", "yaml_spec"]


def json_spec(document: Any) -> str:
    """A document as JSON of two spaces."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def yaml_spec(*documents: Any) -> str:
    """Documents as YAML, in the order of their fields."""
    return yaml.safe_dump_all(
        documents, sort_keys=False, width=100, allow_unicode=True, default_flow_style=False
    )


def without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are neither None nor an empty text, list or mapping; 0 and False stay."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }


def in_order(kept: Iterable[KeptField]) -> tuple[KeptField, ...]:
    """Kept fields in the order of their keys, whatever the order in the document was."""
    return tuple(
        sorted(kept, key=lambda field: [(isinstance(key, str), key) for key in field.keys])
    )


def with_kept(document: dict[str, Any], kept: Sequence[KeptField]) -> dict[str, Any]:
    """A document with the kept fields at their places.

    A field whose place is taken by another kind of value is left out.
    """
    for field in kept:
        _put(document, field.keys, field.value)
    return document


def _put(container: Any, keys: tuple[str | int, ...], value: Any) -> None:
    key, *rest = keys
    if isinstance(container, dict) and isinstance(key, str):
        if not rest:
            container.setdefault(key, value)
            return
        inner = container.setdefault(key, _container(rest[0]))
    elif isinstance(container, list) and isinstance(key, int):
        while len(container) <= key:
            container.append(value if not rest else _container(rest[0]))
        inner = container[key]
    else:
        return
    if rest:
        _put(inner, tuple(rest), value)


def _container(key: str | int) -> dict[str, Any] | list[Any]:
    return [] if isinstance(key, int) else {}
