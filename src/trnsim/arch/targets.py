"""Targets: the names under which users ask for a chip, and the core that answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.arch.neuroncore import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4, NeuronCore
from trnsim.errors import BadInput


@dataclass(frozen=True)
class Target:
    """A chip that a kernel can be run for.

    Attributes:
        name: the platform name that Neuron uses ("trn2").
        chip: the chip's catalogue key ("trainium2").
        core: the NeuronCore that it is made of.
        validated: whether published measurements of the chip exist to compare with.
    """

    name: str
    chip: str
    core: NeuronCore
    validated: bool


TARGETS: Final = {
    target.name: target
    for target in (
        Target("trn1", "trainium1", NEURONCORE_V2, validated=True),
        Target("inf2", "inferentia2", NEURONCORE_V2, validated=True),
        Target("trn2", "trainium2", NEURONCORE_V3, validated=True),
        Target("trn3", "trainium3", NEURONCORE_V4, validated=False),
    )
}

_GENERATION_NAMES: Final = {"gen2": "trn1", "gen3": "trn2", "gen4": "trn3"}


def target(name: str) -> Target:
    """The target called `name` ("trn1", "inf2", "trn2", "trn3", or "gen2" to "gen4").

    Raises:
        BadInput: for any other name.

    Source: nki.jit, NEURON_PLATFORM_TARGET_OVERRIDE.
    """
    found = TARGETS.get(_GENERATION_NAMES.get(name, name))
    if found is None:
        legal = ", ".join([*TARGETS, *_GENERATION_NAMES])
        raise BadInput(
            f"target {name!r} is not known; legal: {legal}",
            fix="name one of them, for example target='trn2'",
            source="nki.jit, NEURON_PLATFORM_TARGET_OVERRIDE",
        )
    return found
