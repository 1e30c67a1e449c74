"""The summary of a world of ranks: waiting, collectives, and how much of these was hidden.

`trnsim.profile.measures.collectives` defines hidden and exposed time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from trnsim.document.answer import Note, label_table
from trnsim.document.text import section_text
from trnsim.document.values import picked
from trnsim.errors import SourceLine
from trnsim.fabric.floors import Floor
from trnsim.isa import Collective
from trnsim.profile.analysis.own_kernels import own_interval
from trnsim.profile.measures.collectives import (
    TimedCollective,
    algorithm_of,
    timed_collectives,
    times_of,
)
from trnsim.profile.units import bytes_text, time_text
from trnsim.timing import Timeline

_MOST_SHOWN_COLLECTIVES: Final = 3


class LinkTraffic(Protocol):
    """The traffic of a link or of another resource of the fabric."""

    @property
    def name(self) -> str:
        """The resource's name."""
        ...

    @property
    def nbytes(self) -> float:
        """Bytes that passed through the resource."""
        ...

    @property
    def busy_s(self) -> float:
        """Seconds that the resource takes for these bytes."""
        ...


@dataclass(frozen=True, slots=True)
class RankTimes:
    """A rank's time, and the time of its collectives, in seconds.

    Attributes:
        total_s: time of the core that took longest, launch included.
        collectives_s: time in which a collective ran.
        hidden_s: time in which a collective ran and a compute engine of the rank worked.
        exposed_s: time in which a collective ran and no compute engine of the rank worked.
        waited_s: time in which the rank waited for others before collectives.
    """

    total_s: float
    collectives_s: float
    hidden_s: float
    exposed_s: float
    waited_s: float


@dataclass(frozen=True, slots=True)
class CollectiveTimesByRank:
    """Equal collectives of one source line, by rank.

    Times of a rank are sums over the collectives of one of its cores, that with the longest sum.

    Attributes:
        opcode: name in nki.collectives.
        line: the user's line; None if it is unknown.
        algorithm: the algorithm of the exchange; "" for a single rank.
        nbytes: bytes of a rank's whole message.
        time_s: seconds of the first collective.
        count: number of collectives, by rank.
        hidden_s: seconds in which a compute engine worked meanwhile, by rank.
        exposed_s: seconds in which no compute engine worked meanwhile, by rank.
        waited_s: seconds of waiting for other ranks before the collectives, by rank.
    """

    opcode: str
    line: SourceLine | None
    algorithm: str
    dtype: str
    nbytes: float
    groups: tuple[tuple[int, ...], ...]
    time_s: float
    count: list[int] = field(default_factory=list[int])
    hidden_s: list[float] = field(default_factory=list[float])
    exposed_s: list[float] = field(default_factory=list[float])
    waited_s: list[float] = field(default_factory=list[float])

    @property
    def most_exposed(self) -> int:
        """The rank on which the collectives are exposed longest."""
        return self.exposed_s.index(max(self.exposed_s))

    @property
    def description(self) -> str:
        """The collective in words: "all_reduce of 2 MiB (mesh)"."""
        algorithm = f" ({self.algorithm})" if self.algorithm else ""
        return f"{self.opcode} of {bytes_text(round(self.nbytes))}{algorithm}"

    @property
    def short_line(self) -> str:
        """The source line as FILE:LINE, without the folder; "" if it is unknown."""
        return "" if self.line is None else f"{Path(self.line.file).name}:{self.line.line}"

    @property
    def exposure(self) -> str:
        """The exposed and hidden time on the most exposed rank, and the source line, in words."""
        rank = self.most_exposed
        times = (
            f"{time_text(self.exposed_s[rank])} exposed, {time_text(self.hidden_s[rank])} hidden"
        )
        line = f" ({self.short_line})" if self.line is not None else ""
        return f"{self.count[rank]} x {self.description}: {times} on rank {rank}{line}"


