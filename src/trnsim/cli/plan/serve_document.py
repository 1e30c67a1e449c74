"""Plans of serving as a document: layouts, latencies, and the time of a token by cause."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from trnsim.cli.comparison import Refusal
from trnsim.cli.plan.serve_capacity import capacities, capacity_items, curve_blocks, curve_rows
from trnsim.cli.plan.shared import (
    PriceRemarks,
    answer_pointer,
    compared_document,
    floor_notes,
    size_of,
    sources_by_phase,
)
from trnsim.document.answer import Block, Document, Drawing, Items, Note, Section, Table, columns
from trnsim.document.drawing import Parts, parts_chart
from trnsim.formatting import amount, amounts, durations, seconds
from trnsim.system.serve import report
from trnsim.system.serve.demand import Demand
from trnsim.system.serve.load import Lengths
from trnsim.system.serve.plan import ServingPlan
from trnsim.workload.architecture import Architecture

_LEAST_PART: Final = 1e-9
_LAYOUT_COLUMNS: Final = columns(
    "platform | instances | replicas x ranks | sequences | tokens/s P50 (P10 to P90) | "
    "USD per 1M tokens"
)
_LATENCY_COLUMNS: Final = columns(
    "platform | TTFT P50 (P10 to P90) | P99 | TPOT P50 (P10 to P90) | P99"
)
_FIRST_TOKEN_COLUMNS: Final = columns(
    "platform | unloaded TTFT P50 (P10 to P90) | P99 | queue P50 (P10 to P90) | P99"
)
_USE_COLUMNS: Final = columns(
    "platform | request P50 | P99 | busy | batch filled | queue | requests/s | tried"
)

_BEHIND_LATENCIES: Final = 3
"""Index of the section of the most load, behind the latencies."""


def serve_document(
    model: Architecture,
    plans: Sequence[ServingPlan],
    demand: Demand,
    remarks: PriceRemarks,
    refusals: Sequence[Refusal] = (),
) -> Document:
    """All tables, then the basis of each platform's figures."""
    values = [{"model": model.name, **report.values(plan)} for plan in plans]
    basis = _basis(plans, values, [report.extrapolations(plan.deployment) for plan in plans])
    title = f"{model.name}: {size_of(model)}; {_load(demand)}"
    tables: tuple[tuple[str, list[Block]], ...] = (
        ("Layouts", [_layouts(plans, remarks.mark)]),
        ("Latencies", [_latencies(plans)]),
        ("First tokens: the prompt alone, and the wait for others", [_first_tokens(plans)]),
        ("Use", [_uses(plans)]),
        (
            "Where each token's time goes",
            [_parts(plans), Drawing(_parts_bars(plans, len(plans) + len(refusals)))],
        ),
    )
    sections = [
        Section("", [Note(title, place="text")]),
        *(Section(name, blocks, heading_place="page") for name, blocks in tables),
        Section("What it rests on", basis, heading_place="page"),
    ]
    capacity = [capacities(plans), *(block for plan in plans for block in capacity_items(plan))]
    loads = [("The most load", capacity), ("Load against latency and cost", curve_blocks(plans))]
    sections[_BEHIND_LATENCIES:_BEHIND_LATENCIES] = [
        Section(name, blocks, heading_place="page") for name, blocks in loads if blocks
    ]
    document = compared_document(title, values, sections, remarks, "plan-serve/1", refusals)
    return replace(document, rows=curve_rows(values))


def _load(demand: Demand) -> str:
    """The load in words."""
    if demand.trace is not None:
        return f"{len(demand.trace):,} requests of a trace"
    synthetic = demand.synthetic
    prompts = _lengths(synthetic.inputs)
    plural = "" if prompts == "1" else "s"
    prefix = f" after a prefix of {synthetic.prefix_tokens:,}" if synthetic.prefix_tokens else ""
    lengths = f"{prompts} token{plural} in{prefix}, {_lengths(synthetic.outputs)} out"
    if demand.is_saturating:
        return f"{lengths}; kept busy"
    if demand.has_open_rate:
        return f"{lengths}; the most load that is kept"
    if synthetic.concurrency:
        return f"{lengths}; {synthetic.concurrency} client{'s' * (synthetic.concurrency != 1)}"
    return f"{lengths}; {synthetic.rate_per_s:g} requests/s"


def _lengths(lengths: Lengths) -> str:
    """A distribution of lengths in words, as --input-len states it."""
    first = amount(lengths.first)
    if lengths.kind == "uniform" and lengths.second != lengths.first:
        return f"{first} to {amount(lengths.second)}"
    return f"a median of {first}" if lengths.second and lengths.kind == "lognormal" else first


def _layouts(plans: Sequence[ServingPlan], mark: str) -> Table:
    rows = [
        (
            plan.deployment.machine.name,
            str(plan.deployment.instances),
            _replicas(plan),
            str(plan.deployment.engine.max_num_seqs),
            amounts(plan.served.figures["output_tokens_per_s"]),
            amounts(plan.usd_per_million_tokens) + mark,
        )
        for plan in plans
    ]
    return Table(_LAYOUT_COLUMNS, rows)


def _replicas(plan: ServingPlan) -> str:
    """Replicas and their ranks as text: "8 x TP4 PP2 EP2, 1 prefill"."""
    options = plan.deployment.options
    ranks = f"TP{options.tensor}"
    for name, count in (("PP", options.stages), ("EP", options.expert)):
        ranks += f" {name}{count}" if count > 1 else ""
    prefill = options.prefill_replicas
    return f"{plan.deployment.replicas} x {ranks}" + (f", {prefill} prefill" if prefill else "")


