"""Data races between cores: two accesses to the same bytes, one a write, that nothing orders.

Two writes of the same bytes are in doubt: a kernel that does not divide its work leaves the same
bytes whichever core comes last, one that is wrong may do so for these inputs. Without values nobody
knows. What reads while another core writes is a race whatever the values.

Source: nki.isa.core_barrier: it synchronizes on its data; nki.isa.sendrecv.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from trnsim.errors import DataRace
from trnsim.memory import ByteMap

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Sequence

    from trnsim.dtypes import Array
    from trnsim.errors import SourceLine
    from trnsim.memory import Storage, Tile


_NOT_JUDGED = "whether the bytes are equal could not be judged, as the run has no values"


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

    A barrier orders the accesses to the tensor that it names: those of the other core before it
    come before one's own after it. Everything else is ordered only through instructions that wait
    for each other: from a later one back over what it waits for, across barriers and exchanges, to
    an earlier one of the other core.

    Attributes:
        races: what was found, where `is_strict` is False.
        doubtful: writes of both cores that wrote the same bytes, or of which nobody knows.
    """

    def __init__(self, cores: int, *, is_strict: bool = True) -> None:
        self.races: list[DataRace] = []
        self.doubtful: list[DataRace] = []
        self._is_strict = is_strict
        self._cores = cores
        self._waits: list[list[Sequence[int]]] = [[] for _ in range(cores)]
        self._lines: list[list[SourceLine | None]] = [[] for _ in range(cores)]
        self._meetings: dict[tuple[int, int], Hashable] = {}
        self._meeting_of: dict[Hashable, dict[int, int]] = {}
        self._named: dict[Hashable, list[int]] = {}
        self._guarded: dict[int, list[int]] = {}
        self._shadows: dict[int, _Shadow] = {}
        self._reported: set[tuple[SourceLine | None, SourceLine | None, bool]] = set()

    def meets(self, core: int, key: Hashable, data: Tile | None = None) -> None:
        """The next instruction of `core` meets those that other cores give the same `key`.

        Args:
            core: its number.
            key: of this barrier or exchange alone.
            data: the tensor whose accesses it orders, for a barrier.
        """
        here = len(self._waits[core])
        self._meetings[core, here] = key
        arrived = self._meeting_of.setdefault(key, {})
        arrived[core] = here
        named = self._named.setdefault(key, [])
        if data is not None:
            named.append(data.storage.serial)
        if len(arrived) == self._cores:  # before, nobody knows of the others
            for serial in named:
                self._guarded[serial] = [arrived[each] for each in range(self._cores)]

    def accessed(
        self,
        core: int,
        reads: Iterable[Tile],
        writes: Iterable[Tile],
        line: SourceLine | None,
        waits_for: Sequence[int] = (),
    ) -> None:
        """Core `core` issued an instruction that reads and writes these tiles of shared HBM.

        Args:
            core: its number.
            reads: what it reads there.
            writes: what it writes there.
            line: the user's line.
            waits_for: the earlier instructions of the core that it comes after, by number.

        Raises:
            DataRace: naming both lines, where `is_strict`.
        """
        self._waits[core].append(waits_for)
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
        """Compare an access with those of the other cores; ticks are instructions from 1 on."""
        shadow = self._shadow(tile.storage)
        pattern, itemsize, touched = tile.footprint, tile.dtype.itemsize, tile.touched()
        known = self._guarded.get(tile.storage.serial, [0] * self._cores)
        verb = "writes" if writes else "reads"
        for other in range(self._cores):
            if other == core:
                continue
            kinds = [(shadow.writes, "writes")] + ([(shadow.reads, "reads")] if writes else [])
            for maps, did in kinds:
                ticks = maps[other].view(pattern, itemsize)[touched]
                if ticks.max(initial=0) <= known[other]:
                    continue
                ticks = ticks * np.isin(ticks, self._unordered(core, other, ticks, known[other]))
                if writes and did == "writes":
                    ticks = self._judge_writes(shadow, other, tile, line, ticks)
                self._report(tile, line, verb, other, int(ticks.max(initial=0)), did)
        mine = shadow.writes if writes else shadow.reads
        mine[core].view(pattern, itemsize)[touched] = len(self._waits[core])
        if writes:
            shadow.keep(core, tile)

    def _unordered(self, core: int, other: int, ticks: Array, known: int) -> list[int]:
        """Of the other core's instructions after `known`, those that the current one need not see.

        A search backwards from the current instruction over what has to come before it.
        """
        wanted = {int(tick) - 1 for tick in np.unique(ticks) if tick > known}
        seen: set[tuple[int, int]] = set()
        waiting = [(core, len(self._waits[core]) - 1)]
        while waiting and wanted:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            at, number = place
            if at == other:
                wanted.discard(number)
            if number < len(self._waits[at]):
                waiting += [(at, before) for before in self._waits[at][number]]
            waiting += self._meeting_of.get(self._meetings.get(place), {}).items()
        return [number + 1 for number in wanted]

    def _judge_writes(
        self, shadow: _Shadow, other: int, tile: Tile, line: SourceLine | None, ticks: Array
    ) -> Array:
        """The ticks of writes that wrote other bytes; the rest is noted as doubtful."""
        is_known = tile.storage.data is not None
        differs = shadow.differs(other, tile)[..., None] if is_known else np.zeros(1, np.bool_)
        doubted = int((ticks * ~differs).max(initial=0))
        if doubted:
            why = "the bytes are equal for these inputs" if is_known else _NOT_JUDGED
            self._note(self.doubtful, tile, line, "writes", other, doubted, "writes", f": {why}")
        return ticks * differs

    def _report(
        self, tile: Tile, line: SourceLine | None, verb: str, other: int, tick: int, did: str
    ) -> None:
        """Raise or keep the race with instruction `tick` of the other core; none where it is 0."""
        if tick:
            self._note(self.races, tile, line, verb, other, tick, did)
            if self._is_strict:
                raise self.races[-1]

    def _note(
        self,
        found: list[DataRace],
        tile: Tile,
        line: SourceLine | None,
        verb: str,
        other: int,
        tick: int,
        did: str,
        why: str = "",
    ) -> None:
        """Keep in `found` that two accesses are unordered, once for two lines."""
        before = self._lines[other][tick - 1]
        place = (line, before, found is self.races)
        if place in self._reported:
            return
        self._reported.add(place)
        found.append(
            DataRace(
                f"one core {verb} {tile} at {line} while the other {did} the same bytes at "
                f"{before}: nothing orders the two{why}",
                fix="put nisa.core_barrier(data, (0, 1)) between them, of this very tensor",
                source="nki.isa.core_barrier",
                line=line,
            )
        )
