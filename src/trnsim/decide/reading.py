"""Dataclasses from the values of a JSON file: each field checked against its annotation."""

from __future__ import annotations

import math
import types
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from typing import Any, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from trnsim.errors import BadInput

_T = TypeVar("_T")


def made(kind: type[_T], values: Any, where: str, fix: str = "") -> _T:
    """A `kind`, a dataclass, from `values`, and the same for all its fields.

    Legal annotations: str, int, float, bool, None, enumerations, unions with None,
    ``tuple[X, ...]``, ``dict[str, X]`` and dataclasses of these.

    Args:
        kind: the class.
        values: what a JSON file holds.
        where: what an error begins with: the file, then the path of the field.
        fix: what an error ends with.

    Raises:
        BadInput: a field is missing, unknown, or of another type.
    """
    return cast("_T", _made(kind, values, where, fix))


def _made(kind: Any, value: Any, where: str, fix: str) -> Any:
    if get_origin(kind) in (Union, types.UnionType):
        named = next(one for one in get_args(kind) if one is not type(None))
        return None if value is None else _made(named, value, where, fix)
    if get_origin(kind) in (tuple, dict):
        return _several(kind, value, where, fix)
    if is_dataclass(kind):
        return _filled(cast("type[Any]", kind), _of(dict, value, where, fix), where, fix)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return _named(kind, value, where, fix)
    return _number(value, where, fix) if kind is float else _of(kind, value, where, fix)


def _several(kind: Any, value: Any, where: str, fix: str) -> Any:
    inner = get_args(kind)
    if get_origin(kind) is dict:
        pairs = _of(dict, value, where, fix)
        return {key: _made(inner[1], one, f"{where}.{key}", fix) for key, one in pairs.items()}
    items = _of(list, value, where, fix)
    return tuple(_made(inner[0], one, f"{where}[{at}]", fix) for at, one in enumerate(items))


def _filled(kind: type[Any], values: dict[str, Any], where: str, fix: str) -> Any:
    hints = get_type_hints(kind)
    known = {one.name: one for one in fields(kind)}
    for name in values:
        if name not in known:
            raise BadInput(f"{where}: no field {name!r}; legal: {', '.join(known)}", fix=fix)
    for name, one in known.items():
        has_default = one.default is not MISSING or one.default_factory is not MISSING
        if name not in values and not has_default:
            raise BadInput(f"{where}: the field {name!r} is missing", fix=fix)
    return kind(
        **{
            name: _made(hints[name], value, f"{where}.{name}", fix)
            for name, value in values.items()
        }
    )


def _named(kind: type[Enum], value: Any, where: str, fix: str) -> Enum:
    for one in kind:
        if one.value == value:
            return one
    legal = ", ".join(str(one.value) for one in kind)
    raise BadInput(f"{where} is {value!r}; legal: {legal}", fix=fix)


def _number(value: Any, where: str, fix: str) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value):
        raise BadInput(f"{where} is {value!r}; legal: a finite number", fix=fix)
    return float(value)


def _of(kind: type[Any], value: Any, where: str, fix: str) -> Any:
    if type(value) is not kind:
        raise BadInput(f"{where} is {value!r:.60}; legal: {_WORDS[kind]}", fix=fix)
    return value


_WORDS = {
    str: "a text",
    int: "a whole number",
    bool: "true or false",
    list: "a list",
    dict: "a mapping of names to values",
}
