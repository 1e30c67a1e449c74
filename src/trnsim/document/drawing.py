"""Charts as SVG: no script draws them, so that they are there in print and without a network.

Every shape that stands for a number has it as ``data-value``, and as ``data-of`` the place in the
page's JSON file. Widths are in units of the view; a view is as wide as a telephone's screen, and
pages put views side by side where there is room.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

from trnsim.document.figure import Form, pointer
from trnsim.document.scale import Scale, spanning
from trnsim.formatting import amount, clipped, seconds

WIDTH: Final = 400
COLOURS: Final = 8
_ROW: Final = 34
_BAR: Final = 11
_LABEL_CHARS: Final = 34
_SIDE: Final = 6
_HEIGHT: Final = 250
_LEFT: Final = 52
_BOTTOM: Final = 36
_GAP: Final = 13
_EDGE: Final = 20
_LETTER: Final = 7.0
"""Width of a digit of a mark, in the widest of the fonts of pages."""


@dataclass(frozen=True)
class BarPart:
    """A part of a bar: its name, value, colour, and place in the JSON file."""

    name: str
    value: float
    colour: str
    of: str


@dataclass(frozen=True)
class Bar:
    """A bar of parts, with words for the whole."""

    name: str
    parts: tuple[BarPart, ...]
    words: str = ""


@dataclass(frozen=True)
class RangeBar:
    """A range from `low` to `high` with a mark at `mid`; `high` is None for an open range."""

    name: str
    low: float
    mid: float | None
    high: float | None
    of: str
    words: str = ""


@dataclass(frozen=True)
class Dot:
    """A point of a scatter chart.

    Attributes:
        kind: "ours", "other", "here", or "out" for a point that cannot be chosen.
        is_named: whether its name is written beside it.
    """

    name: str
    x: float
    y: float
    kind: str
    of: str
    is_named: bool = False


def chart(caption: str, drawing: str, footer: str = "") -> str:
    """A drawing with its caption, which is also its name; `footer` is markup."""
    attributes = f'role="img" aria-label="{escape(caption)}"'
    drawing = drawing.replace('role="img"', attributes, 1)
    return f"<figure><figcaption>{escape(caption)}</figcaption>{drawing}{footer}</figure>\n"


def charts(*drawings: str) -> str:
    """Charts side by side."""
    return f'<div class="charts">{"".join(drawings)}</div>\n'


def legend(names: Sequence[tuple[str, str]]) -> str:
    """The legend of a chart from pairs of a colour's CSS class and the name of its series."""
    words = (f'<span><i class="{kind}"></i>{escape(name)}</span>' for kind, name in names)
    return f'<div class="legend">{"".join(words)}</div>'


def colour(number: int) -> str:
    """The colour of series `number`."""
    return f"c{number % COLOURS}"


def bars(rows: Sequence[Bar], form: Form = amount) -> str:
    """Stacked bars below each other, on one scale; `form` has the words of a part's value."""
    longest = max((sum(part.value for part in row.parts) for row in rows), default=0.0)
    scale = Scale(0.0, longest or 1.0, 0.0, WIDTH)
    shapes: list[str] = []
    for index, row in enumerate(rows):
        top = index * _ROW
        shapes += _names(row.name, row.words, top)
        start = 0.0
        for part in row.parts:
            left, right = scale(start), scale(start + part.value)
            start += part.value
            words = f"{', '.join(filter(None, (row.name, part.name)))}: {form(part.value)}"
            shapes.append(
                f'<rect class="bar {part.colour}" x="{left:.2f}" y="{top + 17}" '
                f'width="{right - left:.2f}" height="{_BAR}" {_value(part.of, part.value)}>'
                f"<title>{escape(words)}</title></rect>"
            )
    return _view(shapes, len(rows) * _ROW)


@dataclass(frozen=True)
class Parts:
    """A sum of times: its name, the seconds of its parts, the sum in words, and where they are.

    Attributes:
        of: the JSON pointer of the object that has the values by name.
    """

    name: str
    values: Mapping[str, float]
    words: str
    of: str


