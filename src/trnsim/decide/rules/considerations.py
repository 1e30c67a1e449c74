"""Considerations before a migration: operators, engineering time, lock-in, verification."""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence
from trnsim.formatting import plural

_GROUP: Final = "considerations"


def considerations(evidence: WorkloadEvidence) -> tuple[Ruling, ...]:
    """One rule for each point; it applies if the point must be settled before a move."""
    return _operators(evidence), _time(evidence), _lock_in(evidence), _verification(evidence)


def _operators(evidence: WorkloadEvidence) -> Ruling:
    name = "support of operators"
    if evidence.findings is None:
        return Ruling(name, _GROUP, None, "scan them before a move", "no sources are given")
    places = [f"{finding.path}:{finding.line} {finding.name}" for finding in evidence.findings]
    if not places:
        return Ruling(name, _GROUP, False, "none", "nothing was found in the sources")
    others_text = f" and {len(places) - 1} more" if len(places) > 1 else ""
    return Ruling(name, _GROUP, True, "to be rewritten, or kept on GPUs", places[0] + others_text)


def _time(evidence: WorkloadEvidence) -> Ruling:
    name, weeks, staff = "engineering time", evidence.migration.weeks, evidence.workload.staff_weeks
    if staff is None:
        weeks_are = plural(round(weeks), "week is", "weeks are")
        text = f"{weeks:.0f} {weeks_are} needed; staff_weeks is not given"
        return Ruling(name, _GROUP, None, "to be answered", text)
    weeks_are = plural(round(weeks), "engineer-week is", "engineer-weeks are")
    text = f"{weeks:.0f} {weeks_are} needed, {staff:g} {plural(staff, 'is', 'are')} available"
    applies = staff < weeks
    effect = "a move takes longer, or needs people from outside" if applies else "none"
    return Ruling(name, _GROUP, applies, effect, text)


def _lock_in(evidence: WorkloadEvidence) -> Ruling:
    clouds = evidence.workload.other_clouds
    text = f"runs on {', '.join(clouds)} besides" if clouds else "no other cloud is named"
    effect = "GPUs stay there, so that two programs are maintained" if clouds else "none"
    return Ruling("lock-in to AWS", _GROUP, bool(clouds), effect, text)


def _verification(evidence: WorkloadEvidence) -> Ruling:
    name, best = "verification of the performance", evidence.best
    if best is None:
        return Ruling(name, _GROUP, None, "none", "there is no candidate to verify")
    error = f"plans of the family {best.family!r} are off by {best.error.get('median', 0):.0%}"
    error += f", P90 {best.error.get('p90', 0):.0%}"
    if best.is_validated:
        return Ruling(name, _GROUP, False, "none: published rows are like it", error)
    effect = "a pilot comes first: no published rows are like it, or they err widely"
    return Ruling(name, _GROUP, True, effect, error)
