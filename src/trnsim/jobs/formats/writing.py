"""Specs as JSON or YAML text, with the fields that were kept from a document of the same format."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Final

import yaml

from trnsim.jobs.job import KeptField

_AMBIGUOUS: Final = re.compile(r"[-+]?\.?\d[\d._]*([eE][-+]?\d+)?|0[box][\da-fA-F_]+|[yYnN]")
"""Text that a parser reads as a number or a truth value.

Sources: YAML 1.2.2, section 10.3.2; YAML 1.1, bool, by which Kubernetes reads y and n.
"""
IMAGE: Final = "${IMAGE}"
"""The image that is written for a job without one: a container needs it, and a user fills it in."""


def stated_image(name: str) -> str:
    """The image that a container states; "" for the placeholder `IMAGE`."""
    return "" if name == IMAGE else name


def json_spec(document: Any) -> str:
    """A document as JSON, indented by two spaces."""
    return json.dumps(document, indent=2, ensure_ascii=False) + "\n"


def yaml_spec(*documents: Any) -> str:
    """Documents as YAML, in the order of their fields.

    Text that some reader of YAML takes for a number or a truth value is in quotes.
    """
    return yaml.dump_all(
        documents,
        Dumper=_Dumper,
        sort_keys=False,
        width=100,
        allow_unicode=True,
        default_flow_style=False,
    )


class _Dumper(yaml.SafeDumper):
    """PyYAML's dumper with two changes: ambiguous text is quoted, and no aliases are written."""

    def ignore_aliases(self, data: Any) -> bool:
        """True, so that a value that occurs twice is written twice."""
        del data
        return True


def _text_node(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    style = "'" if _AMBIGUOUS.fullmatch(text) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style)


_Dumper.add_representer(str, _text_node)


def without_empty(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields that are neither None nor an empty text, list or mapping; 0 and False stay."""
    return {
        name: value
        for name, value in fields.items()
        if value is not None and value not in ("", [], {})
    }


def in_order(kept_fields: Iterable[KeptField]) -> tuple[KeptField, ...]:
    """The kept fields, sorted by their keys."""
    return tuple(
        sorted(kept_fields, key=lambda field: [(isinstance(key, str), key) for key in field.keys])
    )


def with_kept_fields(document: dict[str, Any], kept_fields: Sequence[KeptField]) -> dict[str, Any]:
    """A document with the kept fields under their keys.

    A field is left out if a value on the way to it is no mapping or list.
    """
    for field in kept_fields:
        _put(document, field.keys, copy(field.value))
    return document


def _put(container: Any, keys: tuple[str | int, ...], value: Any) -> None:
    key, *remaining_keys = keys
    if isinstance(container, dict) and isinstance(key, str):
        if not remaining_keys:
            container.setdefault(key, value)
            return
        item = container.setdefault(key, _container(remaining_keys[0]))
    elif isinstance(container, list) and isinstance(key, int):
        while len(container) <= key:
            container.append(value if not remaining_keys else _container(remaining_keys[0]))
        item = container[key]
    else:
        return
    if remaining_keys:
        _put(item, tuple(remaining_keys), value)


def _container(key: str | int) -> dict[str, Any] | list[Any]:
    return [] if isinstance(key, int) else {}
