"""Storages: the bytes behind tensors, with flags for those that have been written.

A storage is one allocation in HBM, SBUF or PSUM. On chip its rows are partitions, `pitch_bytes`
apart; in HBM its rows are those of the tensor that was allocated. In shape-only mode it has no
bytes, only its size.
"""

from __future__ import annotations

from copy import copy
from enum import Enum
from functools import lru_cache
from itertools import count
from typing import Any, Self

from trnsim.dtypes import Array, Dtype
from trnsim.errors import SourceLine
from trnsim.memory.access import AccessPattern
from trnsim.memory.box import Box
from trnsim.memory.bytemask import ByteMask
from trnsim.memory.ended_loop import EndedLoopMask
from trnsim.memory.place import MemoryPlace


class Memory(Enum):
    """A memory: HBM, SBUF or PSUM."""

    HBM = "HBM"
    SBUF = "SBUF"
    PSUM = "PSUM"

    # Members are dictionary keys on the hot issue path; Enum's own hash is slow Python code.
    __hash__ = object.__hash__

    def __init__(self, label: str) -> None:
        """The memory with its label; on chip, dimension 0 of a tensor is the partition axis."""
        self.is_on_chip = label != "HBM"


_serial = count()


def next_serial() -> int:
    """The next serial number: above those of all existing storages, below all later ones."""
    return next(_serial)


class Storage:
    """One allocation; its address is left to the compiler.

    Attributes:
        pitch_bytes: bytes from one row (on chip: partition) to the next.
        data: its bytes, or None in shape-only mode.
        name: the user's name for it, or "".
        line: the line that allocated it.
        start_partition: partition of its first row (on chip).
        is_placed: whether the kernel fixed its address.
        is_argument: whether it is an argument of the kernel.
        is_exchanged: whether a collective reads or writes it.
        is_shared: whether several cores see it.
        has_sentinels: whether unwritten bytes may be read, as on AWS's simulator.
        written: the bytes that have been written.
        changed: bytes written since the user's array was copied in, to be copied back to it; None
            if nothing is copied back.
        serial: unique number, in order of allocation.
        root_serial: serial number of the storage that owns its bytes: its own, unless it is a
            `PlacedStorage`.
        origin_bytes: its offset within the storage that owns its bytes.
        allocated_as: format and pattern of the tensor that it was allocated for.
        accesses: records of hazard tracking, which are freed with the storage.
    """

    __slots__ = (
        "__weakref__",
        "_accumulation_mask",
        "_set_by_others",
        "accesses",
        "allocated_as",
        "changed",
        "data",
        "has_sentinels",
        "is_argument",
        "is_exchanged",
        "is_shared",
        "line",
        "memory",
        "name",
        "nbytes",
        "pitch_bytes",
        "root_serial",
        "serial",
        "start_partition",
        "written",
    )

    is_placed: bool = False
    origin_bytes: int = 0

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
        start_partition: int = 0,
    ) -> None:
        self.memory = memory
        self.nbytes = nbytes
        self.pitch_bytes = pitch_bytes
        self.name = name
        self.line = line
        self.data = data
        self.is_argument = self.is_exchanged = False
        self.is_shared = self.has_sentinels = False
        self.start_partition = start_partition
        self.written = ByteMask(nbytes, is_full=is_written)
        self.changed: ByteMask | None = None
        self.allocated_as: tuple[Dtype, AccessPattern] | None = None
        self.serial = self.root_serial = next(_serial)
        self.accesses: dict[tuple[object, int], Any] = {}
        self._accumulation_mask: ByteMask | None = None
        self._set_by_others: ByteMask | None = None

    def bare(self) -> Self:
        """A copy without bytes, marked as fully written."""
        duplicate = copy(self)
        duplicate.data = None
        duplicate.written = ByteMask(self.nbytes, is_full=True)
        duplicate.changed = None
        duplicate.accesses = {}
        duplicate._accumulation_mask = copy(self._accumulation_mask)  # noqa: SLF001  of this class
        duplicate.restart()
        return duplicate

    def holding(self, data: Array) -> Self:
        """A copy with the bytes `data`, marked as fully written."""
        duplicate = self.bare()
        duplicate.data = data
        return duplicate

    def leave_loop(self, loop: str) -> None:
        """Refuse all later uses: the device loop in whose body it was allocated has ended."""
        self.written = EndedLoopMask(loop, self.line)

    def restart(self) -> None:
        """Reset the accumulation state to that of a storage that no matmul has written."""
        self._accumulation_mask = self._set_by_others = None

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the tensor itself, which may be less than the pitch."""
        return self.pitch_bytes

    @property
    def accumulation_mask(self) -> ByteMask:
        """The mask of dense bytes (see `dense_pattern`) that a matmul has written (PSUM)."""
        if self._accumulation_mask is None:
            self._accumulation_mask = ByteMask(self.nbytes)
        return self._accumulation_mask

    @property
    def is_accumulated(self) -> bool:
        """True if a matmul may have written any byte of it (PSUM)."""
        return self._accumulation_mask is not None

    @property
    def is_simple(self) -> bool:
        """True if a write is noted in `written` alone: no address, accumulation or copy."""
        return self._accumulation_mask is None and self.changed is None and not self.is_placed

    @property
    def is_set_by_others(self) -> bool:
        """True if another instruction may have overwritten any byte that a matmul wrote."""
        return self._set_by_others is not None and not self._set_by_others.is_empty

    @property
    def set_by_others(self) -> ByteMask:
        """The mask of bytes of `accumulation_mask` that other instructions have overwritten."""
        if self._set_by_others is None:
            self._set_by_others = ByteMask(self.accumulation_mask.nbytes)
        return self._set_by_others

    def placed_bytes(self, own_bytes: int) -> int:
        """A distance in the tensor's own dense bytes, converted to one in its storage."""
        return own_bytes

    def own_bytes(self, placed_bytes: int) -> int:
        """The inverse of `placed_bytes`."""
        return placed_bytes

    def dense_pattern(self, pattern: AccessPattern) -> AccessPattern:
        """`pattern` converted to the tensor's own dense bytes, which index `accumulation_mask`.

        Tensors at one address share bytes, but each has its own accumulation state.
        """
        return pattern

    def note_write(self, box: Box) -> None:
        """Record a write into `box`, which overwrites the data of overlapping tensors."""

    def overwritten_by(self, box: Box) -> Storage | None:  # noqa: ARG002
        """The storage at an overlapping address that was the last to write into `box`, if any."""
        return None


