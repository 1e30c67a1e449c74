"""Ideal conditions for Trainium: five rules of the source document.

That is the public guide that `trnsim.decide.rules` describes.
"""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence

CHIPS: Final = 100
"""Chips of a training job above which the document sees Trainium's strength."""
SAVING: Final = 0.30
"""Fraction of the bill that is saved: the lower end of the document's 30 to 50 %."""
FRAMEWORKS: Final = ("pytorch", "jax")
_GROUP: Final = "ideal"


def ideal(evidence: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Rulings: transformer, over 100 chips, PyTorch or JAX, 30 to 50 % saved, AWS commitment."""
    return (
        _transformer(evidence),
        _chips(evidence),
        _framework(evidence),
        _saving(evidence),
        _commitment(evidence),
    )


def _transformer(evidence: WorkloadEvidence) -> Ruling:
    """The rule applies to training; every model of an inventory counts as a transformer."""
    model, kind = evidence.workload.model, evidence.workload.kind
    applies = kind == "train"
    text = f"{model.name}: {model.depth} layers; kind is {kind}"
    effect = "for a move" if applies else "none: rules of Inferentia count"
    return Ruling("training of a transformer", _GROUP, applies, effect, text)


def _chips(evidence: WorkloadEvidence) -> Ruling:
    if evidence.workload.kind != "train" or not evidence.chips:
        return Ruling("more than 100 chips", _GROUP, None, "none", "no training on AWS's chips")
    applies = evidence.chips > CHIPS
    effect = "for a move" if applies else "none: the source sees the strength above 100 chips"
    return Ruling("more than 100 chips", _GROUP, applies, effect, f"{evidence.chips:,} chips")


def _framework(evidence: WorkloadEvidence) -> Ruling:
    framework = evidence.workload.framework
    if framework is None:
        return Ruling("PyTorch or JAX", _GROUP, None, "to be answered", "framework is not given")
    applies = framework in FRAMEWORKS
    effect = "for a move" if applies else "against"
    return Ruling("PyTorch or JAX", _GROUP, applies, effect, framework)


def _saving(evidence: WorkloadEvidence) -> Ruling:
    name = "a saving of 30 to 50 %"
    if evidence.best is None or evidence.saving is None:
        return Ruling(name, _GROUP, None, "none", "no price of an equal kind")
    applies = evidence.saving >= SAVING
    text = f"{evidence.saving:.0%} on {evidence.best.instance} at P50"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _commitment(evidence: WorkloadEvidence) -> Ruling:
    name, is_committed = "committed to AWS", evidence.workload.is_committed_to_aws
    if is_committed is None:
        return Ruling(name, _GROUP, None, "to be answered", "committed_to_aws is not given")
    text = "committed_to_aws is " + ("yes" if is_committed else "no")
    return Ruling(name, _GROUP, is_committed, "for a move" if is_committed else "against", text)
