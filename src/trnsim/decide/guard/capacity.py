"""GPU capacity to keep after a move, by stage, and its cost.

    parallel run  all of today's instances, until the pilot's thresholds are met
    proven        ceil(today's instances x (1 - hours.p50 / hours.p90)): the part of the work that
                  exceeds new instances which are as slow as the prediction allows
    settled       none: a month has passed whose realised saving lies in the predicted interval

A training run restarts from its checkpoint and waits for GPUs that are bought then, so it keeps
none once the move is proven.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from trnsim.decide.guard.limits import Limits
from trnsim.price.payback import HOURS_PER_MONTH

STAGES: Final = ("parallel run", "proven", "settled")


@dataclass(frozen=True)
class RetainedCapacity:
    """Today's instances that are kept in a stage.

    Attributes:
        usd_per_month: cost at today's price of an instance, or as a share of today's bill.
        saving: share of today's bill that is still saved, or None without a price there.
    """

    stage: str
    instances: int
    usd_per_month: float
    saving: float | None


def retained_capacity(limits: Limits) -> tuple[RetainedCapacity, ...]:
    """Instances to keep in each stage."""
    now = limits.workload.today
    count = today_count(limits)
    usd_each = now.usd_per_month / count
    stages = zip(STAGES, _counts(limits, count), strict=True)
    return tuple(_stage(limits, stage, instances, usd_each) for stage, instances in stages)


def today_count(limits: Limits) -> int:
    """Instances in use today: as stated, else as predicted from hours, at least 1."""
    now = limits.workload.today
    if now.count is not None:
        return now.count
    return max(1, math.ceil(now.hours.p50 / HOURS_PER_MONTH)) if now.hours else 1


def _counts(limits: Limits, count: int) -> tuple[int, int, int]:
    hours = limits.candidate.hours
    if limits.workload.kind == "train" or hours is None:
        return count, 0, 0
    return count, math.ceil(count * (1 - hours.p50 / hours.p90)), 0


def _stage(limits: Limits, stage: str, instances: int, usd_each: float) -> RetainedCapacity:
    usd = instances * usd_each
    predicted = limits.candidate.usd_per_month
    today = limits.workload.today.usd_per_month
    saving = None if predicted is None else 1 - (predicted.p50 + usd) / today
    return RetainedCapacity(stage, instances, usd, saving)
