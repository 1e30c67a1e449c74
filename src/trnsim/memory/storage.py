"""Storages: the bytes behind tensors, and which of them have been written.

A storage is one allocation in HBM, SBUF or PSUM. On chip its rows are partitions, `pitch_bytes`
apart; in HBM its rows are those of the tensor that was allocated. In shape-only mode it has no
bytes, only its size.
"""

from __future__ import annotations

from enum import Enum
from itertools import count
from typing import TYPE_CHECKING

from trnsim.memory.access import AccessPattern
from trnsim.memory.bytemask import ByteMask

if TYPE_CHECKING:
    from trnsim.dtypes import Array
    from trnsim.errors import SourceLine
    from trnsim.memory.box import Box
    from trnsim.memory.place import Place


class Memory(Enum):
    """Where a storage lives."""

    HBM = "HBM"
    SBUF = "SBUF"
    PSUM = "PSUM"

    # Memories key the dictionaries of the issue path; Enum's own hash is Python code.
    __hash__ = object.__hash__

    def __init__(self, label: str) -> None:
        """Note whether dimension 0 of a tensor here is the partition axis."""
        self.is_on_chip = label != "HBM"


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
        is_shared: whether several cores see it.
        written: the bytes that something wrote.
        accumulating: the bytes of its own (see `started`) that a matmul onto it wrote (PSUM).
        serial: a number of its own, in order of allocation.
        row_bytes: bytes of one of its own rows; the rows of a tensor with an address lie a whole
            partition apart, but patterns count in its own.
        origin_bytes: where it begins within its root.
        root_serial: the serial number of the storage whose bytes it shares: its own, or that of
            the whole memory where the kernel fixed its address.
        place: the box that it shares with other tensors at its address, where the kernel fixed it.
        since: the moment from which what others write there is lost to it.
    """

    __slots__ = (
        "__weakref__",
        "accumulating",
        "data",
        "is_placed",
        "is_shared",
        "line",
        "memory",
        "name",
        "nbytes",
        "origin_bytes",
        "pitch_bytes",
        "place",
        "root_serial",
        "row_bytes",
        "serial",
        "since",
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
        self.is_shared = False
        self.start_partition = start_partition
        self.written = ByteMask(nbytes, full=is_written)
        self.accumulating = ByteMask(nbytes)
        self.serial = next(_serial)
        self.root_serial = self.serial if root is None else root.serial
        self.row_bytes = pitch_bytes
        self.origin_bytes = 0
        self.place: Place | None = None
        self.since = 0
        if root is not None:
            self.data = root.data
            self.written = root.written

    def placed_bytes(self, own_bytes: int) -> int:
        """A distance within the tensor's own dense rows, as one between its rows where they lie."""
        if self.row_bytes == self.pitch_bytes:
            return own_bytes
        rows, rest = divmod(own_bytes, self.row_bytes)
        return rows * self.pitch_bytes + rest

    def own_bytes(self, placed_bytes: int) -> int:
        """The inverse of `placed_bytes`."""
        if self.row_bytes == self.pitch_bytes:
            return placed_bytes
        rows, rest = divmod(abs(placed_bytes), self.pitch_bytes)
        distance = rows * self.row_bytes + rest
        return distance if placed_bytes >= 0 else -distance

    def started(self, pattern: AccessPattern) -> AccessPattern:
        """`pattern` within the tensor's own dense bytes, where `accumulating` keeps its flags.

        Tensors at one address share bytes; which of them a matmul has started they do not.
        """
        if self.row_bytes == self.pitch_bytes:
            return pattern
        return AccessPattern(
            pattern.shape,
            tuple(self.own_bytes(stride) for stride in pattern.strides_bytes),
            self.own_bytes(pattern.offset_bytes - self.origin_bytes),
        )

    def note_write(self, box: Box) -> None:
        """A tile of this storage writes `box`: its own again, and lost to what overlaps it."""
        if self.place is not None:
            self.place.note_write(self, box)

    def overwritten_by(self, box: Box) -> Storage | None:
        """The storage at an overlapping address that wrote into `box` last, if one did."""
        return None if self.place is None else self.place.overwritten_by(self, self.since, box)
