"""Dependences between instructions, from the last writer and readers of each part of a storage.

An instruction waits for the writers of what it reads, and for the writers and readers of what it
overwrites, unless they run on the same compute engine, which executes in order (so matmuls that
accumulate in one PSUM tile stream without a pause). DMA engines run in parallel and keep no order.
Parts are disjoint bounding boxes (`memory.Box`), kept in buckets of rows so that a tensor of many
tiles is not searched as a whole; an access that touches a part only partially splits it. A box may
be larger than a strided tile, so a strided access may wait for a neighbour that it does not touch.

State private to an engine (`isa.language.declaration.State`) needs no dependences, as the engine
executes in order. Dependences through registers are found by `program.context`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.isa import Engine
from trnsim.memory import Box

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.memory import Tile

_NOBODY = -1
_DMA = Engine.dma


class _Part:
    """A box with its last writer, that one's engine, and its readers since, by engine.

    A compute engine executes in order, so only its last reader is kept; of DMAs all are kept.
    """

    __slots__ = ("box", "engine", "readers", "writer")

    def __init__(self, box: Box, writer: int, engine: Engine) -> None:
        self.box = box
        self.writer = writer
        self.engine = engine
        self.readers: dict[Engine, list[int]] = {}

    def narrow(self, box: Box) -> list[_Part]:
        """Shrink this part to `box`; returns the rest as parts with the same history."""
        rest = [_Part(piece, self.writer, self.engine) for piece in self.box.without(box)]
        for part in rest:
            part.readers = {engine: indices[:] for engine, indices in self.readers.items()}
        self.box = self.box.within(box)
        return rest

    def wait_for_all(self, engine: Engine, found: set[int]) -> None:
        """Add to `found` the writer and the readers that an overwriting instruction waits for."""
        if self.engine is not engine or engine is _DMA:
            found.add(self.writer)
        for reader, indices in self.readers.items():
            if reader is not engine or engine is _DMA:
                found.update(indices)


class _Bucket:
    """The parts of some rows of a storage.

    Attributes:
        parts: box -> part; the boxes are disjoint.
        read_across: cache for boxes that were read and are no part: box -> the parts that cover it;
            dropped when the parts change.
    """

    __slots__ = ("parts", "read_across")

    def __init__(self) -> None:
        self.parts: dict[Box, _Part] = {}
        self.read_across: dict[Box, list[_Part]] = {}

    def divide(self, box: Box) -> list[_Part]:
        """The parts that overlap `box`, split where they reach beyond it."""
        self.read_across.clear()
        inside = [part for part in self.parts.values() if part.box.overlaps(box)]
        for part in inside:
            if not box.contains(part.box):
                del self.parts[part.box]
                self.parts.update({piece.box: piece for piece in part.narrow(box)})
                self.parts[part.box] = part
        return inside

    def covering(self, box: Box, engine: Engine) -> list[_Part]:
        """The parts that make up `box`, which is not itself the box of a part."""
        found = self.read_across.get(box)
        if found is not None:
            return found
        found = self.divide(box)
        if sum(part.box.nbytes for part in found) < box.nbytes:
            for piece in box.without_all([part.box for part in found]):
                part = self.parts[piece] = _Part(piece, _NOBODY, engine)
                found.append(part)
        self.read_across[box] = found
        return found


class DependencyTable:
    """Finds the predecessors of each instruction as it is issued.

    Its data about a storage is kept in the storage, and so freed with it.
    """

    def predecessors(
        self, index: int, engine: Engine, reads: Iterable[Tile], writes: Iterable[Tile]
    ) -> set[int]:
        """The earlier instructions that instruction `index` waits for; records its accesses."""
        found: set[int] = set()
        for tile in reads:
            self._read(index, engine, tile, found)
        for tile in writes:
            self._write(index, engine, tile, found)
        found.discard(index)
        found.discard(_NOBODY)
        return found

    def _read(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        accesses = tile.storage.accesses
        for number, box in tile.layout.buckets:
            bucket: _Bucket | None = accesses.get((self, number))
            if bucket is None:
                bucket = accesses[self, number] = _Bucket()
            same = bucket.parts.get(box)
            for part in bucket.covering(box, engine) if same is None else (same,):
                found.add(part.writer)
                if engine is _DMA:
                    part.readers.setdefault(engine, []).append(index)
                else:
                    part.readers[engine] = [index]

    def _write(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        accesses = tile.storage.accesses
        for number, box in tile.layout.buckets:
            bucket: _Bucket | None = accesses.get((self, number))
            if bucket is None:
                bucket = accesses[self, number] = _Bucket()
                bucket.parts[box] = _Part(box, index, engine)
                continue
            same = bucket.parts.get(box)
            if same is None:
                self._write_across(engine, bucket, box, found)
                bucket.parts[box] = _Part(box, index, engine)
                continue
            same.wait_for_all(engine, found)
            same.writer, same.engine = index, engine
            if same.readers:
                same.readers = {}

    def _write_across(self, engine: Engine, bucket: _Bucket, box: Box, found: set[int]) -> None:
        """A write to a box that no earlier access had: it replaces the parts it covers."""
        for part in bucket.divide(box):
            part.wait_for_all(engine, found)
            del bucket.parts[part.box]
