"""Charts of a workload: cost against time, cost and time by cause, tornado, months to pay back."""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Candidate, WorkloadDecision
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
from trnsim.document.figure import Figures, percent, pointer
from trnsim.formatting import amount

_MOST_MONTH_ROWS: Final = 8
"""Candidates that the chart of months shows at most."""
_MOST_COMPARED_CANDIDATES: Final = 4
"""Candidates that the charts by cause show at most."""
_TORNADO_NOTE: Final = (
    '<p class="soft">Net saving: bills saved until the payback limit less the cost of the move, as '
    "a part of the bills. The other inputs are at their medians.</p>"
)
_AXIS_PAYBACK_LIMITS: Final = 2.5
"""Length of the axis of months, in payback limits."""
_MS_UNIT_BY_KIND: Final = {"train": "ms a step", "serve": "ms a token", "infer": "ms an item"}
"""Unit of a candidate's `ms`, by kind of workload."""


def workload_charts(
    workload: WorkloadDecision, figures: Figures, index: int, limit_months: float
) -> tuple[Drawing, ...]:
    """All charts of a workload; an empty chart says why it is empty.

    Args:
        workload: decision about the workload.
        figures: figures of the decision, to which the charts refer by their paths.
        index: position of the workload in the decision, from 0.
        limit_months: months within which a move must pay back.
    """
    places = {option.instance: number for number, option in enumerate(workload.candidates)}
    charts = (
        _pareto_chart(workload, figures, index),
        _causes(workload, index, places, "usd"),
        _causes(workload, index, places, "ms"),
        _tornado(workload, index),
        _months(workload, index, limit_months),
    )
    return tuple(map(Drawing, charts))


def _empty_chart(caption: str, why: str) -> str:
    return chart(caption, f'<p class="soft">{why}</p>')


def _pareto_chart(workload: WorkloadDecision, figures: Figures, index: int) -> str:
    caption = "Cost and time: nothing is both cheaper and faster than what is on the line"
    points: list[Dot] = []
    for number, option in enumerate(workload.candidates):
        time = figures.at("workloads", index, "candidates", number, "time")
        if option.usd_per_month is None or time is None:
            continue
        place = pointer("workloads", index, "candidates", number, "usd_per_month", "p50")
        usd = option.usd_per_month.p50
        points.append(Dot(option.instance, usd, time["value"], _dot_kind(workload, option), place))
    if not points:
        return _empty_chart(caption, "No candidate has a price of the same kind.")
    labels = _labelled_names(workload, points)
    labelled_options = [
        Dot(dot.name, dot.x, dot.y, dot.kind, dot.of, is_named=dot.name in labels) for dot in points
    ]
    unit = next(
        time["unit"]
        for number in range(len(workload.candidates))
        if (time := figures.at("workloads", index, "candidates", number, "time")) is not None
    )
    legend_entries = [("ours", "AWS's chips"), ("other", "GPUs"), ("here", "today's")]
    if any(dot.kind == "out" for dot in points):
        legend_entries.append(("out", "misses its SLO"))
    return chart(
        caption, dots(labelled_options, "USD a month", unit, amount), legend(legend_entries)
    )


def _labelled_names(workload: WorkloadDecision, points: list[Dot]) -> set[str]:
    """Names of the instances with a label: today's, the best, the cheapest and the fastest."""
    dots_in_time = [dot for dot in points if dot.kind != "out"] or points
    extremes = (
        min(dots_in_time, key=lambda dot: dot.x).name,
        min(dots_in_time, key=lambda dot: dot.y).name,
    )
    return {workload.today.instance, *extremes, *([workload.best] if workload.best else [])}


def _dot_kind(workload: WorkloadDecision, option: Candidate) -> str:
    """Kind of a candidate's dot: today's, an SLO missed, AWS's chips, or GPUs."""
    if option.instance == workload.today.instance:
        return "here"
    if option.slo == "missed":
        return "out"
    return "ours" if option.is_neuron else "other"


