"""The capacity answer of ``trnsim plan serve`` in words, tables and charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from trnsim.document.answer import Block, Drawing, Items, Note, Table, columns, records
from trnsim.document.drawing import CurveLine, chart, charts, curves
from trnsim.document.figure import Form, pointer
from trnsim.formatting import amount, amounts, seconds
from trnsim.system.serve.answer import OPERATING_PART, CapacityAnswer
from trnsim.system.serve.capacity_report import instances_for_rate, most_per_s
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.nearest import Nearest
from trnsim.system.serve.plan import ServingPlan
from trnsim.system.serve.sizing import Spare

_CAPACITY_COLUMNS: Final = columns(
    "platform | load | most load P50 (P10 to P90) | with the spare lost | headroom | first limit | "
    "USD/h"
)
_CURVE_COLUMNS: Final = columns(
    "requests/s | TTFT P50 | P99 | TPOT P50 | P99 | request P99 | USD per 1M tokens | limits"
)
_NAMES: Final = {"ttft": "TTFT", "tpot": "TPOT", "e2e": "whole request"}
_OPTIONS: Final = {"ttft": "--slo-ttft", "tpot": "--slo-tpot"}
_LAYOUT_NAMES: Final = (
    "platform",
    "instances",
    "data_parallel_size",
    "tensor_parallel_size",
    "max_num_seqs",
    "port_state",
)


def capacities(plans: Sequence[ServingPlan]) -> Table:
    """The table of each platform's most load, and its headroom above the rate."""
    return Table(_CAPACITY_COLUMNS, [_row(plan) for plan in plans])


def _row(plan: ServingPlan) -> tuple[str, ...]:
    name, usd = plan.deployment.machine.name, plan.usd_per_hour
    usd_text = "-" if usd is None else f"{usd:,.2f}"
    answer = plan.answer
    if answer is None:
        return (name, "clients", "-", "-", "-", "-", usd_text)
    sizing = answer.sizing
    load = answer.load_per_s
    has_spare = sizing.spare is not Spare.NONE and answer.nearest is None
    return (
        name,
        "-" if load is None else f"{amount(load)}/s",
        f"{amounts(most_per_s(answer))}/s" if answer.most_per_s else "none",
        f"{amount(sizing.promised_per_s)}/s" if has_spare else "-",
        "-" if sizing.headroom is None else f"{sizing.headroom:.3g}",
        _NAMES.get(answer.capacity.binding, "-"),
        usd_text,
    )


def capacity_notes(plan: ServingPlan) -> list[str]:
    """Notes on the most load and the spare; if no load keeps the SLO, on a feasible SLO."""
    answer = plan.answer
    if answer is None:
        return []
    if answer.nearest is not None:
        return _infeasible(answer, answer.nearest)
    capacity = answer.capacity
    if answer.has_slo:
        lines = [f"most load: {_limits(capacity.limits)}"]
    else:
        lines = [
            f"most load: the knee, where {_limits(capacity.limits)}, twice that of a request alone"
        ]
    lines[0] += (
        f"; runs of {capacity.requests:,} requests, sampling error {100 * capacity.error:.1f} %"
    )
    if answer.sizing.rate_per_s is None:
        lines.append(f"figures at {OPERATING_PART:.0%} of the most load")
    return [*lines, *_instances(answer)]


def _limits(limits: Slo) -> str:
    words = [f"{_NAMES[name]} <= {seconds(limit)}" for name, limit in limits.by_name.items()]
    return f"{' and '.join(words)} at P{limits.reported_percentile}"


def _instances(answer: CapacityAnswer) -> list[str]:
    """Notes on the load kept when a replica or instance fails, and on the instances for the rate.

    The number of instances at the P90 of step times is a note of its own where it differs.
    """
    sizing, counts = answer.sizing, instances_for_rate(answer)
    if counts is None or sizing.rate_per_s is None:
        return []
    lines: list[str] = []
    if sizing.spare is not Spare.NONE:
        unit = "an instance" if answer.test.deployment.instances == 1 else "a unit of instances"
        spare = unit if sizing.spare is Spare.INSTANCE else "a replica"
        lines.append(
            f"with {spare} lost, {amount(sizing.promised_per_s)} requests/s keep the limits "
            "(--spare none: no spare)"
        )
    if counts["p50"] is not None and sizing.promised_per_s < sizing.rate_per_s:
        lines.append(f"{amount(sizing.rate_per_s)} requests/s need {counts['p50']:,} instances")
    if counts["p90"] is None:
        lines.append("with times at their P90, no number of instances serves the rate")
    elif counts["p90"] != counts["p50"]:
        lines.append(f"with times at their P90, the rate needs {counts['p90']:,} instances")
    return lines


