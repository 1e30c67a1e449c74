"""Choice of a pilot for an inventory: the workload whose pilot is worth most, or one by name."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trnsim.arch.catalogue import Catalogue, catalogue
from trnsim.decide import inventory
from trnsim.decide.assess import AssessmentOptions, Scan, assess, migration_between
from trnsim.decide.candidates import WorkloadPlacement, WorkloadPlacements
from trnsim.decide.compare import WorkloadComparison, difference_sigma, listed_price
from trnsim.decide.decision import Assumption, DatedPrice, Decision, Migration, WorkloadDecision
from trnsim.decide.draws import Draws
from trnsim.decide.inventory.workload import Workload
from trnsim.decide.pilot import sides
from trnsim.decide.pilot.pilot_value import PilotValue, Stake, pilot_value
from trnsim.decide.pilot.plan import Pilot, decision_files, digests, relative
from trnsim.decide.pilot.sides import START_HOURS, THERE, TODAY, PilotSides
from trnsim.decide.pilot.thresholds import FAILED, NOISE, Money, thresholds
from trnsim.decide.rules import FORBIDS
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput, EmulatorError
from trnsim.formatting import amount
from trnsim.price.payback import PAYBACK_LIMIT_MONTHS


@dataclass(frozen=True)
class PilotRequest:
    """Request for a pilot.

    Attributes:
        workload: name of its workload; None for the most valuable pilot.
        count: number of steps, requests or passes; None for the default.
        prices: file of the user's own prices, or None.
    """

    workload: str | None = None
    count: int | None = None
    prices: Path | None = None


@dataclass(frozen=True)
class _Prospect:
    """A workload with its possible pilot.

    Attributes:
        value: value and cost of the pilot, or the reason why there can be none.
        runs: runs of both sides; None without a pilot.
        cost: cost of the move; None without a pilot.
        ratio: predicted cost on the candidate over predicted cost today.
    """

    workload: Workload
    value: PilotValue
    runs: PilotSides | None = None
    cost: Migration | None = None
    ratio: float = 1.0


def pilot(
    path: Path,
    folder: Path,
    options: AssessmentOptions,
    request: PilotRequest,
    *,
    rows: Catalogue | None = None,
    predictor: Predictor | None = None,
    scan: Scan | None = None,
) -> tuple[Pilot, dict[str, str]]:
    """Pilot of the inventory at `path`, to be written to `folder`, and its launch files by name.

    Raises:
        BadInput: the inventory cannot be used, has no workload of that name, or none that can
            have a pilot.
    """
    rows = rows or catalogue()
    predictor = predictor or Predictor(rows)
    workloads = _selected_workloads(inventory.read(path, rows), request.workload)
    decision = assess(path, options, rows=rows, predictor=predictor, scan=scan)
    survey = _Survey(options.placements(predictor, rows), rows, options, request)
    prospects = [
        survey.prospect(workload, decision.workload(workload.name)) for workload in workloads
    ]
    prospects.sort(key=lambda prospect: (prospect.runs is None, -prospect.value.net_usd))
    best = prospects[0]
    if best.runs is None or best.cost is None:
        reasons = "; ".join(
            f"{prospect.workload.name}: {prospect.value.refused}" for prospect in prospects
        )
        raise BadInput(f"{path}: no workload can have a pilot: {reasons}")
    values = [prospect.value for prospect in prospects]
    plan = _plan(best, values, decision, options, request, (path, folder))
    return plan, best.runs.files


def _selected_workloads(workloads: list[Workload], name: str | None) -> list[Workload]:
    if name is None:
        return workloads
    selected_workloads = [workload for workload in workloads if workload.name == name]
    if not selected_workloads:
        names = [workload.name for workload in workloads]
        similar_names = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        raise BadInput(
            f"--workload {name!r} is not in the inventory; legal: {', '.join(names)}",
            fix=f"do you mean {' or '.join(similar_names)}?" if similar_names else "",
        )
    return selected_workloads


@dataclass(frozen=True)
class _Survey:
    """Search of the pilots that workloads can have, at the prices and draws of an assessment."""

    places: WorkloadPlacements
    rows: Catalogue
    options: AssessmentOptions
    request: PilotRequest

    def prospect(self, workload: Workload, decision: WorkloadDecision) -> _Prospect:
        """The workload with its pilot, or with the reason why it can have none."""
        origin = self.places.origin(workload)
        if origin.speed is None:
            return self._refused(workload, f"today's instance is not predicted: {origin.refused}")
        if self.request.workload is None:
            for rule in decision.rules:
                if rule.applies and rule.effect == FORBIDS:
                    return self._refused(workload, f"{rule.name}: {rule.evidence}")
        comparison = WorkloadComparison(
            workload,
            origin,
            Draws(workload.name, self.options.seed, self.options.draws),
            float(PAYBACK_LIMIT_MONTHS),
        )
        pairs = self._stakes(workload, decision, comparison)
        if not pairs:
            return self._refused(workload, "no place on AWS's chips has a time and a price")
        destination, stake = max(pairs, key=lambda pair: (pair[1].value_usd, pair[1].net_usd))
        try:
            runs = self._runs(workload, origin, destination, comparison.price)
        except EmulatorError as error:
            return self._refused(workload, f"{destination.instance.name}: {error.reason}")
        cost = migration_between(origin, destination)
        return _Prospect(workload, pilot_value(workload.name, stake, runs), runs, cost, stake.ratio)

    @staticmethod
    def _refused(workload: Workload, reason: str | None) -> _Prospect:
        return _Prospect(workload, PilotValue(workload.name, "", refused=reason))

    def _stakes(
        self, workload: Workload, decision: WorkloadDecision, comparison: WorkloadComparison
    ) -> list[tuple[WorkloadPlacement, Stake]]:
        """Placements on AWS's chips that a pilot can test, with the stakes of a move to each."""
        stakes: list[tuple[WorkloadPlacement, Stake]] = []
        for option in decision.candidates:
            # a verdict with a best instance leaves the other candidates out of question
            is_in_question = decision.best in (None, option.instance)
            if (
                not is_in_question
                or not option.is_neuron
                or option.instance == decision.today.instance
            ):
                continue
            destination = self.places.destination(workload, option.instance, comparison.origin)
            stake = _stake(destination, comparison)
            if stake is not None and destination.is_open and option.slo != "missed":
                stakes.append((destination, stake))
        return stakes

    def _runs(
        self,
        workload: Workload,
        origin: WorkloadPlacement,
        destination: WorkloadPlacement,
        price: DatedPrice | None,
    ) -> PilotSides:
        placements = {TODAY: (origin, price), THERE: (destination, price_of(destination))}
        return sides.pilot_sides(
            workload,
            {
                name: sides.Host(place.instance.name, place.speed, usd)
                for name, (place, usd) in placements.items()
                if place.speed is not None
            },
            seed=self.options.seed,
            count=self.request.count,
            rows=self.rows,
        )


