"""An inventory of workloads, and the decision about each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Final

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide import verdict
from trnsim.decide.candidates import COMMITTED, Places, names
from trnsim.decide.compare import Comparison
from trnsim.decide.decision import (
    Assumption,
    Candidate,
    Decision,
    Finding,
    Migration,
    WorkloadDecision,
)
from trnsim.decide.draws import DEMAND_SPREAD, DRAWS, EFFORT_SPREAD, Draws
from trnsim.decide.inventory import read
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.rules import Evidence, rules
from trnsim.decide.times import Predictor
from trnsim.decide.times.serving import INPUT_TOKENS, OUTPUT_TOKENS
from trnsim.decide.verdict import Pair
from trnsim.errors import BadInput
from trnsim.facts import Rate, assumed
from trnsim.price import KINDS, today
from trnsim.price.payback import ENGINEER_WEEKS, PAYBACK_LIMIT_MONTHS, USD_PER_ENGINEER_WEEK
from trnsim.system.train.estimate import SEQUENCE
from trnsim.version import VERSION

WEEKS_GPU: Final = assumed(2, "from one GPU to another: the same programs, measured again")

BLOCKS: Final = ("capacity_block", "capacity_block_paid")

Scan = Callable[[Workload], "tuple[Finding, ...] | None"]
"""What is found in a workload's programs; None where none are given."""


@dataclass(frozen=True)
class Asked:
    """What an assessment is asked to do.

    Attributes:
        on: instances or families to look at; () for all candidates.
        kind: purchase kind of all prices; "" for that of each workload.
        as_of: day of the prices; None for today.
        seed: of all draws.
        draws: how many.
        is_mixed: whether another public kind may stand in for one that is not sold.
    """

    on: tuple[str, ...] = ()
    kind: str = ""
    as_of: date | None = None
    seed: int = 0
    draws: int = DRAWS
    is_mixed: bool = False

    def __post_init__(self) -> None:
        if self.kind and self.kind not in KINDS:
            raise BadInput(f"purchase kind {self.kind!r} is not known; legal: {', '.join(KINDS)}")


def assess(
    path: str | Path,
    asked: Asked | None = None,
    *,
    rows: Catalogue | None = None,
    predictor: Predictor | None = None,
    scan: Scan | None = None,
) -> Decision:
    """The decision about each workload of the inventory at `path`.

    Args:
        path: the inventory, as `trnsim.decide.inventory.read` takes it.
        asked: what is looked at; all candidates by default.
        rows: the catalogue; the built-in one by default.
        predictor: of times; one that other assessments have used answers equal questions at once.
        scan: what looks into programs; none by default.

    Raises:
        BadInput: the inventory, a name or a day cannot be used.
    """
    asked = asked or Asked()
    rows = rows or catalogue()
    found = names(asked.on, rows)
    places = Places(
        predictor or Predictor(rows),
        rows,
        kind=asked.kind,
        as_of=asked.as_of,
        is_mixed=asked.is_mixed,
    )
    decided = [
        decide(one, found, places, asked, None if scan is None else scan(one))
        for one in read(path, rows)
    ]
    return Decision(
        version=VERSION,
        as_of=str(asked.as_of or today(rows)),
        seed=asked.seed,
        draws=asked.draws,
        kind=asked.kind,
        inventory=str(path),
        workloads=tuple(decided),
        assumptions=assumptions(),
        caveats=_caveats(decided, asked),
    )


def decide(
    workload: Workload,
    instances: Sequence[str],
    places: Places,
    asked: Asked,
    findings: tuple[Finding, ...] | None = None,
) -> WorkloadDecision:
    """The decision about one workload, among `instances` beside its own."""
    here = places.here(workload)
    limit = float(PAYBACK_LIMIT_MONTHS)
    compared = Comparison(workload, here, Draws(workload.name, asked.seed, asked.draws), limit)
    pairs: list[Pair] = []
    for name in instances:
        if name != workload.current.instance:
            there = places.there(workload, name, here)
            cost = migration(here.is_neuron, there.is_neuron)
            pairs.append((there, compared.candidate(there, cost)))
    own = migration(here.is_neuron, is_neuron_there=True)
    evidence = _evidence(workload, pairs, own, findings)
    told = rules(evidence)
    judged = verdict.judge(
        pairs,
        told,
        is_neuron_today=here.is_neuron,
        refused=here.refused,
        draws=asked.draws,
        limit_months=limit,
        times_predicted=compared.times_predicted,
    )
    place = next((place for place, one in pairs if one.instance == judged.best), None)
    staying = compared.candidate(here, replace(own, weeks=0.0, usd=0.0))
    return WorkloadDecision(
        name=workload.name,
        kind=workload.kind,
        model=workload.model.name,
        volume=workload.volume,
        volume_unit=workload.volume_unit,
        verdict=judged.verdict,
        is_close_call=judged.is_close_call,
        reason=judged.reason,
        best=judged.best,
        today=compared.today(),
        migration=own,
        rules=told,
        candidates=(staying, *sorted((one for _, one in pairs), key=_order)),
        tornado=() if place is None else compared.tornado(place, own),
        findings=findings or (),
        split=tuple(one.name for one in findings or () if one.kind == "operator"),
        assumptions=(
            *workload.assumptions,
            *lengths(workload),
            *payment(places.kind(workload), is_steady=here.is_steady),
        ),
    )


