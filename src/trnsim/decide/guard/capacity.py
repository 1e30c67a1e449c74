"""GPU capacity to keep after a move, by stage, and its cost.

    parallel run  all of today's instances, until the pilot's thresholds are met
    proven        ceil(today's instances x (1 - hours.p50 / hours.p90)), from then on: the part of
                  the work that the new instances do not do if they are as slow as predicted at P90
    settled       none, once a month's realised saving lies in the predicted P10 to P90

A training run restarts from its checkpoint and waits for GPUs that are bought then, so it keeps
none once the move is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.decide.guard.limits import WorkloadLimits
from trnsim.price.payback import HOURS_PER_MONTH

STAGES: Final = ("parallel run", "proven", "settled")


@dataclass(frozen=True)
class RetainedCapacity:
    """Today's instances that are kept in a stage.

    Attributes:
        stage: one of `STAGES`.
        usd_per_month: cost of the kept instances, as their share of today's bill.
        saving: share of today's bill that is still saved; None if the new instance has no price.
    """

    stage: str
    instances: int
    usd_per_month: float
    saving: float | None


def retained_capacity(limits: WorkloadLimits) -> tuple[RetainedCapacity, ...]:
    """Instances to keep in each stage."""
    today = limits.workload.today
    count = today_count(limits)
    usd_each = today.usd_per_month / count
    stages = zip(STAGES, _counts(limits, count), strict=True)
    return tuple(_stage(limits, stage, instances, usd_each) for stage, instances in stages)


def today_count(limits: WorkloadLimits) -> int:
    """Instances in use today: the stated number, else the predicted hours / 730, at least 1."""
    today = limits.workload.today
    if today.count is not None:
        return today.count
    return max(1, math.ceil(today.hours.p50 / HOURS_PER_MONTH)) if today.hours else 1


def _counts(limits: WorkloadLimits, count: int) -> tuple[int, int, int]:
    """Instances to keep in each stage, of `count` instances today."""
    hours = limits.candidate.hours
    if limits.workload.kind == "train" or hours is None:
        return count, 0, 0
    return count, math.ceil(count * (1 - hours.p50 / hours.p90)), 0


def _stage(limits: WorkloadLimits, stage: str, instances: int, usd_each: float) -> RetainedCapacity:
    usd = instances * usd_each
    predicted_usd = limits.candidate.usd_per_month
    today = limits.workload.today.usd_per_month
    saving = None if predicted_usd is None else 1 - (predicted_usd.p50 + usd) / today
    return RetainedCapacity(stage, instances, usd, saving)
