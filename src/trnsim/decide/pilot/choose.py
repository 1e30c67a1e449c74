"""The pilot of an inventory: of the workload that tells most, or of the one that is named."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trnsim.arch.catalogue import catalogue
from trnsim.decide import inventory
from trnsim.decide.assess import AssessmentOptions, Scan, assess, migration
from trnsim.decide.candidates import Placements
from trnsim.decide.compare import WorkloadComparison, difference_sigma, listed_price
from trnsim.decide.decision import Assumption, Migration, WorkloadDecision
from trnsim.decide.draws import Draws
from trnsim.decide.pilot import sides
from trnsim.decide.pilot.plan import Pilot, digests, relative, rests_on
from trnsim.decide.pilot.sides import START_HOURS, THERE, TODAY, Paired
from trnsim.decide.pilot.telling import Stake, Telling, telling
from trnsim.decide.pilot.thresholds import FAILED, NOISE, Money, thresholds
from trnsim.decide.rules import FORBIDS
from trnsim.decide.times import Predictor
from trnsim.errors import BadInput, EmulatorError
from trnsim.formatting import amount
from trnsim.price.payback import PAYBACK_LIMIT_MONTHS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from trnsim.arch.catalogue import Catalogue
    from trnsim.decide.candidates import Placement
    from trnsim.decide.decision import DatedPrice, Decision
    from trnsim.decide.inventory.workload import Workload


@dataclass(frozen=True)
class Wanted:
    """What a pilot is asked to be.

    Attributes:
        workload: its name; None for the one that tells most.
        count: steps, requests or passes; None for the default.
        prices: the file of the user's own prices, if there is one.
    """

    workload: str | None = None
    count: int | None = None
    prices: Path | None = None


@dataclass(frozen=True)
class _Looked:
    """A workload that a pilot could be of."""

    workload: Workload
    told: Telling
    runs: Paired | None = None
    cost: Migration | None = None
    ratio: float = 1.0


def pilot(
    path: Path,
    folder: Path,
    asked: AssessmentOptions,
    wanted: Wanted,
    *,
    rows: Catalogue | None = None,
    predictor: Predictor | None = None,
    scan: Scan | None = None,
) -> tuple[Pilot, dict[str, str]]:
    """The pilot of the inventory at `path`, to be written to `folder`, and its launch files.

    Raises:
        BadInput: the inventory cannot be used, has no workload of that name, or none that a pilot
            could be of.
    """
    rows = rows or catalogue()
    predictor = predictor or Predictor(rows)
    workloads = _named(inventory.read(path, rows), wanted.workload)
    decision = assess(path, asked, rows=rows, predictor=predictor, scan=scan)
    places = Placements(
        predictor, rows, kind=asked.kind, as_of=asked.as_of, is_mixed=asked.is_mixed
    )
    look = _Look(places, rows, asked, wanted)
    found = [look.at(one, decision.workload(one.name)) for one in workloads]
    found.sort(key=lambda one: (one.runs is None, -one.told.net_usd))
    best = found[0]
    if best.runs is None or best.cost is None:
        said = "; ".join(f"{one.workload.name}: {one.told.refused}" for one in found)
        raise BadInput(f"{path}: no workload can have a pilot: {said}")
    made = _made(best, [one.told for one in found], decision, asked, wanted, (path, folder))
    return made, best.runs.files


def _named(workloads: list[Workload], name: str | None) -> list[Workload]:
    if name is None:
        return workloads
    found = [one for one in workloads if one.name == name]
    if not found:
        names = [one.name for one in workloads]
        near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
        raise BadInput(
            f"--workload {name!r} is not in the inventory; legal: {', '.join(names)}",
            fix=f"do you mean {' or '.join(near)}?" if near else "",
        )
    return found


@dataclass(frozen=True)
class _Look:
    """Looks at workloads."""

    places: Placements
    rows: Catalogue
    asked: AssessmentOptions
    wanted: Wanted

    def at(self, workload: Workload, decided: WorkloadDecision) -> _Looked:
        """What a pilot of the workload would be, and tell."""
        here = self.places.here(workload)
        if here.speed is None:
            return self._refused(workload, f"today's instance is not predicted: {here.refused}")
        if self.wanted.workload is None:
            for rule in decided.rules:
                if rule.applies and rule.effect == FORBIDS:
                    return self._refused(workload, f"{rule.name}: {rule.evidence}")
        compared = WorkloadComparison(
            workload,
            here,
            Draws(workload.name, self.asked.seed, self.asked.draws),
            float(PAYBACK_LIMIT_MONTHS),
        )
        pairs = self._stakes(workload, decided, compared)
        if not pairs:
            return self._refused(workload, "no place on AWS's chips has a time and a price")
        there, stake = max(pairs, key=lambda pair: (pair[1].value_usd, pair[1].net_usd))
        try:
            runs = self._runs(workload, here, there, compared.price)
        except EmulatorError as error:
            return self._refused(workload, f"{there.instance.name}: {error.reason}")
        cost = migration(here.is_neuron, there.is_neuron)
        return _Looked(workload, telling(workload.name, stake, runs), runs, cost, stake.ratio)

    @staticmethod
    def _refused(workload: Workload, reason: str | None) -> _Looked:
        return _Looked(workload, Telling(workload.name, "", refused=reason))

    def _stakes(
        self, workload: Workload, decided: WorkloadDecision, compared: WorkloadComparison
    ) -> list[tuple[Placement, Stake]]:
        """Places on AWS's chips that a pilot could look at, and what is at stake there."""
        found: list[tuple[Placement, Stake]] = []
        for one in decided.candidates:
            is_asked = decided.best in (None, one.instance)
            if not is_asked or not one.is_neuron or one.instance == decided.today.instance:
                continue
            there = self.places.there(workload, one.instance, compared.here)
            stake = _stake(there, compared)
            if stake is not None and there.is_open and one.slo != "missed":
                found.append((there, stake))
        return found

    def _runs(
        self, workload: Workload, here: Placement, there: Placement, price: DatedPrice | None
    ) -> Paired:
        known = {TODAY: (here, price), THERE: (there, price_of(there))}
        return sides.paired(
            workload,
            {
                name: sides.Place(place.instance.name, place.speed, usd)
                for name, (place, usd) in known.items()
                if place.speed is not None
            },
            seed=self.asked.seed,
            count=self.wanted.count,
            rows=self.rows,
        )


