"""Local improvement of a plan: each job in turn gets its best widths, all others fixed.

Dynamic programming gives the best widths of one job over all hours, from the last hour back:

    value[hour, level] = usd[level] + max(value[hour + 1, level],
                                          max over levels (value[hour + 1] - cost))
"""

from __future__ import annotations

from typing import Final

import numpy as np

from trnsim.system.fleet.demand import Array
from trnsim.system.fleet.plan import Counts, FleetPlan
from trnsim.system.fleet.scenario import Scenario
from trnsim.system.fleet.worth import entering_usd, hourly_usd

_MOST_ROUNDS: Final = 8
"""Passes over all jobs at most."""


def polished_plan(scenario: Scenario, plan: FleetPlan) -> FleetPlan:
    """`plan` with better widths of jobs; services are unchanged.

    Jobs are changed one at a time, until no change of a single job improves the plan, in at most
    `_MOST_ROUNDS` passes over the jobs.
    """
    jobs = scenario.jobs
    paths = [paths_of(counts) for counts in plan.jobs]
    free_blocks = scenario.blocks - plan.services.sum(axis=1) - plan.job_blocks(jobs).sum(axis=1)
    for _ in range(_MOST_ROUNDS):
        is_better = False
        for job, job_paths in zip(jobs, paths, strict=True):
            blocks = np.array([level.blocks for level in job.levels])
            usd, cost = hourly_usd(scenario, job), entering_usd(scenario, job)
            for index in range(job.count):
                old_path = job_paths[:, index]
                new_path = best_path(usd, cost, blocks, free_blocks + blocks[old_path])
                if _value(new_path, usd, cost) > _value(old_path, usd, cost) * (1 + _EQUAL_SHARE):
                    is_better = True
                    free_blocks = free_blocks + blocks[old_path] - blocks[new_path]
                    job_paths[:, index] = new_path
        if not is_better:
            break
    counts = [
        _counts(job_paths, len(job.levels)) for job, job_paths in zip(jobs, paths, strict=True)
    ]
    return FleetPlan(plan.policy, plan.services, tuple(counts))


_EQUAL_SHARE: Final = 1e-9
"""Relative difference of worth up to which two paths count as equal."""


def best_path(usd: Array, cost: Array, blocks: Counts, free_blocks: Counts) -> Counts:
    """The most valuable level of one job in each hour ``[hours]``.

    Args:
        usd: worth of an hour at each level.
        cost: worth lost by a change to each level, in USD.
        blocks: blocks of each level.
        free_blocks: blocks that the job may have in each hour.
    """
    hours, levels = len(free_blocks), len(usd)
    is_kept = np.zeros((hours, levels), bool)
    targets = np.zeros(hours, np.int64)
    value = np.zeros(levels)
    is_fitting = blocks[None, :] <= free_blocks[:, None]
    for hour in range(hours - 1, -1, -1):
        entered_usd = value - cost
        target = int(entered_usd.argmax())
        targets[hour] = target
        is_kept[hour] = value >= entered_usd[target]
        value = np.where(is_fitting[hour], usd + np.maximum(value, entered_usd[target]), -np.inf)
    path = np.zeros(hours, np.int64)
    path[0] = int(value.argmax())
    for hour in range(hours - 1):
        level = path[hour]
        path[hour + 1] = level if is_kept[hour, level] else targets[hour]
    return path


def _value(path: Counts, usd: Array, cost: Array) -> float:
    changed_levels = path[1:][np.diff(path) != 0]
    return float(usd[path].sum() - cost[changed_levels].sum())


def paths_of(counts: Counts) -> Counts:
    """The level of each of equal jobs ``[hours, jobs]``, with the fewest changes of level.

    `counts` is the number of jobs at each level ``[hours, levels]``.
    """
    paths = np.zeros((len(counts), int(counts[0].sum())), np.int64)
    paths[0] = np.repeat(np.arange(counts.shape[1]), counts[0])
    for hour in range(1, len(counts)):
        paths[hour] = paths[hour - 1]
        growth = counts[hour] - counts[hour - 1]
        if not growth.any():
            continue
        movable = [
            job
            for level in np.flatnonzero(growth < 0).tolist()
            for job in np.flatnonzero(paths[hour] == level)[: -growth[level]].tolist()
        ]
        paths[hour, movable] = np.repeat(np.arange(len(growth)), np.maximum(growth, 0))
    return paths


def _counts(paths: Counts, levels: int) -> Counts:
    return np.stack([(paths == level).sum(axis=1) for level in range(levels)], axis=1)
