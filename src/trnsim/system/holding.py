"""The number of instances whose memory holds a model's weights and KV cache.

    needed by a rank = weights(tensor) / pipeline + sequences x cache(tensor) / pipeline
    instances        = ceil(tensor x pipeline / ranks of an instance)

A layer's weights are spread over the tensor ranks of one instance, layers over the pipeline. Of all
tensor degrees that divide an instance's ranks, the one with the fewest instances is taken. Other
memory of a step is part of the reserve. Speed is not considered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from trnsim.errors import BadInput
from trnsim.place.machine import Machine
from trnsim.system.infer.estimate import RESERVE
from trnsim.workload.architecture import Architecture
from trnsim.workload.operators import Split
from trnsim.workload.resident import cache_bytes, weights_bytes


@dataclass(frozen=True)
class Holding:
    """The smallest number of equal instances that hold a model.

    Attributes:
        instances: number of instances.
        tensor: ranks that divide a layer among them.
        pipeline: parts into which the layers are cut.
        needed_bytes: bytes that the fullest rank needs.
        usable_bytes: memory of a rank, less the reserve.
    """

    instances: int
    tensor: int
    pipeline: int
    needed_bytes: float
    usable_bytes: float


def holding(
    model: Architecture, where: Machine, *, tokens: int, sequences: int = 1
) -> Holding | None:
    """The fewest instances of `where` that hold `model` with its sequences, or None: none do.

    Args:
        model: an architecture.
        where: an instance type; its count is ignored.
        tokens: tokens of each sequence, whose keys and values are kept; a model that makes no
            tokens keeps none.
        sequences: sequences in memory at the same time.

    Raises:
        BadInput: tokens or sequences are not positive, or more tokens than the model knows.
    """
    _check(model, tokens, sequences)
    usable = (1 - RESERVE) * where.memory_bytes
    ranks = where.ranks_per_instance
    holdings = [
        option
        for tensor in range(1, ranks + 1)
        if ranks % tensor == 0
        and (option := _spread(model, tensor, ranks, usable, tokens, sequences)) is not None
    ]
    return min(holdings, key=lambda option: (option.instances, option.pipeline), default=None)


def _spread(
    model: Architecture, tensor: int, ranks: int, usable: float, tokens: int, sequences: int
) -> Holding | None:
    """The fewest parts of the layers that fit, each on `tensor` ranks; None where none do."""
    split = Split(tensor=tensor)
    cache = cache_bytes(model, tokens, split, tokens) if model.is_generating else 0.0
    total_bytes = weights_bytes(model, split) + sequences * cache
    layers = sum(tower.depth for tower in model.towers)
    for per_part in range(layers, 0, -1):
        needed = total_bytes * per_part / layers
        if needed <= usable:
            parts = math.ceil(layers / per_part)
            return Holding(math.ceil(tensor * parts / ranks), tensor, parts, needed, usable)
    return None


def _check(model: Architecture, tokens: int, sequences: int) -> None:
    for name, value in (("tokens", tokens), ("sequences", sequences)):
        if value < 1:
            raise BadInput(
                f"{name} is {value}; legal: a positive whole number",
                fix=f"give a larger one, for example {name} 1",
            )
    if model.max_positions and tokens > model.max_positions:
        raise BadInput(
            f"{model.name} knows {model.max_positions} tokens ({model.positions_key}), not {tokens}"
        )
