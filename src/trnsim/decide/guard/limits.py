"""Figures of a decision that a running service is held against.

An instance there does ``volume / (3600 hours)`` a second. It costs as much as today's where it does
only ``1 - saving`` of that, as the hours it needs, and with them the bill, grow by the inverse.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from trnsim.decide.decision import Verdict
from trnsim.errors import BadInput

if TYPE_CHECKING:
    from trnsim.decide.decision import Candidate, Decision, WorkloadDecision

MOVED: Final = (Verdict.GO, Verdict.PILOT)
"""Verdicts after which something runs elsewhere."""

UNITS: Final = {"tokens_per_month": "tokens", "items_per_month": "items"}
"""What is counted, by the unit of a volume; hours of GPUs count no work."""


@dataclass(frozen=True)
class Limits:
    """What a moved workload promised.

    Attributes:
        candidate: the instance it moves to.
        unit: "tokens" or "items", or None where the inventory gives hours alone.
        rate: of one instance, units a second, at P50; None without a unit or a time.
        slowest_rate: the same where the hours are at P90.
        break_even_rate: the rate at which it costs what today's does.
        usd_per_unit: predicted cost of a unit.
        today_usd_per_unit: what it costs today.
    """

    workload: WorkloadDecision
    candidate: Candidate
    unit: str | None
    rate: float | None
    slowest_rate: float | None
    break_even_rate: float | None
    usd_per_unit: float | None
    today_usd_per_unit: float | None


def moved(decision: Decision) -> tuple[Limits, ...]:
    """The limits of each workload that moves or is tried.

    Raises:
        BadInput: none moves.
    """
    promises = tuple(
        limits(workload)
        for workload in decision.workloads
        if workload.verdict in MOVED and workload.best is not None
    )
    if not promises:
        verdicts = ", ".join(
            f"{workload.name}: {workload.verdict}" for workload in decision.workloads
        )
        raise BadInput(
            f"no workload moves ({verdicts}), so there is nothing to guard",
            fix="a guard is for workloads whose verdict is go or pilot",
        )
    return promises


def limits(workload: WorkloadDecision) -> Limits:
    """The limits of `workload` on its best instance.

    Raises:
        BadInput: its best instance is none of its candidates.
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
