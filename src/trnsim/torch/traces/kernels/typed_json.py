"""Dataclasses as JSON, and back by the annotations of their fields: nothing else is read.

Annotations may be None, bool, int, float, str, enumerations, tuples, dataclasses and unions of
these. A dictionary stays JSON, for the reader who knows what it holds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

from trnsim.memory import Tile
from trnsim.torch.traces.encoding import NON_FINITE, MalformedProgram

_FLOAT_KEY: Final = "number"
"""The key of the name of a float that JSON lacks, such as ``{"number": "inf"}``."""
_JSON_TYPES: Final[dict[Any, type]] = {
    **{kind: kind for kind in (NoneType, bool, int, str, dict)},
    tuple: list,
}
"""The type of the JSON for values of a type."""
_WORDS: Final = {
    NoneType: "null",
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "a text",
    dict: "an object",
    tuple: "a list",
}


def to_json(value: Any) -> Any:
    """A dataclass, or a value of one of its fields, as JSON."""
    if is_dataclass(value):
        return {field.name: to_json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {name: to_json(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_json(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {_FLOAT_KEY: str(float(value))}
    return value.name if isinstance(value, Enum) else value


def from_json(hint: Any, value: Any, path: str, forms: Mapping[Any, Any] | None = None) -> Any:
    """The value of type `hint` that JSON denotes.

    Args:
        hint: the type.
        value: the JSON.
        path: the names of the fields that lead to it, for errors.
        forms: the types that stand for others in JSON.

    Raises:
        MalformedProgram: for JSON of another type; names the field.
    """
    forms = forms or {}
    options = [forms.get(option, option) for option in _options(hint)]
    for option in options:
        if _matches(option, value):
            return _read(option, value, path, forms)
    raise MalformedProgram(
        f"{path}: {value!r:.60}; legal: {' or '.join(map(_legal_text, options))}"
    )


def legal_types(hint: Any) -> set[Any]:
    """The types of which values of type `hint` are made."""
    if get_origin(hint) in (Union, UnionType, tuple):
        return set[Any]().union(*(legal_types(item) for item in get_args(hint) if item is not ...))
    return {hint}


@cache
def field_types(kind: Any) -> dict[str, Any]:
    """The types of a dataclass's fields by their names."""
    hints = get_type_hints(kind, localns={"Tile": Tile})  # a name that memory.index cannot import
    return {field.name: hints[field.name] for field in fields(kind)}


def _options(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _matches(hint: Any, value: Any) -> bool:
    """True if JSON is of the type for values of `hint`, which is no union."""
    kind = get_origin(hint) or hint
    if kind is float:
        return isinstance(value, int | float) or (isinstance(value, dict) and _FLOAT_KEY in value)
    if kind in _JSON_TYPES:
        return type(value) is _JSON_TYPES[kind]
    if issubclass(kind, Enum):
        return isinstance(value, str)
    return isinstance(value, dict) and set(value) == set(field_types(kind))


def _read(hint: Any, value: Any, path: str, forms: Mapping[Any, Any]) -> Any:
    """The value of type `hint`, which is no union, from JSON that matches it."""
    kind = get_origin(hint) or hint
    if kind is tuple:
        return _read_tuple(get_args(hint), value, path, forms)
    if kind is float and isinstance(value, dict):
        return _member(NON_FINITE, value[_FLOAT_KEY], path)
    if kind in _JSON_TYPES or kind is float:
        return value
    if issubclass(kind, Enum):
        return _member(kind.__members__, value, path)
    types = field_types(kind)
    members = {
        name: from_json(types[name], item, f"{path}.{name}", forms) for name, item in value.items()
    }
    return kind(**members)


def _read_tuple(
    kinds: tuple[Any, ...], values: list[Any], path: str, forms: Mapping[Any, Any]
) -> tuple[Any, ...]:
    if kinds[-1] is ...:
        kinds = kinds[:1] * len(values)
    if len(kinds) != len(values):
        raise MalformedProgram(f"{path}: {len(values)} values; legal: {len(kinds)}")
    return tuple(
        from_json(kind, item, f"{path}[{number}]", forms)
        for number, (kind, item) in enumerate(zip(kinds, values, strict=True))
    )


def _member(values: Mapping[str, Any], name: Any, path: str) -> Any:
    if not isinstance(name, str) or name not in values:
        raise MalformedProgram(f"{path}: {name!r:.60}; legal: {', '.join(values)}")
    return values[name]


def _legal_text(hint: Any) -> str:
    """A type in words."""
    kind = get_origin(hint) or hint
    if kind in _WORDS:
        return _WORDS[kind]
    names = kind.__members__ if issubclass(kind, Enum) else field_types(kind)
    return f"{'one of' if issubclass(kind, Enum) else 'an object of'} {', '.join(names)}"
