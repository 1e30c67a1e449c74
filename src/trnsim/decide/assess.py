"""Assessment of an inventory: a decision about each of its workloads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final, Literal

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide import verdict
from trnsim.decide.candidates import (
    COMMITTED,
    WorkloadPlacement,
    WorkloadPlacements,
    candidate_names,
)
from trnsim.decide.compare import WorkloadComparison
from trnsim.decide.decision import (
    MOST_DRAWS,
    Assumption,
    Candidate,
    Decision,
    Migration,
    ProgramFinding,
    WorkloadDecision,
)
from trnsim.decide.draws import DEMAND_SPREAD, DRAWS, EFFORT_SPREAD, Draws
from trnsim.decide.inventory import read
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.rules import WorkloadEvidence, rules
from trnsim.decide.times import Predictor
from trnsim.decide.times.serving import INPUT_TOKENS, OUTPUT_TOKENS
from trnsim.decide.verdict import Pair
from trnsim.errors import BadInput
from trnsim.facts import Rate, assumed
from trnsim.place.platform import family
from trnsim.price import check_kind, today
from trnsim.price.payback import ENGINEER_WEEKS, PAYBACK_LIMIT_MONTHS, USD_PER_ENGINEER_WEEK
from trnsim.system.train.estimate import SEQUENCE
from trnsim.version import VERSION

WEEKS_SAME_STACK: Final = assumed(
    2, "between GPUs, or between AWS's chips of one framework: the same programs, measured again"
)

Stack = Literal["gpu", "torch-neuron", "torch-neuronx"]
"""Framework of a program. The framework of Inf1 runs on no later chip.

