"""Ideal conditions for Trainium: the five of the source document."""

from __future__ import annotations

from typing import Final

from trnsim.decide.decision import Ruling
from trnsim.decide.rules.evidence import WorkloadEvidence

CHIPS: Final = 100
SAVING: Final = 0.30
"""Lower end of the document's 30 to 50 %."""
FRAMEWORKS: Final = ("pytorch", "jax")
_GROUP: Final = "ideal"


def ideal(facts: WorkloadEvidence) -> tuple[Ruling, ...]:
    """Transformers, more than 100 chips, PyTorch or JAX, 30 to 50 % saved, committed to AWS."""
    return (
        _transformer(facts),
        _chips(facts),
        _framework(facts),
        _saving(facts),
        _committed(facts),
    )


def _transformer(facts: WorkloadEvidence) -> Ruling:
    """The rule holds for training; every model of an inventory counts as a transformer."""
    model, kind = facts.workload.model, facts.workload.kind
    applies = kind == "train"
    text = f"{model.name}: {sum(tower.depth for tower in model.towers)} layers; kind is {kind}"
    effect = "for a move" if applies else "none: rules of Inferentia count"
    return Ruling("training of a transformer", _GROUP, applies, effect, text)


def _chips(facts: WorkloadEvidence) -> Ruling:
    if facts.workload.kind != "train" or not facts.chips:
        return Ruling("more than 100 chips", _GROUP, None, "none", "no training on AWS's chips")
    applies = facts.chips > CHIPS
    effect = "for a move" if applies else "none: the source sees the strength above 100 chips"
    return Ruling("more than 100 chips", _GROUP, applies, effect, f"{facts.chips:,} chips")


def _framework(facts: WorkloadEvidence) -> Ruling:
    framework = facts.workload.framework
    if framework is None:
        return Ruling("PyTorch or JAX", _GROUP, None, "to be answered", "framework is not given")
    applies = framework in FRAMEWORKS
    effect = "for a move" if applies else "against"
    return Ruling("PyTorch or JAX", _GROUP, applies, effect, framework)


def _saving(facts: WorkloadEvidence) -> Ruling:
    name = "a saving of 30 to 50 %"
    if facts.best is None or facts.saving is None:
        return Ruling(name, _GROUP, None, "none", "no price of an equal kind")
    applies = facts.saving >= SAVING
    text = f"{facts.saving:.0%} on {facts.best.instance} at P50"
    return Ruling(name, _GROUP, applies, "for a move" if applies else "against", text)


def _committed(facts: WorkloadEvidence) -> Ruling:
    name, is_committed = "committed to AWS", facts.workload.is_committed_to_aws
    if is_committed is None:
        return Ruling(name, _GROUP, None, "to be answered", "committed_to_aws is not given")
    text = "committed_to_aws is " + ("yes" if is_committed else "no")
    return Ruling(name, _GROUP, is_committed, "for a move" if is_committed else "against", text)
