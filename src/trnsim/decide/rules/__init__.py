"""The rules of the source document about Trainium and Inferentia, each with its evidence.

A rule holds, does not, or cannot be told from the inventory. What holds speaks for a move or
against it; a rule that forbids one decides alone, all others say why draws come out as they do.
"""

from trnsim.decide.decision import RuleOutcome
from trnsim.decide.rules.considerations import considerations
from trnsim.decide.rules.evidence import WorkloadEvidence
from trnsim.decide.rules.ideal import ideal
from trnsim.decide.rules.inferentia import inferentia
from trnsim.decide.rules.not_recommended import FORBIDS, not_recommended

__all__ = ["FORBIDS", "WorkloadEvidence", "rules"]


def rules(facts: WorkloadEvidence) -> tuple[RuleOutcome, ...]:
    """All rules, in the order of the document."""
    return (
        *ideal(facts),
        *considerations(facts),
        *not_recommended(facts),
        *inferentia(facts),
    )
