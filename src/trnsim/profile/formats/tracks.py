"""A timeline as tracks, slices, counters and causes, from which every trace is written.

A track is a compute engine or a DMA queue. Slices of one track never overlap: a queue with
overlapping transfers has several tracks. A slice lasts as long as its instruction occupies the
engine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from trnsim.errors import SourceLine
from trnsim.isa import Engine
from trnsim.memory import Memory
from trnsim.profile.measures.core import Core, ns
from trnsim.profile.measures.lines import line_text
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Integers, Seconds, occupancy

_BYTES_PER_GB: Final = 1e9


class TrackSlice(NamedTuple):
    """One instruction on a track.

    Attributes:
        instruction: the instruction's index in the program.
        opcode: its name in nki.isa.
        end_ns: the time at which its engine is free again.
        readable_ns: the time from which its result can be read.
        line: the user's line, or None.
        source: the text of the line, or "".
        cause: index of the last instruction on another track that it waited for, or -1.
    """

    instruction: int
    opcode: str
    start_ns: int
    end_ns: int
    readable_ns: int
    operands: str
    line: SourceLine | None
    source: str
    cause: int


@dataclass(frozen=True)
class Track:
    """One row of a trace: its name, and the indices of its instructions in order of time."""

    name: str
    indices: Sequence[int]


class Counter(NamedTuple):
    """A quantity as a step function: `values[i]` from `times_ns[i]` on."""

    name: str
    unit: str
    times_ns: Integers
    values: Seconds


class CoreTracks:
    """The tracks of one physical core.

    Attributes:
        name: "core 0".
        tracks: its engines and queues.
        counters: HBM bandwidth, SBUF and PSUM in use.
    """

    def __init__(self, timeline: Timeline, rank: int) -> None:
        self._core = Core(timeline, rank)
        self.name = f"core {rank}"
        self.tracks = [*self._engines(), *self._queues()]
        self.counters = [self._hbm(), *map(self._memory, (Memory.SBUF, Memory.PSUM))]
        self._texts = [line_text(line) for line in timeline.program.lines]
        self._track_of = {
            index: number for number, track in enumerate(self.tracks) for index in track.indices
        }

    def slices(self, track: Track) -> Iterator[TrackSlice]:
        """The slices of a track, first to last."""
        core, program = self._core, self._core.program
        spans, indices = core.spans, np.array(track.indices, np.int64)
        columns = (
            ns(spans.start_s[indices]),
            ns(spans.busy_until_s[indices]),
            ns(spans.end_s[indices]),
            spans.line_of[indices],
            spans.waited_for[indices],
        )
        rows = zip(track.indices, *(column.tolist() for column in columns), strict=True)
        for index, start, end, readable, line, cause in rows:
            checked = program.instruction(index)
            is_other = cause >= 0 and self._track_of[cause] != self._track_of[index]
            yield TrackSlice(
                index,
                checked.opcode,
                start,
                end,
                readable,
                checked.describe(),
                program.lines[line] if line >= 0 else None,
                self._texts[line] if line >= 0 else "",
                cause if is_other else -1,
            )

    def describe(self, index: int) -> str:
        """An instruction as text: "#3 nc_matmul, Tensor Engine"."""
        checked = self._core.program.instruction(index)
        return f"#{index} {checked.opcode}, {checked.engine.label}"

    def _engines(self) -> Iterator[Track]:
        for engine in Engine:
            indices = np.flatnonzero(self._core.engine_of == engine.value)
            if engine is not Engine.dma and len(indices):
                yield from self._lanes(engine.label, indices)

    def _queues(self) -> Iterator[Track]:
        transfers = self._core.transfers
        for number, name in enumerate(transfers.queues):
            yield from self._lanes(f"DMA {name}", transfers.index[transfers.queue == number])

    def _lanes(self, name: str, indices: Integers) -> Iterator[Track]:
        """The instructions of `indices` on the fewest tracks on which no slices overlap."""
        spans = self._core.spans
        lanes: list[list[int]] = []
        ends_ns: list[int] = []
        ordered_indices = indices[np.argsort(spans.start_s[indices], kind="stable")]
        starts, ends = ns(spans.start_s[ordered_indices]), ns(spans.busy_until_s[ordered_indices])
        for index, start, end in zip(ordered_indices, starts, ends, strict=True):
            number = next((n for n, end_ns in enumerate(ends_ns) if end_ns <= start), len(lanes))
            if number == len(lanes):
                lanes.append([])
                ends_ns.append(0)
            lanes[number].append(int(index))
            ends_ns[number] = int(end)
        for number, lane in enumerate(lanes, start=1):
            yield Track(name if number == 1 else f"{name} ({number})", lane)

    def _hbm(self) -> Counter:
        hbm = self._core.hbm
        return Counter("HBM", "GB/s", ns(hbm.time_s), hbm.bytes_per_s / _BYTES_PER_GB)

    def _memory(self, memory: Memory) -> Counter:
        in_use = occupancy(self._core.timeline, memory)
        level = in_use.level_bytes.astype(np.float64)
        return Counter(f"{memory.value} in use", "bytes a partition", ns(in_use.time_s), level)
