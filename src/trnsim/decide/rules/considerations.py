"""What a migration has to consider: operators, engineering time, lock-in, verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.decide.decision import RuleOutcome

if TYPE_CHECKING:
    from trnsim.decide.rules.evidence import Evidence

_GROUP: Final = "considerations"


def considerations(given: Evidence) -> tuple[RuleOutcome, ...]:
    """Each holds where it has to be looked at before a move."""
    return _operators(given), _time(given), _lock_in(given), _verification(given)


def _operators(given: Evidence) -> RuleOutcome:
    name = "support of operators"
    if given.findings is None:
        return RuleOutcome(name, _GROUP, None, "scan them before a move", "no sources are given")
    found = [f"{one.path}:{one.line} {one.name}" for one in given.findings]
    if not found:
        return RuleOutcome(name, _GROUP, False, "none", "nothing was found in the sources")
    more = f" and {len(found) - 1} more" if len(found) > 1 else ""
    return RuleOutcome(name, _GROUP, True, "to be rewritten, or kept on GPUs", found[0] + more)


def _time(given: Evidence) -> RuleOutcome:
    name, weeks, has = "engineering time", given.migration.weeks, given.workload.staff_weeks
    if has is None:
        said = f"{weeks:.0f} weeks are needed; staff_weeks is not given"
        return RuleOutcome(name, _GROUP, None, "to be answered", said)
    said = f"{weeks:.0f} weeks are needed, {has:g} there"
    applies = has < weeks
    effect = "a move takes longer, or people from outside" if applies else "none"
    return RuleOutcome(name, _GROUP, applies, effect, said)


def _lock_in(given: Evidence) -> RuleOutcome:
    clouds = given.workload.other_clouds
    said = f"runs on {', '.join(clouds)} besides" if clouds else "no other cloud is named"
    effect = "these keep GPUs, and two programs are kept" if clouds else "none"
    return RuleOutcome("lock-in to AWS", _GROUP, bool(clouds), effect, said)


def _verification(given: Evidence) -> RuleOutcome:
    name, best = "verification of the performance", given.best
    if best is None:
        return RuleOutcome(name, _GROUP, None, "none", "no place to verify")
    error = f"plans of the family {best.family!r} are off by {best.error.get('median', 0):.0%}"
    error += f", P90 {best.error.get('p90', 0):.0%}"
    if best.is_validated:
        return RuleOutcome(name, _GROUP, False, "none: its chip has published times", error)
    effect = "a pilot comes first: its chip or family is not validated"
    return RuleOutcome(name, _GROUP, True, effect, error)
