"""A training step as one HTML file: chips, time by phase, module and operation, kernels, HBM.

Static: tables and one SVG, no script, no network. Kernels are drawn one after another, as eager
calls run, each launch before its kernel on a lane of its own; on a chip, launches are hidden while
the host is ahead. Spans narrower than a pixel are merged.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trnsim import arch
from trnsim.device.device_core import device_core
from trnsim.device.step_time import ROWS
from trnsim.document.builder import page, panel, table
from trnsim.profile.units import bytes_text, time_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.device.step_time import StepTime

_WIDTH: Final = 1160
_LANE: Final = 26
_HBM_HEIGHT: Final = 120
_STYLE: Final = """
/* A step: its phases and launches on lanes, the HBM below. */
table { width: auto } th, td { padding: 2px 14px 2px 0 }
.columns { display: flex; gap: 10px; flex-wrap: wrap }
.columns section { flex: 1; min-width: 320px } svg { width: 100%; height: auto; display: block }
svg text { font-size: 11px; fill: var(--soft) } .legend { font-style: normal }
svg .forward { fill: var(--tensor) } svg .backward { fill: var(--vector) }
svg .optimizer { fill: var(--scalar) } svg .launch { fill: var(--sync) }
svg .hbm { fill: var(--memory); fill-opacity: .45 }
i.forward { color: var(--tensor) } i.backward { color: var(--vector) }
i.optimizer { color: var(--scalar) } i.launch { color: var(--sync) }
"""


def step_page(
    steps: Sequence[StepTime], mfu: Sequence[float], further: str = "", which: str = ""
) -> str:
    """The page of a step on several chips, the first one drawn.

    `further` is text below; `which` says which of the program's calls the step is.
    """
    first = steps[0]
    title = f"Training step on {first.target}"
    body = [
        f"<header><h1>{escape(title)}</h1>{f'<p>{escape(which)}</p>' if which else ''}</header>\n",
        panel("The step on each chip", _chips(steps, mfu)),
        panel("Kernels, launches, HBM in use", _legend() + _drawing(first)),
        '<div class="columns">',
        *(panel(f"By {key}", _by(first, key)) for key in first.keys),
        "</div>\n",
        _missing(first),
        f'<section class="panel"><pre>{escape(further)}</pre></section>\n' if further else "",
    ]
    return page(title, "".join(body), _STYLE)


def _chips(steps: Sequence[StepTime], mfu: Sequence[float]) -> str:
    rows = [
        [
            step.target,
            time_text(step.device_time_s),
            time_text(step.launch_s),
            f"{step.flop / 1e12:.3f}",
            f"{100 * share:.2f}",
        ]
        for step, share in zip(steps, mfu, strict=True)
    ]
    return table(["chip", "device time", "launches (eager gaps)", "TFLOP", "MFU %"], rows)


def _by(step: StepTime, key: str) -> str:
    total = step.device_time_s or 1.0
    rows = [
        [name, str(number), time_text(taken_s), f"{100 * taken_s / total:.1f}"]
        for name, number, taken_s in step.by(key)[:ROWS]
    ]
    return table([key, "calls", "time", "%"], rows)


def _missing(step: StepTime) -> str:
    if not step.missing:
        return ""
    rows = [[why, str(number)] for why, number in step.missing.most_common()]
    return panel("Without a time", table(["call", "number"], rows))


def _drawing(step: StepTime) -> str:
    """A lane of kernels, a lane of launches and the curve of HBM over one time axis."""
    total_s = step.device_time_s + step.launch_s or 1.0
    scale = _WIDTH / total_s
    shapes: list[str] = []
    curve: list[tuple[float, int]] = []
    now_s, drawn_to = 0.0, {0: -1.0, 1: -1.0}
    for event in step.events:
        found = step.times[event.call]
        for kernel, launch_s in zip(found.kernels, found.launches_s, strict=True):
            for lane, length_s, kind, name in (
                (1, launch_s, "launch", f"launch of {kernel.name}"),
                (0, kernel.device_time_s, event.phase.value, f"{kernel.name}, {event.module}"),
            ):
                left, width = now_s * scale, length_s * scale
                now_s += length_s
                if length_s and left + width - drawn_to[lane] >= 1:
                    left = max(left, drawn_to[lane])
                    drawn_to[lane] = left + max(width, 1)
                    shapes.append(_span(left, lane, width, kind, f"{name}: {time_text(length_s)}"))
        curve.append((now_s * scale, event.live_bytes))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {2 * _LANE + _HBM_HEIGHT + 34}" role="img">'
        f"{''.join(shapes)}{_curve(step, curve)}"
        f'<text x="0" y="{2 * _LANE + _HBM_HEIGHT + 28}">0</text>'
        f'<text x="{_WIDTH}" y="{2 * _LANE + _HBM_HEIGHT + 28}" text-anchor="end">'
        f"{time_text(total_s)} with launches</text></svg>"
    )


def _legend() -> str:
    words = (("forward", ""), ("backward", ""), ("optimizer", ""), ("launch", " (below)"))
    return "".join(f'<i class="legend {kind}">&#9632;</i> {kind}{more} ' for kind, more in words)


def _span(left: float, lane: int, width: float, kind: str, title: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{lane * _LANE}" width="{max(width, 1):.1f}" '
        f'height="{_LANE - 4}"><title>{escape(title)}</title></rect>'
    )


def _curve(step: StepTime, curve: Sequence[tuple[float, int]]) -> str:
    """HBM in use over time as a step function, scaled to its peak."""
    most = max((live for _, live in curve), default=0) or 1
    floor = 2 * _LANE + _HBM_HEIGHT + 12
    points, last = [f"0,{floor}"], -1.0
    for x, live in curve:
        if x - last >= 1 or live == most:
            y = floor - live / most * _HBM_HEIGHT
            points += [f"{x:.1f},{points[-1].split(',')[1]}", f"{x:.1f},{y:.1f}"]
            last = x
    capacity = device_core(arch.target(step.target)).hbm_bytes
    return (
        f'<polygon class="hbm" points="{" ".join(points)} {_WIDTH},{floor}"/>'
        f'<text x="0" y="{2 * _LANE + 8}">HBM: {bytes_text(most)} at most of '
        f"{bytes_text(capacity)}</text>"
    )
