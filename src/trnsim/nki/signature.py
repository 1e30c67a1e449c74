"""What a kernel's instructions may depend on of its arguments."""

from __future__ import annotations

import enum
import weakref
from collections.abc import Hashable
from types import BuiltinFunctionType, FunctionType
from typing import Any, Final

import numpy as np

from trnsim.dtypes import Dtype
from trnsim.nki.language.objects import NKIObject
from trnsim.nki.operators import Binary, Unary
from trnsim.nki.reads import Unforeseeable
from trnsim.nki.surroundings import (
    ATOMS,
    attributes_of,
    is_named_tuple,
    is_number,
    is_transparent,
)

_TENSORS: Final = ("torch", "jax", "jaxlib")


class Signature:
    """All of a call's arguments that a kernel's instructions may depend on.

    Attributes:
        named: the classes and functions that the arguments bring along, by identity.
        objects: the user's own objects among them.
    """

    def __init__(self) -> None:
        self.named: dict[int, object] = {}
        self.objects: list[object] = []
        self._met: dict[int, int] = {}

    def of(self, value: Any, *, is_entered: bool = True) -> Hashable:
        """What counts of one argument.

        Args:
            value: the argument, or a part of it.
            is_entered: whether an array here becomes a tensor, whose values the kernel cannot see.

        Raises:
            Unforeseeable: for an argument that may hold anything.
        """
        kind = type(value)
        found: Hashable
        if kind in (tuple, list, dict) or is_named_tuple(kind):
            found = self._of_items(value, is_entered=is_entered)
        elif kind is float:
            found = value.hex()  # -0.0 is not 0.0
        elif kind in (range, slice):
            found = self.of((value.start, value.stop, value.step))
        elif kind in ATOMS:
            found = value
        elif is_number(kind):
            found = value.tobytes()
        elif issubclass(kind, Dtype | np.dtype | Unary | Binary):
            found = value
        elif kind.__module__ == "torch" and kind.__name__ in ("dtype", "Size"):
            found = str(value)
        elif _is_tensor(value):
            if not is_entered:
                raise Unforeseeable("an array that the kernel sees as the host's")
            found = tuple(value.shape), str(value.dtype)
        else:
            found = self._of_object(value, is_entered=is_entered)
        return id(kind), found

    def _of_items(self, value: Any, *, is_entered: bool) -> Hashable:
        """What counts of a container; who copies it as it enters does not see which one it is."""
        kind = type(value)
        self.named[id(kind)] = kind
        again = None if is_entered else self._again(value)
        if again is not None:
            return again
        if kind is not dict:
            return tuple(self.of(item, is_entered=is_entered) for item in value)
        items = value.items()
        return tuple((self.of(key), self.of(item, is_entered=is_entered)) for key, item in items)

    def _again(self, value: object) -> Hashable:
        """Which object it is of those met before, if it is one."""
        if id(value) in self._met:
            return "again", self._met[id(value)]
        self._met[id(value)] = len(self._met)
        self.objects.append(value)
        return None

    def _of_object(self, value: Any, *, is_entered: bool) -> Hashable:
        """What counts of an object of the user's own; met again, that it is the same one."""
        kind = type(value)
        if issubclass(kind, type | FunctionType | BuiltinFunctionType | enum.Enum | np.ufunc):
            self.named[id(value)] = value
            return weakref.ref(value) if kind is FunctionType else id(value)
        again = self._again(value)
        if again is not None:
            return again
        held = attributes_of(value)
        if held is None or not is_transparent(kind):
            raise Unforeseeable(f"{kind}")
        self.named[id(kind)] = kind
        return self.of(held, is_entered=is_entered and issubclass(kind, NKIObject))


def _is_tensor(value: Any) -> bool:
    is_torch_or_jax = type(value).__module__.partition(".")[0] in _TENSORS
    return isinstance(value, np.ndarray) or (
        is_torch_or_jax and hasattr(value, "shape") and hasattr(value, "dtype")
    )
