"""The files of a guard: rules of fallback, capacity to keep, alerts, a dashboard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from trnsim import files
from trnsim.alert_rules import Alert
from trnsim.arch.catalogue import Catalogue
from trnsim.decide import inventory
from trnsim.decide.decision import Decision
from trnsim.decide.guard.alerts import alerts, rules
from trnsim.decide.guard.capacity import retained_capacity, today_count
from trnsim.decide.guard.dashboard import dashboard
from trnsim.decide.guard.limits import WorkloadLimits, moved_limits
from trnsim.decide.guard.split import NO_EFA_BYTES_PER_S, WorkloadSplit, split
from trnsim.document.values import json_text
from trnsim.errors import BadInput
from trnsim.foreign_text import markdown_text
from trnsim.formatting import amount, markdown_table
from trnsim.workload.architecture import Architecture

FILES: Final = ("fallback.md", "alerts.yml", "dashboard.json", "guard.json")


def write(decision: Decision, folder: Path, rows: Catalogue) -> list[Path]:
    """Write the guard files of `decision` to `folder`, which is created; returns their paths.

    Raises:
        BadInput: if no workload moves, if the folder cannot be written, or if operators stay on a
            GPU and the inventory, which names their model, cannot be read.
    """
    files.check_folder(folder)
    all_limits = moved_limits(decision)
    splits = _splits(decision, all_limits, rows)
    contents = (
        fallback(decision, all_limits, splits),
        rules(all_limits),
        dashboard(all_limits),
        figures(decision, all_limits, splits),
    )
    return files.write_together(folder, dict(zip(FILES, contents, strict=True)))


def fallback(
    decision: Decision,
    all_limits: Sequence[WorkloadLimits],
    splits: Mapping[str, WorkloadSplit | None],
) -> str:
    """Page in Markdown for the people on call: capacity to keep and reasons to fall back."""
    head = (
        "# Fallback\n\n"
        f"From a decision of {decision.as_of} (trnsim {decision.version}). Rules are in "
        f"`{FILES[1]}`, their page in `{FILES[2]}`.\n"
    )
    return "\n".join(
        [head, *(_page(limits, splits[limits.workload.name]) for limits in all_limits)]
    )


def figures(
    decision: Decision,
    all_limits: Sequence[WorkloadLimits],
    splits: Mapping[str, WorkloadSplit | None],
) -> str:
    """Numbers of all guard files, as JSON."""
    workloads = [
        {
            "name": limits.workload.name,
            "instance": limits.candidate.instance,
            "unit": limits.unit,
            "rate_per_s": limits.rate,
            "slowest_rate_per_s": limits.slowest_rate,
            "break_even_rate_per_s": limits.break_even_rate,
            "usd_per_unit": limits.usd_per_unit,
            "today_usd_per_unit": limits.today_usd_per_unit,
            "kept": retained_capacity(limits),
            "split": splits[limits.workload.name],
            "alerts": alerts(limits),
        }
        for limits in all_limits
    ]
    contents = {"version": decision.version, "as_of": decision.as_of, "workloads": workloads}
    return json_text(contents) + "\n"


def _page(limits: WorkloadLimits, workload_split: WorkloadSplit | None) -> str:
    """Section of a workload on the fallback page."""
    workload, today = limits.workload, limits.workload.today
    count = today_count(limits)
    lines = [
        f"## {markdown_text(workload.name)}: {today.instance} to {limits.candidate.instance}",
        "",
        f"Today {count} x {today.instance}, {amount(today.usd_per_month)} USD a month.",
        "",
        _kept_table(limits),
    ]
    lines += _split_lines(workload_split)
    lines += ["", "Fall back when:", ""]
    lines += [f"- **{alert.name}** ({_delay_text(alert)}). {markdown_text(alert.summary)}. "
              f"Then {alert.action}." for alert in alerts(limits)]  # fmt: skip
    if limits.candidate.break_even_usd_per_hour is not None:
        lines.append(
            f"- **Price.** Above {amount(limits.candidate.break_even_usd_per_hour)} USD an hour of "
            f"{limits.candidate.instance} the move does not pay back in time."
        )
    return "\n".join(lines) + "\n"


def _delay_text(alert: Alert) -> str:
    return "at once" if not alert.for_minutes else f"after {alert.for_minutes} minutes"


def _kept_table(limits: WorkloadLimits) -> str:
    rows = [
        (
            capacity.stage,
            f"{capacity.instances} x {limits.workload.today.instance}",
            amount(capacity.usd_per_month),
            "-" if capacity.saving is None else f"{capacity.saving:.0%}",
        )
        for capacity in retained_capacity(limits)
    ]
    return markdown_table(("stage", "GPUs kept", "USD a month", "saving left"), rows)


def _split_lines(cost: WorkloadSplit | None) -> list[str]:
    """Cost of the operators that stay on a GPU."""
    if cost is None:
        return []
    verdict = (
        "" if cost.saving is None else f"; {'it pays' if cost.is_cheaper else 'it does not pay'}"
    )
    operators = markdown_text(", ".join(dict.fromkeys(cost.operators)))
    usd = "no price" if cost.usd_per_month is None else f"{amount(cost.usd_per_month)} USD a month"
    text = (
        f"{operators} would run on {cost.gpu_instances} GPU instance beside it: "
        f"{amount(cost.bytes_per_token)} bytes a token between the two, at most "
        f"{amount(cost.step_s * 1e3)} ms more a step (upper bound), {usd}{verdict}."
    )
    return ["", text]


def _splits(
    decision: Decision, all_limits: Sequence[WorkloadLimits], rows: Catalogue
) -> dict[str, WorkloadSplit | None]:
    """Split of each workload; None if its new chips run all of its operators."""
    if not any(limits.workload.split for limits in all_limits):
        return dict.fromkeys((limits.workload.name for limits in all_limits), None)
    models = {entry.name: entry.model for entry in inventory.read(Path(decision.inventory), rows)}
    return {limits.workload.name: _split_of(limits, models, rows) for limits in all_limits}


def _split_of(
    limits: WorkloadLimits, models: Mapping[str, Architecture], rows: Catalogue
) -> WorkloadSplit | None:
    name, today = limits.workload.name, limits.workload.today
    if not limits.workload.split:
        return None
    if name not in models:
        raise BadInput(f"the inventory has no {name!r} any more, which the decision is about")
    links = [
        rate
        for instance in {today.instance, limits.candidate.instance}
        if (rate := rows.instance(instance).efa_bytes_per_s) is not None
    ]
    has_links = len(links) == len({today.instance, limits.candidate.instance})
    return split(
        limits,
        models[name],
        bytes_per_s=min(links) if has_links else NO_EFA_BYTES_PER_S,
        usd_per_gpu_month=today.usd_per_month / today_count(limits),
    )
