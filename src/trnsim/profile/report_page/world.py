"""A world of ranks as one HTML file: one track per rank, waiting times, traffic of links.

Static: tables and one SVG, no script, no network. A rank's track has the work of its compute
engines above and its collectives below; a collective is exposed while no compute engine works.
Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from trnsim.document.answer import Block, Document, Drawing, Note, Section, Table, columns
from trnsim.document.drawing import legend
from trnsim.document.html import html
from trnsim.document.lanes import lanes
from trnsim.fabric.floors import Floor
from trnsim.profile.analysis.rank_lanes import rank_lane
from trnsim.profile.analysis.world import LinkTraffic, WorldSummary
from trnsim.profile.measures.collectives import CollectiveTimes, times_of
from trnsim.profile.units import bytes_text, time_text
from trnsim.timing import Timeline

_MOST_SHOWN_ROWS: Final = 40
_LEGEND: Final = (
    ("work", "compute engines"),
    ("exchange", "below: collectives, hidden"),
    ("exposed", "exposed: no compute engine works"),
)
_RANK_COLUMNS: Final = columns(
    "rank | total time | in collectives | hidden | exposed | waited for others", numbers_from=0
)
_COLLECTIVE_COLUMNS: Final = columns(
    "collective | line | times | one takes | most exposed on rank | hidden there | exposed there | "
    "longest wait of a rank",
    numbers_from=2,
)
_LINK_COLUMNS: Final = columns("resource | bytes | busy | % of the device time")


def world_page(summary: WorldSummary, ranks: Sequence[Sequence[Timeline]]) -> str:
    """The page of ranks, each with the timelines of its cores."""
    device_time_s = max(t.device_time_s for cores in ranks for t in cores)
    drawing = _drawing([times_of(cores) for cores in ranks], device_time_s)
    over_time = [Drawing(legend(_LEGEND), is_wide=True), Drawing(drawing, is_wide=True)]
    sections = [
        Section("", [Note(f"the rank that takes longest: {summary.time_words}")]),
        Section("Ranks over time", over_time),
        Section("Ranks", [_ranks(summary)]),
        Section("Collectives", _collectives(summary)),
        Section(
            "Links, HBM, DMA engines and EFA in collectives", _links(summary.links, device_time_s)
        ),
    ]
    return html(Document(summary.title, summary.as_dict(), sections))


def _ranks(summary: WorldSummary) -> Table:
    rows = [
        [
            str(rank),
            *map(
                time_text,
                (
                    times.total_s,
                    times.collectives_s,
                    times.hidden_s,
                    times.exposed_s,
                    times.waited_s,
                ),
            ),
        ]
        for rank, times in enumerate(summary.ranks)
    ]
    return Table(_RANK_COLUMNS, rows)


def _collectives(summary: WorldSummary) -> list[Block]:
    rows = []
    for collective in summary.collectives[:_MOST_SHOWN_ROWS]:
        rank = collective.most_exposed
        rows.append(
            [
                collective.description,
                collective.short_line,
                str(collective.count[rank]),
                time_text(collective.time_s),
                str(rank),
                time_text(collective.hidden_s[rank]),
                time_text(collective.exposed_s[rank]),
                time_text(max(collective.waited_s)),
            ]
        )
    hidden_count = len(summary.collectives) - len(rows)
    floor_note = Note(f"{Floor.PROGRAM.value}: the host does not start each of them")
    return [
        floor_note,
        Table(_COLLECTIVE_COLUMNS, rows),
        *_hidden_rows_notes(hidden_count, "less exposed"),
    ]


def _links(links: Sequence[LinkTraffic], device_time_s: float) -> list[Block]:
    rows = [
        [
            link.name,
            bytes_text(round(link.nbytes)),
            time_text(link.busy_s),
            f"{100 * link.busy_s / device_time_s:.1f}",
        ]
        for link in links[:_MOST_SHOWN_ROWS]
    ]
    return [Table(_LINK_COLUMNS, rows), *_hidden_rows_notes(len(links) - len(rows), "less busy")]


def _hidden_rows_notes(count: int, trait: str) -> list[Note]:
    return [Note(f"{count} more, {trait}.")] if count else []


def _drawing(times: Sequence[CollectiveTimes], device_time_s: float) -> str:
    rows = [
        rank_lane(f"rank {rank}", rank_times.work, rank_times.exchanges, rank_times.exposed)
        for rank, rank_times in enumerate(times)
    ]
    return lanes("Compute and collectives of each rank over time", rows, device_time_s)
