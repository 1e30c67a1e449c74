"""Evidence about a workload, by which rules are judged."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.decide.decision import Candidate, Migration, ProgramFinding
from trnsim.decide.inventory.workload import Workload


@dataclass(frozen=True)
class WorkloadEvidence:
    """A workload, with figures and findings about it.

    Attributes:
        best: cheapest candidate with AWS's chips at an equal kind of purchase; None without one.
        chips: chips in use there; 0 without such a candidate.
        findings: findings in its programs; None if the inventory names no programs.
        is_promise_kept: True if an instance of AWS's keeps its latency or deadline; None without.
        limit_months: months within which a move must pay back.
    """

    workload: Workload
    migration: Migration
    limit_months: float
    best: Candidate | None = None
    chips: int = 0
    findings: tuple[ProgramFinding, ...] | None = None
    is_promise_kept: bool | None = None

    @property
    def saving(self) -> float | None:
        """Share of the bill that is saved, at P50."""
        return None if self.best is None or self.best.saving is None else self.best.saving.p50
