"""Buffers: the bytes of tensors while an executable runs.

Tensors without an address share a buffer with tensors of their size whose lives do not overlap, and
those of a family (`program.affine`) lie in one buffer of their own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trnsim.dtypes import Array
from trnsim.isa import Instruction
from trnsim.memory import Memory, Storage, Tile
from trnsim.program.affine import TensorFamily, touched


@dataclass
class LiveRange:
    """The live range of a storage on a core: its tiles, its first and last position."""

    storage: Storage
    first: int
    last: int = 0
    tiles: list[Tile] = field(default_factory=list["Tile"])
    is_written: bool = False

    def merge(self, other: LiveRange) -> LiveRange:
        """The use of a storage by two cores, without positions, which belong to one core."""
        return LiveRange(
            self.storage, 0, 0, self.tiles + other.tiles, self.is_written or other.is_written
        )


@dataclass
class FamilyRange(LiveRange):
    """The live range of a family's buffer, from the first use of a member to the last.

    Attributes:
        members: the live ranges of the members, in order.
        distance_bytes: the bytes from one member to the next.
    """

    members: Sequence[LiveRange] = ()
    distance_bytes: int = 0

    @classmethod
    def of(cls, family: TensorFamily, members: Sequence[LiveRange]) -> FamilyRange:
        """The live range of a family with these live ranges of its members."""
        first, last = min(life.first for life in members), max(life.last for life in members)
        return cls(
            family.storage, first, last, members=members, distance_bytes=family.distance_bytes
        )


def set_bytes(life: LiveRange, data: Array | None) -> None:
    """Let the storage of `life` have the bytes `data`, and its members their parts of them."""
    life.storage.data = data
    for tile in life.tiles:
        tile.forget_array()
    if isinstance(life, FamilyRange) and data is not None:
        for number, member in enumerate(life.members):
            start = number * life.distance_bytes
            set_bytes(member, data[start : start + member.storage.nbytes])


def live_ranges(
    instructions: Sequence[Instruction], positions: Sequence[int]
) -> dict[int, LiveRange]:
    """Serial -> live range of each storage, in the `positions` of the instructions."""
    lives: dict[int, LiveRange] = {}
    for place, instruction in zip(positions, instructions, strict=True):
        for tile, _, is_written in touched(instruction):
            storage = tile.storage
            life = lives.setdefault(storage.serial, LiveRange(storage, place))
            life.last = place
            life.tiles.append(tile)
            life.is_written |= is_written
    return lives


def merge_cores(lives_by_core: Sequence[Mapping[int, LiveRange]]) -> dict[int, LiveRange]:
    """Serial -> the use of each storage by all cores."""
    lives: dict[int, LiveRange] = {}
    for core_lives in lives_by_core:
        for serial, life in core_lives.items():
            lives[serial] = lives[serial].merge(life) if serial in lives else life
    return lives


def internal_lives(
    core_lives: Mapping[int, LiveRange], lives: Mapping[int, LiveRange], bound: Collection[int]
) -> dict[int, LiveRange]:
    """The live ranges of a core's own tensors: no other core uses them, and none is in `bound`.

    Args:
        core_lives: the live ranges on that core.
        lives: the live ranges on all cores.
        bound: serials of inputs, results and constants, which have bytes already.
    """
    return {
        serial: life
        for serial, life in core_lives.items()
        if serial not in bound and lives[serial] is life
    }


def allocate(lives: Sequence[LiveRange], count: int) -> None:
    """Allocate buffers for storages; storages with disjoint live ranges share a buffer.

    `count` is the number of positions.
    """
    free: defaultdict[int, list[Array]] = defaultdict(list)
    lives_by_first: defaultdict[int, list[LiveRange]] = defaultdict(list)
    lives_by_last: defaultdict[int, list[LiveRange]] = defaultdict(list)
    _attach_memories(life for life in lives if life.storage.is_placed)
    for life in lives:
        if not life.storage.is_placed:
            lives_by_first[life.first].append(life)
            lives_by_last[life.last].append(life)
    for place in range(count):
        for life in lives_by_first[place]:
            nbytes = life.storage.nbytes
            set_bytes(life, free[nbytes].pop() if free[nbytes] else np.empty(nbytes, np.uint8))
        for life in lives_by_last[place]:
            if life.storage.data is not None:
                free[life.storage.nbytes].append(life.storage.data)


def _attach_memories(lives: Iterable[LiveRange]) -> None:
    """Let tensors with an address share a buffer of their entire memory."""
    buffers: dict[Memory, Array] = {}
    for life in lives:
        storage = life.storage
        if storage.memory not in buffers:
            buffers[storage.memory] = np.empty(storage.nbytes, np.uint8)
        set_bytes(life, buffers[storage.memory])