def price_of(place: Placement) -> DatedPrice | None:
    """The price of a place, or where its kind is not sold that of the cheapest public kind."""
    return listed_price(place.price) or listed_price(place.reference)


def _stake(there: Placement, compared: WorkloadComparison) -> Stake | None:
    here, price, usd = compared.here, compared.price, price_of(there)
    if there.speed is None or here.speed is None or price is None or usd is None:
        return None
    ratio = there.hours * usd.usd_per_hour / (here.hours * price.usd_per_hour)
    return Stake(
        bill=compared.bill,
        ratio=ratio,
        sigma=difference_sigma(there.speed.doubts, here.speed.doubts),
        migration_usd=migration(here.is_neuron, there.is_neuron).usd,
        limit_months=compared.limit_months,
    )


def _made(
    best: _Looked,
    told: Sequence[Telling],
    decision: Decision,
    asked: AssessmentOptions,
    wanted: Wanted,
    places: tuple[Path, Path],
) -> Pilot:
    path, folder = places
    if best.runs is None or best.cost is None:
        raise ValueError("a workload without runs has no pilot")
    workload, limit = best.workload, float(PAYBACK_LIMIT_MONTHS)
    money = Money(workload.current.usd_per_month, best.cost.usd, limit, best.ratio)
    return Pilot(
        version=decision.version,
        inventory=relative(path, folder),
        prices=None if wanted.prices is None else relative(wanted.prices, folder),
        digests=digests(rests_on(workload, path, wanted.prices), folder),
        is_mixed=asked.is_mixed,
        workload=workload.name,
        why=_why(best.told, is_named=wanted.workload is not None),
        told=tuple(told),
        run=best.runs.run,
        today=best.runs.today,
        there=best.runs.there,
        migration_usd=best.cost.usd,
        limit_months=limit,
        thresholds=thresholds(best.runs, money, workload.slo),
        decision=decision,
        assumptions=_assumptions(best.runs, decision.workload(workload.name)),
    )


def _why(told: Telling, *, is_named: bool) -> str:
    chosen = "it was named" if is_named else "it tells most"
    run = "at no public price" if told.run_usd is None else f"{amount(told.run_usd)} USD"
    said = (
        f"{chosen}: knowing its times is worth {amount(told.value_usd)} USD, as "
        f"{told.share_wrong:.0%} of draws are on the other side than the decision; its run costs "
        f"{run}, and {amount(told.delay_usd)} USD of savings wait"
    )
    settled = "; that is less than it costs: the decision is settled without a pilot"
    return said if told.net_usd > 0 else said + settled


def _assumptions(runs: Paired, decided: WorkloadDecision) -> tuple[Assumption, ...]:
    facts = {
        "start of a run": (START_HOURS, "hours"),
        "noise of today's loss": (NOISE, "relative"),
        "failed requests": (FAILED, "of all"),
    }
    found = [
        Assumption(name, float(fact), unit, fact.provenance.source)
        for name, (fact, unit) in facts.items()
    ]
    price = runs.there.price
    if price is not None and price.kind != decided.today.kind:
        source = f"a {price.kind}: {runs.there.instance} is not sold as {decided.today.kind}"
        name = f"price of {runs.there.instance}"
        found.append(Assumption(name, price.usd_per_hour, "USD/h", source))
    return tuple(found)