def lengths(workload: Workload) -> tuple[str, ...]:
    """What is taken for granted about lengths and demand that the inventory does not state."""
    shape, found = workload.shape, list[str]()
    if workload.kind == "serve":
        given = {"input_len": shape.input_len, "output_len": shape.output_len}
        usual = {"input_len": INPUT_TOKENS, "output_len": OUTPUT_TOKENS}
        found += [f"{name} is {usual[name]:,} tokens" for name, one in given.items() if one is None]
    if workload.kind == "train" and shape.sequence is None:
        length = workload.model.usual_length(SEQUENCE)
        found.append(f"sequence is {length:,} tokens")
    is_even = workload.kind == "serve" and workload.peak_ratio is None
    if is_even and workload.volume_unit != "gpu_hours":
        found.append("demand is the same at all hours: the inventory names no peak_ratio")
    return tuple(found)


def payment(kind: str, *, is_steady: bool) -> tuple[str, ...]:
    """What is taken for granted about hours that are paid for at prices of `kind`."""
    if kind in BLOCKS:
        return ("blocks are priced by the hour that is used; they are sold by the day",)
    if kind in COMMITTED and not is_steady:
        return (f"{kind} is paid all year: other work has the hours that this one leaves",)
    return ()


def migration(is_neuron_here: bool, is_neuron_there: bool) -> Migration:
    """What a move costs once: of a new program, or of the same one on another GPU."""
    is_easy = not is_neuron_here and not is_neuron_there
    weeks = WEEKS_GPU if is_easy else ENGINEER_WEEKS
    usd = float(USD_PER_ENGINEER_WEEK)
    return Migration(float(weeks), usd, weeks * usd)


def _evidence(
    workload: Workload,
    pairs: Sequence[Pair],
    cost: Migration,
    findings: tuple[Finding, ...] | None,
) -> Evidence:
    found = verdict.best(pairs) or verdict.quotable(pairs)
    neurons = [one for place, one in pairs if place.is_neuron and place.is_open]
    promised = [one.slo for one in neurons if one.slo is not None]
    if workload.deadline_hours is not None:  # enough instances are taken to keep it
        promised += ["met" for one in neurons if one.refused is None]
    return Evidence(
        workload=workload,
        migration=cost,
        limit_months=float(PAYBACK_LIMIT_MONTHS),
        best=None if found is None else found[1],
        chips=0 if found is None else found[0].chips,
        findings=findings,
        is_promise_kept="met" in promised if promised else None,
    )


def _order(one: Candidate) -> tuple[bool, bool, bool, float, str]:
    """What saves most first, then what has no price, misses its promise, or is refused."""
    saving = -one.saving.p50 if one.saving is not None else 0.0
    is_late = one.slo == "missed"
    return one.refused is not None, is_late, one.saving is None, saving, one.instance


def assumptions() -> tuple[Assumption, ...]:
    """Numbers that nobody gave, with the reason for each."""
    facts: dict[str, tuple[Rate, str]] = {
        "engineer-weeks of a move to or from AWS's chips": (ENGINEER_WEEKS, "weeks"),
        "engineer-weeks between GPUs": (WEEKS_GPU, "weeks"),
        "an engineer-week": (USD_PER_ENGINEER_WEEK, "USD"),
        "payback limit": (PAYBACK_LIMIT_MONTHS, "months"),
        "doubt about demand": (DEMAND_SPREAD, "one sigma"),
        "doubt about effort": (EFFORT_SPREAD, "one sigma"),
        "share of draws for a move": (verdict.SURE, "of 1"),
        "share of draws for a pilot": (verdict.LIKELY, "of 1"),
        "bill over what is predicted here, or the inverse": (verdict.ODD, "at most for a move"),
    }
    return tuple(
        Assumption(name, float(fact), unit, fact.provenance.source)
        for name, (fact, unit) in facts.items()
    )


def _caveats(decided: Sequence[WorkloadDecision], asked: Asked) -> tuple[str, ...]:
    said: list[str] = []
    kinds = {one.kind for each in decided for one in each.candidates if one.kind}
    if asked.is_mixed and len(kinds) > 1:
        said.append(f"mixed prices: {', '.join(sorted(kinds))}")
    if any(one.price and one.price.is_stale for each in decided for one in each.candidates):
        said.append("some prices are more than 90 days old")
    return tuple(said)
