"""Allocation policies without a solver: two separate fleets, and hourly thresholds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from trnsim.facts import assumed
from trnsim.system.fleet.need import allotment, needs
from trnsim.system.fleet.plan import Counts, FleetPlan
from trnsim.system.fleet.scenario import Scenario, TrainingJobKind

SHRINK_BELOW: Final = assumed(
    0.85, "need of a service over its blocks below which it gives blocks back"
)
GROW_BY: Final = assumed(0.1, "least relative growth for which a job changes its width")


def separate(scenario: Scenario) -> FleetPlan:
    """Plan of two fixed fleets: each service has the blocks of its busiest hour, jobs the rest."""
    fleet_blocks = allotment(scenario, needs(scenario, scenario.planning.demand)).max(
        axis=0, initial=0
    )
    fleet_blocks = allotment(scenario, fleet_blocks[None, :])  # busiest hours need not coincide
    left = scenario.blocks - int(fleet_blocks.sum())
    levels = _widen(scenario.jobs, _waiting_levels(scenario.jobs), left)
    jobs = tuple(
        np.repeat(row[None, :], scenario.hours, axis=0)
        for row in _level_counts(scenario.jobs, levels)
    )
    return FleetPlan("separate", np.repeat(fleet_blocks, scenario.hours, axis=0), jobs)


def threshold(scenario: Scenario) -> FleetPlan:
    """Plan hour by hour: services grow with their need and shrink late (`SHRINK_BELOW`).

    If services need blocks, jobs become narrower, the last job first. If blocks are free, jobs
    become as wide as fits, the first job first; a job that would grow by less than `GROW_BY` keeps
    its width.
    """
    services = allotment(scenario, _held_blocks(needs(scenario, scenario.planning.demand)))
    free = scenario.blocks - services.sum(axis=1)
    levels = _waiting_levels(scenario.jobs)
    rows: list[list[Counts]] = []
    for blocks in free.tolist():
        levels = _narrow(scenario.jobs, levels, blocks)
        levels = _widen(scenario.jobs, levels, blocks)
        rows.append(_level_counts(scenario.jobs, levels))
    jobs = tuple(np.stack([row[at] for row in rows]) for at in range(len(scenario.jobs)))
    return FleetPlan("threshold", services, jobs)


def _held_blocks(needed: Counts) -> Counts:
    """Blocks that services hold: their need, or the last hour's if the need fell only a little."""
    held_blocks = needed.copy()
    for hour in range(1, len(held_blocks)):
        keeps = needed[hour] >= SHRINK_BELOW * held_blocks[hour - 1]
        held_blocks[hour] = np.where(
            keeps, np.maximum(held_blocks[hour - 1], needed[hour]), needed[hour]
        )
    return held_blocks


_Levels = list[list[int]]
"""For each kind of job, the width of each of its jobs, as an index into the kind's `levels`."""


def _waiting_levels(jobs: Sequence[TrainingJobKind]) -> _Levels:
    """The levels while every job waits."""
    return [[0] * job.count for job in jobs]


def _level_counts(jobs: Sequence[TrainingJobKind], levels: _Levels) -> list[Counts]:
    """For each kind of job, the number of jobs at each of its levels."""
    return [
        np.bincount(chosen, minlength=len(job.levels)).astype(np.int64)
        for job, chosen in zip(jobs, levels, strict=True)
    ]


def _used_blocks(jobs: Sequence[TrainingJobKind], levels: _Levels) -> int:
    per_kind = zip(jobs, levels, strict=True)
    return sum(job.levels[at].blocks for job, chosen in per_kind for at in chosen)


def _narrow(jobs: Sequence[TrainingJobKind], levels: _Levels, free: int) -> _Levels:
    changed = [list(chosen) for chosen in levels]
    over = _used_blocks(jobs, levels) - free
    for job, chosen in reversed(list(zip(jobs, changed, strict=True))):
        for at in reversed(range(job.count)):
            if over <= 0:
                return changed
            blocks = job.levels[chosen[at]].blocks
            chosen[at] = _widest(job, blocks - over)
            over -= blocks - job.levels[chosen[at]].blocks
    return changed


def _widen(jobs: Sequence[TrainingJobKind], levels: _Levels, free: int) -> _Levels:
    changed = [list(chosen) for chosen in levels]
    left = free - _used_blocks(jobs, levels)
    for job, chosen in zip(jobs, changed, strict=True):
        for at in range(job.count):
            blocks = job.levels[chosen[at]].blocks
            wider = _widest(job, blocks + left)
            if job.levels[wider].blocks - blocks > GROW_BY * blocks:
                chosen[at] = wider
                left -= job.levels[wider].blocks - blocks
    return changed


def _widest(job: TrainingJobKind, blocks: int) -> int:
    """Index of the widest level that fits in `blocks`; 0, which is waiting, if none does."""
    return max((at for at, level in enumerate(job.levels) if level.blocks <= blocks), default=0)