def price_of(place: WorkloadPlacement) -> DatedPrice | None:
    """Price of a placement: at today's purchase kind, else the cheapest at a public kind."""
    return listed_price(place.price) or listed_price(place.reference)


def _stake(destination: WorkloadPlacement, comparison: WorkloadComparison) -> Stake | None:
    """Stakes of a move to a placement; None without a speed and a price on both sides."""
    origin, price, usd = comparison.origin, comparison.price, price_of(destination)
    if destination.speed is None or origin.speed is None or price is None or usd is None:
        return None
    ratio = destination.hours * usd.usd_per_hour / (origin.hours * price.usd_per_hour)
    return Stake(
        bill=comparison.bill,
        ratio=ratio,
        sigma=difference_sigma(destination.speed.sigmas, origin.speed.sigmas),
        migration_usd=migration_between(origin, destination).usd,
        limit_months=comparison.limit_months,
    )


def _plan(
    best: _Prospect,
    values: Sequence[PilotValue],
    decision: Decision,
    options: AssessmentOptions,
    request: PilotRequest,
    paths: tuple[Path, Path],
) -> Pilot:
    """Plan of the best prospect's pilot; `paths` are of the inventory and the pilot's folder."""
    path, folder = paths
    if best.runs is None or best.cost is None:
        raise ValueError("a workload without runs has no pilot")
    workload, limit = best.workload, float(PAYBACK_LIMIT_MONTHS)
    money = Money(workload.current.usd_per_month, best.cost.usd, limit, best.ratio)
    return Pilot(
        version=decision.version,
        inventory=relative(path, folder),
        prices=None if request.prices is None else relative(request.prices, folder),
        digests=digests(decision_files(workload, path, request.prices), folder),
        is_mixed=options.is_mixed,
        workload=workload.name,
        why=_choice_reason(best.value, is_named=request.workload is not None),
        told=tuple(values),
        run=best.runs.run,
        today=best.runs.today,
        there=best.runs.there,
        migration_usd=best.cost.usd,
        limit_months=limit,
        thresholds=thresholds(best.runs, money, workload.slo),
        decision=decision,
        assumptions=pilot_assumptions(best.runs, workload),
    )


def _choice_reason(value: PilotValue, *, is_named: bool) -> str:
    grounds = "it was named" if is_named else "its pilot tells most"
    run = "at no public price" if value.run_usd is None else f"{amount(value.run_usd)} USD"
    text = (
        f"{grounds}: knowing its times is worth {amount(value.value_usd)} USD, as "
        f"{value.wrong_probability:.0%} of draws contradict the decision; the pilot costs {run}, "
        f"and delays savings of {amount(value.delay_usd)} USD"
    )
    remark = "; that is less than it costs: the decision is settled without a pilot"
    return text if value.net_usd > 0 else text + remark


def pilot_assumptions(runs: PilotSides, workload: Workload) -> tuple[Assumption, ...]:
    """Numbers of the pilot that no user stated, and a limit that it does not test."""
    facts = {
        "start of a run": (START_HOURS, "hours"),
        "noise of today's loss": (NOISE, "relative"),
        "failed requests": (FAILED, "of all"),
    }
    assumptions = [
        Assumption(name, float(fact), unit, fact.provenance.source)
        for name, (fact, unit) in facts.items()
    ]
    price = runs.there.price
    if price is not None and price.kind != workload.current.kind:
        source = f"a {price.kind}: {runs.there.instance} is not sold as {workload.current.kind}"
        name = f"price of {runs.there.instance}"
        assumptions.append(Assumption(name, price.usd_per_hour, "USD/h", source))
    if workload.kind == "serve" and workload.slo.latency_s is not None:
        source = "no threshold: logs of load tests do not have the time of a whole request"
        assumptions.append(Assumption("latency_s", workload.slo.latency_s, "s", source))
    return tuple(assumptions)
