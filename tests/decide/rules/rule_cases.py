"""Evidence for rules, and a rule of it by name."""

from dataclasses import replace

from workload_cases import workload

from trnsim.decide.decision import Candidate, Migration
from trnsim.decide.rules import WorkloadEvidence, rules
from trnsim.facts import Interval

BEST = Candidate(
    "trn1.32xlarge",
    is_neuron=True,
    saving=Interval(0.2, 0.4, 0.5),
    family="training",
    is_validated=True,
    error={"median": 0.067, "p90": 0.219},
)


def evidence(kind="train", **changes):
    """A workload of 100,000 USD a month that saves 40 % on 112 chips."""
    of_workload = {name: one for name, one in changes.items() if name not in _OWN}
    made = WorkloadEvidence(
        workload=workload(kind, **of_workload),
        migration=Migration(12.0, 5000.0, 60_000.0),
        limit_months=12.0,
        best=BEST,
        chips=112,
    )
    return replace(made, **{name: one for name, one in changes.items() if name in _OWN})


_OWN = ("best", "chips", "findings", "is_limit_met", "migration")


def rule(name, kind="train", **changes):
    """The rule called `name` of that evidence."""
    (found,) = [one for one in rules(evidence(kind, **changes)) if one.name == name]
    return found