Source: aws-neuron-sdk, about-neuron/quick-start/index.rst (legacy Inf1 quickstarts).
"""

BLOCKS: Final = ("capacity_block", "capacity_block_paid")
"""Purchase kinds of EC2 capacity blocks, which are reserved and paid in advance."""

Scan = Callable[[Workload], "tuple[ProgramFinding, ...] | None"]
"""Function from a workload to the findings in its programs; None if it names no programs."""


@dataclass(frozen=True)
class AssessmentOptions:
    """Options of an assessment.

    Attributes:
        on: instance types, chips or families to consider; () for all candidates.
        kind: purchase kind of all prices; "" for today's kind of each workload.
        as_of: day of the prices; None for today.
        draws: number of Monte Carlo draws of the uncertain inputs.
        is_mixed: True if the price of another public kind may be used for an instance that is not
            on sale at the requested kind.
    """

    on: tuple[str, ...] = ()
    kind: str = ""
    as_of: date | None = None
    seed: int = 0
    draws: int = DRAWS
    is_mixed: bool = False

    def __post_init__(self) -> None:
        if self.kind:
            check_kind(self.kind, f"purchase kind {self.kind!r} is not known")
        if self.seed < 0:
            raise BadInput(f"seed is {self.seed}; legal: whole numbers from 0 on")
        if not 1 <= self.draws <= MOST_DRAWS:
            raise BadInput(f"draws is {self.draws}; legal: from 1 to {MOST_DRAWS:,}")

    def placements(self, predictor: Predictor, rows: Catalogue) -> WorkloadPlacements:
        """Maker of placements at the prices of these options."""
        return WorkloadPlacements(
            predictor, rows, kind=self.kind, as_of=self.as_of, is_mixed=self.is_mixed
        )


def assess(
    path: str | Path,
    options: AssessmentOptions | None = None,
    *,
    rows: Catalogue | None = None,
    predictor: Predictor | None = None,
    scan: Scan | None = None,
) -> Decision:
    """The decision about each workload of the inventory at `path`.

    Args:
        path: the inventory, as `trnsim.decide.inventory.read` reads it.
        options: instances, prices and draws; the defaults of `AssessmentOptions` without them.
        rows: the catalogue; the built-in one by default.
        predictor: predictor of times; one from an earlier assessment keeps its answers.
        scan: scan of a workload's programs; none by default.

    Raises:
        BadInput: the inventory, a name or a day cannot be used.
    """
    options = options or AssessmentOptions()
    rows = rows or catalogue()
    instances = candidate_names(options.on, rows)
    placements = options.placements(predictor or Predictor(rows), rows)
    decisions = [
        decide(workload, instances, placements, options, None if scan is None else scan(workload))
        for workload in read(path, rows)
    ]
    return Decision(
        version=VERSION,
        as_of=str(options.as_of or today(rows)),
        seed=options.seed,
        draws=options.draws,
        kind=options.kind,
        inventory=str(path),
        workloads=tuple(decisions),
        assumptions=assumptions(),
        caveats=_caveats(decisions, options),
    )


def decide(
    workload: Workload,
    instances: Sequence[str],
    placements: WorkloadPlacements,
    options: AssessmentOptions,
    findings: tuple[ProgramFinding, ...] | None = None,
) -> WorkloadDecision:
    """The decision about one workload.

    Args:
        workload: a workload of the inventory.
        instances: instance types to compare with today's.
        placements: maker of placements, with its predictor and prices.
        options: seed and number of the draws.
        findings: findings in the workload's programs; None without a scan.
    """
    origin = placements.origin(workload)
    limit = float(PAYBACK_LIMIT_MONTHS)
    comparison = WorkloadComparison(
        workload, origin, Draws(workload.name, options.seed, options.draws), limit
    )
    pairs = _predicted_pairs(workload, instances, placements, comparison)
    neuron_move = migration(stack(origin.instance.name, origin.is_neuron), "torch-neuronx")
    evidence = _evidence(workload, pairs, neuron_move, findings)
    outcomes = rules(evidence)
    judgement = verdict.judge(
        pairs,
        outcomes,
        is_neuron_today=origin.is_neuron,
        refused=origin.refused,
        draws=options.draws,
        limit_months=limit,
        bill_ratio=comparison.bill_ratio,
    )
    place = next(
        (place for place, candidate in pairs if candidate.instance == judgement.best), None
    )
    staying_candidate = comparison.candidate(origin, replace(neuron_move, weeks=0.0, usd=0.0))
    return WorkloadDecision(
        name=workload.name,
        kind=workload.kind,
        model=workload.model.name,
        volume=workload.volume,
        volume_unit=workload.volume_unit,
        verdict=judgement.verdict,
        is_close_call=judgement.is_close_call,
        reason=judgement.reason,
        best=judgement.best,
        today=comparison.today(),
        migration=neuron_move,
        rules=outcomes,
        candidates=(staying_candidate, *sorted((candidate for _, candidate in pairs), key=_order)),
        tornado=() if place is None else comparison.tornado(place, neuron_move),
        findings=findings or (),
        # the programs are split at operators that AWS's chips do not run
        split=tuple(finding.name for finding in findings or () if finding.kind == "operator"),
        assumptions=_decision_assumptions(workload, placements, origin),
    )


def _decision_assumptions(
    workload: Workload, placements: WorkloadPlacements, origin: WorkloadPlacement
) -> tuple[str, ...]:
    """Assumptions of the inventory, of the kind of workload, and of how instances are paid for."""
    return (
        *workload.assumptions,
        *workload_assumptions(workload),
        *payment_assumptions(placements.kind(workload), is_always_on=origin.is_always_on),
    )


def _predicted_pairs(
    workload: Workload,
    instances: Sequence[str],
    placements: WorkloadPlacements,
    comparison: WorkloadComparison,
) -> list[Pair]:
    """A placement and its candidate for each instance type but today's.

    All types are compared by brief predictions, which for serving are of shorter runs, and the best
    is then predicted in full. That may make another type the best, which is predicted in full too.
    """
    pairs = [
        _pair(workload, name, placements, comparison, is_brief=True)
        for name in instances
        if name != workload.current.instance
    ]
    full_pairs: dict[str, Pair] = {}
    while True:
        latest_pairs = [
            full_pairs.get(candidate.instance, (place, candidate)) for place, candidate in pairs
        ]
        best = verdict.best(latest_pairs) or verdict.quotable(latest_pairs)
        if best is None or best[1].instance in full_pairs:
            return latest_pairs
        name = best[1].instance
        full_pairs[name] = _pair(workload, name, placements, comparison, is_brief=False)


def _pair(
    workload: Workload,
    instance: str,
    placements: WorkloadPlacements,
    comparison: WorkloadComparison,
    *,
    is_brief: bool,
) -> Pair:
    """The placement of a workload on an instance type, and its candidate with costs and savings."""
    destination = placements.destination(workload, instance, comparison.origin, is_brief=is_brief)
    cost = migration_between(comparison.origin, destination)
    return destination, comparison.candidate(destination, cost)


def workload_assumptions(workload: Workload) -> tuple[str, ...]:
    """Assumptions about unstated lengths and demand, and stated limits that have no effect."""
    shape, notes = workload.shape, list[str]()
    if workload.kind == "serve":
        tokens = {"input_len": shape.input_len, "output_len": shape.output_len}
        defaults = {"input_len": INPUT_TOKENS, "output_len": OUTPUT_TOKENS}
        notes += [
            f"{name} is {defaults[name]:,} tokens"
            for name, count in tokens.items()
            if count is None
        ]
    if workload.kind == "train" and shape.sequence is None:
        length = workload.model.usual_length(SEQUENCE)
        notes.append(f"sequence is {length:,} tokens")
    is_peak_missing = workload.is_always_on and workload.peak_ratio is None
    if is_peak_missing and workload.volume_unit != "gpu_hours":
        notes.append("demand is the same at all hours: the inventory names no peak_ratio")
    notes += [
        f"{name} has no effect on this workload of kind {workload.kind}"
        for name in workload.stated_limits
        if name not in workload.limits
    ]
    return tuple(notes)


def payment_assumptions(kind: str, *, is_always_on: bool) -> tuple[str, ...]:
    """Assumptions about the hours that are paid for at the purchase kind `kind`."""
    if kind in BLOCKS:
        return ("blocks are priced by the hour that is used; they are sold by the day",)
    if kind in COMMITTED and not is_always_on:
        return (f"{kind} is paid all year: other work uses the hours that this one leaves",)
    return ()


def stack(instance: str, is_neuron: bool) -> Stack:
    """The stack of programs on an instance type."""
    if not is_neuron:
        return "gpu"
    return "torch-neuron" if family(instance) == "inf1" else "torch-neuronx"


def migration(origin: Stack, destination: Stack) -> Migration:
    """One-time cost of a move to another stack, or of the same programs to another chip."""
    weeks = WEEKS_SAME_STACK if origin == destination else ENGINEER_WEEKS
    usd = float(USD_PER_ENGINEER_WEEK)
    return Migration(float(weeks), usd, weeks * usd)


def migration_between(origin: WorkloadPlacement, destination: WorkloadPlacement) -> Migration:
    """One-time cost of a move from a placement to another."""
    current_stack = stack(origin.instance.name, origin.is_neuron)
    return migration(current_stack, stack(destination.instance.name, destination.is_neuron))


def _evidence(
    workload: Workload,
    pairs: Sequence[Pair],
    cost: Migration,
    findings: tuple[ProgramFinding, ...] | None,
) -> WorkloadEvidence:
    best_pair = verdict.best(pairs) or verdict.quotable(pairs)
    neuron_moves = [candidate for place, candidate in pairs if place.is_neuron and place.is_open]
    slo_states = [candidate.slo for candidate in neuron_moves if candidate.slo is not None]
    if "deadline_hours" in workload.limits:  # every placement has enough instances to meet it
        slo_states += ["met" for candidate in neuron_moves if candidate.refused is None]
    return WorkloadEvidence(
        workload=workload,
        migration=cost,
        limit_months=float(PAYBACK_LIMIT_MONTHS),
        best=None if best_pair is None else best_pair[1],
        chips=0 if best_pair is None else best_pair[0].chips,
        findings=findings,
        is_limit_met="met" in slo_states if slo_states else None,
    )


def _order(candidate: Candidate) -> tuple[bool, bool, bool, float, str]:
    """Sort key: largest saving first, then no price, then a missed SLO, then refused."""
    saving = -candidate.saving.p50 if candidate.saving is not None else 0.0
    is_late = candidate.slo == "missed"
    return (
        candidate.refused is not None,
        is_late,
        candidate.saving is None,
        saving,
        candidate.instance,
    )


def assumptions() -> tuple[Assumption, ...]:
    """Numbers that no user stated, with the reason for each."""
    facts: dict[str, tuple[Rate, str]] = {
        "engineer-weeks between GPUs, Inf1 and AWS's later chips": (ENGINEER_WEEKS, "weeks"),
        "engineer-weeks within any of these": (WEEKS_SAME_STACK, "weeks"),
        "an engineer-week": (USD_PER_ENGINEER_WEEK, "USD"),
        "payback limit": (PAYBACK_LIMIT_MONTHS, "months"),
        "doubt about demand": (DEMAND_SPREAD, "(one sigma, relative)"),
        "doubt about effort": (EFFORT_SPREAD, "(one sigma, relative)"),
        "share of draws for a move": (verdict.SURE, "of all draws"),
        "share of draws for a pilot": (verdict.LIKELY, "of all draws"),
        "stated bill over the predicted one, or the inverse": (
            verdict.MOST_BILL_RATIO,
            "at most for a move",
        ),
    }
    return tuple(
        Assumption(name, float(fact), unit, fact.provenance.source)
        for name, (fact, unit) in facts.items()
    )


def _caveats(decisions: Sequence[WorkloadDecision], options: AssessmentOptions) -> tuple[str, ...]:
    caveats: list[str] = []
    kinds = {
        candidate.kind
        for decision in decisions
        for candidate in decision.candidates
        if candidate.kind
    }
    if options.is_mixed and len(kinds) > 1:
        caveats.append(f"mixed prices: {', '.join(sorted(kinds))}")
    if any(
        candidate.price and candidate.price.is_stale
        for decision in decisions
        for candidate in decision.candidates
    ):
        caveats.append("some prices are more than 90 days old")
    return tuple(caveats)
