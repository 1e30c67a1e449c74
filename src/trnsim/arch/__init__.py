"""Hardware as frozen data: NeuronCores, chips, instances and prices, every number sourced."""

from trnsim.arch.availability import (
    CORES_VARIABLE,
    INSTANCE_VARIABLE,
    Has,
    advised,
    configured_cores,
    has_dtype,
    having,
    makes_pairs,
    paired,
    where,
)
from trnsim.arch.features import Features
from trnsim.arch.neuroncore import NeuronCore
from trnsim.arch.targets import (
    NEURONCORE_V2,
    NEURONCORE_V3,
    NEURONCORE_V4,
    TARGETS,
    Target,
    cores,
    target,
    target_of_chip,
)

__all__ = [
    "CORES_VARIABLE",
    "INSTANCE_VARIABLE",
    "NEURONCORE_V2",
    "NEURONCORE_V3",
    "NEURONCORE_V4",
    "TARGETS",
    "Features",
    "Has",
    "NeuronCore",
    "Target",
    "advised",
    "configured_cores",
    "cores",
    "has_dtype",
    "having",
    "makes_pairs",
    "paired",
    "target",
    "target_of_chip",
    "where",
]
