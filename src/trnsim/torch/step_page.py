"""A training step as one HTML file: the chips, where the time goes, the kernels, HBM over time.

Static: tables and one SVG, no script, no network. Kernels are drawn as eager calls run, each after
the last, with its launch before it on a lane of its own; whether launches show depends on how far
the host is ahead. Spans narrower than a pixel are drawn as one.
"""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

from trnsim import arch
from trnsim.profile.words import bytes_words, time_words
from trnsim.torch.api.cores import device_core

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.torch.device_time import StepTime

_WIDTH: Final = 1160
_LANE: Final = 26
_HBM_HEIGHT: Final = 120
_ROWS: Final = 16
_STYLE: Final = """
:root { color-scheme: light dark; --ink: #1b1f26; --page: #f6f7f9; --panel: #fff; --soft: #5a6472;
  --forward: #0b68ad; --backward: #b64700; --optimizer: #00735a; --launch: #9aa5b4; --hbm: #4f6d94 }
@media (prefers-color-scheme: dark) { :root { --ink: #e6eaf0; --page: #0f1318; --panel: #171c23;
  --soft: #9aa5b4; --forward: #5cb3ee; --backward: #f2924b; --optimizer: #42bd95 } }
body { margin: 0; padding: 14px 20px 32px; background: var(--page); color: var(--ink);
  font: 14px/1.45 system-ui, sans-serif }
h1 { font-size: 20px } h2 { font-size: 14px; margin: 0 0 6px }
section { background: var(--panel); border-radius: 9px; padding: 11px 14px; margin-bottom: 10px }
table { border-collapse: collapse }
td, th { padding: 1px 14px 1px 0; text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left; white-space: normal; overflow-wrap: anywhere }
th { color: var(--soft); font-weight: 500 } svg { width: 100%; height: auto; display: block }
text { font-size: 11px; fill: var(--soft) } .columns { display: flex; gap: 10px; flex-wrap: wrap }
.columns section { flex: 1; min-width: 320px } .soft { color: var(--soft) }
.forward { fill: var(--forward) } .backward { fill: var(--backward) }
.optimizer { fill: var(--optimizer) } .launch { fill: var(--launch) }
.hbm { fill: var(--hbm); fill-opacity: .45 } i { font-style: normal }
i.forward { color: var(--forward) } i.backward { color: var(--backward) }
i.optimizer { color: var(--optimizer) } i.launch { color: var(--launch) }
"""


def step_page(steps: Sequence[StepTime], mfu: Sequence[float], further: str = "") -> str:
    """The page of a step on several chips, the first one drawn; `further` is text below."""
    first = steps[0]
    parts = [
        f"<section><h2>The step on each chip</h2>{_chips(steps, mfu)}</section>",
        f"<section><h2>Kernels, launches, HBM in use</h2>{_legend()}{_drawing(first)}</section>",
        '<div class="columns">',
        *(f"<section><h2>By {key}</h2>{_by(first, key)}</section>" for key in _KEYS),
        "</div>",
        _missing(first),
        f"<section><pre>{escape(further)}</pre></section>" if further else "",
    ]
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>Training step on {first.target}</title><style>{_STYLE}</style></head>"
        f"<body><h1>Training step on {first.target}</h1>{''.join(parts)}</body></html>\n"
    )


_KEYS: Final = ("phase", "module", "operation")


def _chips(steps: Sequence[StepTime], mfu: Sequence[float]) -> str:
    rows = [
        [
            step.target,
            time_words(step.device_time_s),
            time_words(step.launch_s),
            f"{step.flop / 1e12:.3f}",
            f"{100 * share:.2f}",
        ]
        for step, share in zip(steps, mfu, strict=True)
    ]
    return _table(["chip", "device time", "launches (eager gaps)", "TFLOP", "MFU %"], rows)


def _by(step: StepTime, key: str) -> str:
    total = step.device_time_s or 1.0
    rows = [
        [name, str(number), time_words(taken_s), f"{100 * taken_s / total:.1f}"]
        for name, number, taken_s in step.by(key)[:_ROWS]
    ]
    return _table([key, "calls", "time", "%"], rows)


def _missing(step: StepTime) -> str:
    if not step.missing:
        return ""
    rows = [[why, str(number)] for why, number in step.missing.most_common()]
    return f"<section><h2>Without a time</h2>{_table(['call', 'number'], rows)}</section>"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><tr>{head}</tr>{body}</table>"


def _drawing(step: StepTime) -> str:
    """Two lanes and a curve over one axis: device time and launches, one after the other."""
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
                if left + width - drawn_to[lane] >= 1:
                    left = max(left, drawn_to[lane])
                    drawn_to[lane] = left + max(width, 1)
                    shapes.append(_span(left, lane, width, kind, f"{name}: {time_words(length_s)}"))
        curve.append((now_s * scale, event.live_bytes))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {2 * _LANE + _HBM_HEIGHT + 34}" role="img">'
        f"{''.join(shapes)}{_curve(step, curve)}"
        f'<text x="0" y="{2 * _LANE + _HBM_HEIGHT + 28}">0</text>'
        f'<text x="{_WIDTH}" y="{2 * _LANE + _HBM_HEIGHT + 28}" text-anchor="end">'
        f"{time_words(total_s)} with launches</text></svg>"
    )


def _legend() -> str:
    words = (("forward", ""), ("backward", ""), ("optimizer", ""), ("launch", " (below)"))
    return "".join(f'<i class="{kind}">&#9632;</i> {kind}{more} ' for kind, more in words)


def _span(left: float, lane: int, width: float, kind: str, title: str) -> str:
    return (
        f'<rect class="{kind}" x="{left:.1f}" y="{lane * _LANE}" width="{max(width, 1):.1f}" '
        f'height="{_LANE - 4}"><title>{escape(title)}</title></rect>'
    )


def _curve(step: StepTime, curve: Sequence[tuple[float, int]]) -> str:
    """HBM in use as steps, as high as the most of it."""
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
        f'<text x="0" y="{2 * _LANE + 8}">HBM: {bytes_words(most)} at most of '
        f"{bytes_words(capacity)}</text>"
    )