def _latencies(plans: Sequence[ServingPlan]) -> Table:
    rows = [
        (
            plan.deployment.machine.name,
            durations(plan.served.figures["ttft_p50_s"]),
            _median(plan, "ttft_p99_s"),
            *_tpot(plan),
        )
        for plan in plans
    ]
    return Table(_LATENCY_COLUMNS, rows)


def _first_tokens(plans: Sequence[ServingPlan]) -> Table:
    """The time to the first token on an idle server, and what other requests add to it."""
    rows = [
        (
            plan.deployment.machine.name,
            *(
                text
                for part in ("ttft_unloaded", "ttft_queue")
                for text in (
                    durations(plan.served.figures[f"{part}_p50_s"]),
                    _median(plan, f"{part}_p99_s"),
                )
            ),
        )
        for plan in plans
    ]
    return Table(_FIRST_TOKEN_COLUMNS, rows)


def _tpot(plan: ServingPlan) -> tuple[str, str]:
    if "tpot_p50_s" not in plan.served.figures:
        return ("-", "-")  # answers of one token
    return durations(plan.served.figures["tpot_p50_s"]), _median(plan, "tpot_p99_s")


def _median(plan: ServingPlan, name: str) -> str:
    return seconds(plan.served.figures[name].p50)


def _uses(plans: Sequence[ServingPlan]) -> Table:
    """The table of requests' times, utilisation, queues, and the number of tried layouts."""
    rows = [
        (
            plan.deployment.machine.name,
            _median(plan, "e2e_p50_s"),
            _median(plan, "e2e_p99_s"),
            f"{plan.served.figures['utilisation'].p50:.0%}",
            f"{plan.served.figures['batch_filled'].p50:.0%}",
            f"{plan.served.figures['queue_mean'].p50:.2g}",
            amount(plan.served.figures["requests_per_s"].p50),
            str(plan.tried),
        )
        for plan in plans
    ]
    return Table(_USE_COLUMNS, rows)


def _parts(plans: Sequence[ServingPlan]) -> Table:
    """Milliseconds between two tokens of a sequence, by cause."""
    names = list(dict.fromkeys(name for plan in plans for name in _token_parts_s(plan)))
    rows = [
        (
            plan.deployment.machine.name,
            *(f"{plan.served.parts_s.get(name, 0.0) * 1e3:.3g}" for name in names),
        )
        for plan in plans
    ]
    return Table(columns(" | ".join(("ms of a token", *names))), rows)


def _token_parts_s(plan: ServingPlan) -> dict[str, float]:
    """The parts of a token's time without those below the rounding of their sum."""
    least_s = _LEAST_PART * math.fsum(plan.served.parts_s.values())
    return {name: time_s for name, time_s in plan.served.parts_s.items() if time_s > least_s}


def _parts_bars(plans: Sequence[ServingPlan], count: int) -> str:
    """The chart of the time between two tokens; `count` platforms were asked."""
    rows = []
    for number, plan in enumerate(plans):
        parts_s = _token_parts_s(plan)
        source = answer_pointer(number, count, "token_parts_s")
        total = seconds(math.fsum(parts_s.values()))
        rows.append(Parts(plan.deployment.machine.name, parts_s, total, source))
    return parts_chart("A token by its parts", rows)


def _basis(
    plans: Sequence[ServingPlan],
    values: Sequence[dict[str, Any]],
    extrapolations: Sequence[Sequence[str]],
) -> list[Block]:
    """For each platform the instance, price, sources of times and start-up times; assumptions."""
    blocks: list[Block] = []
    platforms_by_assumption: dict[str, list[str]] = {}
    for plan, figures, texts in zip(plans, values, extrapolations, strict=True):
        machine = plan.deployment.machine
        purchase = f"{machine.instance.name}; {figures['price']}"
        blocks.append(Note(f"{machine.name}: {purchase}", kind="strong"))
        blocks.append(Items(_details(plan, figures, texts), indent=2))
        for name in figures["assumed"]:
            platforms_by_assumption.setdefault(name, []).append(machine.name)
    assumptions = [
        f"{name} [{', '.join(platforms)}]" for name, platforms in platforms_by_assumption.items()
    ]
    return [*blocks, Note("assumed:", kind="strong"), Items(assumptions, indent=2)]


def _details(
    plan: ServingPlan, figures: dict[str, Any], extrapolations: Sequence[str]
) -> list[str]:
    deployment = plan.deployment
    state = "; ".join(
        f"{name} {rows}" for name, rows in report.published_support(deployment).items()
    )
    sources, startup_s = sources_by_phase(figures["sources"]), figures["startup_s"]
    starts = ", ".join(f"{name} {durations(time_s)}" for name, time_s in startup_s.items())
    lines = [
        f"{state}; {'; '.join(sources)}",
        *floor_notes(deployment.steps.split.ranks, deployment.machine.lnc),
        f"longest sequence {deployment.engine.max_model_len:,} tokens; start: {starts}",
        *(f"extrapolated: {text}" for text in extrapolations),
        *filter(None, [figures["note"]]),
    ]
    if not plan.is_met:
        lines.append("the SLO is missed under this load")
    split = plan.smaller_split
    if split:
        lines.append(
            f"note: TP{deployment.options.tensor} is not faster than TP{split.tensor}: a "
            f"request takes {seconds(split.requested_e2e_s)} against {seconds(split.e2e_s)}"
        )
    idle = figures["idle_replicas"]
    if idle:
        lines.append(f"{idle} of {deployment.replicas} replicas had no request")
    return lines
