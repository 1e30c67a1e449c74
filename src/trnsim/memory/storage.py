"""Storages: the bytes behind tensors, and which of them have been written.

A storage is one allocation in HBM, SBUF or PSUM. On chip its rows are partitions, `pitch_bytes`
apart; in HBM its rows are those of the tensor that was allocated. In shape-only mode it has no
bytes, only its size.
"""

from __future__ import annotations

import weakref
from enum import Enum
from itertools import count
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from trnsim.memory.box import Box

if TYPE_CHECKING:
    from trnsim.dtypes import Array
    from trnsim.errors import SourceLine
    from trnsim.memory.access import AccessPattern


class Memory(Enum):
    """Where a storage lives."""

    HBM = "HBM"
    SBUF = "SBUF"
    PSUM = "PSUM"

    @property
    def is_on_chip(self) -> bool:
        """Whether dimension 0 of a tensor here is the partition axis."""
        return self is not Memory.HBM


class ByteMask:
    """A set of bytes of a storage, kept at the grain at which it is accessed.

    Most tensors are written as a whole, so nothing and everything need no array.
    """

    __slots__ = ("_bits", "_full", "_grain_bytes", "_nbytes")

    def __init__(self, nbytes: int, *, full: bool = False) -> None:
        self._nbytes = nbytes
        self._full = full
        self._bits: Array | None = None
        self._grain_bytes = 0

    def clear(self) -> None:
        """Nothing is in the set."""
        self._full, self._bits = False, None

    def add(self, pattern: AccessPattern, itemsize: int) -> None:
        """The bytes of `pattern` are in the set."""
        if self._full:
            return
        if pattern.elements * itemsize == self._nbytes and pattern.is_packed(itemsize):
            self._full, self._bits = True, None
            return
        self._view(pattern, itemsize)[...] = True

    def mark(self, pattern: AccessPattern, itemsize: int, places: Any) -> None:
        """The elements of `pattern` that numpy finds at `places` are in the set."""
        if not self._full:
            self._view(pattern, itemsize)[places] = True

    def discard(self, pattern: AccessPattern, itemsize: int) -> None:
        """The bytes of `pattern` are no longer in the set."""
        if not self._full and self._bits is None:
            return
        view = self._view(pattern, itemsize)
        if self._full and self._bits is not None:
            self._bits[...] = True
            self._full = False
        view[...] = False

    def covers(self, pattern: AccessPattern, itemsize: int) -> bool:
        """Whether every byte of `pattern` is in the set."""
        if self._full:
            return True
        if self._bits is None:
            return False
        return bool(self._view(pattern, itemsize).all())

    def is_disjoint(self, pattern: AccessPattern, itemsize: int) -> bool:
        """Whether no byte of `pattern` is in the set."""
        if self._full or self._bits is None:
            return not self._full
        return not self._view(pattern, itemsize).any()

    def of(self, pattern: AccessPattern, itemsize: int) -> Array:
        """One boolean an element of `pattern`: whether its bytes are in the set."""
        if self._full or self._bits is None:
            return np.full(pattern.shape, self._full)
        return np.asarray(self._view(pattern, itemsize).all(axis=-1))

    def _view(self, pattern: AccessPattern, itemsize: int) -> Array:
        """The flags of `pattern`, with a last axis for the grains of an element."""
        grain = gcd(itemsize, pattern.offset_bytes, *pattern.strides_bytes, self._nbytes)
        if self._bits is None:
            self._grain_bytes = grain
            self._bits = np.zeros(self._nbytes // grain, np.bool_)
        elif self._grain_bytes % grain:
            finer = gcd(self._grain_bytes, grain)
            self._bits = np.repeat(self._bits, self._grain_bytes // finer)
            self._grain_bytes = finer
        step = self._grain_bytes
        if (
            itemsize % step
            or pattern.offset_bytes % step
            or any(stride % step for stride in pattern.strides_bytes)
        ):
            self._bits = np.repeat(self._bits, step // grain)
            self._grain_bytes = step = grain
        return np.ndarray(
            (*pattern.shape, itemsize // step),
            np.bool_,
            self._bits,
            pattern.offset_bytes // step,
            (*(stride // step for stride in pattern.strides_bytes), 1),
        )


_serial = count()


class Storage:
    """One allocation.

    Attributes:
        memory: where it lives.
        nbytes: its size.
        pitch_bytes: bytes from one row (partition) to the next.
        data: its bytes, or None in shape-only mode.
        name: the user's name for it, or "".
        line: the line that allocated it.
        start_partition: partition of its first row, on chip.
        is_placed: whether the kernel fixed its address.
        written: the bytes that something wrote.
        accumulating: the bytes that a matmul wrote since the allocation (PSUM).
        serial: a number of its own, in order of allocation.
        root: the storage whose bytes it shares: itself, or that of the whole memory where the
            kernel fixed its address.
    """

    __slots__ = (
        "__weakref__",
        "accumulating",
        "data",
        "is_placed",
        "line",
        "memory",
        "name",
        "nbytes",
        "overlapping",
        "overwritten",
        "pitch_bytes",
        "root",
        "serial",
        "start_partition",
        "written",
    )

    def __init__(
        self,
        memory: Memory,
        nbytes: int,
        pitch_bytes: int,
        *,
        name: str = "",
        line: SourceLine | None = None,
        data: Array | None = None,
        is_written: bool = False,
        is_placed: bool = False,
        start_partition: int = 0,
        root: Storage | None = None,
    ) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pitch_bytes = pitch_bytes
        self.name = name
        self.line = line
        self.data = data
        self.is_placed = is_placed
        self.start_partition = start_partition
        self.written = ByteMask(nbytes, full=is_written)
        self.accumulating = ByteMask(nbytes)
        self.serial = next(_serial)
        self.root: Storage = self
        self.overlapping: list[weakref.ref[Storage]] = []
        self.overwritten: list[tuple[Box, Storage]] = []
        if root is not None:
            self.root, self.data = root, root.data
            self.written, self.accumulating = root.written, root.accumulating

    def note_write(self, box: Box) -> None:
        """A tile of this storage writes `box`: its own again, and lost to what overlaps it."""
        if not self.overlapping:
            return
        self.overwritten = [
            (rest, culprit) for old, culprit in self.overwritten for rest in old.without(box)
        ]
        for reference in self.overlapping:
            other = reference()
            if other is not None:
                other.overwritten.append((box, self))

    def overwritten_by(self, box: Box) -> Storage | None:
        """The storage at an overlapping address that wrote into `box` last, if one did."""
        for old, culprit in reversed(self.overwritten):
            if old.overlaps(box):
                return culprit
        return None
