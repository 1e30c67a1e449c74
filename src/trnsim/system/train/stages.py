"""Stages of a pipeline: their layers, embeddings and heads, and the parameters of one rank.

Each chunk of each stage has the same number of consecutive layers; the embedding is on the first
chunk, the head (the product with the vocabulary) on the last one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from trnsim.system.expert_load import busiest_summary, imbalance
from trnsim.system.train.layout import Layout
from trnsim.workload.architecture import Architecture, Experts, Layer, Tower
from trnsim.workload.matrix_bits import without_own_bits
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.summary import PartSummary

PARAMETER_BITS: Final = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 16}
"""Bits of a stored weight by dtype of products; FP8 products keep weights in bfloat16.

Source: Transformer Engine's documentation, "Using FP8": weights are cast before each product.
"""
PRODUCT_BITS: Final = {"fp32": 32, "fp16": 16, "bf16": 16, "fp8": 8}
"""Bits of an input of a matrix product."""


@dataclass(frozen=True)
class StagePart:
    """A group of equal layers of a stage, or the embedding, or the head.

    Attributes:
        summary: work of the forward pass of one layer on one rank.
        times: number of layers; a fraction for an average stage.
        tower: the tower of the model that the layers belong to.
        layer: sizes of one layer; None for an embedding or head.
        dense: number of parameters of one layer on one rank, without experts.
        experts: number of parameters of one layer's experts on one rank.
    """

    summary: PartSummary
    times: float
    tower: Tower
    layer: Layer | None
    dense: float
    experts: float = 0.0

    @property
    def is_layer(self) -> bool:
        """True for layers, False for an embedding or head."""
        return self.layer is not None


Chunk = tuple[StagePart, ...]
"""A model chunk: consecutive parts of the model that lie on one stage."""


def trained_model(model: Architecture, dtype: str) -> Architecture:
    """The model with the dtypes of training in place of the checkpoint's."""
    bits = PARAMETER_BITS[dtype]
    product_bits = PRODUCT_BITS[dtype]
    return replace(
        without_own_bits(model),
        weight_bits=bits,
        other_bits=bits,
        product_bits=product_bits,
        mlp_bits=bits,
    )


def training_pass(layout: Layout) -> Pass:
    """The forward and backward pass of a micro batch of one data rank."""
    return Pass(Phase.TRAIN, layout.micro_batch, layout.sequence)


def all_parts(model: Architecture, layout: Layout) -> tuple[StagePart, ...]:
    """All parts of the model in order, on one rank."""
    return _parts(model, _key(layout), layout.pipeline == 1)


def chunks(model: Architecture, layout: Layout) -> list[Chunk]:
    """The model chunks of all stages, in model order.

    Chunk k lies on stage ``k % pipeline``.
    """
    parts = all_parts(model, layout)
    count = layout.pipeline * layout.virtual
    per_chunk = model.depth // count
    chunk_parts: list[list[StagePart]] = [[] for _ in range(count)]
    chunk, free_layers = 0, per_chunk
    for part in parts:
        remaining_layers = int(part.times)
        if not part.is_layer:
            next_chunk = chunk if free_layers or chunk == count - 1 else chunk + 1
            chunk_parts[chunk if part.summary.name == "head" else next_chunk].append(part)
            continue
        while remaining_layers:
            if not free_layers:
                chunk, free_layers = chunk + 1, per_chunk
            share = min(remaining_layers, free_layers)
            chunk_parts[chunk].append(replace(part, times=share))
            remaining_layers, free_layers = remaining_layers - share, free_layers - share
    return [tuple(parts) for parts in chunk_parts]


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
    """The parts of a tower; a tied embedding is stored twice if the head is on another stage."""
    table = next(stream)
    yield StagePart(table, 1, tower, None, table.parameters)
    for layer in tower.layers:
        yield _layer(layer, next(stream), tower, layout)
    head = next(stream)
    copied_rows = 0 if is_alone or not tower.is_tied else math.ceil(tower.outputs / layout.tensor)
    yield StagePart(head, 1, tower, None, head.parameters + copied_rows * tower.width)


def _layer(layer: Layer, summary: PartSummary, tower: Tower, layout: Layout) -> StagePart:
    experts = summary.expert_parameters
    dense = summary.parameters - experts
    if isinstance(layer.mlp, Experts):
        rows = layout.micro_batch * layout.sequence / layout.context
        summary = busiest_summary(summary, imbalance(rows * layer.mlp.per_token, layout.expert))
    return StagePart(summary, layer.times, tower, layer, dense, experts)
