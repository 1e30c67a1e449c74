"""Problems in a workload's programs, as a decision lists them."""

from __future__ import annotations

from pathlib import Path

from trnsim.decide.decision import ProgramFinding
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.scan import scan


def findings(workload: Workload) -> tuple[ProgramFinding, ...] | None:
    """Findings of a scan of a workload's programs; None if the inventory names no programs.

    Raises:
        BadInput: a program does not exist, or leads out of the inventory's folder.
    """
    if not workload.sources:
        return None
    root = Path(workload.line.file).parent
    return tuple(
        ProgramFinding(finding.file, finding.line, finding.kind, finding.what, finding.advice)
        for finding in scan(workload.sources, root).places
    )
