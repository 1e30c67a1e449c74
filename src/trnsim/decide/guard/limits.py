"""Figures of a decision that a running service is held against.

An instance there does ``volume / (3600 hours)`` a second. It costs as much as today's at
``1 - saving`` of that rate, as its hours, and with them the bill, grow by the inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.decide.decision import Candidate, Decision, Verdict, WorkloadDecision
from trnsim.errors import BadInput

MOVED: Final = (Verdict.GO, Verdict.PILOT)
"""Verdicts after which a workload runs elsewhere."""

UNITS: Final = {"tokens_per_month": "tokens", "items_per_month": "items"}
"""Units that are counted, by the unit of a volume; hours of GPUs count no work."""


@dataclass(frozen=True)
class Limits:
    """Promises of a moved workload.

    Attributes:
        candidate: instance to which it moves.
        unit: "tokens" or "items", or None if the inventory has hours alone.
        rate: units a second of one instance, at P50; None without a unit or a time.
        slowest_rate: the same with hours at P90 in place of P50.
        break_even_rate: rate at which it costs as much as today's instance.
        usd_per_unit: predicted cost of a unit.
        today_usd_per_unit: cost of a unit today.
    """

    workload: WorkloadDecision
    candidate: Candidate
    unit: str | None
    rate: float | None
    slowest_rate: float | None
    break_even_rate: float | None
    usd_per_unit: float | None
    today_usd_per_unit: float | None


def moved_limits(decision: Decision) -> tuple[Limits, ...]:
    """Limits of each workload that moves or is tried.

    Raises:
        BadInput: no workload moves.
    """
    promises = tuple(
        limits(workload)
        for workload in decision.workloads
        if workload.verdict in MOVED and workload.best is not None
    )
    if not promises:
        texts = ", ".join(f"{workload.name}: {workload.verdict}" for workload in decision.workloads)
        raise BadInput(
            f"no workload moves ({texts}), so there is nothing to guard",
            fix="a guard is for workloads whose verdict is go or pilot",
        )
    return promises


def limits(workload: WorkloadDecision) -> Limits:
    """Limits of `workload` on its best instance.

    Raises:
        BadInput: its best instance is not among its candidates.
    """
    candidate = next(
        (option for option in workload.candidates if option.instance == workload.best), None
    )
    if candidate is None:
        raise BadInput(f"{workload.name}: best is {workload.best}, which is no candidate")
    unit = UNITS.get(workload.volume_unit)
    hours, usd, saving = candidate.hours, candidate.usd_per_month, candidate.saving
    rate = slowest = break_even = None
    if unit and hours:
        rate = workload.volume / (3600 * hours.p50)
        slowest = workload.volume / (3600 * hours.p90)
        break_even = rate * (1 - saving.p50) if saving else None
    return Limits(
        workload=workload,
        candidate=candidate,
        unit=unit,
        rate=rate,
        slowest_rate=slowest,
        break_even_rate=break_even,
        usd_per_unit=usd.p50 / workload.volume if unit and usd else None,
        today_usd_per_unit=workload.today.usd_per_month / workload.volume if unit else None,
    )
