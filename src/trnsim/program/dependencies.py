"""Dependences between instructions, from the last writer and readers of each part of a storage.

An instruction waits for the writers of the bytes that it reads, and for the writers and readers of
those that it overwrites. On its own compute engine it does not wait, but may not overtake them
(`Before`), so matmuls that accumulate in a PSUM tile stream without a pause. DMA engines run in
parallel, so a transfer waits for an earlier transfer whose bytes it overwrites.
Parts are disjoint bounding boxes (`memory.Box`), kept in buckets of rows so that a tensor of many
tiles is not searched as a whole. An access that touches only a piece of a part splits the part. A
box may be larger than a strided tile, so a strided access may wait for an access beside it.

State private to an engine (`isa.language.declaration.State`) orders the instructions that use it.
`program.context` handles dependences through registers.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

from trnsim.isa import Engine
from trnsim.isa.language.declaration import State
from trnsim.memory import Box, Memory, Tile

_NO_WRITER = -1
_EARLY = -1
"""The number, in place of a bucket's, of the reads of a storage before its first write."""
_MOST_PARTS = 64
"""The most parts of a box that stay as they are when it is written as a whole."""
_DMA = Engine.dma
_HBM = Memory.HBM
_Buckets: TypeAlias = tuple[tuple[int, Box], ...]


class Before(NamedTuple):
    """The earlier instructions that constrain the start of an instruction.

    Attributes:
        waits_for: instructions that have to end before it starts.
        follows: further instructions that it may not overtake: on its own compute engine, or
            because the kernel asks for it.
    """

    waits_for: list[int]
    follows: list[int]


class _EarlyReads(NamedTuple):
    """Reads of a tensor in HBM that nothing has written: most inputs are never written.

    Attributes:
        indices: the instructions that read it.
        buckets: for each, the parts of buckets that it reads (`TileLayout.buckets`).
    """

    indices: array[int]
    buckets: list[_Buckets]


class _Part:
    """A box with its last writer and its readers since."""

    __slots__ = ("box", "readers", "writer")

    def __init__(self, box: Box, writer: int) -> None:
        self.box = box
        self.writer = writer
        self.readers: list[int] = []

    def narrow(self, box: Box) -> list[_Part]:
        """Shrink this part to `box`; returns the rest as parts with the same history."""
        rest = [_Part(piece, self.writer) for piece in self.box.difference(box)]
        for part in rest:
            part.readers = self.readers[:]
        self.box = self.box.intersection(box)
        return rest


class _Bucket:
    """The parts of some rows of a storage.

    Attributes:
        parts: box -> part; the boxes are disjoint.
        across: cache for boxes that are no part: box -> the parts that make it up; dropped when a
            part is removed or split, since new parts only lie in gaps.
    """

    __slots__ = ("_by_width", "across", "parts")

    def __init__(self) -> None:
        self.parts: dict[Box, _Part] = {}
        self.across: dict[Box, list[_Part]] = {}
        # Boxes of about one width, by their first byte: neither a large memory with many tiles nor
        # the many narrow parts of a wide tile are searched as a whole.
        self._by_width: dict[int, list[tuple[int, Box]]] = {}

    def add(self, box: Box, writer: int) -> _Part:
        """Add a part, which overlaps no other part."""
        part = self.parts[box] = _Part(box, writer)
        self._add_to_index(box)
        return part

    def remove(self, box: Box) -> None:
        """Remove the part with this box."""
        self.across.clear()
        del self.parts[box]
        boxes = self._by_width[_width_bits(box)]
        del boxes[bisect_left(boxes, (box.first_byte, box))]
        if not boxes:
            del self._by_width[_width_bits(box)]

    def divide(self, box: Box) -> list[_Part]:
        """The parts that overlap `box`, split where they reach beyond it."""
        parts = [self.parts[part_box] for part_box in self._overlapping_boxes(box)]
        for part in parts:
            if not box.contains(part.box):
                self.remove(part.box)
                for piece in part.narrow(box):
                    self.parts[piece.box] = piece
                    self._add_to_index(piece.box)
                self.parts[part.box] = part
                self._add_to_index(part.box)
        return parts

    def parts_of(self, box: Box) -> list[_Part]:
        """The parts that make up `box`, which is not the box of a single part."""
        parts = self.across.get(box)
        if parts is not None:
            return parts
        parts = self.divide(box)
        if sum(part.box.nbytes for part in parts) < box.nbytes:
            parts += [
                self.add(piece, _NO_WRITER) for piece in box.difference_all([p.box for p in parts])
            ]
        self.across[box] = parts
        return parts

    def rewritten_parts(self, box: Box) -> list[_Part]:
        """The parts that make up `box`, which an instruction writes.

        Parts with gaps, and more than `_MOST_PARTS`, become one, whose readers are all that
        accessed them.
        """
        own_part = self.parts.get(box)
        if own_part is not None:
            return [own_part]
        parts = self.across.get(box)
        if parts is None:
            parts = self.divide(box)
            if sum(part.box.nbytes for part in parts) == box.nbytes:
                self.across[box] = parts
        if len(parts) <= _MOST_PARTS and box in self.across:
            return parts
        for part in parts:
            self.remove(part.box)
        united_part = self.add(box, _NO_WRITER)
        for part in parts:
            united_part.readers += part.writer, *part.readers
        return [united_part]

    def _add_to_index(self, box: Box) -> None:
        insort(self._by_width.setdefault(_width_bits(box), []), (box.first_byte, box))

    def _overlapping_boxes(self, box: Box) -> list[Box]:
        """The boxes of parts that share a byte with `box`."""
        first_row, last_row, first_byte, last_byte = box
        result: list[Box] = []
        for bits, boxes in self._by_width.items():
            first = bisect_left(boxes, (first_byte - (1 << bits),))
            last = bisect_left(boxes, (last_byte + 1,))
            # `Box.overlaps`, inlined: this runs over many boxes for each instruction.
            result += [
                candidate
                for _, candidate in boxes[first:last]
                if candidate[0] <= last_row
                and candidate[1] >= first_row
                and candidate[3] >= first_byte
            ]
        return result


