"""Bookkeeping per byte of a storage: a value for each byte, or a set of bytes.

Flags are kept at the granularity of the accesses, so that a float32 tensor costs one flag per
element; a smaller access refines them.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from math import gcd, prod
from typing import Any, Final

import numpy as np

from trnsim.dtypes import Array
from trnsim.memory.access import AccessPattern

_MOST_COVERED: Final = 1 << 12
"""The most patterns that a mask remembers."""
_NO_PATTERNS: Final = frozenset[tuple[AccessPattern, int]]()


class ByteMap:
    """One value of `dtype` for each byte of a storage, 0 at first."""

    __slots__ = ("_dtype", "_grain_bytes", "_nbytes", "values")

    def __init__(self, nbytes: int, dtype: Any) -> None:
        self._nbytes = nbytes
        self._dtype = np.dtype(dtype)
        self._grain_bytes = 0
        self.values: Array | None = None

    def view(self, pattern: AccessPattern, itemsize: int) -> Array:
        """The values of `pattern`: [*shape, grains of an element]; a grain is a run of bytes.

        All bytes of a grain have the same value.
        """
        grain = gcd(itemsize, pattern.offset_bytes, *pattern.strides_bytes, self._nbytes)
        if self.values is None:
            self._grain_bytes = grain
            self.values = np.zeros(self._nbytes // grain, self._dtype)
        elif grain % self._grain_bytes:
            finer = gcd(self._grain_bytes, grain)
            self.values = np.repeat(self.values, self._grain_bytes // finer)
            self._grain_bytes = finer
        step = self._grain_bytes
        if not pattern.shape:  # a single run of bytes
            first = pattern.offset_bytes // step
            return self.values[first : first + itemsize // step]
        return np.ndarray(
            (*pattern.shape, itemsize // step),
            self._dtype,
            self.values,
            pattern.offset_bytes // step * self._dtype.itemsize,
            (
                *(stride // step * self._dtype.itemsize for stride in pattern.strides_bytes),
                self._dtype.itemsize,
            ),
        )


class ByteMask:
    """A set of bytes of a storage.

    Most tensors are written as a whole, so the empty and the full set need no array.

    Attributes:
        nbytes: bytes of the storage.
        is_full: whether every byte is known to be in the set.
    """

    __slots__ = ("_added_bytes", "_covered", "_map", "is_full", "nbytes")

    def __init__(self, nbytes: int, *, is_full: bool = False) -> None:
        self.nbytes = nbytes
        self.is_full = is_full
        self._map: ByteMap | None = None
        self._added_bytes = 0
        # Patterns known to be in the set: a kernel reads and writes the same tiles in each turn.
        self._covered: AbstractSet[tuple[AccessPattern, int]] = _NO_PATTERNS

    @property
    def is_empty(self) -> bool:
        """True if the set is empty."""
        return not self.is_full and self._map is None

    def clear(self) -> None:
        """Remove all bytes."""
        self.is_full, self._map, self._added_bytes = False, None, 0
        self._covered = _NO_PATTERNS

    def add(self, pattern: AccessPattern, itemsize: int) -> None:
        """Add the bytes of `pattern`."""
        if self.is_full or (pattern, itemsize) in self._covered:
            return
        nbytes = itemsize * prod(pattern.shape)
        if nbytes == self.nbytes and pattern.is_packed(itemsize):
            self.fill()
            return
        self._view(pattern, itemsize).fill(True)
        self._note_covered(pattern, itemsize)
        self._added_bytes += nbytes
        if self._added_bytes >= self.nbytes:
            self._recount()

    def fill(self) -> None:
        """Add every byte of the storage."""
        self.is_full, self._map = True, None

    def _recount(self) -> None:
        """Update `is_full`, once enough bytes were added (some perhaps twice)."""
        flags = self._map.values if self._map is not None else None
        if flags is not None:
            self._added_bytes = int(np.count_nonzero(flags)) * (self.nbytes // flags.size)
            if self._added_bytes == self.nbytes:
                self.fill()

    def mark(self, pattern: AccessPattern, itemsize: int, places: Any) -> None:
        """Add the bytes of the elements of `pattern` at `places`, a numpy index."""
        if not self.is_full:
            self._view(pattern, itemsize)[places] = True

    def discard(self, pattern: AccessPattern, itemsize: int, places: Any = ...) -> None:
        """Remove the bytes of `pattern`, or of its elements at `places`."""
        if not self.is_full and self._map is None:
            return
        self._covered = _NO_PATTERNS
        view = self._view(pattern, itemsize)
        if self.is_full and self._map is not None and self._map.values is not None:
            self._map.values[...] = True
            self.is_full, self._added_bytes = False, self.nbytes
        view[places] = False

    def covers(self, pattern: AccessPattern, itemsize: int) -> bool:
        """True if every byte of `pattern` is in the set."""
        if self.is_full:
            return True
        if (pattern, itemsize) in self._covered:
            return True
        if self._map is None or not self._view(pattern, itemsize).all():
            return False
        self._note_covered(pattern, itemsize)
        return True

    def _note_covered(self, pattern: AccessPattern, itemsize: int) -> None:
        """Remember that every byte of `pattern` is in the set."""
        covered = self._covered
        if not isinstance(covered, set) or len(covered) == _MOST_COVERED:
            covered = self._covered = set()
        covered.add((pattern, itemsize))

    def is_disjoint(self, pattern: AccessPattern, itemsize: int) -> bool:
        """True if no byte of `pattern` is in the set."""
        if self.is_full or self._map is None:
            return not self.is_full
        return not self._view(pattern, itemsize).any()

    def flags(self, pattern: AccessPattern, itemsize: int) -> Array:
        """One boolean per element of `pattern`: whether its bytes are in the set."""
        if self.is_full or self._map is None:
            return np.full(pattern.shape, self.is_full)
        return np.asarray(self._view(pattern, itemsize).all(axis=-1))

    def _view(self, pattern: AccessPattern, itemsize: int) -> Array:
        if self._map is None:
            self._map = ByteMap(self.nbytes, np.bool_)
        return self._map.view(pattern, itemsize)
