"""PJRT's structs as ctypes classes, its slots and enumerations, from the table `structs.txt`.

The table is made from OpenXLA's header. A struct's fields lie where C's natural alignment puts
them, as in the header. Callers say how much of a struct they know (`struct_size`): `fill_struct`
writes no further than that.
"""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any, Final

from trnsim.files import read_text

_TABLE: Final = Path(__file__).with_name("structs.txt")
_TYPES: Final[dict[str, Any]] = {
    "ptr": ctypes.c_void_p,
    "size": ctypes.c_size_t,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "u64": ctypes.c_uint64,
    "bool": ctypes.c_bool,
    "f32": ctypes.c_float,
}


@cache
def _lines() -> dict[tuple[str, str], list[tuple[str, str]]]:
    """(kind, name) of each line of the table -> the (name, type or value) pairs behind it."""
    table: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for line in read_text(_TABLE).splitlines():
        head, colon, fields_text = line.partition(": ")
        if colon and not line.startswith("#"):
            pairs = (part.partition("=") for part in fields_text.split())
            kind, _, name = head.partition(" ")
            table[kind, name] = [(key, value) for key, _, value in pairs]
    return table


@cache
def version() -> tuple[int, int]:
    """The version of the interface that the table describes."""
    ((_, major), (_, minor)) = _lines()["version", "PJRT"]
    return int(major), int(minor)


@cache
def enumeration(name: str) -> dict[str, int]:
    """The members of an enumeration, without its prefix: "UNIMPLEMENTED" of "Error_Code"."""
    return {key: int(value) for key, value in _lines()["enum", name]}


@cache
def struct(name: str) -> Any:
    """The ctypes class of a struct, by its name without "PJRT_"."""
    fields: list[tuple[str, Any]] = []
    anonymous: list[str] = []
    for field, kind in _lines()["struct", name]:
        if ":" in kind:
            anonymous.append(field)
        fields.append((field, _type(f"{name}.{field}", kind)))
    return type(name, (ctypes.Structure,), {"_anonymous_": anonymous, "_fields_": fields})


def _type(name: str, kind: str) -> Any:
    """The ctypes class of a field's type; the type of a union is named after its field."""
    if ":" in kind:
        members = (text.partition(":") for text in kind.split("|"))
        fields = [(member, _type(name, member_kind)) for member, _, member_kind in members]
        return type(name, (ctypes.Union,), {"_fields_": fields})
    return _TYPES.get(kind) or struct(kind)


@cache
def slots() -> tuple[str, ...]:
    """The functions of the interface, in the order of its table."""
    return tuple(name for name, kind in _lines()["struct", "Api"] if kind == "ptr")[1:]


def word_places(name: str, *fields: str) -> tuple[int, ...]:
    """The places of fields of 8 bytes in a struct, counted in words of 8 bytes."""
    return tuple(getattr(struct(name), field).offset // 8 for field in fields)


def fill_struct(args: Any, **values: Any) -> None:
    """Write fields of a caller's struct, without the fields that its version lacks."""
    known_bytes = args.struct_size
    for name, value in values.items():
        if getattr(type(args), name).offset < known_bytes:
            setattr(args, name, value)
