"""Predicted figures of a decision that a moved workload must keep.

    rate            = volume / (3600 x instance-hours), in units a second of one instance
    break-even rate = rate x (1 - saving): hours and bill grow by 1 / (1 - saving), to today's bill

A unit is a token or an item.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.decide.decision import Candidate, Decision, Verdict, WorkloadDecision
from trnsim.errors import BadInput

MOVED: Final = (Verdict.GO, Verdict.PILOT)
"""Verdicts after which a workload runs on the instance of the verdict, at least in a pilot."""

UNITS: Final = {"tokens_per_month": "tokens", "items_per_month": "items"}
"""Units of work, by the unit of a volume; accelerator-hours do not measure the work."""


@dataclass(frozen=True)
class WorkloadLimits:
    """Predicted figures that a moved workload must keep.

    Attributes:
        unit: "tokens" or "items"; None if the inventory states accelerator-hours.
        rate: units a second of one instance, at P50; None without a unit or a time.
        slowest_rate: units a second of one instance, with hours at P90.
        break_even_rate: units a second of one instance at which the bill is today's.
        usd_per_unit: predicted cost of a unit on the candidate.
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


def moved_limits(decision: Decision) -> tuple[WorkloadLimits, ...]:
    """Limits of each workload whose verdict is in `MOVED`.

    Raises:
        BadInput: no workload moves.
    """
    all_limits = tuple(
        limits(workload)
        for workload in decision.workloads
        if workload.verdict in MOVED and workload.best is not None
    )
    if not all_limits:
        texts = ", ".join(f"{workload.name}: {workload.verdict}" for workload in decision.workloads)
        raise BadInput(
            f"no workload moves ({texts}), so there is nothing to guard",
            fix="a guard is for workloads whose verdict is go or pilot",
        )
    return all_limits


def limits(workload: WorkloadDecision) -> WorkloadLimits:
    """The predicted figures of `workload` on its best instance, which a guard checks.

    Raises:
        BadInput: its best instance is not among its candidates.
    """
    candidate = workload.candidate(workload.best)
    if candidate is None:
        raise BadInput(f"{workload.name}: best is {workload.best}, which is no candidate")
    unit = UNITS.get(workload.volume_unit)
    hours, usd, saving = candidate.hours, candidate.usd_per_month, candidate.saving
    rate = slowest_rate = break_even_rate = None
    if unit and hours:
        rate = workload.volume / (3600 * hours.p50)
        slowest_rate = workload.volume / (3600 * hours.p90)
        break_even_rate = rate * (1 - saving.p50) if saving else None
    return WorkloadLimits(
        workload=workload,
        candidate=candidate,
        unit=unit,
        rate=rate,
        slowest_rate=slowest_rate,
        break_even_rate=break_even_rate,
        usd_per_unit=usd.p50 / workload.volume if unit and usd else None,
        today_usd_per_unit=workload.today.usd_per_month / workload.volume if unit else None,
    )
