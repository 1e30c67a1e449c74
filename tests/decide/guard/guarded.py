"""A decision to guard, with round figures that can be checked by hand."""

from dataclasses import replace

from trnsim.decide.decision import (
    Candidate,
    DatedPrice,
    Decision,
    Migration,
    Months,
    Today,
    Verdict,
    WorkloadDecision,
)
from trnsim.facts import Interval

CANDIDATE = Candidate(
    instance="trn1.32xlarge",
    is_neuron=True,
    instances=2,
    kind="on_demand",
    hours=Interval(800.0, 1000.0, 1250.0),
    paid_hours=1000.0,
    price=DatedPrice(21.5, "on_demand", "us-east-1", "2026-07-20", "a page"),
    usd_per_month=Interval(48_000.0, 60_000.0, 75_000.0),
    saving=Interval(0.25, 0.40, 0.52),
    break_even_usd_per_hour=33.0,
    pays_back_months=Months(1.0, 1.5, 2.4),
    share_paying_back=0.97,
    family="TPOT",
    is_validated=True,
    ms={"weights": 8.0, "exchanges": 2.0},
)

TODAY = Today(
    instance="p4d.24xlarge",
    count=4,
    kind="on_demand",
    usd_per_month=100_000.0,
    hours=Interval(700.0, 800.0, 900.0),
    paid_hours=800.0,
    price=None,
)

CHAT = WorkloadDecision(
    name="chat",
    kind="serve",
    model="llama",
    volume=3.6e9,
    volume_unit="tokens_per_month",
    verdict=Verdict.GO,
    is_close_call=False,
    reason="it pays back",
    best="trn1.32xlarge",
    today=TODAY,
    migration=Migration(12.0, 5000.0, 60_000.0),
    candidates=(Candidate("p4d.24xlarge", is_neuron=False), CANDIDATE),
)  # fmt: skip

OTHER = replace(CHAT, name="tuning", verdict=Verdict.NO_GO, best=None)


def decision(*workloads, inventory="inventory.csv"):
    """A decision about `workloads`."""
    return Decision(
        version="0",
        as_of="2026-11-01",
        seed=0,
        draws=1000,
        kind="on_demand",
        inventory=inventory,
        workloads=workloads,
    )
