"""Placement of blocks in buildings: first jobs that must stay in one building, then the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trnsim.errors import BadInput
from trnsim.system.fleet.plan import FleetPlan
from trnsim.system.fleet.scenario import Scenario, TrainingJobKind


def job_buildings(
    jobs: Sequence[TrainingJobKind], blocks: Mapping[str, int]
) -> dict[str, list[str]]:
    """Buildings of jobs that must stay within one: one building for each job, by the kind's name.

    A building has room for the largest widths of all jobs in it, so that plans of widths need not
    consider buildings. The widest jobs are placed first, in the building with the most free blocks.

    Args:
        jobs: the kinds of jobs.
        blocks: blocks of each building.

    Raises:
        BadInput: no building has room for a job.
    """
    free_blocks = dict(blocks)
    buildings: dict[str, list[str]] = {}
    for kind in sorted(jobs, key=lambda kind: -kind.levels[-1].blocks):
        if not kind.is_in_building:
            continue
        for _ in range(kind.count):
            roomiest = max(free_blocks, key=lambda name: free_blocks[name])
            if free_blocks[roomiest] < kind.levels[-1].blocks:
                raise BadInput(
                    f"{kind.name}: no building has room for {kind.levels[-1].chips} chips "
                    "beside the largest widths of jobs that live there",
                    fix="reduce largest_chips or count, or say within: fleet",
                )
            free_blocks[roomiest] -= kind.levels[-1].blocks
            buildings.setdefault(kind.name, []).append(roomiest)
    return buildings


def building_shares(scenario: Scenario, plan: FleetPlan, hour: int) -> dict[str, dict[str, int]]:
    """Blocks of each service and job in each building in an hour: building, name, blocks.

    Jobs of one building come first; services and other jobs fill the rest, building by building.
    """
    free_blocks = dict(scenario.building_blocks)
    shares: dict[str, dict[str, int]] = {name: {} for name in free_blocks}
    buildings_by_kind = job_buildings(scenario.jobs, free_blocks)

    def assign(building: str, name: str, blocks: int) -> None:
        free_blocks[building] -= blocks
        shares[building][name] = shares[building].get(name, 0) + blocks

    # Services, and below the kinds of jobs that may be in several buildings.
    movable_blocks = dict(
        zip(
            (service.name for service in scenario.services),
            plan.services[hour].tolist(),
            strict=True,
        )
    )
    for kind, counts in zip(scenario.jobs, plan.jobs, strict=True):
        widths = np.repeat([level.blocks for level in kind.levels], counts[hour])[::-1]
        if kind.is_in_building:
            for building, blocks in zip(buildings_by_kind[kind.name], widths.tolist(), strict=True):
                assign(building, kind.name, blocks)
        else:
            movable_blocks[kind.name] = int(widths.sum())
    for name, blocks in movable_blocks.items():
        remaining_blocks = blocks
        for building, room in list(free_blocks.items()):
            share = min(remaining_blocks, room)
            if share:
                assign(building, name, share)
            remaining_blocks -= share
    return shares
