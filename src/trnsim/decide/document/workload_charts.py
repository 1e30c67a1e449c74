"""Charts of one workload: cost against time, causes, inputs of the doubt, months to pay back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.decide.document.figures import chosen, staying
from trnsim.document.answer import Drawing
from trnsim.document.drawing import (
    Bar,
    BarPart,
    Dot,
    RangeBar,
    bars,
    chart,
    colour,
    dots,
    legend,
    spans,
)
from trnsim.document.figure import percent, pointer
from trnsim.formatting import amount

if TYPE_CHECKING:
    from trnsim.decide.decision import Candidate, WorkloadDecision
    from trnsim.document.figure import Figures

_ROWS: Final = 8
"""Candidates of the chart of months."""
_COMPARED: Final = 4
"""Bars of the charts by cause."""
_NET: Final = (
    '<p class="soft">Of the bills until the payback limit, what is saved less what the move '
    "costs; the other inputs at their medians.</p>"
)
_FAR: Final = 2.5
"""Months are drawn up to so many times the limit."""
_MS: Final = {"train": "ms a step", "serve": "ms a token", "infer": "ms an item"}


def workload_charts(
    one: WorkloadDecision, found: Figures, at: int, limit: float
) -> tuple[Drawing, ...]:
    """All charts of the workload number `at`; of those without figures, why."""
    places = {each.instance: n for n, each in enumerate(one.candidates)}
    drawn = (
        _front(one, found, at),
        _causes(one, at, places, "usd"),
        _causes(one, at, places, "ms"),
        _tornado(one, at),
        _months(one, at, limit),
    )
    return tuple(map(Drawing, drawn))


def _none(caption: str, why: str) -> str:
    return chart(caption, f'<p class="soft">{why}</p>')


def _front(one: WorkloadDecision, found: Figures, at: int) -> str:
    caption = "Cost and time: nothing is better in both than what is on the line"
    made: list[Dot] = []
    for n, each in enumerate(one.candidates):
        time = found.at("workloads", at, "candidates", n, "time")
        if each.usd_per_month is None or time is None:
            continue
        place = pointer("workloads", at, "candidates", n, "usd_per_month", "p50")
        usd = each.usd_per_month.p50
        made.append(Dot(each.instance, usd, time["value"], _kind(one, each), place))
    if not made:
        return _none(caption, "No candidate has a price of the same kind.")
    named = _named(one, made)
    shown = [
        Dot(dot.name, dot.x, dot.y, dot.kind, dot.of, is_named=dot.name in named) for dot in made
    ]
    unit = next(
        time["unit"]
        for n in range(len(one.candidates))
        if (time := found.at("workloads", at, "candidates", n, "time")) is not None
    )
    below = [("ours", "AWS's chips"), ("other", "GPUs"), ("here", "today's")]
    if any(dot.kind == "out" for dot in made):
        below.append(("out", "misses its promise"))
    return chart(caption, dots(shown, "USD a month", unit, amount), legend(below))


def _named(one: WorkloadDecision, made: list[Dot]) -> set[str]:
    """Today's instance, the best one, and the two ends of the line."""
    open_ = [dot for dot in made if dot.kind != "out"] or made
    ends = (min(open_, key=lambda dot: dot.x).name, min(open_, key=lambda dot: dot.y).name)
    return {one.today.instance, *ends, *([one.best] if one.best else [])}


def _kind(one: WorkloadDecision, each: Candidate) -> str:
    if each.instance == one.today.instance:
        return "here"
    if each.slo == "missed":
        return "out"
    return "ours" if each.is_neuron else "other"


def compared(one: WorkloadDecision) -> list[Candidate]:
    """Today's instance, the best one, the cheapest on AWS's chips, and the cheapest of all."""
    known = [each for each in one.candidates if each.usd_per_month is not None and each.ms]
    cheapest = sorted(known, key=lambda each: each.usd_per_month.p50 if each.usd_per_month else 0.0)
    ours = [each for each in cheapest if each.is_neuron]
    wanted = [staying(one), chosen(one), *ours[:1], *cheapest[:1]]
    kept = {each.instance: each for each in wanted if each is not None and each.ms}
    return list(kept.values())[:_COMPARED]


def _causes(one: WorkloadDecision, at: int, places: dict[str, int], field: str) -> str:
    unit = "USD a month" if field == "usd" else _MS[one.kind]
    caption = f"By cause: {unit}"
    shown = [each for each in compared(one) if getattr(each, field)]
    if not shown:
        return _none(caption, "There is nothing to show: no prediction with a price.")
    causes = list(dict.fromkeys(cause for each in compared(one) for cause in each.ms))
    colours = {cause: colour(n) for n, cause in enumerate(causes)}
    rows = [
        Bar(
            each.instance,
            tuple(
                BarPart(
                    cause,
                    value,
                    colours[cause],
                    pointer("workloads", at, "candidates", places[each.instance], field, cause),
                )
                for cause, value in getattr(each, field).items()
            ),
            amount(sum(getattr(each, field).values())),
        )
        for each in shown
    ]
    return chart(caption, bars(rows), legend([(colours[cause], cause) for cause in causes]))


def _tornado(one: WorkloadDecision, at: int) -> str:
    caption = "Which input matters: net saving at its P10 and P90"
    if not one.tornado:
        return _none(caption, "No candidate with a price was chosen.")
    rows = [
        RangeBar(
            swing.input,
            swing.low,
            None,
            swing.high,
            pointer("workloads", at, "tornado", n, "low"),
            f"{percent(swing.low)} to {percent(swing.high)}",
        )
        for n, swing in enumerate(one.tornado)
    ]
    return chart(caption, spans(rows, percent), _NET)


def _months(one: WorkloadDecision, at: int, limit: float) -> str:
    caption = f"Months until a move is paid back, P10 to P90; the limit is {limit:g}"
    rows: list[RangeBar] = []
    for n, each in enumerate(one.candidates):
        months = each.pays_back_months
        if months is None or months.p10 is None or each.instance == one.today.instance:
            continue
        words = "never at P50" if months.p50 is None else f"{amount(months.p50)} at P50"
        of = pointer("workloads", at, "candidates", n, "pays_back_months", "p10")
        rows.append(RangeBar(each.instance, months.p10, months.p50, months.p90, of, words))
    if not rows:
        return _none(caption, "No move with a price is ever paid back.")
    rows.sort(key=lambda row: (row.mid is None, row.mid or row.low))
    left = len(rows) - _ROWS
    more = f'<p class="soft">{left} more in the table.</p>' if left > 0 else ""
    return chart(caption, spans(rows[:_ROWS], amount, limit, _FAR * limit), more)
