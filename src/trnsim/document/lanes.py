"""Lanes over one time axis: spans and curves, legible from a telephone's width to a wide screen.

Shapes are stretched to the width of the page; names, marks and words are text beside them, so they
keep their size. Spans narrower than a pixel of a wide screen are merged.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final
from urllib.parse import quote

from trnsim.document.scale import Scale

_WIDTH: Final = 1200
"""Units of the time axis; a unit is about a pixel of a wide screen."""
_SPAN_PX: Final = 20
_CURVE_PX: Final = 72
_UNITS: Final = ((1.0, "s"), (1e-3, "ms"), (1e-6, "us"), (1e-9, "ns"))


@dataclass(frozen=True)
class LaneSpan:
    """A span of time.

    Attributes:
        kind: a class of the page, which gives its colour.
        words: its name and length, shown on hover.
        href: a page to which it leads, beside this one; "" for none.
    """

    start_s: float
    length_s: float
    kind: str
    words: str
    href: str = ""


@dataclass(frozen=True)
class Lane:
    """A row of spans, in order of start, of a core, rank or engine.

    Attributes:
        words: text beside the name.
        lower: spans of the row's lower half; if there are any, `spans` take the upper half.
    """

    name: str
    spans: Sequence[LaneSpan]
    words: str = ""
    lower: Sequence[LaneSpan] = ()


@dataclass(frozen=True)
class CurveLane:
    """A quantity that changes in steps, drawn to the scale of its largest value.

    Attributes:
        points: pairs of a time in seconds and the value from that time on.
        words: text beside the name.
    """

    name: str
    points: Sequence[tuple[float, float]]
    words: str = ""


def mark_texts(values_s: Sequence[float]) -> list[str]:
    """Times of an axis in one unit, with as many digits as tell them apart.

    >>> mark_texts([0.0, 0.0159, 0.01595])
    ['0', '15.90 ms', '15.95 ms']
    """
    largest_s = max(map(abs, values_s), default=0.0)
    size_s, unit = next(((s, u) for s, u in _UNITS if largest_s >= s), _UNITS[-1])
    gaps_s = [second - first for first, second in pairwise(values_s)]
    step = min((gap_s for gap_s in gaps_s if gap_s > 0), default=largest_s or size_s) / size_s
    digits = next(
        (n for n in range(12) if math.isclose(step, round(step, n), rel_tol=1e-6, abs_tol=1e-12)),
        12,
    )
    return [f"{value_s / size_s:.{digits}f} {unit}" if value_s else "0" for value_s in values_s]


def lanes(label: str, rows: Sequence[Lane | CurveLane], total_s: float) -> str:
    """Lanes below each other with an axis below them; `label` is the name of the drawing."""
    marks = [mark for mark in Scale(0.0, total_s or 1.0, 0, 1).marks() if mark <= total_s]
    row_shapes = "".join(_row(row, total_s or 1.0, marks) for row in rows)
    texts = zip(marks, mark_texts(marks), strict=True)
    axis = "".join(
        f'<span style="left:{100 * mark / (total_s or 1.0):.2f}%">{words}</span>'
        for mark, words in texts
    )
    return (
        f'<div class="lanes" role="group" aria-label="{escape(label)}">{row_shapes}'
        f'<div class="axis" aria-hidden="true">{axis}</div></div>'
    )


def _row(row: Lane | CurveLane, total_s: float, marks: Sequence[float]) -> str:
    is_curve = isinstance(row, CurveLane)
    height = _CURVE_PX if is_curve else _SPAN_PX
    shapes = _curve(row, total_s) if isinstance(row, CurveLane) else _halves(row, total_s)
    lines = "".join(
        f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{height}"/>'
        for x in (_WIDTH * mark / total_s for mark in marks)
    )
    words = f'<span class="soft">{escape(row.words)}</span>' if row.words else ""
    name = escape(", ".join(filter(None, (row.name, row.words))))
    kind = " curve" if is_curve else ""
    return (
        f'<div class="lane{kind}"><span class="name">{escape(row.name)} {words}</span>'
        f'<svg viewBox="0 0 {_WIDTH} {height}" preserveAspectRatio="none" role="img" '
        f'aria-label="{name}" style="height:{height}px">{lines}{shapes}</svg></div>\n'
    )


def _halves(row: Lane, total_s: float) -> str:
    if not row.lower:
        return _spans(row.spans, total_s, 1, _SPAN_PX - 2)
    half = _SPAN_PX // 2
    return _spans(row.spans, total_s, 0, half - 1) + _spans(row.lower, total_s, half, half - 1)


def _spans(spans: Sequence[LaneSpan], total_s: float, top: int, height: int) -> str:
    """Spans as shapes; one that ends within a pixel of what is drawn is left out."""
    scale, drawn_to, shapes = _WIDTH / total_s, -1.0, list[str]()
    for span in spans:
        left, right = span.start_s * scale, (span.start_s + span.length_s) * scale
        if not span.length_s or right - drawn_to < 1:
            continue
        left = max(left, drawn_to)
        drawn_to = max(right, left + 1)
        shape = (
            f'<rect class="{span.kind}" x="{left:.1f}" y="{top}" width="{drawn_to - left:.1f}" '
            f'height="{height}"><title>{escape(span.words)}</title></rect>'
        )
        if span.href:
            target = escape(quote(span.href, safe="#=&/"))
            shape = f'<a href="{target}" aria-label="{escape(span.words)}">{shape}</a>'
        shapes.append(shape)
    return "".join(shapes)


def _curve(row: CurveLane, total_s: float) -> str:
    scale, points, drawn_to = _WIDTH / total_s, [f"0,{_CURVE_PX}"], -1.0
    highest = max((value for _, value in row.points), default=0.0) or 1.0
    y = f"{_CURVE_PX}"
    for at_s, value in row.points:
        x = at_s * scale
        if x - drawn_to >= 1 or value == highest:
            points.append(f"{x:.1f},{y}")
            y = f"{_CURVE_PX - value / highest * (_CURVE_PX - 2):.1f}"
            points.append(f"{x:.1f},{y}")
            drawn_to = x
    points.append(f"{_WIDTH},{y} {_WIDTH},{_CURVE_PX}")
    return f'<polygon class="hbm" points="{" ".join(points)}"/>'
