"""All numbers of a decision's page, as one JSON structure and as rows of a table.

The structure is that of `Decision`, with what follows from it:

    migration_usd                of a candidate: weeks x USD a week, 0 for staying
    time                         of a candidate: what a user waits for, and its unit
    totals.today_usd_per_month   sum of the bills
    totals.after_usd_per_month   likewise, where what is "go" has moved, at P50
    totals.migration_usd         sum over what is "go"
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from trnsim.decide.assess import migration
from trnsim.decide.decision import Candidate, Verdict
from trnsim.document.answer import Column, Figure, Table
from trnsim.document.values import plain

if TYPE_CHECKING:
    from trnsim.decide.decision import Decision, Months, WorkloadDecision
    from trnsim.facts import Interval

FORMAT: Final = 1
TRAIN: Final = "hours that a month's work takes"
SERVE: Final = "ms a token"
INFER: Final = "ms an item"
_UNITS: Final = {"train": TRAIN, "serve": SERVE, "infer": INFER}
_QUANTILES: Final = ("p10", "p50", "p90")


def figures(decision: Decision) -> dict[str, Any]:
    """The structure."""
    values: dict[str, Any] = plain(decision)
    del values["format"]
    for one, workload in zip(decision.workloads, values["workloads"], strict=True):
        for each, found in zip(one.candidates, workload["candidates"], strict=True):
            found["migration_usd"] = _migration_usd(one, each)
            found["time"] = _time(one, each)
    return {"page": FORMAT, **values, "totals": _totals(decision)}


def chosen(one: WorkloadDecision) -> Candidate | None:
    """The candidate that a decision is about."""
    return next((each for each in one.candidates if each.instance == one.best), None)


def staying(one: WorkloadDecision) -> Candidate | None:
    """The candidate of today's instance."""
    return next((each for each in one.candidates if each.instance == one.today.instance), None)


def _totals(decision: Decision) -> dict[str, float]:
    bills = [one.today.usd_per_month for one in decision.workloads]
    after, moving = sum(bills), 0.0
    for one in decision.workloads:
        best = chosen(one)
        if one.verdict is Verdict.GO and best is not None and best.usd_per_month is not None:
            after += best.usd_per_month.p50 - one.today.usd_per_month
            moving += _migration_usd(one, best)
    return {
        "today_usd_per_month": float(sum(bills)),
        "after_usd_per_month": float(after),
        "migration_usd": float(moving),
    }


def _migration_usd(one: WorkloadDecision, there: Candidate) -> float:
    here = staying(one)
    if here is None:
        return one.migration.usd
    return (
        0.0 if here.instance == there.instance else migration(here.is_neuron, there.is_neuron).usd
    )


def _time(one: WorkloadDecision, there: Candidate) -> dict[str, Any] | None:
    """What is plotted against dollars; None where nothing is predicted."""
    if one.kind == "train":
        if there.paid_hours is None or not there.instances:
            return None
        return {"value": there.paid_hours / there.instances, "unit": TRAIN}
    value = sum(there.ms.values())
    return {"value": value, "unit": _UNITS[one.kind]} if value else None


def rows_of(decision: Decision) -> Table:
    """A row for each workload and candidate; cells without a figure are empty."""
    blank = dict.fromkeys(_candidate(Candidate("", is_neuron=False)))
    names = ["workload", "verdict", "close_call", "today_instance", "today_usd_per_month"]
    names += ["best", "migration_usd", *blank]
    rows: list[list[Figure]] = []
    for one in decision.workloads:
        today = one.today
        first: list[Any] = [one.name, one.verdict.value, one.is_close_call, today.instance]
        first.append(today.usd_per_month)
        rows += [
            [*map(_cell, (*first, *_move(one, each), *_candidate(each).values()))]
            for each in one.candidates
        ]
        if not one.candidates:
            rows.append([*map(_cell, first), *[_cell(None)] * (len(names) - len(first))])
    return Table([Column(name) for name in names], rows)


def _move(one: WorkloadDecision, each: Candidate) -> tuple[bool, float]:
    return each.instance == one.best, _migration_usd(one, each)


def _cell(value: Any) -> Figure:
    if isinstance(value, bool):
        value = ("no", "yes")[value]
    return Figure(value, "" if value is None else str(value))


def _candidate(there: Candidate) -> dict[str, Any]:
    price, months = there.price, there.pays_back_months
    return {
        "instance": there.instance,
        "instances": there.instances,
        "purchase_kind": there.kind,
        "usd_per_hour": None if price is None else price.usd_per_hour,
        "region": None if price is None else price.region,
        "price_day": None if price is None else price.day,
        "no_price": there.no_price,
        "paid_hours": there.paid_hours,
        **_quantiles("hours", there.hours),
        **_quantiles("usd_per_month", there.usd_per_month),
        **_quantiles("saving", there.saving),
        "break_even_usd_per_hour": there.break_even_usd_per_hour,
        **_quantiles("pays_back_months", months),
        "share_paying_back": there.share_paying_back,
        "slo": there.slo,
        "family": there.family,
        "validated": there.is_validated,
        "error_median": there.error.get("median"),
        "error_p90": there.error.get("p90"),
        "refused": there.refused,
    }


def _quantiles(name: str, found: Interval | Months | None) -> dict[str, float | None]:
    return {f"{name}_{at}": None if found is None else getattr(found, at) for at in _QUANTILES}
