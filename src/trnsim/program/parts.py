"""Parts: the pieces of an on-chip tensor that can be spilled separately, and their accesses.

A kernel may keep many tiles in a tensor, so an entire tensor is too much to move at once. A part is
a range of bytes of every partition, cut where accesses of the program begin and end.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Container, Iterable, Iterator
from enum import Enum, auto
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.memory import Box, Memory, Tile
from trnsim.memory.layout import TileLayout

if TYPE_CHECKING:
    from trnsim.program.program import Program

_HBM = Memory.HBM

MIN_PART_BYTES: Final = 512
"""Length of the shortest part on a partition, if its tensor is longer.

Assumed: shorter transfers use the DMA engines poorly, and would be many.
"""

NEVER: Final = 1 << 62
"""Index of the next use of a part whose data are never used again."""


class Touches:
    """The on-chip tiles that each instruction reads and writes, except tensors with an address."""

    __slots__ = ("_layouts", "_serials", "_start")

    def __init__(self) -> None:
        self._layouts: list[TileLayout] = []
        self._serials = array("q")  # of the storage; its complement for a write
        self._start = array("q", [0])

    def __len__(self) -> int:
        return len(self._start) - 1

    def note(self, reads: Iterable[Tile], writes: Iterable[Tile], uses: Container[int]) -> None:
        """Append an instruction's tiles of the storages whose serials are in `uses`."""
        serials, layouts = self._serials, self._layouts
        for tile in reads:
            storage = tile.storage
            if storage.memory is not _HBM and storage.serial in uses:
                serials.append(storage.serial)
                layouts.append(tile.layout)
        for tile in writes:
            storage = tile.storage
            if storage.memory is not _HBM and storage.serial in uses:
                serials.append(~storage.serial)
                layouts.append(tile.layout)
        self._start.append(len(serials))

    def append(self, tiles: Iterable[tuple[int, TileLayout, bool]]) -> None:
        """Append an instruction's tiles, in the form of `tiles_of`."""
        for serial, layout, is_written in tiles:
            self._serials.append(~serial if is_written else serial)
            self._layouts.append(layout)
        self._start.append(len(self._serials))

    def tiles_of(self, index: int) -> Iterator[tuple[int, TileLayout, bool]]:
        """(serial, layout, true if written) of each tile of instruction `index`."""
        for place in range(self._start[index], self._start[index + 1]):
            serial = self._serials[place]
            is_written = serial < 0
            yield ~serial if is_written else serial, self._layouts[place], is_written

    def read_tile(self, index: int, place: int, count: int) -> tuple[int, object] | None:
        """The storage and the byte pattern of a tile that instruction `index` reads.

        None if one of its tiles has a fixed address, or if accesses were not recorded.

        Args:
            index: the instruction.
            place: the tile's position among those that the instruction reads.
            count: the number of tiles that the instruction reads.
        """
        if index >= len(self):
            return None
        serials, start, end = self._serials, self._start[index], self._start[index + 1]
        first_written = start + count  # the tiles that are read come first
        if (
            first_written > end
            or (count and serials[first_written - 1] < 0)
            or (first_written < end and serials[first_written] >= 0)
        ):
            return None
        return serials[start + place], self._layouts[start + place].pattern

    def serials(self, index: int) -> list[int]:
        """The storages of the tiles of instruction `index`."""
        signed = self._serials[self._start[index] : self._start[index + 1]]
        return [serial if serial >= 0 else ~serial for serial in signed]

    def columns(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """(serial, instruction) of each access."""
        serials = np.array(self._serials, np.int64)
        start: npt.NDArray[np.int64] = np.array(self._start, np.int64)
        counts = start[1:] - start[:-1]
        return np.maximum(serials, ~serials), np.repeat(np.arange(len(counts)), counts)

    def boxes(self, serials: Container[int]) -> dict[int, set[Box]]:
        """Serial -> the distinct accessed boxes, for the storages with these `serials`."""
        boxes: defaultdict[int, set[Box]] = defaultdict(set)
        for signed_serial, layout in zip(self._serials, self._layouts, strict=True):
            serial = max(signed_serial, ~signed_serial)
            if serial in serials:
                boxes[serial].add(layout.box)
        return boxes


class TensorPart(NamedTuple):
    """A range of bytes of each partition of a tensor.

    Attributes:
        serial: the tensor's storage.
        first_byte: its first byte on a partition.
        row_bytes: its length on a partition.
        rows: the number of partitions.
    """

    serial: int
    first_byte: int
    row_bytes: int
    rows: int

    @property
    def nbytes(self) -> int:
        """Bytes on all partitions."""
        return self.row_bytes * self.rows


class AccessKind(Enum):
    """The kind of an instruction's access to a part."""

    USE = auto()
    """It reads the data."""
    CHANGE = auto()
    """It writes some of the data, or reads and writes."""
    FILL = auto()
    """It writes all bytes: the data before it are dead."""


class Access(NamedTuple):
    """An instruction's access to a part.

    Attributes:
        next_use: the next instruction that needs the data; `NEVER` if they are dead afterwards.
    """

    part: int
    kind: AccessKind
    next_use: int


class Division:
    """The parts of a program's tensors in a memory on chip.

    Attributes:
        accesses: for each instruction, its accesses, at most one per part.
    """

    def __init__(self, program: Program, memory: Memory) -> None:
        self.parts: list[TensorPart] = []
        self._cuts: dict[int, list[int]] = {}
        self._first: dict[int, int] = {}
        self._rows: dict[int, tuple[int, int]] = {}
        serials = {serial for serial, use in program.uses.items() if use.memory is memory}
        for serial, boxes in program.touches.boxes(serials).items():
            self._divide(serial, boxes, program.uses[serial].row_bytes)
        self.accesses: list[list[Access]] = [[] for _ in range(len(program))]
        next_access: dict[int, tuple[int, AccessKind]] = {}
        for index in range(len(program) - 1, -1, -1):
            for part, kind in self._kinds(program.touches.tiles_of(index)).items():
                later, later_kind = next_access.get(part, (NEVER, AccessKind.FILL))
                next_use = NEVER if later_kind is AccessKind.FILL else later
                self.accesses[index].append(Access(part, kind, next_use))
                next_access[part] = index, kind

    def peak_bytes(self) -> int:
        """The most bytes of a partition that are live at once, counted by parts, not tensors."""
        live_parts: set[int] = set()
        level = peak = 0
        for accesses in self.accesses:
            new_parts = {access.part for access in accesses} - live_parts
            level += sum(self.parts[part].row_bytes for part in new_parts)
            peak = max(peak, level)
            dead_parts = {access.part for access in accesses if access.next_use == NEVER}
            level -= sum(self.parts[part].row_bytes for part in dead_parts)
            live_parts |= new_parts
            live_parts -= dead_parts
        return peak

    def _divide(self, serial: int, boxes: set[Box], row_bytes: int) -> None:
        cuts = _cuts({edge for box in boxes for edge in (box.first_byte, box.last_byte + 1)})
        rows = min(box.first_row for box in boxes), max(box.last_row for box in boxes)
        self._cuts[serial], self._first[serial], self._rows[serial] = cuts, len(self.parts), rows
        for start, end in pairwise([*cuts, row_bytes]):
            self.parts.append(TensorPart(serial, start, end - start, rows[1] - rows[0] + 1))

    def _kinds(self, tiles: Iterable[tuple[int, TileLayout, bool]]) -> dict[int, AccessKind]:
        """Part -> kind of access, for the tiles of an instruction."""
        kinds: dict[int, AccessKind] = {}
        for serial, layout, is_written in tiles:
            if serial not in self._cuts:
                continue
            box, cuts, first = layout.box, self._cuts[serial], self._first[serial]
            low, high = self._rows[serial]
            is_dense = box.first_row == low and box.last_row == high and layout.nbytes == box.nbytes
            last = bisect_right(cuts, box.last_byte)
            for place in range(bisect_right(cuts, box.first_byte) - 1, last):
                kind = AccessKind.USE
                if is_written:
                    end = cuts[place] + self.parts[first + place].row_bytes
                    is_full = box.first_byte <= cuts[place] and end <= box.last_byte + 1
                    kind = AccessKind.FILL if is_dense and is_full else AccessKind.CHANGE
                previous = kinds.setdefault(first + place, kind)
                if previous is not kind:
                    kinds[first + place] = _combined_kind(previous, kind)
        return kinds


def _cuts(edges: set[int]) -> list[int]:
    """The first byte of each part: the edges at least `MIN_PART_BYTES` apart, and 0."""
    end = max(edges)
    cuts = [0]
    for edge in sorted(edges):
        if edge - cuts[-1] >= MIN_PART_BYTES and end - edge >= MIN_PART_BYTES:
            cuts.append(edge)
    return cuts


def _combined_kind(first: AccessKind, second: AccessKind) -> AccessKind:
    """The combined kind of two different accesses of an instruction to the same part."""
    is_only_written = AccessKind.USE not in (first, second)
    return AccessKind.FILL if is_only_written else AccessKind.CHANGE
