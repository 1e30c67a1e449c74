"""What Trainium is not recommended for. All but the last forbid a move, whatever it saves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.decide.decision import RuleOutcome

if TYPE_CHECKING:
    from trnsim.decide.rules.evidence import Evidence

FORBIDS: Final = "forbids a move"
CUDA: Final = ("cuda", "triton")
"""Kinds of findings that do not compile for AWS's chips."""
_GROUP: Final = "not-recommended"


def not_recommended(given: Evidence) -> tuple[RuleOutcome, ...]:
    """CUDA alone, maximum performance, several clouds, small training."""
    return _cuda(given), _performance(given), _clouds(given), _small(given)


def _cuda(given: Evidence) -> RuleOutcome:
    name, framework = "CUDA-only", given.workload.framework
    kernels = [one for one in given.findings or () if one.kind in CUDA]
    if framework == "cuda":
        return RuleOutcome(name, _GROUP, True, FORBIDS, "framework is cuda: it does not compile")
    if kernels:
        first = kernels[0]
        said = f"{first.path}:{first.line}: a kernel of {first.kind}, {first.name}"
        return RuleOutcome(name, _GROUP, True, FORBIDS, said)
    if framework is None and given.findings is None:
        return RuleOutcome(
            name, _GROUP, None, "to be answered", "neither framework nor sources are given"
        )
    return RuleOutcome(name, _GROUP, False, "none", f"framework is {framework or 'not given'}")


def _performance(given: Evidence) -> RuleOutcome:
    name = "maximum performance"
    if given.is_promise_kept is None:
        said = "no latency and no deadline is promised"
        if _is_promised(given):
            said = "a limit is promised, and no instance with AWS's chips can run it"
        return RuleOutcome(name, _GROUP, None, "none", said)
    if given.is_promise_kept:
        said = "an instance with AWS's chips keeps what is promised"
        return RuleOutcome(name, _GROUP, False, "none", said)
    return RuleOutcome(
        name, _GROUP, True, FORBIDS, "no instance with AWS's chips keeps what is promised"
    )


def _is_promised(given: Evidence) -> bool:
    slo, deadline = given.workload.slo, given.workload.deadline_hours
    limits = (slo.ttft_s, slo.tpot_s, slo.latency_s, deadline)
    return any(one is not None for one in limits)


def _clouds(given: Evidence) -> RuleOutcome:
    name, workload = "several clouds", given.workload
    clouds = ", ".join(workload.other_clouds) or "no other cloud named"
    if workload.is_portability_needed:
        said = f"portability_needed is yes ({clouds}), and no other cloud has these chips"
        return RuleOutcome(name, _GROUP, True, FORBIDS, said)
    return RuleOutcome(name, _GROUP, False, "none", f"portability_needed is no ({clouds})")


def _small(given: Evidence) -> RuleOutcome:
    name, usd = "small: a migration costs more than it saves", given.migration.usd
    limit, bill = given.limit_months, given.workload.current.usd_per_month
    if given.saving is None:
        applies = usd > limit * bill
        said = f"{usd:,.0f} USD for the migration, {limit * bill:,.0f} USD of bills in {limit:.0f}"
        return RuleOutcome(
            name, _GROUP, applies, "against" if applies else "none", f"{said} months"
        )
    saved = limit * bill * given.saving
    applies = saved < usd
    if saved <= 0:
        return RuleOutcome(
            name, _GROUP, True, "against", f"nothing saved at P50, {usd:,.0f} USD to move"
        )
    said = f"{saved:,.0f} USD saved in {limit:.0f} months at P50, {usd:,.0f} USD for the migration"
    return RuleOutcome(name, _GROUP, applies, "against" if applies else "none", said)
