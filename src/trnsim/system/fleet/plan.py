"""Fleet plan: blocks of each service and widths of jobs in each hour."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trnsim.system.fleet.scenario import TrainingJobKind

Counts = NDArray[np.int64]


@dataclass(frozen=True)
class FleetPlan:
    """An allocation of blocks.

    Attributes:
        policy: name of the policy that made it.
        services: blocks ``[hours, services]``.
        jobs: for each kind of job, the number at each level ``[hours, levels]``.
    """

    policy: str
    services: Counts
    jobs: tuple[Counts, ...]

    def job_blocks(self, jobs: Sequence[TrainingJobKind]) -> Counts:
        """Blocks of each kind of job ``[hours, jobs]``."""
        columns = [
            counts @ np.array([level.blocks for level in job.levels], np.int64)
            for job, counts in zip(jobs, self.jobs, strict=True)
        ]
        return np.stack(columns, axis=1) if columns else np.zeros((len(self.services), 0), np.int64)


def level_changes(counts: Counts) -> Counts:
    """Number of equal jobs that change to each level in each hour ``[hours, levels]``.

    These are the fewest changes from one hour's counts to the next; 0 in the first hour.
    """
    changes = np.zeros_like(counts)
    changes[1:] = np.maximum(np.diff(counts, axis=0), 0)
    return changes
