"""The stages of a pipeline: their layers, tables and heads, and the parameters of one rank.

Layers are dealt out in their order, equally many to each part of each stage; tables lie with the
first layers, the product of the vocabulary with the last ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from trnsim.system.train.layout import Layout
from trnsim.workload.architecture import Architecture, Experts, Layer, Tower
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

PARAMETER_BITS: Final = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 16}
"""Bits of a weight that is trained; products in FP8 keep weights in bfloat16.

Source: Transformer Engine's documentation, "Using FP8": weights are cast before each product.
"""
PRODUCT_BITS: Final = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8}


@dataclass(frozen=True)
class StagePart:
    """Equal layers of a stage, or the table before or the head behind all layers.

    Attributes:
        summary: forward pass of one of the layers.
        times: number of the layers; a fraction for an average stage.
        tower: the tower that they belong to.
        layer: sizes of the layer; None for a table or head.
        dense: parameters of one layer on one rank, outside experts.
        experts: parameters of one layer's experts on one rank.
    """

    summary: PartSummary
    times: float
    tower: Tower
    layer: Layer | None
    dense: float
    experts: float = 0.0

    @property
    def is_layer(self) -> bool:
        """True for layers, False for a table or the product of the vocabulary."""
        return self.layer is not None


Chunk = tuple[StagePart, ...]


def trained_model(model: Architecture, dtype: str) -> Architecture:
    """The model with the weights that training holds, whatever the checkpoint's are."""
    bits = PARAMETER_BITS[dtype]
    multiplied = PRODUCT_BITS[dtype]
    return replace(model, weight_bits=bits, other_bits=bits, product_bits=multiplied, mlp_bits=bits)


def training_pass(layout: Layout) -> Pass:
    """The pass of a micro batch."""
    return Pass(Phase.TRAIN, layout.micro_batch, layout.sequence)


def all_parts(model: Architecture, layout: Layout) -> tuple[StagePart, ...]:
    """All parts of the model."""
    return _parts(model, _key(layout), layout.pipeline == 1)


def chunks(model: Architecture, layout: Layout) -> list[Chunk]:
    """The parts of all stages in the order in which a micro batch meets them.

    Part k lies on stage ``k % pipeline``.
    """
    parts = all_parts(model, layout)
    count = layout.pipeline * layout.virtual
    per_chunk = sum(tower.depth for tower in model.towers) // count
    chunk_parts: list[list[StagePart]] = [[] for _ in range(count)]
    at, room = 0, per_chunk
    for part in parts:
        left = int(part.times)
        if not part.is_layer:
            at_end = at if room or at == count - 1 else at + 1
            chunk_parts[at if part.summary.name == "head" else at_end].append(part)
            continue
        while left:
            if not room:
                at, room = at + 1, per_chunk
            share = min(left, room)
            chunk_parts[at].append(replace(part, times=share))
            left, room = left - share, room - share
    return [tuple(chunk) for chunk in chunk_parts]


def _key(layout: Layout) -> Layout:
    """The layout reduced to the fields that a layer's parts depend on."""
    return type(layout)(
        tensor=layout.tensor,
        data=layout.expert,
        context=layout.context,
        expert=layout.expert,
        is_sequence=layout.is_sequence,
        micro_batch=layout.micro_batch,
        sequence=layout.sequence,
        dtype=layout.dtype,
    )


@lru_cache(maxsize=4096)
def _parts(model: Architecture, layout: Layout, is_alone: bool) -> tuple[StagePart, ...]:
    model = trained_model(model, layout.dtype)
    stream = iter(summaries(model, training_pass(layout), layout.split))
    return tuple(part for tower in model.towers for part in _tower(tower, stream, layout, is_alone))


def _tower(
    tower: Tower, stream: Iterator[PartSummary], layout: Layout, is_alone: bool
) -> Iterator[StagePart]:
    """The tower's parts; a tied table is held twice if the head is on another stage."""
    table = next(stream)
    yield StagePart(table, 1, tower, None, table.parameters)
    for layer in tower.layers:
        yield _layer(layer, next(stream), tower, layout)
    head = next(stream)
    copied = 0 if is_alone or not tower.is_tied else math.ceil(tower.outputs / layout.tensor)
    yield StagePart(head, 1, tower, None, head.parameters + copied * tower.width)


def _layer(layer: Layer, summary: PartSummary, tower: Tower, layout: Layout) -> StagePart:
    experts = summary.expert_parameters
    dense = summary.parameters - experts
    if isinstance(layer.mlp, Experts):
        summary = _busiest_summary(summary, layout, layer.mlp)
    return StagePart(summary, layer.times, tower, layer, dense, experts)


def imbalance(tokens: float, ranks: int) -> float:
    """``1 + sqrt(2 ln ranks / tokens)``: the busiest of ranks among which a router spreads tokens.

    The expected largest of Poisson counts of mean `tokens`, for large means. A trained router that
    prefers some experts is worse; its auxiliary loss works towards this.
    """
    return 1.0 if ranks == 1 else 1.0 + math.sqrt(2 * math.log(ranks) / max(tokens, 1.0))


def _busiest_summary(summary: PartSummary, layout: Layout, mlp: Experts) -> PartSummary:
    """The summary of the expert rank with the most tokens, for which all others wait."""
    rows = layout.micro_batch * layout.sequence / layout.context
    factor = imbalance(rows * mlp.per_token, layout.expert)
    products = tuple(
        replace(product, m=product.m * factor) if product.name.startswith("expert ") else product
        for product in summary.products
    )
    exchanges = tuple(
        replace(sent, nbytes=sent.nbytes * factor) if sent.kind == "all_to_all" else sent
        for sent in summary.exchanges
    )
    return replace(summary, products=products, exchanges=exchanges)