def parts_chart(title: str, rows: Sequence[Parts]) -> str:
    """A bar of each row's times; equal names have equal colours, and parts of 0 have none."""
    names = dict.fromkeys(name for row in rows for name, value in row.values.items() if value)
    colours = {name: colour(number) for number, name in enumerate(names)}
    stacked_bars = [
        Bar(
            row.name,
            tuple(
                BarPart(name, row.values[name], kind, f"{row.of}{pointer(name)}")
                for name, kind in colours.items()
                if row.values.get(name)
            ),
            row.words,
        )
        for row in rows
    ]
    entries = [(kind, name) for name, kind in colours.items()]
    return chart(title, bars(stacked_bars, seconds), legend(entries))


def spans(
    rows: Sequence[RangeBar], form: Form, limit: float | None = None, axis_limit: float = 0.0
) -> str:
    """Ranges below each other, over one axis.

    Args:
        rows: the ranges.
        form: function from a value to its words.
        limit: a value at which each row has a line; None for no line.
        axis_limit: upper limit of the axis; 0 for the largest value of the ranges.
    """
    values = [value for row in rows for value in (row.low, row.mid, row.high) if value is not None]
    high = max([*values, limit or 0.0, 0.0])
    low = min([*values, 0.0])
    high = min(high, axis_limit) if axis_limit else high
    room = 0.04 * ((high - low) or 1.0)
    scale = Scale(low - room * (low < 0), high + room, _SIDE, WIDTH - _SIDE)
    bottom = len(rows) * _ROW
    shapes = _axis_below(scale, bottom, form)
    for index, row in enumerate(rows):
        top = index * _ROW
        shapes += _span(row, top, scale)
        if limit is not None:
            shapes.append(_line("limit", scale(limit), top + 14, scale(limit), top + 31))
    return _view(shapes, bottom + 18)


def _span(row: RangeBar, top: int, scale: Scale) -> list[str]:
    end = scale.high if row.high is None else row.high
    left, right = sorted((scale(row.low), scale(end)))
    values = _value(row.of, row.low)
    shapes = _names(row.name, row.words, top)
    shapes.append(
        f'<rect class="span" x="{left:.2f}" y="{top + 17}" width="{max(right - left, 1):.2f}" '
        f'height="{_BAR}" {values}><title>{escape(f"{row.name}: {row.words}")}</title></rect>'
    )
    if row.mid is not None:
        shapes.append(_line("mid", scale(row.mid), top + 15, scale(row.mid), top + 30))
    if row.high is None or row.high > scale.high:
        tip = f"{WIDTH - 8},{top + 16} {WIDTH},{top + 22.5} {WIDTH - 8},{top + 29}"
        shapes.append(f'<polygon class="far" points="{tip}"/>')
    return shapes


def dots(points: Sequence[Dot], x_words: str, y_words: str, form: Form) -> str:
    """A scatter chart with a line through the Pareto front of the points."""
    x = spanning([point.x for point in points], _LEFT, WIDTH - _SIDE)
    y = spanning([point.y for point in points], _HEIGHT - _BOTTOM, 12)
    shapes = _axes(x, y, x_words, y_words, form)
    line = " ".join(f"{x(point.x):.1f},{y(point.y):.1f}" for point in front(points))
    shapes.append(f'<polyline class="front" points="{line}"/>')
    shapes += [
        f'<circle class="dot {point.kind}" cx="{x(point.x):.2f}" cy="{y(point.y):.2f}" r="4.5" '
        f"{_value(point.of, point.x)}><title>{escape(f'{point.name}: {form(point.x)} {x_words}')}, "
        f"{form(point.y)} {escape(y_words)}</title></circle>"
        for point in points
    ]
    return _view(
        [*shapes, *_dot_labels([point for point in points if point.is_named], x, y)], _HEIGHT
    )


def front(points: Sequence[Dot]) -> list[Dot]:
    """The Pareto front: points than which no other has less of both x and y, from the left."""
    best_points: list[Dot] = []
    for point in sorted(points, key=lambda dot: (dot.x, dot.y)):
        if point.kind == "out":
            continue
        if not best_points or point.y < best_points[-1].y:
            best_points.append(point)
    return best_points


