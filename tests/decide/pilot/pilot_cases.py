"""Pilots that several test files share."""

from dataclasses import replace

from decision_cases import decision

from trnsim.decide.decision import DatedPrice
from trnsim.decide.pilot.pilot_value import PilotValue
from trnsim.decide.pilot.plan import Pilot
from trnsim.decide.pilot.sides import PilotRun, PilotSides, Side
from trnsim.decide.pilot.thresholds import Money, thresholds
from trnsim.facts import Interval
from trnsim.system.serve.demand import Slo

PRICE = DatedPrice(40.0, "on_demand", "us-east-1", "2026-07-20", "a page")


def paired_run():
    """A training run with round figures."""
    run = PilotRun("train", "llama", 0, 100, "tokens", "bf16", 32, sequences=512, sequence=8192)
    today = Side("today", "p5.48xlarge", 1, 8, "DP=8", Interval(8e4, 1e5, 1.25e5), 1e9, 3.0, PRICE,
                 120.0)  # fmt: skip
    there = Side("there", "trn1.32xlarge", 1, 32, "DP=32", Interval(2e4, 3e4, 4e4), 1e9, 10.0,
                 PRICE, 400.0)  # fmt: skip
    return PilotSides(run, today, there, {})


def pilot_of(kind):
    """A pilot of that paired run."""
    runs = paired_run()
    return Pilot(
        version="0",
        inventory="inventory.csv",
        prices=None,
        digests={},
        is_mixed=False,
        workload="chat",
        why="it tells most",
        told=(PilotValue("chat", "trn1.32xlarge", 100.0, 0.2, 520.0, 5.0, 10.0),),
        run=replace(runs.run, kind=kind),
        today=runs.today,
        there=runs.there,
        migration_usd=60_000.0,
        limit_months=12.0,
        thresholds=thresholds(runs, Money(1e5, 6e4, 12.0, 0.8), Slo()),
        decision=decision(),
    )
