"""A world of ranks -> a Perfetto trace: a process for each rank, and one for the links.

A rank's process has the engines, DMA queues and CC-Cores of its cores. That of the links has the
bytes a second that collectives pass through each link, each HBM, the DMA engines of each rank and
each EFA adapter. Arrows go between the slices of one collective, from the rank that came last to
those that waited for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from trnsim.fabric.floors import Floor
from trnsim.isa import Engine
from trnsim.profile.formats.perfetto import PerfettoTrace, PerfettoTrack, SliceNotes
from trnsim.profile.formats.tracks import CoreTracks, Counter, TrackSlice
from trnsim.profile.measures.collectives import (
    MeetingMember,
    TimedCollective,
    algorithm_of,
    meetings,
    timed_collectives,
)
from trnsim.profile.measures.core import ns
from trnsim.profile.measures.links import LinkRate
from trnsim.timing import Timeline

_BYTES_PER_GB: Final = 1e9
_NS_PER_S: Final = 1e9
_LINKS_TITLE: Final = "links, HBM, DMA and EFA in collectives"

Ranks = Sequence[Sequence["Timeline"]]
"""By rank, the timelines of its cores."""


def perfetto_world(ranks: Ranks, links: Sequence[LinkRate], title: str) -> bytes:
    """The trace of ranks, with the traffic of each link."""
    return b"".join(_World(ranks, links, title).packets())


class _CollectiveSlice(NamedTuple):
    """A collective's slice, its core and the track for it."""

    core: CoreTracks
    track_slice: TrackSlice
    perfetto_track: PerfettoTrack


@dataclass
class _World:
    """The writer of a world's trace.

    Attributes:
        slices: slices of collectives, which are written last.
    """

    ranks: Ranks
    links: Sequence[LinkRate]
    title: str
    trace: PerfettoTrace = field(default_factory=PerfettoTrace)
    slices: dict[MeetingMember, _CollectiveSlice] = field(
        default_factory=dict[MeetingMember, _CollectiveSlice]
    )

    def packets(self) -> Iterator[bytes]:
        """Every packet; slices of collectives last, when it is known where their arrows begin."""
        yield self.trace.begin()
        yield from self.trace.process(len(self.ranks), f"{self.title}, {_LINKS_TITLE}")
        yield from self.trace.counters(map(_counter, self.links), len(self.ranks))
        for rank, cores in enumerate(self.ranks):
            yield from self.trace.process(rank, f"{self.title}, rank {rank}")
            for number, timeline in enumerate(cores):
                yield from self._core(rank, number, timeline)
        yield from self._meetings()

    def _core(self, rank: int, number: int, timeline: Timeline) -> Iterator[bytes]:
        cores = len(self.ranks[rank])
        prefix = f"core {number}, " if cores > 1 else ""
        core = CoreTracks(timeline, number)
        for track, perfetto_track in self.trace.tracks(core, rank, rank * cores + number, prefix):
            yield perfetto_track.descriptor
            engine = timeline.program.instruction(track.indices[0]).engine
            for track_slice in core.slices(track):
                if engine is Engine.collective:
                    collective_slice = _CollectiveSlice(core, track_slice, perfetto_track)
                    self.slices[MeetingMember(rank, number, track_slice.instruction)] = (
                        collective_slice
                    )
                else:
                    yield from self.trace.slice(core, track_slice, perfetto_track)
        yield from self.trace.counters(core.counters, rank, prefix)

    def _meetings(self) -> Iterator[bytes]:
        """The slices of collectives: a meeting is one collective with all of its members."""
        collectives = [
            [{row.index: row for row in rows} for rows in timed_collectives(cores)]
            for cores in self.ranks
        ]
        flow_count = 0
        for last, *others in meetings(self.ranks):
            numbers = range(flow_count, flow_count + len(others))
            flow_count += len(others)
            flows: Mapping[MeetingMember, Sequence[int]] = {
                last: numbers,
                **{member: [number] for member, number in zip(others, numbers, strict=True)},
            }
            for member, flow_numbers in flows.items():
                collective_slice = self.slices[member]
                notes = _annotations(
                    collectives[member.rank][member.core][member.instruction], last, flow_numbers
                )
                yield from self.trace.slice(*collective_slice, notes)


def _annotations(
    collective: TimedCollective, last: MeetingMember, flows: Sequence[int]
) -> SliceNotes:
    """The notes of a collective."""
    instruction = collective.instruction
    words = {
        "algorithm": algorithm_of(instruction) or "none: a single rank",
        "floor": Floor.PROGRAM.value,
        "groups": str([list(group) for group in instruction.groups()]),
        "last to come": f"rank {last.rank}, core {last.core}",
    }
    numbers = {
        "bytes": round(instruction.nbytes()),
        "waited ns": round(collective.waited_s * _NS_PER_S),
        "hidden ns": round(collective.hidden_s * _NS_PER_S),
        "exposed ns": round(collective.exposed_s * _NS_PER_S),
    }
    return SliceNotes(flows, words, numbers)


def _counter(link: LinkRate) -> Counter:
    return Counter(link.name, "GB/s", ns(link.rate.time_s), link.rate.bytes_per_s / _BYTES_PER_GB)
