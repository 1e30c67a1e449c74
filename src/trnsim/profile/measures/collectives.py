"""Collectives of a timeline, and how much of them computation hides.

A collective lasts from the moment when the last member of its group is ready until its engine, the
CC-Core, is free. It is *exposed* while no compute engine (Tensor, Vector, Scalar, GpSimd) of any of
the rank's cores is busy, and *hidden* while one is: a faster link would save exposed time, if the
engines waited for nothing else. DMA hides nothing: a load beside a collective is no computation.
The wait for members that are late comes before the collective, and is neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from trnsim.fabric.exchange import exchange
from trnsim.isa import Collective, Engine
from trnsim.profile.measures.busy import engines_of
from trnsim.profile.measures.intervals import Intervals, union
from trnsim.timing import Timeline
from trnsim.timing.occupancy import Seconds, columns

COMPUTE: Final = (Engine.tensor, Engine.vector, Engine.scalar, Engine.gpsimd)
"""The engines whose work hides a collective."""


class CollectiveTimes(NamedTuple):
    """Times of a rank's collectives and of the computation beside them.

    Attributes:
        work: start and end of each stretch in which a compute engine works, [2, N].
        exchanges: start and end of each stretch in which a collective runs, [2, N].
        exposed: start and end of the parts of `exchanges` in which no compute engine works, [2, N].
        total_s: seconds of `exchanges`.
        exposed_s: seconds of the exposed parts.
    """

    work: npt.NDArray[np.float64]
    exchanges: npt.NDArray[np.float64]
    exposed: npt.NDArray[np.float64]
    total_s: float
    exposed_s: float

    @property
    def hidden_s(self) -> float:
        """Seconds in collectives beside which a compute engine works."""
        return self.total_s - self.exposed_s


@dataclass(frozen=True, slots=True)
class TimedCollective:
    """One collective of a core.

    Attributes:
        start_s: when its last member was ready.
        end_s: when it was over.
        waited_s: how long this core waited for others before.
        exposed_s: seconds of it in which no compute engine of the rank worked.
    """

    index: int
    instruction: Collective
    start_s: float
    end_s: float
    waited_s: float
    exposed_s: float

    @property
    def hidden_s(self) -> float:
        """Seconds of it in which a compute engine of the rank worked."""
        return self.end_s - self.start_s - self.exposed_s


def times_of(timelines: Sequence[Timeline]) -> CollectiveTimes:
    """The times of the cores of one rank together."""
    work, exchanges = _union(timelines, COMPUTE), _union(timelines, (Engine.collective,))
    exposed = subtract(exchanges, work)
    return CollectiveTimes(
        np.stack(work),
        np.stack(exchanges),
        np.stack(exposed),
        exchanges.total_s,
        exposed.total_s,
    )


def timed_collectives(timelines: Sequence[Timeline]) -> list[list[TimedCollective]]:
    """For each core of one rank its collectives, in the order in which they start."""
    work = _union(timelines, COMPUTE)
    return [list(_timed_of_core(timeline, work)) for timeline in timelines]


class MeetingMember(NamedTuple):
    """A core that takes part in a meeting of ranks.

    Attributes:
        core: number of the core within the rank.
        instruction: index of the collective in the core's program.
    """

    rank: int
    core: int
    instruction: int


def meetings(ranks: Sequence[Sequence[Timeline]]) -> list[list[MeetingMember]]:
    """The collectives of ranks, each with its members, in the order in which they start.

    The member that came last, for which the others waited, is the first.
    """
    members_of: dict[tuple[tuple[int, ...], int], list[MeetingMember]] = {}
    for rank, cores in enumerate(ranks):
        for core, timeline in enumerate(cores):
            earlier_meetings: Counter[tuple[int, ...]] = Counter()
            for index, instruction in _collectives(timeline):
                group = instruction.group_of(rank)
                group_members = tuple(instruction.setting.members(group, core))
                members_of.setdefault((group_members, earlier_meetings[group_members]), []).append(
                    MeetingMember(rank, core, index)
                )
                earlier_meetings[group_members] += 1

    def timeline_of(member: MeetingMember) -> Timeline:
        return ranks[member.rank][member.core]

    for members in members_of.values():
        members.sort(key=lambda member: timeline_of(member).meeting_wait_s(member.instruction))
    return sorted(
        members_of.values(),
        key=lambda group: timeline_of(group[0]).span(group[0].instruction).start_s,
    )


def subtract(intervals: Intervals, removed_intervals: Intervals) -> Intervals:
    """The parts of disjoint intervals that are in none of `removed_intervals`."""
    cuts = np.unique(np.concatenate([*intervals, *removed_intervals]))
    start_s, end_s = cuts[:-1], cuts[1:]
    is_outside = _covers(intervals, start_s) & ~_covers(removed_intervals, start_s)
    return union(start_s[is_outside], end_s[is_outside])


def algorithm_of(instruction: Collective) -> str:
    """The algorithm of a collective; "" for a single rank.

    Where groups lie differently on chips, it is the slowest group's, which decides the time.
    """
    fabric, rings = instruction.setting.fabric, instruction.rings()
    return exchange(fabric, instruction.kind, instruction.nbytes(), rings).slowest.algorithm


def _collectives(timeline: Timeline) -> Iterator[tuple[int, Collective]]:
    """(index in the program, collective) for each collective of a core, in issue order."""
    program = timeline.program
    instructions = [checked.instruction for checked in program.checked]
    for index, which in enumerate(program.which):
        instruction = instructions[which]
        if isinstance(instruction, Collective):
            yield index, instruction


def _timed_of_core(timeline: Timeline, work: Intervals) -> Iterator[TimedCollective]:
    spans = columns(timeline)
    for index, instruction in sorted(
        _collectives(timeline), key=lambda row: (spans.start_s[row[0]], row[0])
    ):
        start_s, end_s = float(spans.start_s[index]), float(spans.busy_until_s[index])
        span = union(np.array([start_s]), np.array([end_s]))
        exposed_s = min(subtract(span, work).total_s, end_s - start_s)
        waited_s = timeline.meeting_wait_s(index)
        yield TimedCollective(index, instruction, start_s, end_s, waited_s, exposed_s)


def _union(timelines: Sequence[Timeline], engines: Sequence[Engine]) -> Intervals:
    """The intervals in which at least one of the engines of any core is busy."""
    values = [engine.value for engine in engines]
    starts: list[Seconds] = [np.zeros(0)]
    ends: list[Seconds] = [np.zeros(0)]
    for timeline in timelines:
        spans = columns(timeline)
        is_working = np.isin(engines_of(timeline.program), values)
        starts.append(spans.start_s[is_working])
        ends.append(spans.busy_until_s[is_working])
    return union(np.concatenate(starts), np.concatenate(ends))


def _covers(intervals: Intervals, times_s: Seconds) -> npt.NDArray[np.bool_]:
    """For each time, True if it lies in an interval, its start included and its end not."""
    index = np.searchsorted(intervals.start_s, times_s, side="right") - 1
    ends_s = np.append(intervals.end_s, -np.inf)  # index -1: before the first interval
    return np.asarray(times_s < ends_s[index])
