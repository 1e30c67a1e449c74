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


class _Part:
    """A box: who wrote it (None: nobody, it was only read), and who has read it since.

    A compute engine reads in order, so its last reader stands for all; DMAs are all kept.
    """

    __slots__ = ("box", "engine", "readers", "writer")

    def __init__(self, box: Box, writer: int | None, engine: Engine) -> None:
        self.box = box
        self.writer = writer
        self.engine = engine
        self.readers: dict[Engine, list[int]] = {}

    def read(self, index: int, engine: Engine) -> None:
        """Instruction `index` reads part of it."""
        if engine is Engine.dma:
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

    def wait_for_all(self, engine: Engine, found: set[int], *, keeps_order: bool) -> None:
        """Adds the writer and the readers that an overwriting instruction waits for."""
        if self.writer is not None and not (keeps_order and self.engine is engine):
            found.add(self.writer)
        for reader, indices in self.readers.items():
            if not (keeps_order and reader is engine):
                found.update(indices)


class DependencyTable:
    """Finds the predecessors of each instruction as it is issued."""

    def __init__(self) -> None:
        self._buckets: dict[tuple[int, int], list[_Part]] = {}

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
        return found

    def _near(self, tile: Tile) -> Iterable[tuple[list[_Part], Box]]:
        """The parts of each bucket of rows that the tile reaches, and its box in that bucket."""
        serial, buckets, box = tile.storage.root_serial, self._buckets, tile.layout.box
        first, last = box[0] // _BUCKET_ROWS, box[1] // _BUCKET_ROWS
        if first == last:
            return ((buckets.setdefault((serial, first), []), box),)
        return [
            (
                buckets.setdefault((serial, bucket), []),
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
            unread = [box]
            for part in parts[:]:
                is_same = part.box is box
                if not is_same and not part.box.overlaps(box):
                    continue
                if part.writer is not None:
                    found.add(part.writer)
                if not is_same and not box.contains(part.box):
                    parts += part.narrow(box)
                part.read(index, engine)
                unread = [] if is_same else [u for old in unread for u in old.without(part.box)]
            for piece in unread:
                part = _Part(piece, None, engine)
                part.read(index, engine)
                parts.append(part)

    def _write(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        keeps_order = engine is not Engine.dma
        for parts, box in self._near(tile):
            kept = [_Part(box, index, engine)]
            for other in parts:
                is_same = other.box is box
                if is_same or other.box.overlaps(box):
                    other.wait_for_all(engine, found, keeps_order=keeps_order)
                    if not is_same:
                        kept += other.narrow(box)
                else:
                    kept.append(other)
            parts[:] = kept
