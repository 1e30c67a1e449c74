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
        self._referenced: list[Any] = []
        self.size = len(values)
        self.address = ctypes.addressof(self._array)
        for named_value, (name, value) in zip(self._array, values.items(), strict=False):
            text = self._reference(Text(name))
            named_value.struct_size = ctypes.sizeof(value_type)
            named_value.name, named_value.name_size = text.address, text.size
            self._write(named_value, value)

    def _write(self, named_value: Any, value: Value) -> None:
        """Write one value, by its type."""
        named_value.value_size = 1
        if isinstance(value, bool):
            named_value.type, named_value.bool_value = _KIND["Bool"], value
        elif isinstance(value, int):
            named_value.type, named_value.int64_value = _KIND["Int64"], value
        elif isinstance(value, float):
            named_value.type, named_value.float_value = _KIND["Float"], value
        elif isinstance(value, str):
            text = self._reference(Text(value))
            named_value.type, named_value.string_value = _KIND["String"], text.address
            named_value.value_size = text.size
        else:
            numbers = self._reference(Numbers(ctypes.c_int64, list(value)))
            named_value.type, named_value.int64_array_value = _KIND["Int64List"], numbers.address
            named_value.value_size = numbers.size

    def _reference(self, item: Any) -> Any:
        self._referenced.append(item)
        return item


def values_at(address: int | None, count: int) -> dict[str, Value]:
    """The named values of a caller."""
    if not address:
        return {}
    values: dict[str, Value] = {}
    for named_value in (struct("NamedValue") * count).from_address(address):
        name = string_at(named_value.name, named_value.name_size).decode()
        if named_value.type == _KIND["String"]:
            values[name] = string_at(named_value.string_value, named_value.value_size).decode()
        elif named_value.type == _KIND["Int64List"]:
            values[name] = numbers_at(named_value.int64_array_value, named_value.value_size)
        else:
            member = {"Bool": "bool_value", "Int64": "int64_value", "Float": "float_value"}
            kind = next(
                kind_name for kind_name, number in _KIND.items() if number == named_value.type
            )
            values[name] = getattr(named_value, member[kind])
    return values
