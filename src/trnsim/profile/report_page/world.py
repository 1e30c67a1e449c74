"""A world of ranks as one HTML file: a track a rank, waiting times, traffic of links.

Static: tables and one SVG, no script, no network. A rank's track has the work of its compute
engines above and its collectives below; the part beside which no compute engine works is exposed.
Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from trnsim.document.answer import Block, Document, Drawing, Note, Section, Table, columns
from trnsim.document.drawing import legend
from trnsim.document.html import html
from trnsim.fabric.floors import Floor
from trnsim.profile.analysis.world import LinkTraffic, WorldSummary
from trnsim.profile.measures.collectives import CollectiveTimes, times_of
from trnsim.profile.units import bytes_text, time_text
from trnsim.timing import Timeline

_WIDTH_PX: Final = 1160
_LANE_PX: Final = 9
_TRACK_PX: Final = 24
_NAMES_PX: Final = 64
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
    lasts_s = max(t.device_time_s for cores in ranks for t in cores)
    drawn = _drawing([times_of(cores) for cores in ranks], lasts_s)
    over_time = [Drawing(legend(_LEGEND), is_wide=True), Drawing(drawn, is_wide=True)]
    sections = [
        Section("Ranks over time", over_time),
        Section("Ranks", [_ranks(summary)]),
        Section("Collectives", _collectives(summary)),
        Section("Links, HBM, DMA engines and EFA in collectives", _links(summary.links, lasts_s)),
    ]
    return html(Document(summary.title, summary.as_dict(), sections))


def _ranks(summary: WorldSummary) -> Table:
    rows = [
        [
            str(rank),
            *map(
                time_text,
                (own.total_s, own.collectives_s, own.hidden_s, own.exposed_s, own.waited_s),
            ),
        ]
        for rank, own in enumerate(summary.ranks)
    ]
    return Table(_RANK_COLUMNS, rows)


def _collectives(summary: WorldSummary) -> list[Block]:
    rows = []
    for collective in summary.collectives[:_MOST_SHOWN_ROWS]:
        rank = collective.most_exposed
        rows.append(
            [
                collective.description,
                collective.place,
                str(collective.count[rank]),
                time_text(collective.time_s),
                str(rank),
                time_text(collective.hidden_s[rank]),
                time_text(collective.exposed_s[rank]),
                time_text(max(collective.waited_s)),
            ]
        )
    left = len(summary.collectives) - len(rows)
    paid = Note(f"{Floor.PROGRAM.value}: no start of the host is paid")
    return [paid, Table(_COLLECTIVE_COLUMNS, rows), *_more(left, "less exposed")]


def _links(links: Sequence[LinkTraffic], lasts_s: float) -> list[Block]:
    rows = [
        [
            link.name,
            bytes_text(round(link.nbytes)),
            time_text(link.busy_s),
            f"{100 * link.busy_s / lasts_s:.1f}",
        ]
        for link in links[:_MOST_SHOWN_ROWS]
    ]
    return [Table(_LINK_COLUMNS, rows), *_more(len(links) - len(rows), "less busy")]


def _more(left: int, how: str) -> list[Note]:
    return [Note(f"{left} more, {how}.")] if left else []


def _drawing(times: Sequence[CollectiveTimes], lasts_s: float) -> str:
    scale = (_WIDTH_PX - _NAMES_PX) / (lasts_s or 1.0)
    shapes: list[str] = []
    for rank, own in enumerate(times):
        top = rank * _TRACK_PX
        shapes.append(f'<text x="0" y="{top + _LANE_PX + 4}">rank {rank}</text>')
        shapes += _lane(own.work, scale, top, "work")
        shapes += _lane(own.exchanges, scale, top + _LANE_PX + 1, "exchange")
        shapes += _lane(own.exposed, scale, top + _LANE_PX + 1, "exposed")
    height = len(times) * _TRACK_PX
    shapes.append(f'<text x="{_NAMES_PX}" y="{height + 14}">0</text>')
    shapes.append(
        f'<text x="{_WIDTH_PX}" y="{height + 14}" text-anchor="end">{time_text(lasts_s)}</text>'
    )
    box = f"0 0 {_WIDTH_PX} {height + 18}"
    return f'<svg class="wide" viewBox="{box}" role="img">{"".join(shapes)}</svg>'


def _lane(spans: npt.NDArray[np.float64], scale: float, top: int, kind: str) -> list[str]:
    shapes, drawn_to = [], -1.0
    for start_s, end_s in spans.T.tolist():
        left, right = _NAMES_PX + start_s * scale, _NAMES_PX + end_s * scale
        if right - drawn_to >= 1:
            left = max(left, drawn_to)
            drawn_to = max(right, left + 1)
            shapes.append(
                f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{drawn_to - left:.1f}" '
                f'height="{_LANE_PX}"><title>{time_text(end_s - start_s)}</title></rect>'
            )
    return shapes
