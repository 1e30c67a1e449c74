"""Who must wait for whom: the last writer and the last readers of each part of each storage.

An instruction waits for the writers of what it reads, and for the writers and readers of what it
overwrites, unless they ran before it on the same compute engine, which keeps its order (matmuls
that accumulate in one PSUM tile stream without a pause). DMA engines work side by side and keep no
order. Parts are bounding boxes (`memory.Box`), kept in buckets of rows so that a tensor of
many tiles is not searched as a whole. A box is a little larger than a strided tile, so a strided
access may wait for a neighbour that it does not touch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trnsim.isa import Engine

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.memory import Box, Tile

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

    def wait_for_all(self, engine: Engine, found: set[int]) -> None:
        """Adds the writer and the readers that an overwriting instruction waits for."""
        if self.engine is not engine or engine is _DMA:
            found.add(self.writer)
        for reader, indices in self.readers.items():
            if reader is not engine or engine is _DMA:
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
        found.discard(_NOBODY)
        return found

    def _near(self, tile: Tile, box: Box) -> Iterable[list[_Part]]:
        """The parts of each bucket of rows that `box` reaches."""
        serial, buckets = tile.storage.root_serial, self._buckets
        first, last = box[0] // _BUCKET_ROWS, box[1] // _BUCKET_ROWS
        if first == last and (serial, first) in buckets:
            return (buckets[serial, first],)
        return [buckets.setdefault((serial, bucket), []) for bucket in range(first, last + 1)]

    def _read(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        box = tile.layout.box
        near = self._near(tile, box)
        is_known = False
        for parts in near:
            for part in parts:
                is_same = part.box is box  # as most are: tiles that lie alike share theirs
                if is_same or part.box.overlaps(box):
                    found.add(part.writer)
                    if engine is _DMA and engine in part.readers:
                        part.readers[engine].append(index)
                    else:
                        part.readers[engine] = [index]
                    is_known = is_known or is_same or part.box.contains(box)
        if not is_known:
            part = _Part(box, _NOBODY, engine)
            part.readers[engine] = [index]
            for parts in near:
                parts.append(part)

    def _write(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        box = tile.layout.box
        part = _Part(box, index, engine)
        for parts in self._near(tile, box):
            kept = [part]
            for other in parts:
                is_same = other.box is box
                if is_same or other.box.overlaps(box):
                    other.wait_for_all(engine, found)
                    if is_same or box.contains(other.box):
                        continue
                kept.append(other)
            parts[:] = kept
