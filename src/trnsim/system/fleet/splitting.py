"""Goodput under failures of one job on all chips, and of many jobs that share the chips.

A chip that fails stops the job that it works for, so a job of all chips is stopped by any failure.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.system.fleet.scenario import Fleet
from trnsim.system.train.run import Goodput, Reliability, goodput

_JOB_COUNTS: Final = (1, 2, 4, 5, 10, 16, 30, 100)


@dataclass(frozen=True)
class FleetSplit:
    """Equal jobs that share a fleet."""

    jobs: int
    chips: int
    goodput: Goodput


def splits(fleet: Fleet) -> list[FleetSplit]:
    """Splits of a fleet into equal jobs: from one job on all chips to one job on each UltraServer.

    Checkpoints and recovery take their default times; every failed UltraServer has a spare.
    """
    risk = Reliability(fleet.chip_mtbf_s, replacement_s=0.0)
    servers = sum(fleet.ultraservers.values())
    options: list[FleetSplit] = []
    for jobs in sorted({*_JOB_COUNTS, len(fleet.ultraservers), servers}):
        if servers % jobs:
            continue
        chips = servers // jobs * fleet.ultraserver_chips
        options.append(FleetSplit(jobs, chips, goodput(chips, chips // fleet.instance_chips, risk)))
    return options
