"""Evidence about a workload, by which rules are judged."""

from __future__ import annotations

from dataclasses import dataclass

from trnsim.decide.decision import Candidate, Migration, ProgramFinding
from trnsim.decide.inventory.workload import Workload


@dataclass(frozen=True)
class WorkloadEvidence:
    """A workload, with figures and findings about it.

    Attributes:
        migration: cost of a move to AWS's chips, or from one of them to another.
        limit_months: months within which a move must pay back.
        best: cheapest candidate with AWS's chips at today's purchase kind; without a price of that
            kind, the cheapest at a public price; None without either.
        chips: chips in use by `best`; 0 without it.
        findings: findings in the programs; None if the inventory names no programs.
        is_limit_met: True if an instance with AWS's chips meets the latency SLO or the deadline;
            None without either, or if no such instance can run the workload.
    """

    workload: Workload
    migration: Migration
    limit_months: float
    best: Candidate | None = None
    chips: int = 0
    findings: tuple[ProgramFinding, ...] | None = None
    is_limit_met: bool | None = None

    @property
    def saving(self) -> float | None:
        """Share of today's bill that `best` saves, at P50; None without a price of today's kind."""
        return None if self.best is None or self.best.saving is None else self.best.saving.p50
