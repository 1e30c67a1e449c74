"""Published advice on when to use Trainium and Inferentia, as rules, each with its evidence.

The source document is a public guide to the two chips: ideal conditions, considerations before a
migration, and uses for which the chips are not recommended. A rule applies, does not apply, or
cannot be judged from the inventory. A rule whose effect is `FORBIDS` decides alone; the other rules
are reported beside the decision and do not change it.
"""

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.considerations import considerations
from trnsim.decide.rules.evidence import WorkloadEvidence
from trnsim.decide.rules.ideal import ideal
from trnsim.decide.rules.inferentia import inferentia
from trnsim.decide.rules.not_recommended import FORBIDS, not_recommended

__all__ = ["FORBIDS", "WorkloadEvidence", "rules"]


def rules(evidence: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Rulings of all rules, in the order of the source document."""
    return (
        *ideal(evidence),
        *considerations(evidence),
        *not_recommended(evidence),
        *inferentia(evidence),
    )
