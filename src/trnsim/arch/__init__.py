"""What each generation is: NeuronCores, chips, instances and prices as frozen data."""

from trnsim.arch.neuroncore import NEURONCORE_V2, NEURONCORE_V3, NEURONCORE_V4, NeuronCore
from trnsim.arch.targets import TARGETS, Target, target

__all__ = [
    "NEURONCORE_V2",
    "NEURONCORE_V3",
    "NEURONCORE_V4",
    "TARGETS",
    "NeuronCore",
    "Target",
    "target",
]
