"""When Trainium is the right choice: the five ideal conditions of the source document."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from trnsim.decide.decision import RuleOutcome

if TYPE_CHECKING:
    from trnsim.decide.rules.evidence import Evidence

CHIPS: Final = 100
SAVING: Final = 0.30
"""Of 30 to 50 %."""
FRAMEWORKS: Final = ("pytorch", "jax")
_GROUP: Final = "ideal"


def ideal(given: Evidence) -> tuple[RuleOutcome, ...]:
    """Transformers, more than 100 chips, PyTorch or JAX, 30 to 50 % saved, committed to AWS."""
    return (
        _transformer(given),
        _chips(given),
        _framework(given),
        _saving(given),
        _committed(given),
    )


def _transformer(given: Evidence) -> RuleOutcome:
    """Every model of an inventory is read as a transformer; what is no training is said."""
    model, kind = given.workload.model, given.workload.kind
    applies = kind == "train"
    said = f"{model.name}: {sum(tower.depth for tower in model.towers)} layers; kind is {kind}"
    effect = "for a move" if applies else "none: rules of Inferentia count"
    return RuleOutcome("training of a transformer", _GROUP, applies, effect, said)


def _chips(given: Evidence) -> RuleOutcome:
    if given.workload.kind != "train" or not given.chips:
        return RuleOutcome(
            "more than 100 chips", _GROUP, None, "none", "no training on AWS's chips"
        )
    applies = given.chips > CHIPS
    effect = "for a move" if applies else "none: the source sees the strength above 100 chips"
    return RuleOutcome("more than 100 chips", _GROUP, applies, effect, f"{given.chips:,} chips")


def _framework(given: Evidence) -> RuleOutcome:
    named = given.workload.framework
    if named is None:
        return RuleOutcome(
            "PyTorch or JAX", _GROUP, None, "to be answered", "framework is not given"
        )
    applies = named in FRAMEWORKS
    return RuleOutcome(
        "PyTorch or JAX", _GROUP, applies, "for a move" if applies else "against", named
    )


def _saving(given: Evidence) -> RuleOutcome:
    name = "a saving of 30 to 50 %"
    if given.best is None or given.saving is None:
        return RuleOutcome(name, _GROUP, None, "none", "no price of an equal kind")
    applies = given.saving >= SAVING
    said = f"{given.saving:.0%} on {given.best.instance} at P50"
    return RuleOutcome(name, _GROUP, applies, "for a move" if applies else "against", said)


def _committed(given: Evidence) -> RuleOutcome:
    name, is_committed = "committed to AWS", given.workload.is_committed_to_aws
    if is_committed is None:
        return RuleOutcome(name, _GROUP, None, "to be answered", "committed_to_aws is not given")
    said = "committed_to_aws is " + ("yes" if is_committed else "no")
    return RuleOutcome(
        name, _GROUP, is_committed, "for a move" if is_committed else "against", said
    )
