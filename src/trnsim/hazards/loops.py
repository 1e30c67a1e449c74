"""Loop-carried dependences that `nl.affine_range` denies.

An iteration that reads what an earlier iteration of the same loop wrote depends on the order of the
iterations. NKI's compiler unrolls the loop in order today, so such a kernel runs, and is warned of.

Not a dependence in this sense are associative reductions: an instruction that reads what it writes,
such as a sum kept in a tile, and matmuls that accumulate in PSUM.

Source: nki-dynamic-loops.rst ("formerly for parallel iterations with no loop-carried dependency");
matrix_multiplication.rst ("associative reductions are not considered loop carried dependencies").
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from trnsim.memory import ByteMap

if TYPE_CHECKING:
    from trnsim.errors import SourceLine
    from trnsim.memory import AccessPattern, Box, Tile


@dataclass(slots=True)
class _Write:
    """A write inside a loop: where, by which line, and the how manyth it was.

    Without the tile itself, which would keep its bytes alive as long as the loop.
    """

    number: int
    box: Box
    pattern: AccessPattern
    itemsize: int
    line: SourceLine | None

    @property
    def is_dense(self) -> bool:
        """Whether it fills its bounding box."""
        first_row, last_row, first_byte, last_byte = self.box
        area_bytes = (last_row - first_row + 1) * (last_byte - first_byte + 1)
        return self.pattern.elements * self.itemsize == area_bytes


@dataclass(slots=True, eq=False)
class _Loop:
    """A running loop: the number of the first write in it, and of that in this iteration.

    Two loops that begin at one write are two.
    """

    first: int
    iteration_first: int


class LoopWatcher:
    """Watches the accesses of one core while it runs loops whose iterations should be independent.

    Attributes:
        found: a sentence for each pair of lines that depend on each other.
    """

    def __init__(self) -> None:
        self.found: list[str] = []
        self._loops: list[_Loop] = []
        self._count = 0
        self._writes: dict[int, list[_Write]] = {}
        self._reported: set[tuple[SourceLine | None, SourceLine | None]] = set()

    @contextmanager
    def loop(self) -> Generator[_Loop]:
        """A loop runs."""
        running = _Loop(self._count, self._count)
        self._loops.append(running)
        try:
            yield running
        finally:
            self._loops.remove(running)
            if not self._loops:
                self._writes.clear()

    def iterate(self, loop: _Loop) -> None:
        """The next iteration of `loop` begins."""
        loop.iteration_first = self._count

    def accessed(
        self, reads: Iterable[Tile], writes: Iterable[Tile], line: SourceLine | None
    ) -> None:
        """An instruction at `line` has read and written these tiles."""
        if not self._loops:
            return
        # Where an index tensor points is not looked at.
        written = [tile for tile in writes if tile.index is None]
        for tile in reads:
            is_reduction = any(_same_bytes(tile, other) for other in written)
            if tile.index is None and not is_reduction:
                self._check(tile, line)
        for tile in written:
            self._note(tile, line)

    def _note(self, tile: Tile, line: SourceLine | None) -> None:
        write = _Write(self._count, tile.box, tile.pattern, tile.dtype.itemsize, line)
        self._count += 1
        earlier = self._writes.setdefault(tile.storage.root_serial, [])
        if earlier and earlier[-1].box == write.box and write.is_dense:
            earlier.pop()
        earlier.append(write)

    def _check(self, tile: Tile, line: SourceLine | None) -> None:
        """Report `tile` if a byte of it comes from an earlier iteration."""
        writes = self._writes.get(tile.storage.root_serial)
        if not writes or self._none_is_carried(writes[0].number, writes[-1].number):
            return
        candidates: list[_Write] = []
        box = tile.box
        for write in reversed(writes):
            if write.box.overlaps(box):
                candidates.append(write)
                if write.is_dense and write.box.contains(box):
                    break
        if not any(self._is_carried(write) for write in candidates):
            return
        # Boxes overlap; only now look which bytes do.
        found = _last_writes(tile, reversed(candidates))
        for write in candidates:
            if write.number in found and self._is_carried(write):
                self._report(tile, line, write)

    def _none_is_carried(self, first: int, last: int) -> bool:
        """Whether writes `first` to `last` all lie outside of the loops' earlier iterations."""
        return all(last < loop.first or loop.iteration_first <= first for loop in self._loops)

    def _is_carried(self, write: _Write) -> bool:
        return any(loop.first <= write.number < loop.iteration_first for loop in self._loops)

    def _report(self, tile: Tile, line: SourceLine | None, write: _Write) -> None:
        if (line, write.line) in self._reported:
            return
        self._reported.add((line, write.line))
        self.found.append(
            f"an iteration of nl.affine_range reads {tile} at {line}, which an earlier iteration "
            f"wrote at {write.line}: affine_range says that iterations do not depend on each other"
            "\n  fix: use range or nl.sequential_range for this loop"
            "\n  source: nki-dynamic-loops.rst, affine_range"
        )


def _same_bytes(one: Tile, other: Tile) -> bool:
    return one.storage.root_serial == other.storage.root_serial and one.box == other.box


def _last_writes(tile: Tile, writes: Iterable[_Write]) -> set[int]:
    """The numbers of the writes, oldest first, whose bytes `tile` finds."""
    numbers = ByteMap(tile.storage.nbytes, np.int64)
    for write in writes:
        numbers.view(write.pattern, write.itemsize)[...] = write.number + 1
    view = numbers.view(tile.pattern, tile.dtype.itemsize)
    return {int(number) - 1 for number in np.unique(view)}
