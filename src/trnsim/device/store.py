"""The key-value store that all ranks of a program share, with PyTorch's methods."""

from __future__ import annotations

from typing import Protocol


class Store(Protocol):
    """Texts by key, shared by all ranks."""

    def set(self, key: str, value: str) -> None:
        """Set the value of a key."""
        ...

    def check(self, keys: list[str]) -> bool:
        """True if every key has a value."""
        ...

    def multi_get(self, keys: list[str]) -> list[bytes]:
        """The values of keys that have one."""
        ...

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        """The value of a key; `expected` where it has none."""
        ...

    def delete_key(self, key: str) -> bool:
        """Remove a key and its value."""
        ...
