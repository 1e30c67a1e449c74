"""Data races between cores: two accesses to the same bytes, one a write, that nothing orders.

Two unordered writes of equal bytes are only doubtful: in a kernel that does not divide its work all
cores write the same bytes, while a wrong kernel may do so by chance for these inputs. Without
values the two cannot be distinguished. A read unordered with a write is a race whatever the values.

Source: nki.isa.core_barrier (it synchronizes on its data); nki.isa.sendrecv.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from itertools import permutations

import numpy as np

from trnsim.dtypes import Array
from trnsim.errors import DataRace, SourceLine
from trnsim.memory import Box, ByteMap, Storage, Tile

_FEW_TICKS = 4
_EQUAL = ": the bytes are equal for these inputs"
_NOT_JUDGED = ": whether the bytes are equal could not be judged, as the run has no values"


class _Shadow:
    """Per byte of a storage and core: ticks of the last read and write, and the byte written.

    Cores that divide their work touch different parts of a tensor, and most tensors, such as
    weights, are only read. So accesses are kept as a list, with a bounding rectangle for each core,
    until two accesses of different cores, one of them a write, may overlap.

    Attributes:
        is_apart: whether no two such accesses may overlap so far.
        is_written: whether a core has written to it.
    """

    def __init__(self, nbytes: int, cores: int) -> None:
        self.is_apart = True
        self.is_written = False
        self.reads = [ByteMap(nbytes, np.int32) for _ in range(cores)]
        self.writes = [ByteMap(nbytes, np.int32) for _ in range(cores)]
        self._values: list[Array | None] = [None] * cores
        # (core, whether it writes, id of the layout) -> the tile, and the tick of the last access.
        self._early_accesses: dict[tuple[int, bool, int], tuple[Tile, int]] = {}
        self._read_boxes: dict[int, Box] = {}
        self._written_boxes: dict[int, Box] = {}

    def note(self, core: int, tile: Tile, tick: int, *, writes: bool) -> None:
        """Note that `core` reads or writes `tile` at `tick`."""
        self.is_written |= writes
        if self.is_apart:
            key = core, writes, id(tile.layout)
            self._early_accesses.pop(key, None)  # ticks increase
            self._early_accesses[key] = tile, tick
        elif writes:
            self._mark(self.writes, core, tile, tick)
            self.keep_written_bytes(core, tile)
        else:
            self._mark(self.reads, core, tile, tick)

    def prepare(self, core: int, tile: Tile, *, writes: bool) -> None:
        """Complete the maps if an access of `core` to `tile` may overlap another core's.

        A write has to be prepared before it is executed, while memory has the other core's bytes.
        """
        if not self.is_apart:
            return
        box = tile.box
        conflicting = (self._written_boxes, self._read_boxes) if writes else (self._written_boxes,)
        if tile.index is None and not any(
            box.overlaps(peer_box)
            for boxes in conflicting
            for peer, peer_box in boxes.items()
            if peer != core
        ):
            self._extend_box(core, box, writes=writes)
            return
        self.is_apart = False
        for (early_core, is_write, _), (early_tile, tick) in self._early_accesses.items():
            self.note(early_core, early_tile, tick, writes=is_write)
        self._early_accesses.clear()

    def _extend_box(self, core: int, box: Box, *, writes: bool) -> None:
        """Extend the rectangle of the accesses of `core`."""
        boxes = self._written_boxes if writes else self._read_boxes
        boxes[core] = box.bounding(boxes.get(core, box))

    def _mark(self, maps: list[ByteMap], core: int, tile: Tile, tick: int) -> None:
        maps[core].view(tile.footprint, tile.dtype.itemsize)[tile.touched()] = tick

    def keep_written_bytes(self, core: int, tile: Tile) -> None:
        """Keep the bytes in memory of `tile`, which `core` wrote last."""
        data = tile.storage.data
        if data is None:
            return
        values = self._values[core]
        if values is None:
            values = self._values[core] = np.zeros(tile.storage.nbytes, np.uint8)
        _bytes_of(tile, values)[tile.touched()] = _bytes_of(tile, data)[tile.touched()]

    def differs(self, core: int, tile: Tile) -> Array:
        """One boolean per element of `tile`: whether it differs from the last write by `core`."""
        data, values = tile.storage.data, self._values[core]
        if data is None or values is None:
            return np.zeros(1, np.bool_)
        touched = tile.touched()
        differing: Array = _bytes_of(tile, data)[touched] != _bytes_of(tile, values)[touched]
        return np.asarray(differing.any(axis=-1))


def _bytes_of(tile: Tile, buffer: Array) -> Array:
    """The bytes of `tile` in `buffer`; the last axis runs over the bytes of an element."""
    pattern, itemsize = tile.footprint, tile.dtype.itemsize
    return np.ndarray(
        (*pattern.shape, itemsize),
        np.uint8,
        buffer,
        pattern.offset_bytes,
        (*pattern.strides_bytes, 1),
    )


def _distinct_ticks(ticks: Array, after: int) -> list[int]:
    """The distinct ticks later than `after`; most tensors are written by a few instructions."""
    result: list[int] = []
    tick = int(ticks.max(initial=0))
    while tick > after:
        result.append(tick)
        if len(result) > _FEW_TICKS:
            return [int(tick) for tick in np.unique(ticks) if tick > after]
        tick = int(ticks.max(initial=0, where=ticks < tick))
    return result


def _is_among(ticks: Array, candidates: Sequence[int]) -> Array:
    """One boolean per tick: True if it is one of `candidates`."""
    if len(candidates) > _FEW_TICKS:
        return np.isin(ticks, candidates)
    is_among = ticks == candidates[0]
    for tick in candidates[1:]:
        is_among |= ticks == tick
    return np.asarray(is_among)


def _both_wrote_equal(shadow: _Shadow, core: int, peer: int, tile: Tile) -> Array:
    """One boolean per byte of `tile`: True if both cores wrote the same value to it."""
    own_writes = shadow.writes[core].view(tile.footprint, tile.dtype.itemsize)[tile.touched()] > 0
    return np.asarray(own_writes & ~shadow.differs(peer, tile)[..., None])


class RaceDetector:
    """Watches the accesses of several cores to the HBM that they share.

    A barrier orders the accesses of its group to the tensor that it names: those that other cores
    made before it, or knew of by then, come before a core's own accesses after it. All other order
    comes from dependences: a chain from the later instruction back through what it waits for,
    across barriers and exchanges, to the earlier instruction of the other core.

    Attributes:
        races: the races so far, if `is_strict` is False.
        doubtful: unordered writes of two cores that wrote equal bytes, or unknown ones.
    """

    def __init__(self, cores: int, *, is_strict: bool = True) -> None:
        self.races: list[DataRace] = []
        self.doubtful: list[DataRace] = []
        self._is_strict = is_strict
        self._cores = cores
        self._waits: list[list[Sequence[int]]] = [[] for _ in range(cores)]
        self._lines: list[list[SourceLine | None]] = [[] for _ in range(cores)]
        self._group_at: dict[tuple[int, int], list[tuple[int, int]]] = {}
        # (tensor, core) -> for each other core, the last tick whose accesses are ordered before.
        self._guarded: dict[tuple[int, int], list[int]] = {}
        self._joint: set[tuple[int, int]] = set()
        # (core, other) -> the numbers of their instructions that met, in order.
        self._meetings: dict[tuple[int, int], tuple[list[int], list[int]]] = {}
        self._shadows: dict[int, _Shadow] = {}
        self._reported: set[tuple[SourceLine | None, SourceLine | None, bool]] = set()

    def meets(self, group: Sequence[int], data: Iterable[Tile] = ()) -> None:
        """Record that the next instructions of a group of cores start together.

        Args:
            group: the cores.
            data: the tensors to which a barrier orders accesses.
        """
        places = self._meet(group)
        for serial in {tile.storage.serial for tile in data}:
            known_ticks = (self._ordered_ticks(serial, core) for core in group)
            ordered_ticks = [max(ticks) for ticks in zip(*known_ticks, strict=True)]
            for core, tick in places:
                ordered_ticks[core] = tick
            for core in group:
                self._guarded[serial, core] = ordered_ticks

    def joins(self) -> None:
        """Record that the next instructions of all cores are one collective of their rank.

        Instructions after it on one core come after it on all. It orders no accesses before it: the
        tensors that it reads and writes need a barrier, as for any instruction.
        """
        self._joint.update(self._meet(range(self._cores)))

    def _meet(self, group: Iterable[int]) -> list[tuple[int, int]]:
        """Note that the next instructions of `group` start together; returns their places."""
        places = [(core, len(self._waits[core])) for core in group]
        self._group_at.update(dict.fromkeys(places, places))
        for first, second in permutations(places, 2):
            own_numbers, peer_numbers = self._meetings.setdefault((first[0], second[0]), ([], []))
            own_numbers.append(first[1])
            peer_numbers.append(second[1])
        return places

    def _ordered_ticks(self, serial: int, core: int) -> list[int]:
        """The last tick of each core whose accesses to a tensor barriers order before `core`."""
        return self._guarded.get((serial, core), [0] * self._cores)

    def before(self, core: int, writes: Iterable[Tile]) -> None:
        """Prepare for writes to shared HBM by an instruction that has not been executed yet."""
        for tile in writes:
            self._shadow(tile.storage).prepare(core, tile, writes=True)

    def accessed(
        self,
        core: int,
        reads: Iterable[Tile],
        writes: Iterable[Tile],
        line: SourceLine | None,
        waits_for: Sequence[int] = (),
    ) -> None:
        """Record an instruction's accesses to shared HBM, and check them for races.

        Args:
            core: the core that issued it.
            reads: the tiles that it reads there.
            writes: the tiles that it writes there.
            line: the user's line.
            waits_for: numbers of the core's earlier instructions that it waits for.

        Raises:
            DataRace: if `is_strict`; names both lines.
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
        """Compare an access with those of the other cores; a tick is an instruction's index + 1."""
        shadow, tick = self._shadow(tile.storage), len(self._waits[core])
        shadow.prepare(core, tile, writes=writes)
        if shadow.is_apart or not (writes or shadow.is_written):
            shadow.note(core, tile, tick, writes=writes)
            return
        pattern, itemsize, touched = tile.footprint, tile.dtype.itemsize, tile.touched()
        known_ticks = self._ordered_ticks(tile.storage.serial, core)
        verb = "writes" if writes else "reads"
        for peer in range(self._cores):
            if peer == core:
                continue
            kinds = [(shadow.writes, "writes")] + ([(shadow.reads, "reads")] if writes else [])
            for maps, peer_verb in kinds:
                ticks = maps[peer].view(pattern, itemsize)[touched]
                if ticks.max(initial=0) <= known_ticks[peer]:
                    continue
                if (core, tick - 1) in self._joint:
                    ticks = ticks * (ticks != self._joint_tick(core, peer))
                    if not writes:
                        ticks = ticks * ~_both_wrote_equal(shadow, core, peer, tile)
                unordered = self._unordered(core, peer, ticks, known_ticks[peer])
                if not unordered:
                    continue
                ticks = ticks * _is_among(ticks, unordered)
                if writes and peer_verb == "writes":
                    ticks = self._judge_writes(shadow, core, peer, tile, line, ticks)
                self._report(core, tile, line, verb, peer, int(ticks.max(initial=0)), peer_verb)
        shadow.note(core, tile, tick, writes=writes)

    def _unordered(self, core: int, peer: int, ticks: Array, after: int) -> list[int]:
        """The instructions of the other core after tick `after` not ordered before this one.

        A backward search from the current instruction over all that must come before it, no further
        back than where the cores met last before the instructions in question.
        """
        unordered = {tick - 1 for tick in _distinct_ticks(ticks, after)}
        if not unordered:
            return []
        first_number = min(unordered)
        own_numbers, peer_numbers = self._meetings.get((core, peer), ([], []))
        since = bisect_left(peer_numbers, first_number)
        if since == len(peer_numbers):  # they have not met since
            return [number + 1 for number in unordered]
        floor = {core: own_numbers[since], peer: first_number}
        visited: set[tuple[int, int]] = set()
        start = (core, len(self._waits[core]) - 1)
        pending_places = [start]
        while pending_places and unordered:
            place = pending_places.pop()
            if place in visited or place[1] < floor.get(place[0], 0):
                continue
            visited.add(place)
            place_core, number = place
            if place_core == peer:
                unordered.discard(number)
            if number < len(self._waits[place_core]):
                pending_places += [(place_core, cause) for cause in self._waits[place_core][number]]
            if place != start or place not in self._joint:
                pending_places += self._group_at.get(place, ())
        return [number + 1 for number in unordered]

    def _joint_tick(self, core: int, peer: int) -> int:
        """The tick at which `peer` issues its side of the collective that `core` issues now."""
        group = self._group_at[core, len(self._waits[core]) - 1]
        return next(number + 1 for member, number in group if member == peer)

    def _judge_writes(
        self,
        shadow: _Shadow,
        core: int,
        peer: int,
        tile: Tile,
        line: SourceLine | None,
        ticks: Array,
    ) -> Array:
        """The ticks of writes that wrote different bytes; equal ones are noted as doubtful."""
        has_values = tile.storage.data is not None
        differs = shadow.differs(peer, tile)[..., None] if has_values else np.zeros(1, np.bool_)
        doubtful_tick = int((ticks * ~differs).max(initial=0))
        if doubtful_tick:
            reason = _EQUAL if has_values else _NOT_JUDGED
            pair = core, peer
            self._note(self.doubtful, pair, tile, line, "writes", doubtful_tick, "writes", reason)
        return ticks * differs

    def _report(
        self,
        core: int,
        tile: Tile,
        line: SourceLine | None,
        verb: str,
        peer: int,
        tick: int,
        peer_verb: str,
    ) -> None:
        """Raise or keep the race with the other core's instruction at `tick`, unless it is 0."""
        if tick:
            self._note(self.races, (core, peer), tile, line, verb, tick, peer_verb)
            if self._is_strict:
                raise self.races[-1]

    def _note(
        self,
        races: list[DataRace],
        pair: tuple[int, int],
        tile: Tile,
        line: SourceLine | None,
        verb: str,
        tick: int,
        peer_verb: str,
        reason: str = "",
    ) -> None:
        """Add an unordered pair of accesses to `races`, once for each pair of lines."""
        peer_line = self._lines[pair[1]][tick - 1]
        key = line, peer_line, races is self.races
        if key in self._reported:
            return
        self._reported.add(key)
        races.append(
            DataRace(
                f"one core {verb} {tile} at {line} while the other {peer_verb} the same bytes at "
                f"{peer_line}: nothing orders the two{reason}",
                fix=f"put nisa.core_barrier(data, {tuple(sorted(pair))}) between them, with "
                "this tensor as data",
                source="nki.isa.core_barrier",
                line=line,
            )
        )
