"""Handles: the addresses by which PJRT's caller refers to objects of trnsim, and these objects.

A handle is the address of its own zeroed memory, since callers read the memory of some handles.
Callers free handles through functions that cannot be Python's (`trnsim.jax.pjrt.table`), so there
is no notice when a handle is no longer used. A buffer's handle is the address of the object itself,
as no caller reads its memory. Objects of a client live as long as the client, buffers and
executables until a sweep (`trnsim.jax.pjrt.sweep`), and errors and events until a `Ring` drops
them.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T")

_Memory: Final = ctypes.c_char * 64

words: Final[Any] = (ctypes.c_size_t * (1 << 57)).from_address(0)
"""The memory of this process: `words[address >> 3]` is the word of 8 bytes at a C address.

One subscript costs a sixth of a struct's `from_address` and field.
"""


class Handle:
    """An object with an address."""

    __slots__ = ("_memory", "address")

    def __init__(self) -> None:
        self._memory = _Memory()
        self.address = ctypes.addressof(self._memory)


class Ring(Generic[T]):
    """The last `capacity` objects that were added, by address."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._entries: dict[int, tuple[Any, T]] = {}
        self._order: deque[int] = deque()

    def add(self, item: T) -> int:
        """Add an object; its address."""
        memory = _Memory()
        address = ctypes.addressof(memory)
        self._entries[address] = memory, item
        self._order.append(address)
        if len(self._order) > self._capacity:
            self._entries.pop(self._order.popleft(), None)
        return address

    def get(self, address: int) -> T | None:
        """The object at an address; None if it is gone."""
        entry = self._entries.get(address)
        return None if entry is None else entry[1]


class Text:
    """A string that C reads: its address and its length in bytes."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, text: str | bytes) -> None:
        content = text.encode() if isinstance(text, str) else text
        self._memory = ctypes.create_string_buffer(content)
        self.address = ctypes.addressof(self._memory)
        self.size = len(content)


class Numbers:
    """Numbers or addresses that C reads: the address of an array of `kind`, and its length."""

    __slots__ = ("_memory", "address", "size")

    def __init__(self, kind: Any, numbers: Sequence[int]) -> None:
        self._memory = (kind * max(len(numbers), 1))(*numbers)
        self.address = ctypes.addressof(self._memory)
        self.size = len(numbers)


def pointers(addresses: Sequence[int]) -> Numbers:
    """An array of addresses."""
    return Numbers(ctypes.c_void_p, addresses)


class Texts:
    """Strings that C reads: an array of their addresses, and one of their lengths."""

    __slots__ = ("_texts", "addresses", "sizes")

    def __init__(self, texts: Sequence[str | bytes]) -> None:
        self._texts = [Text(text) for text in texts]
        self.addresses = pointers([text.address for text in self._texts])
        self.sizes = Numbers(ctypes.c_size_t, [text.size for text in self._texts])


def string_at(address: int | None, size: int) -> bytes:
    """The bytes of a caller's string."""
    return ctypes.string_at(address, size) if address and size else b""


def numbers_at(address: int | None, count: int, kind: Any = ctypes.c_int64) -> list[int]:
    """The numbers of a caller's array."""
    return list((kind * count).from_address(address)) if address and count else []


def write_pointers(address: int, handles: Sequence[int]) -> None:
    """Write addresses into a caller's array."""
    place: Any = (ctypes.c_size_t * len(handles)).from_address(address)
    place[:] = handles