@dataclass(frozen=True, slots=True)
class WorldSummary:
    """Times of all ranks, of their collectives, and the traffic of links.

    Attributes:
        title: the kernel and where it ran.
        ranks: each rank's times.
        collectives: the collectives by source line, the most exposed first.
        links: the traffic of each resource of the fabric, the busiest first.
        interval_s: P10 and P90 of the time of the rank that takes longest.
    """

    title: str
    ranks: tuple[RankTimes, ...]
    collectives: tuple[CollectiveTimesByRank, ...]
    links: tuple[LinkTraffic, ...]
    interval_s: tuple[float, float]

    @property
    def total_s(self) -> float:
        """The time of the rank that takes longest, launch included."""
        return max(times.total_s for times in self.ranks)

    @property
    def time_words(self) -> str:
        """The total with P10 and P90 in words."""
        low, high = map(time_text, self.interval_s)
        return f"{time_text(self.total_s)} (P10 to P90: {low} to {high})"

    def as_dict(self) -> dict[str, Any]:
        """The summary as JSON; lists of a collective have a number for each rank."""
        collectives = [
            {
                **asdict(collective),
                "line": None if collective.line is None else str(collective.line),
                "floor": Floor.PROGRAM.value,
            }
            for collective in self.collectives
        ]
        return {
            "title": self.title,
            "total_time_s": self.total_s,
            "p10_s": self.interval_s[0],
            "p90_s": self.interval_s[1],
            "ranks": [asdict(times) for times in self.ranks],
            "collectives": collectives,
            "links": [picked(link, "name nbytes busy_s") for link in self.links],
        }

    def rows(self, collectives: int = _MOST_SHOWN_COLLECTIVES) -> list[tuple[str, str]]:
        """Label and words of waiting, exposed time, some collectives and the busiest link."""
        waits_s = [times.waited_s for times in self.ranks]
        exposed_rank = max(range(len(self.ranks)), key=lambda rank: self.ranks[rank].exposed_s)
        times = self.ranks[exposed_rank]
        exposed_rows = (
            f"{time_text(times.exposed_s)} of {time_text(times.collectives_s)} in collectives "
            f"({Floor.PROGRAM.value}) on rank {exposed_rank}, most of all; "
            f"{time_text(times.hidden_s)} hidden"
        )
        return [
            (
                "waited",
                f"{time_text(max(waits_s))} by rank {waits_s.index(max(waits_s))}, most of all",
            ),
            ("exposed", exposed_rows),
            *(("", row.exposure) for row in self.collectives[:collectives]),
            *(
                (
                    "link",
                    f"{row.name}: {bytes_text(round(row.nbytes))}, {time_text(row.busy_s)} busy",
                )
                for row in self.links[:1]
            ),
        ]

    def text(self) -> str:
        """A few lines: time, waiting, hidden and exposed time, the busiest link."""
        head = Note(f"{self.title}: {self.time_words}")
        return section_text("", [head, label_table(self.rows(), indent=2)])


def summarize_world(
    title: str,
    ranks: Sequence[Sequence[Timeline]],
    waited_s: Sequence[float],
    links: Sequence[LinkTraffic],
) -> WorldSummary:
    """Times and links of a run on several ranks.

    Args:
        title: the kernel and where it ran.
        ranks: by rank, the timelines of its cores.
        waited_s: by rank, how long it waited for others.
        links: the traffic of each resource, the busiest first.
    """
    rows = tuple(
        _rank_times(cores, rank_waited_s)
        for cores, rank_waited_s in zip(ranks, waited_s, strict=True)
    )
    slowest = max(
        (timeline for cores in ranks for timeline in cores),
        key=lambda timeline: timeline.total_time_s,
    )
    core = slowest.program.core
    interval, _ = own_interval(core, slowest.total_time_s, slowest.interval(), "")
    return WorldSummary(
        title, rows, _collectives(ranks), tuple(links), (interval.p10, interval.p90)
    )


def _rank_times(cores: Sequence[Timeline], waited_s: float) -> RankTimes:
    times = times_of(cores)
    total_s = max(timeline.total_time_s for timeline in cores)
    return RankTimes(total_s, times.total_s, times.hidden_s, times.exposed_s, waited_s)


_Key = tuple[object, "SourceLine | None"]


def _collectives(ranks: Sequence[Sequence[Timeline]]) -> tuple[CollectiveTimesByRank, ...]:
    rows_by_key: dict[_Key, CollectiveTimesByRank] = {}
    for rank, cores in enumerate(ranks):
        per_core = [
            _by_line(timeline, rows)
            for timeline, rows in zip(cores, timed_collectives(cores), strict=True)
        ]
        for key in dict.fromkeys(key for rows_of in per_core for key in rows_of):
            exchanges = max(
                (rows_of.get(key, []) for rows_of in per_core),
                key=lambda rows: sum(exchange.end_s - exchange.start_s for exchange in rows),
            )
            row = rows_by_key.setdefault(key, _row(exchanges[0], key[1], len(ranks)))
            row.count[rank] = len(exchanges)
            row.hidden_s[rank] = sum(exchange.hidden_s for exchange in exchanges)
            row.exposed_s[rank] = sum(exchange.exposed_s for exchange in exchanges)
            row.waited_s[rank] = sum(exchange.waited_s for exchange in exchanges)
    return tuple(sorted(rows_by_key.values(), key=lambda row: -max(row.exposed_s)))


def _by_line(
    timeline: Timeline, rows: Sequence[TimedCollective]
) -> Mapping[_Key, list[TimedCollective]]:
    """The collectives of a core, grouped by signature and source line."""
    exchanges: dict[_Key, list[TimedCollective]] = {}
    for exchange in rows:
        key = exchange.instruction.signature(), timeline.program.line(exchange.index)
        exchanges.setdefault(key, []).append(exchange)
    return exchanges


def _row(exchange: TimedCollective, line: SourceLine | None, ranks: int) -> CollectiveTimesByRank:
    collective: Collective = exchange.instruction
    tile = (*collective.all_sources(), *collective.targets())[0]
    return CollectiveTimesByRank(
        collective.opcode,
        line,
        algorithm_of(collective),
        str(tile.dtype),
        collective.nbytes(),
        collective.groups(),
        exchange.end_s - exchange.start_s,
        [0] * ranks,
        *([0.0] * ranks for _ in range(3)),
    )