def _infeasible(answer: CapacityAnswer, nearest: Nearest) -> list[str]:
    """Notes on the missed limits, and on an SLO and instance types that are feasible."""
    level = nearest.slo.reported_percentile
    misses = ", ".join(
        f"{_NAMES[limit.name]} of a request alone is {seconds(limit.least_s)} at P{level}, "
        f"{limit.least_s / limit.limit_s:.3g} times the limit of {seconds(limit.limit_s)}"
        for limit in nearest.missed_limits
    )
    reason = f"; in the nearest, {misses}" if misses else ", although a request alone keeps it"
    lines = [f"no layout keeps the SLO at any load{reason}"]
    options = " ".join(
        f"{_OPTIONS[name]} {limit:.3g}"
        for name, limit in nearest.slo.by_name.items()
        if name in _OPTIONS
    )
    if nearest.most_per_s:
        instances = answer.test.deployment.instances
        subject = "one instance keeps" if instances == 1 else f"{instances} instances keep"
        lines.append(f"feasible: {options}, within which {subject} {amount(nearest.most_per_s)}/s")
    if nearest.instance_types:
        lines.append(f"a request alone keeps it on {', '.join(nearest.instance_types)}")
    else:
        lines.append("no other instance that plans know keeps it either")
    return lines


def curve_blocks(plans: Sequence[ServingPlan]) -> list[Block]:
    """A chart and a table of the curve of each platform.

    The terminal shows the table of a single platform; a page shows all.
    """
    blocks: list[Block] = []
    for index, plan in enumerate(plans):
        if plan.answer is None or not plan.answer.curve:
            continue
        keys = (index,) if len(plans) > 1 else ()  # path of the plan in the JSON document
        blocks.append(Drawing(_charts(plan, plan.answer, keys), is_wide=True))
        is_single = len(plans) == 1
        blocks.append(
            Table(_CURVE_COLUMNS, _points(plan.answer), place="everywhere" if is_single else "page")
        )
    return blocks


def _points(answer: CapacityAnswer) -> list[tuple[str, ...]]:
    return [
        (
            amount(point.requests_per_s),
            *(
                seconds(point.latencies_s[name]) if name in point.latencies_s else "-"
                for name in ("ttft_p50_s", "ttft_p99_s", "tpot_p50_s", "tpot_p99_s", "e2e_p99_s")
            ),
            "-" if point.usd_per_million_tokens is None else amount(point.usd_per_million_tokens),
            "kept" if point.is_kept else "broken",
        )
        for point in answer.curve
    ]


def _charts(plan: ServingPlan, answer: CapacityAnswer, keys: tuple[int, ...]) -> str:
    """Charts of latencies at P99 and of USD over the load; `keys` lead to the plan in the JSON."""
    limits = answer.capacity.limits
    figures: list[tuple[str, str, float | None, Form]] = [
        ("TTFT at P99", "ttft_p99_s", limits.ttft_s, seconds),
        ("TPOT at P99", "tpot_p99_s", limits.tpot_s, seconds),
        ("USD per 1M tokens", "usd_per_million_tokens", None, amount),
    ]
    if limits.latency_s is not None:
        figures.insert(0, ("whole request at P99", "e2e_p99_s", limits.latency_s, seconds))
    name = plan.deployment.machine.name
    marks = [("most", answer.most_per_s)]
    if answer.load_per_s is not None:
        marks.append(("load", answer.load_per_s))
    figure_charts: list[str] = []
    for words, key, limit, form in figures:
        points = [
            (point.requests_per_s, value, index)
            for index, point in enumerate(answer.curve)
            for value in [point.latencies_s.get(key, getattr(point, key, None))]
            if value is not None
        ]
        if not points:
            continue
        line = CurveLine(
            words,
            tuple((rate, value) for rate, value, _ in points),
            tuple(pointer(*keys, "curve", index, key) for _, _, index in points),
        )
        drawing = curves([line], "requests/s", words, form, limit=limit, marks=marks)
        figure_charts.append(chart(f"{name}: load against {words}", drawing))
    return charts(*figure_charts)


def curve_rows(values: Sequence[dict[str, Any]]) -> Table:
    """Rows for spreadsheets: one for each point of a curve, or one for a platform without curve."""
    rows = [
        {name: answer[name] for name in _LAYOUT_NAMES} | point
        for answer in values
        for point in answer["curve"] or [_single_point(answer)]
    ]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return records([{name: row.get(name) for name in names} for row in rows], names)


def _single_point(answer: dict[str, Any]) -> dict[str, Any]:
    """The figures of a plan without a curve, at their medians."""
    names = (
        "requests_per_s", "ttft_p50_s", "ttft_p99_s", "ttft_unloaded_p50_s", "ttft_queue_p50_s",
        "ttft_queue_p99_s", "tpot_p50_s", "tpot_p99_s", "e2e_p50_s", "e2e_p99_s",
        "output_tokens_per_s", "utilisation",
    )  # fmt: skip
    usd = answer["usd_per_million_tokens"]
    return {
        **{name: answer[name].p50 for name in names if name in answer},
        "usd_per_hour": answer["usd_per_hour"],
        "usd_per_million_tokens": None if usd is None else usd.p50,
        "is_kept": answer["is_slo_met"],
    }


def capacity_items(plan: ServingPlan) -> list[Block]:
    """Notes of a platform as a list; none where there is nothing to say."""
    lines = capacity_notes(plan)
    name = plan.deployment.machine.name
    return [Note(f"{name}:", kind="strong"), Items(lines, indent=2)] if lines else []
