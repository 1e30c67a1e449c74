"""Named values: attributes of devices and plugins, and figures of executables, as C reads them."""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from trnsim.jax.pjrt.handles import Numbers, Text, numbers_at, string_at
from trnsim.jax.pjrt.structs import enumeration, struct

Value: TypeAlias = str | bool | int | float | Sequence[int]

_KIND: Final = enumeration("NamedValue_Type")


class NamedValues:
    """An array of PJRT's named values, with all that it points to."""

    def __init__(self, values: Mapping[str, Value]) -> None:
        value_type = struct("NamedValue")
        self._array = (value_type * max(len(values), 1))()
        self._kept: list[Any] = []
        self.size = len(values)
        self.address = ctypes.addressof(self._array)
        for place, (name, value) in zip(self._array, values.items(), strict=False):
            text = self._keep(Text(name))
            place.struct_size = ctypes.sizeof(value_type)
            place.name, place.name_size = text.address, text.size
            self._write(place, value)

    def _write(self, place: Any, value: Value) -> None:
        """Write one value, by its type."""
        place.value_size = 1
        if isinstance(value, bool):
            place.type, place.bool_value = _KIND["Bool"], value
        elif isinstance(value, int):
            place.type, place.int64_value = _KIND["Int64"], value
        elif isinstance(value, float):
            place.type, place.float_value = _KIND["Float"], value
        elif isinstance(value, str):
            text = self._keep(Text(value))
            place.type, place.string_value = _KIND["String"], text.address
            place.value_size = text.size
        else:
            numbers = self._keep(Numbers(ctypes.c_int64, list(value)))
            place.type, place.int64_array_value = _KIND["Int64List"], numbers.address
            place.value_size = numbers.size

    def _keep(self, kept: Any) -> Any:
        self._kept.append(kept)
        return kept


def values_at(address: int | None, count: int) -> dict[str, Value]:
    """The named values of a caller."""
    if not address:
        return {}
    values: dict[str, Value] = {}
    for place in (struct("NamedValue") * count).from_address(address):
        name = string_at(place.name, place.name_size).decode()
        if place.type == _KIND["String"]:
            values[name] = string_at(place.string_value, place.value_size).decode()
        elif place.type == _KIND["Int64List"]:
            values[name] = numbers_at(place.int64_array_value, place.value_size)
        else:
            member = {"Bool": "bool_value", "Int64": "int64_value", "Float": "float_value"}
            kind = next(kind_name for kind_name, number in _KIND.items() if number == place.type)
            values[name] = getattr(place, member[kind])
    return values
