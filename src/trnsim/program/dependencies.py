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
    from collections.abc import Iterable, Iterator

    from trnsim.memory import Box, Storage, Tile

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

    def wait_for_all(self, engine: Engine, found: set[int], *, keeps_order: bool) -> None:
        """Adds the writer and the readers that an overwriting instruction waits for."""
        if self.writer is not None and not (keeps_order and self.engine is engine):
            found.add(self.writer)
        for reader, indices in self.readers.items():
            if not (keeps_order and reader is engine):
                found.update(indices)


class _History:
    """The parts of one storage, by bucket of rows."""

    __slots__ = ("buckets",)

    def __init__(self) -> None:
        self.buckets: dict[int, list[_Part]] = {}

    def overlapping(self, box: Box) -> Iterator[_Part]:
        """The parts that share a byte with `box`."""
        for bucket in _buckets(box):
            for part in self.buckets.get(bucket, ()):
                if part.box.overlaps(box):
                    yield part


class DependencyTable:
    """Finds the predecessors of each instruction as it is issued."""

    def __init__(self) -> None:
        self._histories: dict[int, _History] = {}

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

    def _history(self, storage: Storage) -> _History:
        serial = storage.root.serial
        history = self._histories.get(serial)
        if history is None:
            history = self._histories[serial] = _History()
        return history

    def _read(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        history = self._history(tile.storage)
        box = tile.box
        is_known = False
        for part in history.overlapping(box):
            if part.writer is not None:
                found.add(part.writer)
            part.read(index, engine)
            is_known = is_known or part.box.contains(box)
        if not is_known:
            part = _Part(box, None, engine)
            part.read(index, engine)
            for bucket in _buckets(box):
                history.buckets.setdefault(bucket, []).append(part)

    def _write(self, index: int, engine: Engine, tile: Tile, found: set[int]) -> None:
        history = self._history(tile.storage)
        box = tile.box
        keeps_order = engine is not Engine.dma
        part = _Part(box, index, engine)
        for bucket in _buckets(box):
            kept = [part]
            for other in history.buckets.get(bucket, ()):
                if other.box.overlaps(box):
                    other.wait_for_all(engine, found, keeps_order=keeps_order)
                    if box.contains(other.box):
                        continue
                kept.append(other)
            history.buckets[bucket] = kept


def _buckets(box: Box) -> range:
    return range(box.first_row // _BUCKET_ROWS, box.last_row // _BUCKET_ROWS + 1)
