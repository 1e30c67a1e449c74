"""Worth of training by the hour in USD, and its upper bound under perfect sharing."""

from __future__ import annotations

import numpy as np

from trnsim.system.fleet.demand import Array
from trnsim.system.fleet.need import allotment, needs
from trnsim.system.fleet.plan import FleetPlan, level_changes
from trnsim.system.fleet.scenario import HOUR_S, Scenario, TrainingJobKind


def hourly_usd(scenario: Scenario, job: TrainingJobKind) -> Array:
    """USD of an hour of a job at each level ``[levels]``: tokens less energy above idle."""
    fleet = scenario.fleet
    energy_usd = fleet.energy_usd_per_chip_hour("training")
    energy_usd -= fleet.energy_usd_per_chip_hour("idle")
    return np.array(
        [
            HOUR_S * level.kept_tokens_per_s * job.usd_per_token - level.chips * energy_usd
            for level in job.levels
        ]
    )


def entering_usd(scenario: Scenario, job: TrainingJobKind) -> Array:
    """USD of the tokens lost by a change to each level ``[levels]``; 0 for waiting."""
    stop_s = min(scenario.stop_s(job), HOUR_S)
    return np.array([stop_s * level.kept_tokens_per_s * job.usd_per_token for level in job.levels])


def planned_usd(scenario: Scenario, plan: FleetPlan) -> float:
    """USD of training under a plan, less the tokens lost by changes of width."""
    return sum(
        float((counts @ hourly_usd(scenario, job)).sum())
        - float((level_changes(counts) @ entering_usd(scenario, job)).sum())
        for job, counts in zip(scenario.jobs, plan.jobs, strict=True)
    )


def perfect_usd(scenario: Scenario) -> float:
    """Upper bound in USD of training on the blocks that services do not need.

    Jobs may have any width, fractions of a block too, and change it at no cost.
    """
    allotted_blocks = allotment(scenario, needs(scenario, scenario.planning.demand)).sum(axis=1)
    blocks, usd = [0.0], [0.0]
    for piece_blocks, piece_usd in sorted(
        _pieces(scenario), key=lambda piece: -piece[1] / piece[0]
    ):
        blocks.append(blocks[-1] + piece_blocks)
        usd.append(usd[-1] + piece_usd)
    return float(np.interp(scenario.blocks - allotted_blocks, blocks, usd).sum())


def _pieces(scenario: Scenario) -> list[tuple[float, float]]:
    """Segments (blocks, USD) of the upper concave hull of each job's USD over its blocks."""
    pieces: list[tuple[float, float]] = []
    for job in scenario.jobs:
        usd = hourly_usd(scenario, job)
        blocks = np.array([level.blocks for level in job.levels], float)
        start = 0
        while start < len(blocks) - 1:
            slopes = (usd[start + 1 :] - usd[start]) / (blocks[start + 1 :] - blocks[start])
            if slopes.max() <= 0:
                break
            end = start + 1 + int(np.flatnonzero(slopes == slopes.max())[-1])
            pieces.append(
                (
                    job.count * float(blocks[end] - blocks[start]),
                    job.count * float(usd[end] - usd[start]),
                )
            )
            start = end
    return pieces
