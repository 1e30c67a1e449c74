"""Permutation of partitions within quadrants: nc_stream_shuffle."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from math import ceil
from typing import Any

import numpy as np
import numpy.typing as npt

from trnsim.arch import NeuronCore
from trnsim.dtypes import Array
from trnsim.isa.language.declaration import reads, writes
from trnsim.isa.language.fields import are_tiles
from trnsim.isa.language.instruction import PSUM, SBUF, Cost, Dims, Instruction
from trnsim.isa.language.lanes import lane_cost
from trnsim.isa.language.machine import Machine
from trnsim.isa.language.modes import Engine
from trnsim.memory import Tile

_QUADRANT_PARTITIONS = 32
_KEEP_PARTITION = 255
_Rows = npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class _Route:
    """The partitions that a shuffle writes and reads, as rows of dst and of src.

    Attributes:
        written_rows: a boolean for each row of dst.
        source_rows: the row of src of each written row.
        written: the runs of written rows, start and end.
        read: the runs of rows that are read, start and end.
    """

    written_rows: _Rows
    source_rows: _Rows
    written: tuple[tuple[int, int], ...]
    read: tuple[tuple[int, int], ...]


class NcStreamShuffle(Instruction, engines=(Engine.vector,)):
    """``dst[q, i] = src[q, shuffle_mask[i]]`` for partition i of each quadrant q of 32.

    A mask value of 255 leaves the partition of `dst` as it is. `dst` may be `src`. Only partitions
    that the mask names are read, and only those that it does not keep are written.
    """

    dst: Tile = writes("D F", SBUF, PSUM)
    src: Tile = reads("S F", SBUF, PSUM)
    shuffle_mask: tuple[int, ...]

    def accesses(self) -> tuple[list[Tile], list[Tile]]:
        """The partitions that are read, and those that are written."""
        route = self._route()
        if route is None:  # `check` says why
            return super().accesses()
        return _cut(self.src, route.read), _cut(self.dst, route.written)

    def fully_written_tiles(self) -> list[Tile]:
        """All partitions of dst but those that a mask value of 255 keeps."""
        return self.accesses()[1]

    def check(self, core: NeuronCore, n: Dims) -> None:
        """`src` and dst have one dtype, and equally many elements per partition.

        - `shuffle_mask` is 32 integers, each 0 to 31, or 255 to keep the partition.
        - If the longer of the two has up to 32 partitions, both start at a multiple of 32; with up
          to 64 at a multiple of 64, with more at 0.
        """
        if self.src.dtype != self.dst.dtype:
            self.refuse(
                f"src is {self.src} and dst is {self.dst}; legal: equal dtypes",
                "allocate dst with the dtype of src",
            )
        mask = self.shuffle_mask
        if not _is_mask(mask):
            self.refuse(
                f"shuffle_mask {mask}; legal: a list of {_QUADRANT_PARTITIONS} integers from 0 to "
                f"{_QUADRANT_PARTITIONS - 1}, or {_KEEP_PARTITION} to leave the partition "
                "unmodified",
                "name a source for each partition of a quadrant",
            )
        if self._route() is None:
            self.refuse(
                f"shuffle_mask takes partitions beyond src, which is {self.src}, for dst "
                f"{self.dst}; legal: partitions of src",
                "pass a longer src, or shuffle one quadrant at a time",
            )
        self._check_starts(core, ceil(max(n.D, n.S) / _QUADRANT_PARTITIONS))

    def execute(self, machine: Machine) -> None:
        """Bit for bit."""
        del machine
        route = self._route()
        assert route is not None  # noqa: S101  ensured by `check`
        moved = self.src.bits()[route.source_rows]
        self.dst.put(moved, None if route.written_rows.all() else route.written_rows)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The written elements of the partitions that move."""
        del tile, flags  # a part of src; the route covers all parts
        route = self._route()
        written = self.accesses()[1]
        if route is None or self.src.index is not None or self.dst.index is not None:
            return None
        moved_flags = np.zeros((self.dst.partitions, *self.src.shape[1:]), np.bool_)
        moved_flags[route.written_rows] = self.src.written_flags()[route.source_rows]
        runs = [moved_flags[first:end] for first, end in route.written]
        return list(zip(written, runs, strict=True)) if moved_flags.any() else None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F)."""
        return lane_cost(core, Engine.vector, n.F)

    def _route(self) -> _Route | None:
        """The route of the operands; None if one of them is illegal."""
        if not (_is_mask(self.shuffle_mask) and are_tiles(self.dst, self.src)):
            return None
        return _route_of_mask(self.shuffle_mask, self.dst.partitions, self.src.partitions)

    def _check_starts(self, core: NeuronCore, quadrants: int) -> None:
        """Refuse illegal starts: one quadrant starts at any, two at an even one, more at 0."""
        step = _QUADRANT_PARTITIONS * (
            quadrants if quadrants in (1, 2) else core.partitions // _QUADRANT_PARTITIONS
        )
        for name, tile in (("dst", self.dst), ("src", self.src)):
            if tile.start_partition % step:
                legal = ", ".join(map(str, range(0, int(core.partitions), step)))
                self.refuse(
                    f"`{name}` starts at partition {tile.start_partition}, and {quadrants} "
                    f"quadrants are active; legal starts: {legal}",
                    "move the tile to a legal start partition",
                )


def _is_mask(mask: object) -> bool:
    """True for 32 integers, each a partition of a quadrant or 255."""
    if not isinstance(mask, tuple) or len(mask) != _QUADRANT_PARTITIONS:
        return False
    return all(
        isinstance(i, int) and (0 <= i < _QUADRANT_PARTITIONS or i == _KEEP_PARTITION) for i in mask
    )


@cache
def _route_of_mask(mask: tuple[int, ...], dst_rows: int, src_rows: int) -> _Route | None:
    """The route of `mask` to `dst_rows` from `src_rows`; None if it reads beyond these."""
    partition = np.arange(dst_rows)
    sources = np.asarray(mask)[partition % _QUADRANT_PARTITIONS]
    rows = sources != _KEEP_PARTITION
    origins = (partition // _QUADRANT_PARTITIONS * _QUADRANT_PARTITIONS + sources)[rows]
    if rows.any() and origins.max() >= src_rows:
        return None
    return _Route(rows, origins, _runs(np.flatnonzero(rows)), _runs(np.unique(origins)))


def _runs(rows: _Rows) -> tuple[tuple[int, int], ...]:
    """Start and end of each run of consecutive rows."""
    parts = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return tuple((int(part[0]), int(part[-1]) + 1) for part in parts if len(part))


def _cut(tile: Tile, runs: tuple[tuple[int, int], ...]) -> list[Tile]:
    if tile.index is not None or runs == ((0, tile.partitions),):
        return [tile]
    return [
        Tile(tile.storage, tile.dtype, tile.pattern.slice(0, start, end)) for start, end in runs
    ]
