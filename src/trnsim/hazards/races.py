"""Data races between cores: two accesses to the same bytes, one a write, that nothing orders.

Two writes of the same values are none: a kernel that does not divide its work leaves the same bytes
whichever core comes last. Without values nobody knows, and two writes are not judged.

Happens-before by vector clocks: each core counts its accesses, and a barrier or an exchange tells
each core how far the other has come. An access races with an earlier one of the other core that it
has not been told of, whatever order the two happened to run in.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnsim.errors import DataRace
from trnsim.memory import ByteMap

if TYPE_CHECKING:
    from collections.abc import Iterable

    from trnsim.dtypes import Array
    from trnsim.errors import SourceLine
    from trnsim.memory import Storage, Tile


class _Shadow:
    """For each byte of a storage and each core: the ticks of its last read and write, and what."""

    def __init__(self, nbytes: int, cores: int) -> None:
        self.reads = [ByteMap(nbytes, np.int32) for _ in range(cores)]
        self.writes = [ByteMap(nbytes, np.int32) for _ in range(cores)]
        self._values: list[Array | None] = [None] * cores

    def keep(self, core: int, tile: Tile) -> None:
        """`core` has written `tile`, with the values that it has now."""
        data = tile.storage.data
        if data is None:
            return
        values = self._values[core]
        if values is None:
            values = self._values[core] = np.zeros(tile.storage.nbytes, np.uint8)
        _bytes_of(tile, values)[tile.touched()] = _bytes_of(tile, data)[tile.touched()]

    def differs(self, core: int, tile: Tile) -> Array:
        """Where the elements of `tile` are not those that `core` wrote there last."""
        data, values = tile.storage.data, self._values[core]
        if data is None or values is None:
            return np.zeros(1, np.bool_)
        touched = tile.touched()
        differing: Array = _bytes_of(tile, data)[touched] != _bytes_of(tile, values)[touched]
        return np.asarray(differing.any(axis=-1))


def _bytes_of(tile: Tile, buffer: Array) -> Array:
    """Where `tile` lies in the bytes of its storage, with a last axis for those of an element."""
    pattern, itemsize = tile.footprint, tile.dtype.itemsize
    return np.ndarray(
        (*pattern.shape, itemsize),
        np.uint8,
        buffer,
        pattern.offset_bytes,
        (*pattern.strides_bytes, 1),
    )


class RaceDetector:
    """Watches the accesses of several cores to the HBM that they share.

    Attributes:
        races: what was found, where `is_strict` is False.
    """

    def __init__(self, cores: int, *, is_strict: bool = True) -> None:
        self.races: list[DataRace] = []
        self._is_strict = is_strict
        self._cores = cores
        self._known = [[0] * cores for _ in range(cores)]
        self._lines: list[list[SourceLine | None]] = [[None] for _ in range(cores)]
        self._shadows: dict[int, _Shadow] = {}
        self._reported: set[tuple[SourceLine | None, SourceLine | None]] = set()

    def join(self) -> None:
        """All cores have met: each knows of everything that the others did so far."""
        now = [self._known[core][core] for core in range(self._cores)]
        self._known = [list(now) for _ in range(self._cores)]

    def accessed(
        self,
        core: int,
        reads: Iterable[Tile],
        writes: Iterable[Tile],
        line: SourceLine | None,
    ) -> None:
        """Core `core` issued an instruction that reads and writes these tiles of shared HBM.

        Raises:
            DataRace: naming both lines, where `is_strict`.
        """
        self._known[core][core] += 1
        self._lines[core].append(line)
        for tile in reads:
            self._check(core, tile, line, writes=False)
        for tile in writes:
            self._check(core, tile, line, writes=True)

    def _shadow(self, storage: Storage) -> _Shadow:
        if storage.serial not in self._shadows:
            self._shadows[storage.serial] = _Shadow(storage.nbytes, self._cores)
        return self._shadows[storage.serial]

    def _check(self, core: int, tile: Tile, line: SourceLine | None, *, writes: bool) -> None:
        shadow = self._shadow(tile.storage)
        pattern, itemsize, touched = tile.footprint, tile.dtype.itemsize, tile.touched()
        for other in range(self._cores):
            if other == core:
                continue
            kinds = [(shadow.writes, "writes")] + ([(shadow.reads, "reads")] if writes else [])
            for maps, did in kinds:
                ticks = maps[other].view(pattern, itemsize)[touched]
                known = self._known[core][other]
                if writes and did == "writes" and ticks.max(initial=0) > known:
                    ticks = ticks * shadow.differs(other, tile)[..., None]
                latest = int(ticks.max(initial=0))
                if latest > known:
                    verb = "writes" if writes else "reads"
                    self._report(tile, line, verb, self._lines[other][latest], did)
        mine = shadow.writes if writes else shadow.reads
        mine[core].view(pattern, itemsize)[touched] = self._known[core][core]
        if writes:
            shadow.keep(core, tile)

    def _report(
        self, tile: Tile, line: SourceLine | None, verb: str, other: SourceLine | None, did: str
    ) -> None:
        if (line, other) in self._reported:
            return
        self._reported.add((line, other))
        race = DataRace(
            f"one core {verb} {tile} at {line} while the other {did} the same bytes at {other}: "
            "nothing orders the two",
            fix="put nisa.core_barrier(data, (0, 1)) between them",
            source="nki.isa.core_barrier",
            line=line,
        )
        if self._is_strict:
            raise race
        self.races.append(race)
