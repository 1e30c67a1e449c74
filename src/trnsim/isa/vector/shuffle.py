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
        written_runs: (start, end) of each run of consecutive rows that are written.
        read_runs: (start, end) of each run of consecutive rows that are read.
    """

    written_rows: _Rows
    source_rows: _Rows
    written_runs: tuple[tuple[int, int], ...]
    read_runs: tuple[tuple[int, int], ...]


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
        return _tiles_of_runs(self.src, route.read_runs), _tiles_of_runs(
            self.dst, route.written_runs
        )

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
        """The values are copied bit for bit."""
        del machine
        route = self._route()
        assert route is not None  # noqa: S101  ensured by `check`
        bits = self.src.bits()[route.source_rows]
        self.dst.put(bits, None if route.written_rows.all() else route.written_rows)

    def elements_written_after(self, tile: Tile, flags: Array) -> list[tuple[Tile, Array]] | None:
        """The written elements of the partitions that move."""
        del tile, flags  # those of one run of src; here all runs are needed
        route = self._route()
        targets = self.accesses()[1]
        if route is None or self.src.index is not None or self.dst.index is not None:
            return None
        moved_flags = np.zeros((self.dst.partitions, *self.src.shape[1:]), np.bool_)
        moved_flags[route.written_rows] = self.src.written_flags()[route.source_rows]
        flags_of_runs = [moved_flags[first:end] for first, end in route.written_runs]
        return list(zip(targets, flags_of_runs, strict=True)) if moved_flags.any() else None

    def cost(self, core: NeuronCore, n: Dims) -> Cost:
        """max(MIN_II, F)."""
        return lane_cost(core, Engine.vector, n.F)

    def _route(self) -> _Route | None:
        """The route of the operands; None if one of them is illegal."""
        if not (_is_mask(self.shuffle_mask) and are_tiles(self.dst, self.src)):
            return None
        return _route_of_mask(self.shuffle_mask, self.dst.partitions, self.src.partitions)

    def _check_starts(self, core: NeuronCore, quadrants: int) -> None:
        """Refuse illegal starts, for the number of quadrants of the longer tile.

        One quadrant may start at any quadrant, two at an even one, more only at partition 0.
        """
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
    partitions = np.arange(dst_rows)
    mask_values = np.asarray(mask)[partitions % _QUADRANT_PARTITIONS]
    is_written = mask_values != _KEEP_PARTITION
    quadrant_starts = partitions // _QUADRANT_PARTITIONS * _QUADRANT_PARTITIONS
    source_rows = (quadrant_starts + mask_values)[is_written]
    if is_written.any() and source_rows.max() >= src_rows:
        return None
    written_runs = _runs(np.flatnonzero(is_written))
    return _Route(is_written, source_rows, written_runs, _runs(np.unique(source_rows)))


def _runs(rows: _Rows) -> tuple[tuple[int, int], ...]:
    """(start, end) of each run of consecutive row numbers."""
    runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
    return tuple((int(run[0]), int(run[-1]) + 1) for run in runs if len(run))


def _tiles_of_runs(tile: Tile, runs: tuple[tuple[int, int], ...]) -> list[Tile]:
    """A tile for each run of partitions of `tile`; `tile` itself if it has an index."""
    if tile.index is not None or runs == ((0, tile.partitions),):
        return [tile]
    return [
        Tile(tile.storage, tile.dtype, tile.pattern.slice(0, start, end)) for start, end in runs
    ]
