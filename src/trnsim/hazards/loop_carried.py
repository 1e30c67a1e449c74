"""Loop-carried dependences in `nl.affine_range` loops, which promise to have none.

An iteration that reads what an earlier iteration of the same loop wrote depends on the order of
the iterations. NKI's compiler today unrolls the loop in order, so such a kernel runs, with a
warning.

Associative reductions do not count as dependences: an instruction that reads what it writes, such
as a sum kept in a tile, and matmuls that accumulate in PSUM.

Source: nki-dynamic-loops.rst ("formerly for parallel iterations with no loop-carried dependency");
matrix_multiplication.rst ("associative reductions are not considered loop carried dependencies").
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from trnsim.errors import SourceLine
from trnsim.memory import ByteMap, Tile, TileLayout


class _LoopWrite(NamedTuple):
    """A write inside a loop: its number, the layout of its tile, and its source line."""

    number: int
    layout: TileLayout
    line: SourceLine | None

    @property
    def is_dense(self) -> bool:
        """True if it fills its whole bounding box."""
        return self.layout.nbytes == self.layout.box.nbytes


@dataclass(slots=True, eq=False)
class _Loop:
    """A running loop: the numbers of the first write in it and of the first in this iteration.

    Compared by identity: two loops that have written nothing yet are still different.
    """

    first: int
    iteration_first: int


class LoopWatcher:
    """Watches the accesses of one core while it runs loops whose iterations should be independent.

    Attributes:
        dependences: a message for each pair of lines that depend on each other.
    """

    def __init__(self) -> None:
        self.dependences: list[str] = []
        self.running: list[_Loop] = []
        self._count = 0
        self._key = self, 0
        self._reported: set[tuple[SourceLine | None, SourceLine | None]] = set()

    @contextmanager
    def loop(self) -> Generator[_Loop]:
        """A running loop, as a context."""
        new_loop = _Loop(self._count, self._count)
        self.running.append(new_loop)
        try:
            yield new_loop
        finally:
            self.running.remove(new_loop)

    def iterate(self, loop: _Loop) -> None:
        """Start the next iteration of `loop`."""
        loop.iteration_first = self._count

    def accessed(self, reads: list[Tile], writes: list[Tile], line: SourceLine | None) -> None:
        """Record the accesses of an instruction at `line`, and check its reads."""
        if not self.running:
            return
        # The addresses in an index tensor are not followed.
        for tile in reads:
            earlier_writes: list[_LoopWrite] | None = tile.storage.accesses.get(self._key)
            if earlier_writes is None or tile.index is not None:
                continue
            if self._may_be_carried(earlier_writes) and not _is_reduction(tile, writes):
                self._check(tile, earlier_writes, line)
        for tile in writes:
            if tile.index is None:
                self._record_write(tile, line)

    def _record_write(self, tile: Tile, line: SourceLine | None) -> None:
        """Record a write in its storage, so that it is freed with the storage."""
        write = _LoopWrite(self._count, tile.layout, line)
        self._count += 1
        accesses = tile.storage.accesses
        earlier_writes: list[_LoopWrite] | None = accesses.get(self._key)
        if earlier_writes is None:
            accesses[self._key] = [write]
            return
        if earlier_writes[-1].layout.box == write.layout.box and write.is_dense:
            earlier_writes.pop()
        earlier_writes.append(write)

    def _check(self, tile: Tile, writes: list[_LoopWrite], line: SourceLine | None) -> None:
        """Report `tile` if a byte of it was written by an earlier iteration."""
        candidates: list[_LoopWrite] = []
        box = tile.layout.box
        for write in reversed(writes):
            if write.layout.box.overlaps(box):
                candidates.append(write)
                if write.is_dense and write.layout.box.contains(box):
                    break
        if not any(self._is_carried(write) for write in candidates):
            return
        # The bounding boxes overlap; now compare the bytes, which is slower.
        current_writes = _last_writes(tile, reversed(candidates))
        for write in candidates:
            if write.number in current_writes and self._is_carried(write):
                self._report(tile, line, write)

    def _may_be_carried(self, writes: list[_LoopWrite]) -> bool:
        """True if any of the writes, oldest first, may be from an earlier iteration of a loop."""
        first, last = writes[0].number, writes[-1].number
        if first >= self.running[-1].iteration_first:  # outer iterations began earlier
            return False
        return any(loop.first <= last and first < loop.iteration_first for loop in self.running)

    def _is_carried(self, write: _LoopWrite) -> bool:
        return any(loop.first <= write.number < loop.iteration_first for loop in self.running)

    def _report(self, tile: Tile, line: SourceLine | None, write: _LoopWrite) -> None:
        if (line, write.line) in self._reported:
            return
        self._reported.add((line, write.line))
        self.dependences.append(
            f"an iteration of nl.affine_range reads {tile} at {line}, which an earlier iteration "
            f"wrote at {write.line}: affine_range says that iterations do not depend on each other"
            "\n  fix: use range or nl.sequential_range for this loop"
            "\n  source: nki-dynamic-loops.rst, affine_range"
        )


def _is_reduction(tile: Tile, writes: Iterable[Tile]) -> bool:
    """True if `writes`, of the instruction that reads `tile`, include its box: an accumulation."""
    place = tile.storage.root_serial, tile.layout.box
    return any(
        place == (written_tile.storage.root_serial, written_tile.layout.box)
        for written_tile in writes
        if written_tile.index is None
    )


def _last_writes(tile: Tile, writes: Iterable[_LoopWrite]) -> set[int]:
    """The numbers of the writes whose bytes are now in `tile`."""
    numbers = ByteMap(tile.storage.nbytes, np.int64)
    for write in writes:
        pattern = write.layout.pattern
        numbers.view(pattern, write.layout.nbytes // pattern.elements)[...] = write.number + 1
    view = numbers.view(tile.pattern, tile.dtype.itemsize)
    return {int(number) - 1 for number in np.unique(view)}