def compared_candidates(workload: WorkloadDecision) -> list[Candidate]:
    """Candidates of charts by cause: today's, the verdict's, the cheapest Neuron, the cheapest."""
    priced_candidates = [
        option for option in workload.candidates if option.usd_per_month is not None and option.ms
    ]
    sorted_candidates = sorted(
        priced_candidates,
        key=lambda option: option.usd_per_month.p50 if option.usd_per_month else 0.0,
    )
    neuron_candidates = [option for option in sorted_candidates if option.is_neuron]
    sides = map(workload.candidate, (workload.today.instance, workload.best))
    selected_candidates = [*sides, *neuron_candidates[:1], *sorted_candidates[:1]]
    candidates_by_instance = {
        option.instance: option
        for option in selected_candidates
        if option is not None and option.ms
    }
    return list(candidates_by_instance.values())[:_MOST_COMPARED_CANDIDATES]


def _causes(workload: WorkloadDecision, index: int, places: dict[str, int], field: str) -> str:
    """Chart of USD or milliseconds by cause.

    Args:
        workload: decision about the workload.
        index: position of the workload in the decision.
        places: positions of the candidates, by instance.
        field: "usd" or "ms".
    """
    unit = "USD a month" if field == "usd" else _MS_UNIT_BY_KIND[workload.kind]
    caption = f"By cause: {unit}"
    options = compared_candidates(workload)
    charted_options = [option for option in options if getattr(option, field)]
    if not charted_options:
        return _empty_chart(caption, "There is nothing to show: no prediction with a price.")
    causes = list(dict.fromkeys(cause for option in options for cause in option.ms))
    colours = {cause: colour(number) for number, cause in enumerate(causes)}
    rows = [
        Bar(
            option.instance,
            tuple(
                BarPart(
                    cause,
                    value,
                    colours[cause],
                    pointer(
                        "workloads", index, "candidates", places[option.instance], field, cause
                    ),
                )
                for cause, value in getattr(option, field).items()
            ),
            amount(sum(getattr(option, field).values())),
        )
        for option in charted_options
    ]
    return chart(caption, bars(rows), legend([(colours[cause], cause) for cause in causes]))


def _tornado(workload: WorkloadDecision, index: int) -> str:
    caption = "Which input matters: net saving at its P10 and P90"
    if not workload.tornado:
        return _empty_chart(caption, "No candidate with a price was chosen.")
    rows = [
        RangeBar(
            swing.input,
            swing.low,
            None,
            swing.high,
            pointer("workloads", index, "tornado", number, "low"),
            f"{percent(swing.low)} to {percent(swing.high)}",
        )
        for number, swing in enumerate(workload.tornado)
    ]
    return chart(caption, spans(rows, percent), _TORNADO_NOTE)


def _months(workload: WorkloadDecision, index: int, limit_months: float) -> str:
    caption = f"Months until a move is paid back, P10 to P90; the limit is {limit_months:g}"
    rows: list[RangeBar] = []
    for number, option in enumerate(workload.candidates):
        months = option.pays_back_months
        if months is None or months.p10 is None or option.instance == workload.today.instance:
            continue
        words = "never at P50" if months.p50 is None else f"{amount(months.p50)} at P50"
        place = pointer("workloads", index, "candidates", number, "pays_back_months", "p10")
        rows.append(RangeBar(option.instance, months.p10, months.p50, months.p90, place, words))
    if not rows:
        return _empty_chart(caption, "No move with a price is ever paid back.")
    rows.sort(key=lambda row: (row.mid is None, row.mid or row.low))
    hidden_rows = len(rows) - _MOST_MONTH_ROWS
    hidden_note = f'<p class="soft">{hidden_rows} more in the table.</p>' if hidden_rows > 0 else ""
    return chart(
        caption,
        spans(rows[:_MOST_MONTH_ROWS], amount, limit_months, _AXIS_PAYBACK_LIMITS * limit_months),
        hidden_note,
    )
