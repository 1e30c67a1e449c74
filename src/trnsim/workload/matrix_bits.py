"""Bits of a layer's matrices, for checkpoints that have matrices of different types."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from trnsim.workload.architecture import Architecture, Layer, Tower


@dataclass(frozen=True)
class MatrixBits:
    """The bits of a matrix.

    Attributes:
        name: the half of the layer and the matrix, as in `RankGraph.names`: "attention.query".
        weight_bits: bits of a weight as a rank holds it, its share of scales included.
        product_bits: bits of the operands of its product.
    """

    name: str
    weight_bits: float
    product_bits: float


def with_own_bits(tower: Tower, own_bits: Callable[[Layer, int], tuple[MatrixBits, ...]]) -> Tower:
    """The tower with `own_bits` set in its layers: the bits that differ from the model's.

    The function `own_bits` is given a layer and its index in the model. Groups of equal layers are
    divided where their bits differ; layers that share their weights have the first one's.
    """
    groups_in_turn = (index for index, layer in enumerate(tower.layers) for _ in range(layer.times))
    order = tower.order or tuple(groups_in_turn)
    by_layer = [own_bits(tower.layers[group], index) for index, group in enumerate(order)]
    if not any(by_layer):
        return tower
    if any(layer.is_shared for layer in tower.layers):
        by_layer = by_layer[:1] * len(order)
    kinds = list(zip(order, by_layer, strict=True))
    groups = Counter(kinds)
    layers = tuple(
        replace(tower.layers[group], times=times, own_bits=bits)
        for (group, bits), times in groups.items()
    )
    indices = {kind: index for index, kind in enumerate(groups)}
    return replace(tower, layers=layers, order=tuple(indices[kind] for kind in kinds))


def without_own_bits(model: Architecture) -> Architecture:
    """The model with the same bits in all layers."""
    towers = (
        replace(tower, layers=tuple(replace(layer, own_bits=()) for layer in tower.layers))
        for tower in model.towers
    )
    return replace(model, towers=tuple(towers))
