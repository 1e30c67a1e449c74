"""Decisions that several test files share."""

from trnsim.decide.decision import (
    Assumption,
    Candidate,
    DatedPrice,
    Decision,
    Migration,
    Months,
    ProgramFinding,
    Ruling,
    Swing,
    Today,
    Verdict,
    WorkloadDecision,
)
from trnsim.facts import Interval

HERE = DatedPrice(55.04, "on_demand", "us-east-1", "2026-07-20", "a table")
THERE = DatedPrice(21.5, "on_demand", "us-east-1", "2026-07-20", "a table")


def decision():
    """One workload with a candidate that saves and one that is refused."""
    hours = Interval(700.0, 730.0, 760.0)
    cost = 80_000 * (1460 * 21.5) / (730 * 55.04)
    saving = 1 - cost / 80_000
    moved = Candidate(
        "trn1.32xlarge",
        is_neuron=True,
        instances=2,
        kind="on_demand",
        hours=Interval(1400.0, 1460.0, 1500.0),
        paid_hours=1460.0,
        price=THERE,
        usd_per_month=Interval(0.9 * cost, cost, 1.1 * cost),
        saving=Interval(0.1, saving, 0.3),
        break_even_usd_per_hour=26.0,
        pays_back_months=Months(2.5, 60_000 / (80_000 * saving), None),
        share_paying_back=0.8,
        family="TPOT",
        is_validated=True,
        error={"median": 0.039, "p90": 0.115},
        slo="met",
        ms={"weights": 4.0},
        usd={"weights": 3.0},
    )
    found = WorkloadDecision(
        name="chat",
        kind="serve",
        model="llama",
        volume=6e9,
        volume_unit="tokens_per_month",
        verdict=Verdict.PILOT,
        is_close_call=True,
        reason="trn1.32xlarge pays back in most draws",
        best="trn1.32xlarge",
        today=Today("p5.48xlarge", 1, "on_demand", 80_000.0, hours, 730.0, HERE),
        migration=Migration(12.0, 5000.0, 60_000.0),
        rules=(Ruling("transformer", "ideal", True, "for", "32 layers of attention"),),
        candidates=(moved, Candidate("inf1.xlarge", is_neuron=True, refused="no room")),
        tornado=(Swing("performance", 0.1, 0.3),),
        findings=(ProgramFinding("train.py", 3, "cuda", "my_kernel"),),
        split=("aten::fft",),
        assumptions=("on demand, as none is named",),
    )
    said = (Assumption("USD per engineer-week", 5000.0, "USD", "a round figure"),)
    return Decision("1.0", "2026-11-21", 0, 4000, "", "bill.csv", (found,), said)
