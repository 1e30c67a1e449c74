"""Uses for which Trainium is not recommended.

A use that applies forbids a move whatever the move saves. Only "small", a migration that costs more
than it saves, forbids nothing: it is an argument against the move.
"""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence

FORBIDS: Final = "forbids a move"
CUDA: Final = ("cuda", "triton")
"""Kinds of findings in programs that do not compile for AWS's chips."""
_GROUP: Final = "not-recommended"


def not_recommended(evidence: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Rulings: CUDA only, maximum performance, several clouds, small bill."""
    return _cuda(evidence), _performance(evidence), _clouds(evidence), _small_saving(evidence)


def _cuda(evidence: WorkloadEvidence) -> Ruling:
    name, framework = "CUDA-only", evidence.workload.framework
    kernels = [finding for finding in evidence.findings or () if finding.kind in CUDA]
    if framework == "cuda":
        return Ruling(name, _GROUP, True, FORBIDS, "framework is cuda: it does not compile")
    if kernels:
        kernel = kernels[0]
        text = f"{kernel.path}:{kernel.line}: a kernel of {kernel.kind}, {kernel.name}"
        return Ruling(name, _GROUP, True, FORBIDS, text)
    if framework is None and evidence.findings is None:
        text = "neither framework nor sources are given"
        return Ruling(name, _GROUP, None, "to be answered", text)
    return Ruling(name, _GROUP, False, "none", f"framework is {framework or 'not given'}")


def _performance(evidence: WorkloadEvidence) -> Ruling:
    name = "maximum performance"
    if evidence.is_limit_met is None:
        text = "no latency and no deadline is promised"
        if evidence.workload.limits:
            text = "a limit is promised, and no instance with AWS's chips can run it"
        return Ruling(name, _GROUP, None, "none", text)
    if evidence.is_limit_met:
        text = "an instance with AWS's chips keeps what is promised"
        return Ruling(name, _GROUP, False, "none", text)
    text = "no instance with AWS's chips keeps what is promised"
    return Ruling(name, _GROUP, True, FORBIDS, text)


def _clouds(evidence: WorkloadEvidence) -> Ruling:
    name, workload = "several clouds", evidence.workload
    clouds = ", ".join(workload.other_clouds) or "no other cloud named"
    if workload.is_portability_needed:
        text = f"portability_needed is yes ({clouds}), and no other cloud has these chips"
        return Ruling(name, _GROUP, True, FORBIDS, text)
    return Ruling(name, _GROUP, False, "none", f"portability_needed is no ({clouds})")


def _small_saving(evidence: WorkloadEvidence) -> Ruling:
    name, usd = "small: a migration costs more than it saves", evidence.migration.usd
    limit, bill = evidence.limit_months, evidence.workload.current.usd_per_month
    if evidence.saving is None:
        applies = usd > limit * bill
        text = f"{usd:,.0f} USD for the migration, {limit * bill:,.0f} USD of bills in {limit:.0f}"
        return Ruling(name, _GROUP, applies, "against" if applies else "none", f"{text} months")
    saved_usd = limit * bill * evidence.saving
    applies = saved_usd < usd
    if saved_usd <= 0:
        text = f"nothing saved at P50, {usd:,.0f} USD to move"
        return Ruling(name, _GROUP, True, "against", text)
    text = (
        f"{saved_usd:,.0f} USD saved in {limit:.0f} months at P50, {usd:,.0f} USD for the migration"
    )
    return Ruling(name, _GROUP, applies, "against" if applies else "none", text)
