"""The rules of the source document about Trainium and Inferentia, each with its evidence.

A rule holds, does not hold, or cannot be judged from the inventory. Rules that hold speak for a
move or against it; one that forbids a move decides alone, the others explain the draws.
"""

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.considerations import considerations
from trnsim.decide.rules.evidence import WorkloadEvidence
from trnsim.decide.rules.ideal import ideal
from trnsim.decide.rules.inferentia import inferentia
from trnsim.decide.rules.not_recommended import FORBIDS, not_recommended

__all__ = ["FORBIDS", "WorkloadEvidence", "rules"]


def rules(facts: WorkloadEvidence) -> tuple[Ruling, ...]:
    """All rules, in the order of the document."""
    return (
        *ideal(facts),
        *considerations(facts),
        *not_recommended(facts),
        *inferentia(facts),
    )