def _dot_labels(dots: Sequence[Dot], x: Scale, y: Scale) -> list[str]:
    """Names beside their dots, moved down where they would overlap."""
    shapes: list[str] = []
    label_y = -float(_GAP)
    for point in sorted(dots, key=lambda dot: y(dot.y)):
        is_left = x(point.x) > WIDTH / 2
        label_y = max(y(point.y) + 4, label_y + _GAP)
        label_x, anchor = (x(point.x) - 8, "end") if is_left else (x(point.x) + 8, "start")
        name = escape(clipped(point.name, _LABEL_CHARS))
        shapes.append(
            f'<text class="name" x="{label_x:.1f}" y="{label_y:.1f}" text-anchor="{anchor}">'
            f"{name}</text>"
        )
    return shapes


@dataclass(frozen=True)
class CurveLine:
    """A line through points, by its name.

    Attributes:
        points: x and y of each, from the left.
        of: places of the values of y in the JSON file, one for each point.
        kind: "" or "outer".
    """

    name: str
    points: tuple[tuple[float, float], ...]
    of: tuple[str, ...]
    kind: str = ""


def curves(
    lines: Sequence[CurveLine],
    x_words: str,
    y_words: str,
    form: Form,
    *,
    limit: float | None = None,
    marks: Sequence[tuple[str, float]] = (),
) -> str:
    """Lines through points, with a limit of y and marked places of x.

    Args:
        lines: the lines.
        x_words: quantity and unit of x.
        y_words: quantity and unit of y.
        form: values of y as words.
        limit: value of y where a line is drawn.
        marks: names and values of x where lines are drawn.
    """
    points = [point for line in lines for point in line.points]
    x_high = max([*(x for x, _ in points), *(value for _, value in marks)])
    x = Scale(0.0, 1.04 * x_high or 1.0, _LEFT, WIDTH - _SIDE)
    bounds = [] if limit is None else [limit]
    y = spanning([*(value for _, value in points), *bounds], _HEIGHT - _BOTTOM, 12)
    shapes = _axes(x, y, x_words, y_words, form, amount)
    if limit is not None:
        shapes.append(_line("limit", _LEFT, y(limit), WIDTH - _SIDE, y(limit)))
    for index, (name, value) in enumerate(marks):
        shapes.append(_line("mid", x(value), 12, x(value), _HEIGHT - _BOTTOM))
        is_left = x(value) > WIDTH / 2
        name_x, anchor = (x(value) - 5, "end") if is_left else (x(value) + 5, "start")
        shapes.append(_text(name_x, 24 + index * _GAP, name, anchor))
    for line in lines:
        coordinates = " ".join(f"{x(at):.1f},{y(value):.1f}" for at, value in line.points)
        shapes.append(f'<polyline class="line {line.kind}" points="{coordinates}"/>')
        shapes += [
            f'<circle class="dot ours" cx="{x(at):.2f}" cy="{y(value):.2f}" r="3.5" '
            f"{_value(of, value)}><title>{escape(f'{line.name}: {form(value)} at {amount(at)}')}"
            "</title></circle>"
            for (at, value), of in zip(line.points, line.of, strict=True)
        ]
    return _view(shapes, _HEIGHT)


@dataclass(frozen=True)
class ColumnBar:
    """A column of parts, one above the other, by its name."""

    name: str
    parts: tuple[BarPart, ...]


