"""What the rules look at."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnsim.decide.decision import Candidate, Migration, ProgramFinding
    from trnsim.decide.inventory.workload import Workload


@dataclass(frozen=True)
class WorkloadEvidence:
    """A workload, and what was found about it.

    Attributes:
        best: of AWS's chips, where it is cheapest at an equal kind of purchase; None without any.
        chips: in use there, or today where there is no such place.
        findings: of its programs; None where none are given.
        is_promise_kept: whether an instance of AWS's keeps its latency or deadline; None without.
        limit_months: within which a move is to pay back.
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
        """Part of the bill, at P50."""
        return None if self.best is None or self.best.saving is None else self.best.saving.p50
