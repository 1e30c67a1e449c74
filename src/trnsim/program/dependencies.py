"""Who must wait for whom: the last writer and the last readers of each part of each storage.

An instruction waits for the writers of what it reads, and for the writers and readers of what it
overwrites, unless they ran before it on the same compute engine, which keeps its order (matmuls
that accumulate in one PSUM tile stream without a pause). DMA engines work side by side and keep no
order. Parts are bounding boxes (`memory.Box`) without a byte in common, kept in buckets of rows so
that a tensor of many tiles is not searched as a whole; a part of which an access touches some is
divided. A box is a little larger than a strided tile, so a strided access may wait for a neighbour
that it does not touch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.isa import Engine
from trnsim.memory import Box

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.memory import Tile

_BUCKET_ROWS = 128
_NOBODY = -1
_DMA = Engine.dma


class _Part:
    """A box: who wrote it, on which engine, and who has read it since, by engine.

    A compute engine reads in order, so its last reader stands for all; DMAs are all kept.
    """

    __slots__ = ("box", "engine", "readers", "writer")

    def __init__(self, box: Box, writer: int, engine: Engine) -> None:
        self.box = box
        self.writer = writer
        self.engine = engine
        self.readers: dict[Engine, list[int]] = {}

    def read(self, index: int, engine: Engine) -> None:
        """Instruction `index` reads part of it."""
        if engine is _DMA:
            self.readers.setdefault(engine, []).append(index)
        else:
            self.readers[engine] = [index]

    def narrow(self, box: Box) -> list[_Part]:
        """Keep what lies within `box`; the rest as parts with the same history."""
        rest = [_Part(piece, self.writer, self.engine) for piece in self.box.without(box)]
        for part in rest:
            part.readers = {engine: indices[:] for engine, indices in self.readers.items()}
        self.box = self.box.within(box)
        return rest

    def wait_for_all(self, engine: Engine, found: set[int]) -> None:
        """Adds the writer and the readers that an overwriting instruction waits for."""
        if self.engine is not engine or engine is _DMA:
            found.add(self.writer)
        for reader, indices in self.readers.items():
            if reader is not engine or engine is _DMA:
                found.update(indices)


_Parts = dict[Box, _Part]


class DependencyTable:
    """Finds the predecessors of each instruction as it is issued."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[int, int], _Parts] = {}

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

    def _near(self, tile: Tile) -> Iterable[tuple[_Parts, Box]]:
        """The parts of each bucket of rows that the tile reaches, and its box in that bucket."""
        serial, buckets, box = tile.storage.root_serial, self._buckets, tile.layout.box
        first, last = box[0] // _BUCKET_ROWS, box[1] // _BUCKET_ROWS
        if first == last and (serial, first) in buckets:
            return ((buckets[serial, first], box),)
        return [
            (
                buckets.setdefault((serial, bucket), {}),
                Box(
                    max(box.first_row, bucket * _BUCKET_ROWS),
                    min(box.last_row, (bucket + 1) * _BUCKET_ROWS - 1),
                    box.first_byte,
                    box.last_byte,
                ),
            )
            for bucket in range(first, last + 1)
        ]

    def _read(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        for parts, box in self._near(tile):
            same = parts.get(box)
            if same is None:
                self._read_across(index, engine, parts, box, found)
            else:
                found.add(same.writer)
                same.read(index, engine)

    def _read_across(
        self, index: int, engine: Engine, parts: _Parts, box: Box, found: set[int]
    ) -> None:
        """A read of what lies otherwise than earlier accesses did."""
        unread = [box]
        for part in [part for part in parts.values() if part.box.overlaps(box)]:
            found.add(part.writer)
            unread = [piece for old in unread for piece in old.without(part.box)]
            if not box.contains(part.box):
                del parts[part.box]
                parts.update({piece.box: piece for piece in part.narrow(box)})
                parts[part.box] = part
            part.read(index, engine)
        for piece in unread:
            part = parts[piece] = _Part(piece, _NOBODY, engine)
            part.read(index, engine)

    def _write(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        for parts, box in self._near(tile):
            same = parts.get(box)
            if same is not None:
                same.wait_for_all(engine, found)
            else:
                for part in [part for part in parts.values() if part.box.overlaps(box)]:
                    part.wait_for_all(engine, found)
                    del parts[part.box]
                    parts.update({piece.box: piece for piece in part.narrow(box)})
            parts[box] = _Part(box, index, engine)
