"""A world of ranks as one HTML file: a track a rank, who waited how long, what passed the links.

Static: tables and one SVG, no script, no network. A rank's track has what its engines and DMA do
above, and its collectives below; the part of a collective in which nothing else runs is exposed.
Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from trnsim.isa import Engine
from trnsim.profile.measures.intervals import union
from trnsim.profile.page.builder import page, panel, table
from trnsim.profile.units import bytes_text, time_text
from trnsim.timing.occupancy import columns

if TYPE_CHECKING:
    import numpy.typing as npt

    from trnsim.timing import Timeline

_WIDTH: Final = 1160
_LANE: Final = 9
_TRACK: Final = 24
_NAMES: Final = 64
_LINKS: Final = 40
_STYLE: Final = """
/* Ranks: their work above, their collectives below. */
table { width: auto } th, td { padding: 2px 14px 2px 0 }
svg { width: 100%; height: auto; display: block } svg text { font-size: 11px; fill: var(--soft) }
svg .work { fill: var(--tensor) } svg .exchange { fill: var(--vector) }
.legend { font-style: normal } i.work { color: var(--tensor) } i.exchange { color: var(--vector) }
"""


class Link(Protocol):
    """What passed a link or another resource of the fabric."""

    @property
    def name(self) -> str:
        """Which one."""
        ...

    @property
    def nbytes(self) -> float:
        """Bytes that passed."""
        ...

    @property
    def busy_s(self) -> float:
        """Seconds that they take."""
        ...


class Times(NamedTuple):
    """How long a rank's collectives took.

    Attributes:
        work: start and end of each stretch in which another engine works.
        exchanges: the same of its collectives.
        total_s: seconds in collectives.
        exposed_s: the part in which nothing else worked.
    """

    work: npt.NDArray[np.float64]
    exchanges: npt.NDArray[np.float64]
    total_s: float
    exposed_s: float


def times_of(timelines: Sequence[Timeline]) -> Times:
    """The times of the cores of one rank together."""
    work, exchanges = [], []
    for timeline in timelines:
        spans = columns(timeline)
        values = np.array([one.engine.value for one in timeline.program.checked], np.int64)
        of_both = np.stack([spans.start_s, spans.busy_until_s])
        is_exchange = values[spans.which] == Engine.collective.value
        exchanges.append(of_both[:, is_exchange])
        work.append(of_both[:, ~is_exchange])
    both = [np.concatenate(one, axis=1) for one in (work, exchanges)]
    working, exchanging = (union(*one) for one in both)
    either = union(*np.concatenate(both, axis=1))
    return Times(
        np.stack([working.start_s, working.end_s]),
        np.stack([exchanging.start_s, exchanging.end_s]),
        exchanging.total_s,
        either.total_s - working.total_s,
    )


def world_page(
    title: str,
    ranks: Sequence[Sequence[Timeline]],
    waited_s: Sequence[float],
    links: Sequence[Link],
) -> str:
    """The page of ranks, each with the timelines of its cores.

    Args:
        title: the kernel and where it ran.
        ranks: by rank, the timelines of its cores.
        waited_s: by rank, how long it waited for others.
        links: what passed each resource, the busiest first.
    """
    times = [times_of(one) for one in ranks]
    lasts_s = max(t.device_time_s for one in ranks for t in one)
    body = [
        f"<header><h1>{escape(title)}</h1></header>\n",
        panel("Ranks over time", _legend() + _drawing(times, lasts_s)),
        panel("Ranks", _ranks(ranks, times, waited_s)),
        panel("Links, HBM, DMA engines and EFA in collectives", _links(links, lasts_s)),
    ]
    return page(title, "".join(body), _STYLE)


def _ranks(
    ranks: Sequence[Sequence[Timeline]], times: Sequence[Times], waited_s: Sequence[float]
) -> str:
    rows = [
        [
            str(rank),
            time_text(max(t.total_time_s for t in cores)),
            time_text(own.total_s),
            time_text(own.total_s - own.exposed_s),
            time_text(own.exposed_s),
            time_text(wait_s),
        ]
        for rank, (cores, own, wait_s) in enumerate(zip(ranks, times, waited_s, strict=True))
    ]
    header = ["rank", "total time", "in collectives", "hidden", "exposed", "waited for others"]
    return table(header, rows)


def _links(links: Sequence[Link], lasts_s: float) -> str:
    rows = [
        [
            one.name,
            bytes_text(round(one.nbytes)),
            time_text(one.busy_s),
            f"{100 * one.busy_s / lasts_s:.1f}",
        ]
        for one in links[:_LINKS]
    ]
    left = len(links) - len(rows)
    more = f"<p>{left} more, less busy.</p>" if left else ""
    return table(["resource", "bytes", "busy", "% of the device time"], rows) + more


def _legend() -> str:
    words = (("work", "engines and DMA"), ("exchange", "collectives (below)"))
    return "".join(f'<i class="legend {kind}">&#9632;</i> {text} ' for kind, text in words)


def _drawing(times: Sequence[Times], lasts_s: float) -> str:
    scale = (_WIDTH - _NAMES) / (lasts_s or 1.0)
    shapes: list[str] = []
    for rank, own in enumerate(times):
        top = rank * _TRACK
        shapes.append(f'<text x="0" y="{top + _LANE + 4}">rank {rank}</text>')
        shapes += _lane(own.work, scale, top, "work")
        shapes += _lane(own.exchanges, scale, top + _LANE + 1, "exchange")
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