def _width_bits(box: Box) -> int:
    """The number of bits of ``width - 1`` in bytes: equal for widths within a factor of two."""
    return (box.last_byte - box.first_byte).bit_length()


class DependencyTable:
    """Computes the dependences of each instruction when it is issued.

    Its data about a storage is kept in the storage, and so freed with it.
    """

    def __init__(self) -> None:
        self._engine_of: list[Engine] = []
        self._last_use: dict[tuple[Engine, State], int] = {}

    def before(
        self,
        engine: Engine,
        reads: Iterable[Tile],
        writes: Iterable[Tile],
        after: Iterable[int] = (),
        states: Iterable[State] = (),
    ) -> Before:
        """The dependences of the next instruction, on `engine`; records its accesses.

        Args:
            engine: the engine that executes it.
            reads: the tiles that it reads.
            writes: the tiles that it writes.
            after: further instructions that it depends on, and the complement (~) of one that it
                may not overtake.
            states: the private states of its engine that it uses.
        """
        engine_of = self._engine_of
        index = len(engine_of)
        prerequisites: set[int] = set()
        others: set[int] = {i for i in after if i >= 0} if after else set()
        for tile in reads:
            storage = tile.storage
            if storage.memory is _HBM:
                self._read_hbm(index, tile, prerequisites)
            else:
                self._read_parts(index, storage.accesses, tile.layout.buckets, prerequisites)
        for tile in writes:
            self._write(index, tile, others)
        for state in states:
            others.add(self._last_use.get((engine, state), _NO_WRITER))
            self._last_use[engine, state] = index
        engine_of.append(engine)
        others -= prerequisites
        follows: list[int] = []
        if others and engine is not _DMA:
            follows = [i for i in others if i >= 0 and engine_of[i] is engine and i != index]
            if follows:
                follows.sort()
                others.difference_update(follows)
        prerequisites |= others
        prerequisites.discard(index)
        prerequisites.discard(_NO_WRITER)
        if after:
            not_overtaken = {~i for i in after if i < 0}
            follows = sorted(not_overtaken.union(follows) - prerequisites)
        return Before(sorted(prerequisites), follows)

    def _read_hbm(self, index: int, tile: Tile, predecessors: set[int]) -> None:
        accesses, buckets = tile.storage.accesses, tile.layout.buckets
        key = self, _EARLY
        if key not in accesses:
            accesses[key] = _EarlyReads(array("l"), [])
        early_reads: _EarlyReads | None = accesses[key]
        if early_reads is not None:
            early_reads.indices.append(index)
            early_reads.buckets.append(buckets)
            return
        self._read_parts(index, accesses, buckets, predecessors)

    def _read_parts(
        self,
        index: int,
        accesses: dict[tuple[object, int], Any],
        buckets: _Buckets,
        predecessors: set[int],
    ) -> None:
        for number, box in buckets:
            bucket: _Bucket | None = accesses.get((self, number))
            if bucket is None:
                bucket = accesses[self, number] = _Bucket()
            own_part = bucket.parts.get(box)
            if own_part is not None:
                predecessors.add(own_part.writer)
                own_part.readers.append(index)
                continue
            for part in bucket.parts_of(box):
                predecessors.add(part.writer)
                part.readers.append(index)

    def _write(self, index: int, tile: Tile, predecessors: set[int]) -> None:
        accesses = tile.storage.accesses
        if tile.storage.memory is _HBM:
            early_reads: _EarlyReads | None = accesses.get((self, _EARLY))
            accesses[self, _EARLY] = None
            if early_reads is not None:
                for reader, buckets in zip(early_reads.indices, early_reads.buckets, strict=True):
                    self._read_parts(reader, accesses, buckets, set())
        for number, box in tile.layout.buckets:
            bucket: _Bucket | None = accesses.get((self, number))
            if bucket is None:
                bucket = accesses[self, number] = _Bucket()
                bucket.add(box, index)
                continue
            for part in bucket.rewritten_parts(box):
                predecessors.add(part.writer)
                part.writer = index
                if part.readers:
                    predecessors.update(part.readers)
                    part.readers = []
