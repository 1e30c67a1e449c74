"""A world of ranks as one HTML file: a track a rank, waiting times, traffic of links.

Static: tables and one SVG, no script, no network. A rank's track has the work of its compute
engines above and its collectives below; the part beside which no compute engine works is exposed.
Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.document.builder import page, panel, table
from trnsim.profile.measures.collectives import Times, times_of
from trnsim.profile.units import bytes_text, time_text

if TYPE_CHECKING:
    import numpy.typing as npt

    from trnsim.profile.analysis.world import LinkTraffic, WorldSummary
    from trnsim.timing import Timeline

_WIDTH: Final = 1160
_LANE: Final = 9
_TRACK: Final = 24
_NAMES: Final = 64
_ROWS: Final = 40
_STYLE: Final = """
/* Ranks: their work above, their collectives below. */
table { width: auto } th, td { padding: 2px 14px 2px 0 }
svg { width: 100%; height: auto; display: block } svg text { font-size: 11px; fill: var(--soft) }
svg .work { fill: var(--tensor) } svg .exchange { fill: var(--cc-core) }
svg .exposed { fill: var(--critical) } i.exposed { color: var(--critical) }
.legend { font-style: normal } i.work { color: var(--tensor) } i.exchange { color: var(--cc-core) }
"""


def world_page(summary: WorldSummary, ranks: Sequence[Sequence[Timeline]]) -> str:
    """The page of ranks, each with the timelines of its cores."""
    lasts_s = max(t.device_time_s for timelines in ranks for t in timelines)
    body = [
        f"<header><h1>{escape(summary.title)}</h1></header>\n",
        panel(
            "Ranks over time",
            _legend() + _drawing([times_of(timelines) for timelines in ranks], lasts_s),
        ),
        panel("Ranks", _ranks(summary)),
        panel("Collectives", _collectives(summary)),
        panel("Links, HBM, DMA engines and EFA in collectives", _links(summary.links, lasts_s)),
    ]
    return page(summary.title, "".join(body), _STYLE)


def _ranks(summary: WorldSummary) -> str:
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
    header = ["rank", "total time", "in collectives", "hidden", "exposed", "waited for others"]
    return table(header, rows)


def _collectives(summary: WorldSummary) -> str:
    rows = []
    for collective in summary.collectives[:_ROWS]:
        rank = collective.most_exposed
        line = collective.line
        rows.append(
            [
                collective.description,
                "" if line is None else f"{Path(line.file).name}:{line.line}",
                str(collective.count[rank]),
                time_text(collective.time_s),
                str(rank),
                time_text(collective.hidden_s[rank]),
                time_text(collective.exposed_s[rank]),
                time_text(max(collective.waited_s)),
            ]
        )
    header = ["collective", "line", "times", "one takes", "most exposed on rank", "hidden there"]
    header += ["exposed there", "longest wait of a rank"]
    return table(header, rows) + _remainder_text(
        len(summary.collectives) - len(rows), "less exposed"
    )


def _links(links: Sequence[LinkTraffic], lasts_s: float) -> str:
    rows = [
        [
            link.name,
            bytes_text(round(link.nbytes)),
            time_text(link.busy_s),
            f"{100 * link.busy_s / lasts_s:.1f}",
        ]
        for link in links[:_ROWS]
    ]
    header = ["resource", "bytes", "busy", "% of the device time"]
    return table(header, rows) + _remainder_text(len(links) - len(rows), "less busy")


def _remainder_text(left: int, how: str) -> str:
    return f"<p>{left} more, {how}.</p>" if left else ""


def _legend() -> str:
    words = (
        ("work", "compute engines"),
        ("exchange", "below: collectives, hidden"),
        ("exposed", "exposed: no compute engine works"),
    )
    return "".join(f'<i class="legend {kind}">&#9632;</i> {text} ' for kind, text in words)


def _drawing(times: Sequence[Times], lasts_s: float) -> str:
    scale = (_WIDTH - _NAMES) / (lasts_s or 1.0)
    shapes: list[str] = []
    for rank, own in enumerate(times):
        top = rank * _TRACK
        shapes.append(f'<text x="0" y="{top + _LANE + 4}">rank {rank}</text>')
        shapes += _lane(own.work, scale, top, "work")
        shapes += _lane(own.exchanges, scale, top + _LANE + 1, "exchange")
        shapes += _lane(own.exposed, scale, top + _LANE + 1, "exposed")
    height = len(times) * _TRACK
    shapes.append(f'<text x="{_NAMES}" y="{height + 14}">0</text>')
    shapes.append(
        f'<text x="{_WIDTH}" y="{height + 14}" text-anchor="end">{time_text(lasts_s)}</text>'
    )
    return f'<svg viewBox="0 0 {_WIDTH} {height + 18}" role="img">{"".join(shapes)}</svg>'


def _lane(spans: npt.NDArray[np.float64], scale: float, top: int, kind: str) -> list[str]:
    shapes, drawn_to = [], -1.0
    for start_s, end_s in spans.T.tolist():
        left, right = _NAMES + start_s * scale, _NAMES + end_s * scale
        if right - drawn_to >= 1:
            left = max(left, drawn_to)
            drawn_to = max(right, left + 1)
            shapes.append(
                f'<rect class="{kind}" x="{left:.1f}" y="{top}" width="{drawn_to - left:.1f}" '
                f'height="{_LANE}"><title>{time_text(end_s - start_s)}</title></rect>'
            )
    return shapes