class PlacedStorage(Storage):
    """A tensor at an address fixed by the kernel: a part of the storage of a whole memory.

    Its rows lie a whole partition apart; `own_bytes` converts distances to its own dense rows.
    """

    __slots__ = ("_own_row_bytes", "_place", "_since", "origin_bytes")

    is_placed = True

    def __init__(
        self,
        root: Storage,
        row_bytes: int,
        origin_bytes: int,
        place: MemoryPlace,
        since: int,
        *,
        name: str = "",
        line: SourceLine | None = None,
    ) -> None:
        """A part of `root`; writes by others at `place` count from write number `since` on."""
        super().__init__(
            root.memory, root.nbytes, root.pitch_bytes, name=name, line=line, data=root.data
        )
        self.written = root.written
        self.root_serial = root.serial
        self.accesses = root.accesses
        self.origin_bytes = origin_bytes
        self._place = place
        self._own_row_bytes = row_bytes
        self._since = since
        rows = place.box.last_row - place.box.first_row + 1
        self._accumulation_mask = ByteMask(rows * row_bytes)

    def restart(self) -> None:
        """Reset the accumulation state, and the record of writes by other tensors."""
        self._place = MemoryPlace(self._place.box)
        self._set_by_others = None
        if self._accumulation_mask is not None:
            self._accumulation_mask.clear()

    @property
    def row_bytes(self) -> int:
        """Bytes of a row of the tensor itself, which may be less than the pitch."""
        return self._own_row_bytes

    def placed_bytes(self, own_bytes: int) -> int:
        """A distance in the tensor's own dense bytes, converted to one in its storage."""
        rows, rest = divmod(own_bytes, self.row_bytes)
        return rows * self.pitch_bytes + rest

    def own_bytes(self, placed_bytes: int) -> int:
        """The inverse of `placed_bytes`."""
        return _own_bytes(placed_bytes, self.pitch_bytes, self._own_row_bytes)

    def dense_pattern(self, pattern: AccessPattern) -> AccessPattern:
        """`pattern` converted to the tensor's own dense bytes, which index `accumulation_mask`."""
        return _dense_pattern(pattern, self.origin_bytes, self.pitch_bytes, self._own_row_bytes)

    def note_write(self, box: Box) -> None:
        """Record a write into `box`, which overwrites the data of overlapping tensors."""
        self._place.note_write(self, box)

    def overwritten_by(self, box: Box) -> Storage | None:
        """The storage at an overlapping address that was the last to write into `box`, if any."""
        return self._place.overwritten_by(self, self._since, box)


def _own_bytes(placed_bytes: int, pitch_bytes: int, row_bytes: int) -> int:
    """A distance among rows that lie `pitch_bytes` apart, where these lie `row_bytes` apart."""
    rows, rest = divmod(abs(placed_bytes), pitch_bytes)
    distance = rows * row_bytes + rest
    return distance if placed_bytes >= 0 else -distance


@lru_cache(maxsize=1 << 12)
def _dense_pattern(
    pattern: AccessPattern, origin_bytes: int, pitch_bytes: int, row_bytes: int
) -> AccessPattern:
    """`pattern`, of a tensor at `origin_bytes` whose rows lie `pitch_bytes` apart, without gaps."""
    return AccessPattern(
        pattern.shape,
        tuple(_own_bytes(stride, pitch_bytes, row_bytes) for stride in pattern.strides_bytes),
        _own_bytes(pattern.offset_bytes - origin_bytes, pitch_bytes, row_bytes),
    )
