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
    job_blocks = scenario.blocks - int(fleet_blocks.sum())
    levels = _widen(scenario.jobs, _waiting_levels(scenario.jobs), job_blocks)
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
    free_blocks = scenario.blocks - services.sum(axis=1)
    levels = _waiting_levels(scenario.jobs)
    rows: list[list[Counts]] = []
    for blocks in free_blocks.tolist():
        levels = _narrow(scenario.jobs, levels, blocks)
        levels = _widen(scenario.jobs, levels, blocks)
        rows.append(_level_counts(scenario.jobs, levels))
    jobs = tuple(np.stack([row[kind] for row in rows]) for kind in range(len(scenario.jobs)))
    return FleetPlan("threshold", services, jobs)


def _held_blocks(blocks_needed: Counts) -> Counts:
    """Blocks that services hold: their need, or the last hour's if the need fell only a little."""
    held_blocks = blocks_needed.copy()
    for hour in range(1, len(held_blocks)):
        is_kept = blocks_needed[hour] >= SHRINK_BELOW * held_blocks[hour - 1]
        held_blocks[hour] = np.where(
            is_kept, np.maximum(held_blocks[hour - 1], blocks_needed[hour]), blocks_needed[hour]
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
        np.bincount(job_levels, minlength=len(job.levels)).astype(np.int64)
        for job, job_levels in zip(jobs, levels, strict=True)
    ]


def _used_blocks(jobs: Sequence[TrainingJobKind], levels: _Levels) -> int:
    per_kind = zip(jobs, levels, strict=True)
    return sum(job.levels[level].blocks for job, job_levels in per_kind for level in job_levels)


def _narrow(jobs: Sequence[TrainingJobKind], levels: _Levels, free_blocks: int) -> _Levels:
    """The levels after the last jobs have become narrower, so that all fit in `free_blocks`."""
    new_levels = [list(job_levels) for job_levels in levels]
    excess = _used_blocks(jobs, levels) - free_blocks
    for job, job_levels in reversed(list(zip(jobs, new_levels, strict=True))):
        for index in reversed(range(job.count)):
            if excess <= 0:
                return new_levels
            blocks = job.levels[job_levels[index]].blocks
            job_levels[index] = _widest(job, blocks - excess)
            excess -= blocks - job.levels[job_levels[index]].blocks
    return new_levels


def _widen(jobs: Sequence[TrainingJobKind], levels: _Levels, free_blocks: int) -> _Levels:
    """The levels after jobs, the first one first, have become as wide as `free_blocks` allow."""
    new_levels = [list(job_levels) for job_levels in levels]
    unused_blocks = free_blocks - _used_blocks(jobs, levels)
    for job, job_levels in zip(jobs, new_levels, strict=True):
        for index in range(job.count):
            blocks = job.levels[job_levels[index]].blocks
            wider_level = _widest(job, blocks + unused_blocks)
            if job.levels[wider_level].blocks - blocks > GROW_BY * blocks:
                job_levels[index] = wider_level
                unused_blocks -= job.levels[wider_level].blocks - blocks
    return new_levels


def _widest(job: TrainingJobKind, blocks: int) -> int:
    """Index of the widest level that fits in `blocks`; 0, which is waiting, if none does."""
    return max(
        (index for index, level in enumerate(job.levels) if level.blocks <= blocks), default=0
    )