def columns(
    stacks: Sequence[ColumnBar],
    y_words: str,
    form: Form,
    lines: Sequence[tuple[str, Sequence[float]]] = (),
    axis_value: float = 0.0,
) -> str:
    """Stacked columns with stepped lines over them.

    Args:
        stacks: the columns.
        y_words: the quantity and unit of the parts.
        form: function from a value of the axis to its words.
        lines: for each line its CSS class, and its value in each column.
        axis_value: a value that the axis includes.
    """
    tops = [sum(part.value for part in stack.parts) for stack in stacks]
    high = max([*tops, *(value for _, values in lines for value in values), axis_value, 0.0]) or 1.0
    y = Scale(0.0, high, _HEIGHT - _BOTTOM, 12)
    x = Scale(0.0, len(stacks), _LEFT, WIDTH - _SIDE)
    shapes = _axis_beside(y, y_words, form)
    for index, stack in enumerate(stacks):
        start = 0.0
        for part in stack.parts:
            low, top = y(start), y(start + part.value)
            start += part.value
            words = escape(f"{stack.name}, {part.name}: {amount(part.value)}")
            shapes.append(
                f'<rect class="bar {part.colour}" x="{x(index) + 0.5:.2f}" y="{top:.2f}" '
                f'width="{x(index + 1) - x(index) - 1:.2f}" height="{low - top:.2f}" '
                f"{_value(part.of, part.value)}><title>{words}</title></rect>"
            )
        if index % 6 == 0:
            shapes.append(_text(x(index), _HEIGHT - _BOTTOM + 15, stack.name, "start"))
    for kind, values in lines:
        steps = " ".join(
            f"{x(index + side):.1f},{y(value):.1f}"
            for index, value in enumerate(values)
            for side in (0, 1)
        )
        shapes.append(f'<polyline class="line {kind}" points="{steps}"/>')
    return _view(shapes, _HEIGHT - _BOTTOM + 20)


def _names(name: str, words: str, top: int) -> list[str]:
    name = clipped(name, _LABEL_CHARS)
    return [
        f'<text class="name" x="0" y="{top + 12}">{escape(name)}</text>',
        f'<text x="{WIDTH}" y="{top + 12}" text-anchor="end">{escape(words)}</text>',
    ]


def _axes(
    x: Scale, y: Scale, x_words: str, y_words: str, form: Form, x_form: Form | None = None
) -> list[str]:
    """Both axes; `form` writes their values, and `x_form`, if it is not None, those of x."""
    bottom = _HEIGHT - _BOTTOM
    shapes = _axis_beside(y, y_words, form)
    for value in x.marks():
        shapes.append(_line("grid", x(value), 12, x(value), bottom))
        words = (x_form or form)(value)
        shapes.append(_mark_below(x(value), bottom, words))
    shapes.append(_text((_LEFT + WIDTH) / 2, _HEIGHT - 5, x_words, "middle"))
    return shapes


def _axis_beside(y: Scale, words: str, form: Form) -> list[str]:
    shapes: list[str] = []
    for value in y.marks():
        shapes.append(_line("grid", _LEFT, y(value), WIDTH - _SIDE, y(value)))
        shapes.append(_text(_LEFT - 5, y(value) + 4, form(value), "end", "y"))
    shapes.append(_text(0, 9, words, "start"))
    return shapes


def _axis_below(scale: Scale, bottom: int, form: Form) -> list[str]:
    shapes: list[str] = []
    for value in scale.marks():
        x = scale(value)
        shapes.append(_line("zero" if value == 0 else "grid", x, 0, x, bottom))
        shapes.append(_mark_below(x, bottom, form(value)))
    return shapes


def _mark_below(x: float, bottom: float, words: str) -> str:
    """A mark of the axis of x: within the drawing, so not centred near its edges."""
    edge = max(_EDGE, _LETTER * len(words) / 2)
    anchor = "start" if x < edge else "end" if x > WIDTH - edge else "middle"
    return _text(x, bottom + 14, words, anchor, "x")


def _line(kind: str, x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line class="{kind}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, anchor: str, axis: str = "") -> str:
    """Words at a place; those of a mark name their axis."""
    mark = f' class="mark" data-axis="{axis}"' if axis else ""
    return f'<text{mark} x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{escape(words)}</text>'


def _value(of: str, value: float) -> str:
    """Attributes with a shape's value and its JSON pointer `of`; "" for a shape without one."""
    return f'data-of="{escape(of)}" data-value="{value!r}"' if of else ""


def _view(shapes: Sequence[str], height: float) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height:g}" role="img">{"".join(shapes)}</svg>'
