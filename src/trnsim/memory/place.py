"""Places: boxes of an on-chip memory shared by tensors with an address, and their last writers.

Kernels that rotate buffers allocate thousands of tensors at a few addresses. Tensors of one box
share a place, so a new tensor costs a look-up, and a write costs a step per neighbouring box.
"""

from __future__ import annotations

from itertools import count
from typing import TYPE_CHECKING, NamedTuple

from trnsim.memory.box import Box

if TYPE_CHECKING:
    from trnsim.memory.storage import Storage

_clock = count()


class _Write(NamedTuple):
    """A write of `writer` into `box`, numbered by the memory's write counter."""

    box: Box
    writer: Storage
    moment: int


class MemoryPlace:
    """A box occupied by one or several tensors.

    Attributes:
        box: its rows and bytes in the memory.
        neighbours: the places that share bytes with it, itself included.
    """

    __slots__ = ("_writes", "box", "neighbours")

    def __init__(self, box: Box) -> None:
        self.box = box
        self.neighbours: list[MemoryPlace] = [self]
        self._writes: list[_Write] = []

    def note_write(self, writer: Storage, box: Box) -> None:
        """Record that `writer`, a tensor of this place, writes `box`."""
        write = _Write(box, writer, next(_clock))
        for place in self.neighbours:
            place.add_write(write)

    def add_write(self, write: _Write) -> None:
        """Record a write, and drop the earlier writes that it covers entirely."""
        box = write.box
        if box.contains(self.box):
            self._writes = [write]
        elif self.box.overlaps(box):
            self._writes = [earlier for earlier in self._writes if not box.contains(earlier.box)]
            self._writes.append(write)

    def overwritten_by(self, reader: Storage, since: int, box: Box) -> Storage | None:
        """The last other tensor that wrote into `box` after `since` and after `reader` wrote there.

        None if no tensor did.
        """
        parts = [box]
        for write in reversed(self._writes):
            if write.moment < since or not parts:
                return None
            if write.writer is reader:
                if write.box.contains(box):
                    return None
                parts = [rest for part in parts for rest in part.difference(write.box)]
            elif any(part.overlaps(write.box) for part in parts):
                return write.writer
        return None


class MemoryPlaces:
    """The places of an on-chip memory."""

    def __init__(self) -> None:
        self._by_box: dict[Box, MemoryPlace] = {}

    def place_of(self, box: Box) -> tuple[MemoryPlace, int]:
        """The place of `box`, and the write number from which its new tensor's life starts."""
        place = self._by_box.get(box)
        if place is None:
            place = MemoryPlace(box)
            for neighbour in self._by_box.values():
                if neighbour.box.overlaps(box):
                    neighbour.neighbours.append(place)
                    place.neighbours.append(neighbour)
            self._by_box[box] = place
        return place, next(_clock)
