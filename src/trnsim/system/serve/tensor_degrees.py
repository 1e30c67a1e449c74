"""Tensor parallel degrees that Neuron's runtime supports, by chip.

Source: aws-neuron-sdk@81ce03ae, libraries/nxd-inference/developer_guides/feature-guide.rst,
"Tensor-parallelism support"; 12 on Inferentia2: about-neuron/calculator/neuron-calculator.rst.
"""

from __future__ import annotations

from typing import Final

from trnsim.place.machine import Machine
from trnsim.workload.architecture import Architecture
from trnsim.workload.tensor_ranks import divides_heads

_DEGREES: Final = {
    ("trainium1", 1): (1, 2, 8, 16, 32),
    ("trainium2", 2): (1, 2, 4, 8, 16, 32, 64),
    ("inferentia2", 1): (1, 2, 4, 8, 12, 24),
}
"""By chip and NeuronCores of a rank."""


def tensor_degrees(machine: Machine) -> list[int]:
    """The tensor parallel degrees that ranks of an instance of AWS's may have, ascending.

    Where AWS states none for a chip and a size of a rank, powers of two are assumed.
    """
    powers = tuple(1 << power for power in range(machine.ranks.bit_length()))
    degrees = _DEGREES.get((machine.chip.name, machine.lnc), powers)
    return [degree for degree in degrees if degree <= machine.ranks]


def heads_of(model: Architecture) -> int:
    """The fewest attention heads of any decoder layer."""
    attentions = (attention for layer in model.decoder.layers for attention in layer.attentions)
    return min((attention.heads for attention in attentions), default=1)


def legal_tensor_sizes(model: Architecture, machine: Machine) -> list[int]:
    """Tensor parallel sizes that a search tries, ascending; none exceeds the heads.

    On AWS's chips they are the degrees of Neuron's runtime; NxD Inference pads heads to a multiple
    of the size. On GPUs they are the powers of two, all ranks of an instance and half of them, as
    far as they divide an instance, and the heads, as vLLM requires.
    """
    heads, ranks = heads_of(model), machine.ranks
    if machine.is_neuron:
        return [size for size in tensor_degrees(machine) if size <= heads]
    powers = {1 << power for power in range(ranks.bit_length())}
    sizes = sorted(powers | {ranks} | ({ranks // 2} if ranks % 2 == 0 else set()))
    legal = [size for size in sizes if ranks % size == 0 and size <= heads]
    return [size for size in legal if divides_heads([model.decoder], size)]
