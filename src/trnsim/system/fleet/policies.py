"""Policies that need no solver: two separate fleets, and thresholds hour by hour."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.facts import assumed
from trnsim.system.fleet.need import given, needs
from trnsim.system.fleet.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from trnsim.system.fleet.plan import Counts
    from trnsim.system.fleet.scenario import Job, Scenario

SHRINK_BELOW: Final = assumed(
    0.85, "a service gives blocks back where it needs less than this part of what it has"
)
GROW_BY: Final = assumed(0.1, "a job that would grow by less than this part stays as it is")


def separate(scenario: Scenario) -> Plan:
    """Two fleets: services have what their busiest hour needs, jobs the rest, all the time."""
    wanted = given(scenario, needs(scenario, scenario.planning.demand)).max(axis=0, initial=0)
    wanted = given(scenario, wanted[None, :])
    left = scenario.blocks - int(wanted.sum())
    levels = _widened(scenario.jobs, _waiting(scenario.jobs), left)
    jobs = tuple(
        np.repeat(one[None, :], scenario.hours, axis=0) for one in _counts(scenario.jobs, levels)
    )
    return Plan("separate", np.repeat(wanted, scenario.hours, axis=0), jobs)


def threshold(scenario: Scenario) -> Plan:
    """Hour by hour: services grow with their need and shrink late, jobs take what is left.

    A job gives up width only where services need it, the last one first. It takes the largest
    width that there is room for, the first one first, where that is much larger.
    """
    services = given(scenario, _held(needs(scenario, scenario.planning.demand)))
    free = scenario.blocks - services.sum(axis=1)
    levels = _waiting(scenario.jobs)
    rows: list[list[Counts]] = []
    for blocks in free.tolist():
        levels = _narrowed(scenario.jobs, levels, blocks)
        levels = _widened(scenario.jobs, levels, blocks)
        rows.append(_counts(scenario.jobs, levels))
    jobs = tuple(np.stack([row[at] for row in rows]) for at in range(len(scenario.jobs)))
    return Plan("threshold", services, jobs)


def _held(needed: Counts) -> Counts:
    """Blocks that services hold: all they need, and more while they need only a little less."""
    held = needed.copy()
    for hour in range(1, len(held)):
        keeps = needed[hour] >= SHRINK_BELOW * held[hour - 1]
        held[hour] = np.where(keeps, np.maximum(held[hour - 1], needed[hour]), needed[hour])
    return held


_Levels = list[list[int]]
"""Of each kind of job, the level of each of its jobs."""


def _waiting(jobs: Sequence[Job]) -> _Levels:
    return [[0] * job.count for job in jobs]


def _counts(jobs: Sequence[Job], levels: _Levels) -> list[Counts]:
    return [
        np.bincount(one, minlength=len(job.levels)).astype(np.int64)
        for job, one in zip(jobs, levels, strict=True)
    ]


def _used(jobs: Sequence[Job], levels: _Levels) -> int:
    return sum(job.levels[at].blocks for job, one in zip(jobs, levels, strict=True) for at in one)


def _narrowed(jobs: Sequence[Job], levels: _Levels, free: int) -> _Levels:
    found = [list(one) for one in levels]
    over = _used(jobs, levels) - free
    for job, one in reversed(list(zip(jobs, found, strict=True))):
        for at in reversed(range(job.count)):
            if over <= 0:
                return found
            has = job.levels[one[at]].blocks
            one[at] = _widest(job, has - over)
            over -= has - job.levels[one[at]].blocks
    return found


def _widened(jobs: Sequence[Job], levels: _Levels, free: int) -> _Levels:
    found = [list(one) for one in levels]
    left = free - _used(jobs, levels)
    for job, one in zip(jobs, found, strict=True):
        for at in range(job.count):
            has = job.levels[one[at]].blocks
            wider = _widest(job, has + left)
            if job.levels[wider].blocks - has > GROW_BY * has:
                one[at] = wider
                left -= job.levels[wider].blocks - has
    return found


def _widest(job: Job, blocks: int) -> int:
    """The last level with room in `blocks`; 0, waiting, where none has."""
    return max((at for at, one in enumerate(job.levels) if one.blocks <= blocks), default=0)
