"""All numbers of a decision's page, as a JSON structure and as rows of a table.

The structure is that of `Decision`, with these figures besides:

    migration_usd                of a candidate: weeks x USD a week, 0 for staying
    time                         of a candidate: latency or duration, and its unit
    totals.today_usd_per_month   sum of the bills
    totals.after_usd_per_month   sum of the bills once all "go" workloads have moved, at P50
    totals.migration_usd         sum of migration_usd over the "go" workloads
"""

from __future__ import annotations

from typing import Any, Final

from trnsim.decide.assess import migration, stack
from trnsim.decide.decision import Candidate, Decision, Verdict, WorkloadDecision
from trnsim.document.answer import Table, records
from trnsim.document.values import picked, plain

FORMAT: Final = 1
"""Version of the JSON structure."""
_TIME_UNITS: Final = {
    "train": "hours that a month's work takes",
    "serve": "ms a token",
    "infer": "ms an item",
}
"""Unit of a candidate's time, by the workload's kind."""
_QUANTILE_COLUMNS: Final = " ".join(
    f"{name}_{quantile}={name}.{quantile}"
    for name in ("hours", "usd_per_month", "saving")
    for quantile in ("p10", "p50", "p90")
)
_CANDIDATE_COLUMNS: Final = (
    "instance instances purchase_kind=kind usd_per_hour=price.usd_per_hour region=price.region "
    f"price_day=price.day no_price paid_hours {_QUANTILE_COLUMNS} break_even_usd_per_hour "
    "pays_back_months_p10=pays_back_months.p10 pays_back_months_p50=pays_back_months.p50 "
    "pays_back_months_p90=pays_back_months.p90 share_paying_back slo family validated=is_validated"
)
"""Columns of a candidate in the table: ``column=attribute``, or the attribute's own name."""


def figures(decision: Decision) -> dict[str, Any]:
    """Figures of a decision's page, by their keys in the JSON."""
    values: dict[str, Any] = plain(decision)
    del values["format"]
    for workload, entry in zip(decision.workloads, values["workloads"], strict=True):
        for candidate, row in zip(workload.candidates, entry["candidates"], strict=True):
            row["migration_usd"] = _migration_usd(workload, candidate)
            row["time"] = _time(workload, candidate)
    return {"page": FORMAT, **values, "totals": _totals(decision)}


def _totals(decision: Decision) -> dict[str, float]:
    bills = [workload.today.usd_per_month for workload in decision.workloads]
    after_usd, migration_usd = sum(bills), 0.0
    for workload in decision.workloads:
        best = workload.candidate(workload.best)
        if workload.verdict is Verdict.GO and best is not None and best.usd_per_month is not None:
            after_usd += best.usd_per_month.p50 - workload.today.usd_per_month
            migration_usd += _migration_usd(workload, best)
    return {
        "today_usd_per_month": float(sum(bills)),
        "after_usd_per_month": float(after_usd),
        "migration_usd": float(migration_usd),
    }


def _migration_usd(workload: WorkloadDecision, candidate: Candidate) -> float:
    current = workload.candidate(workload.today.instance)
    if current is None:
        return workload.migration.usd
    if current.instance == candidate.instance:
        return 0.0
    current_stack = stack(current.instance, current.is_neuron)
    return migration(current_stack, stack(candidate.instance, candidate.is_neuron)).usd


def _time(workload: WorkloadDecision, candidate: Candidate) -> dict[str, Any] | None:
    """Time that is plotted against dollars, with its unit; None without a prediction."""
    if workload.kind == "train":
        if candidate.paid_hours is None or not candidate.instances:
            return None
        return {
            "value": candidate.paid_hours / candidate.instances,
            "unit": _TIME_UNITS[workload.kind],
        }
    value = sum(candidate.ms.values())
    return {"value": value, "unit": _TIME_UNITS[workload.kind]} if value else None


def candidate_rows(decision: Decision) -> Table:
    """A row for each workload and candidate; cells without a figure are empty."""
    pairs = (
        (workload, candidate)
        for workload in decision.workloads
        for candidate in workload.candidates or (None,)
    )
    return records([_row(*pair) for pair in pairs], list(_row(None, None)))


def _row(workload: WorkloadDecision | None, candidate: Candidate | None) -> dict[str, Any]:
    """Columns of a row, by name; None for missing values."""
    today = workload and workload.today
    row = {
        **picked(workload, "workload=name verdict close_call=is_close_call"),
        **picked(today, "today_instance=instance today_usd_per_month=usd_per_month"),
        "best": workload and candidate and candidate.instance == workload.best,
        "migration_usd": workload and candidate and _migration_usd(workload, candidate),
        **picked(candidate, _CANDIDATE_COLUMNS),
        "error_median": candidate and candidate.error.get("median"),
        "error_p90": candidate and candidate.error.get("p90"),
        "refused": candidate and candidate.refused,
    }
    return {name: _cell(value) for name, value in row.items()}


def _cell(value: object) -> object:
    if isinstance(value, bool):
        return ("no", "yes")[value]
    return value.value if isinstance(value, Verdict) else value
