"""Holding: the fewest instances whose memory holds a model's weights and KV cache.

    bytes of a rank = (weights(tensor) + sequences x cache(tensor)) / pipeline
    instances       = ceil(tensor x pipeline / ranks of an instance)

weights and cache are the bytes of all layers on one of `tensor` ranks. Tensor ranks are in one
instance, stages may be in several. All tensor parallel sizes that divide an instance's ranks are
tried; the fewest instances win. Activations of a step are part of the reserve. Speed is not
considered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trnsim.errors import BadInput
from trnsim.place.machine import Machine
from trnsim.system.infer.estimate import RESERVE
from trnsim.workload.architecture import Architecture, check_length
from trnsim.workload.operators import Split
from trnsim.workload.resident import cache_bytes, weights_bytes


@dataclass(frozen=True)
class Holding:
    """The smallest number of equal instances that hold a model.

    Attributes:
        tensor: ranks that divide a layer among them.
        pipeline: pipeline stages.
        needed_bytes: bytes that the fullest rank needs.
        usable_bytes: memory of a rank, less the reserve.
    """

    instances: int
    tensor: int
    pipeline: int
    needed_bytes: float
    usable_bytes: float


def smallest_holding(
    model: Architecture, machine: Machine, *, tokens: int, sequences: int = 1
) -> Holding | None:
    """The fewest instances of a type that hold a model and its sequences; None if no number does.

    Args:
        model: an architecture.
        machine: an instance type; its count is ignored.
        tokens: tokens of each sequence, whose keys and values are kept; a model that makes no
            tokens keeps none.
        sequences: sequences in memory at the same time.

    Raises:
        BadInput: tokens or sequences are not positive, or a token has no learned position.
    """
    _check(model, tokens, sequences)
    usable_bytes = (1 - RESERVE) * machine.memory_bytes
    ranks = machine.ranks_per_instance
    holdings = [
        option
        for tensor in range(1, ranks + 1)
        if ranks % tensor == 0
        and (option := _holding_of(model, tensor, ranks, usable_bytes, tokens, sequences))
        is not None
    ]
    return min(holdings, key=lambda option: (option.instances, option.pipeline), default=None)


def _holding_of(
    model: Architecture, tensor: int, ranks: int, usable_bytes: float, tokens: int, sequences: int
) -> Holding | None:
    """The holding with the fewest pipeline stages for a tensor parallel size; None if none fits.

    `ranks` is the number of ranks of an instance.
    """
    split = Split(tensor=tensor)
    cache = cache_bytes(model, tokens, split, tokens) if model.is_generating else 0.0
    total_bytes = weights_bytes(model, split) + sequences * cache
    layers = model.depth
    for stage_layers in range(layers, 0, -1):
        stage_bytes = total_bytes * stage_layers / layers
        if stage_bytes <= usable_bytes:
            stages = math.ceil(layers / stage_layers)
            return Holding(
                math.ceil(tensor * stages / ranks), tensor, stages, stage_bytes, usable_bytes
            )
    return None


def _check(model: Architecture, tokens: int, sequences: int) -> None:
    for name, value in (("tokens", tokens), ("sequences", sequences)):
        if value < 1:
            raise BadInput(
                f"{name} is {value}; legal: a positive whole number",
                fix=f"give a larger one, for example {name} 1",
            )
    check_length(model.name, tokens, model.length_limit, model.positions_key)
