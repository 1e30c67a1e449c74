"""Device memory of each stage of a layout: weights, gradients, optimizer, activations, buffers.

A layer keeps for backward the input of each matrix product and each function (`activation_bytes`).
With full recomputation it keeps only its own input, and one layer at a time has all of these.
Causal attention is assumed to be one fused kernel, so only encoders keep scores. Each stage has as
many micro batches in flight as its schedule starts before the first backward pass.

Source: Korthikanti et al. 2022 (arXiv:2205.05198), sections 4 and 5; Rajbhandari et al. 2020
(ZeRO, arXiv:1910.02054), section 3; Qi et al. 2023 (arXiv:2401.10241), table 1.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from trnsim.errors import OutOfMemory
from trnsim.facts import assumed, documented
from trnsim.place.machine import Machine
from trnsim.system.train.layout import Layout
from trnsim.system.train.optimizers import optimizer_for
from trnsim.system.train.stages import PARAMETER_BITS, Chunk, StagePart, chunks
from trnsim.workload.architecture import Architecture
from trnsim.workload.gradients import KeepPolicy, Recompute, activation_bytes, has_dropout, is_fused

RESERVE: Final = assumed(
    0.08, "part of HBM for the runtime, programs, their rings and fragmentation; none is published"
)
WEIGHT_BYTES: Final = {dtype: bits // 8 for dtype, bits in PARAMETER_BITS.items()}
"""Bytes of a stored weight, by dtype of products."""
GRADIENT_BYTES: Final = documented(4, "gradients are summed in FP32 (Megatron-LM, NxD Training)")
_ROW_BYTES: Final = documented(4, "a sum of exponentials for each row of scores (FlashAttention)")
_LOGIT_BYTES: Final = documented(6, "logits, and in FP32 for the loss (Korthikanti, 4.3)")
GATHERED_LAYERS: Final = assumed(2, "ZeRO-3 gathers the weights of a layer and of the next")
_NAMED_BYTES: Final = 1 << 27
"""Minimum bytes of a part that an error lists."""


@dataclass(frozen=True)
class StageMemory:
    """Use of the device memory of one rank of a stage, in bytes.

    Attributes:
        weights: weights of products, tables and norms.
        gradients: gradients of these weights.
        optimizer: moments, and an FP32 master copy of weights with fewer bits.
        activations: activations kept for backward, of all micro batches in flight.
        logits: logits and their FP32 copy for the loss; 0 before the last stage.
        buffers: results of the largest collective, and with ZeRO-3 gathered weights.
    """

    weights: float
    gradients: float
    optimizer: float
    activations: float
    logits: float
    buffers: float

    @property
    def total(self) -> float:
        """Sum of all parts."""
        return float(sum(getattr(self, field.name) for field in fields(self)))


def stages(model: Architecture, layout: Layout) -> list[StageMemory]:
    """The memory of a rank of each stage, in the order of the stages."""
    pipe = chunks(model, layout)
    count = layout.pipeline
    return [stage(pipe[number::count], layout, number) for number in range(count)]


def stage(chunks: list[Chunk], layout: Layout, stage_number: int) -> StageMemory:
    """The memory of a rank of stage `stage_number`, which holds `chunks`."""
    parts = [part for chunk in chunks for part in chunk]
    dense = sum(part.times * part.dense for part in parts)
    experts = sum(part.times * part.experts for part in parts)
    all_parts = dense + experts
    sharded_parameters = dense / layout.shard_ranks + experts * layout.expert / layout.shard_ranks
    weight, gradient, state = bytes_of_parameter(layout)
    flights = in_flight(layout, stage_number) / layout.virtual
    layer_bytes = sum(part.times * kept_bytes(part, layout) for part in parts if part.is_layer)
    return StageMemory(
        weights=weight * (sharded_parameters if layout.shards_weights else all_parts),
        gradients=gradient * (sharded_parameters if layout.shards_gradients else all_parts),
        optimizer=state * (sharded_parameters if layout.shards_optimizer else all_parts),
        activations=flights * layer_bytes
        + max((working_bytes(part, layout) for part in parts), default=0.0),
        logits=sum(logit_bytes(part) for part in parts),
        buffers=max((_buffer(part, layout) for part in parts), default=0.0),
    )


def bytes_of_parameter(layout: Layout) -> tuple[float, float, float]:
    """Bytes of a weight, of its gradient, and of its optimizer state."""
    optimizer = optimizer_for(layout.optimizer, layout.dtype)
    return WEIGHT_BYTES[layout.dtype], GRADIENT_BYTES, optimizer.state_bytes


def in_flight(layout: Layout, stage_number: int) -> float:
    """Maximum pairs (chunk, micro batch) whose activations stage `stage_number` keeps at once."""
    stages, parts = layout.pipeline, layout.virtual
    later_stages = stages - stage_number - 1
    if parts > 1:
        started_count = 2 * later_stages + (parts - 1) * stages + 1
    elif layout.schedule == "zb-h1":
        started_count = stages
    elif layout.schedule == "zb-h2":
        started_count = 2 * stages - 1
    else:
        started_count = later_stages + 1
    return float(min(started_count, layout.micro_batches * parts))


def kept_bytes(part: StagePart, layout: Layout) -> float:
    """Bytes of activations that one layer keeps for one micro batch."""
    return _activations(part, layout, Recompute(layout.recompute))


def _activations(part: StagePart, layout: Layout, recompute: Recompute) -> float:
    """Bytes that one layer keeps for one micro batch under a recomputation policy.

    A fused attention also keeps a number for each row of scores.
    """
    if part.layer is None:
        return 0.0
    own_tokens = max(1, part.tower.tiles) * part.tower.tokens
    tokens = layout.micro_batch * (own_tokens or layout.sequence) / layout.context
    row_bytes = 0.0
    if recompute is Recompute.NONE and is_fused(part.layer):
        recompute = Recompute.SELECTIVE
        heads = sum(attention.heads for attention in part.layer.attentions)
        row_bytes = _ROW_BYTES * heads / layout.tensor
    policy = KeepPolicy(recompute, 8 * WEIGHT_BYTES[layout.dtype], has_dropout(part.layer))
    token_bytes = activation_bytes(part.tower, part.layer, layout.sequence, layout.split, policy)
    return tokens * (token_bytes + row_bytes)


def working_bytes(part: StagePart, layout: Layout) -> float:
    """Bytes of the activations that full recomputation restores, one layer at a time."""
    if layout.recompute != Recompute.FULL:
        return 0.0
    return _activations(part, layout, Recompute.SELECTIVE)


def logit_bytes(part: StagePart) -> float:
    """Bytes of the logits, and of their FP32 copy for the loss."""
    return _LOGIT_BYTES * sum(
        product.m * product.n * product.times
        for product in part.summary.products
        if part.summary.name == "head"
    )


def _buffer(part: StagePart, layout: Layout) -> float:
    """Bytes of the largest collective of a layer, and with ZeRO-3 of the weights of two layers."""
    message = max((exchange.nbytes for exchange in part.summary.exchanges), default=0.0)
    weights = WEIGHT_BYTES[layout.dtype] * (part.dense + part.experts)
    return message + (GATHERED_LAYERS * weights if layout.shards_weights and part.is_layer else 0.0)


def usable_bytes(machine: Machine) -> float:
    """Bytes of a rank's HBM that a layout may use: all but the reserve."""
    return (1 - RESERVE) * machine.memory_bytes


def check(stages: list[StageMemory], layout: Layout, machine: Machine) -> None:
    """Refuse a layout that does not fit in HBM; `stages` is the memory of each stage.

    Raises:
        OutOfMemory: names the stage that needs the most, and its largest parts.
    """
    fullest = max(range(len(stages)), key=lambda stage: stages[stage].total)
    needed_bytes, usable = stages[fullest].total, usable_bytes(machine)
    if needed_bytes <= usable:
        return
    sizes = {field.name: getattr(stages[fullest], field.name) for field in fields(StageMemory)}
    parts = sorted(sizes, key=lambda part: -sizes[part])
    listing = ", ".join(
        f"{part} {sizes[part] / 2**30:.1f}" for part in parts if sizes[part] >= _NAMED_BYTES
    )
    raise OutOfMemory(
        f"stage {fullest} of {layout.pipeline} needs {needed_bytes / 2**30:.1f} GiB a rank "
        f"({listing}); a {machine.rank_name} of {machine.instance.name} has "
        f"{machine.memory_bytes / 2**30:.1f} GiB, {usable / 2**30:.1f} less {RESERVE:.0%} for the "
        "runtime",
        fix=_advice(parts[0], layout),
    )


def _advice(largest_part: str, layout: Layout) -> str:
    if largest_part == "activations" and layout.recompute != "full":
        return "use --recompute full, a smaller --micro-batch, or more --tp, --cp or --pp"
    if largest_part == "logits":
        return "use a smaller --micro-batch, or more --tp or --cp"
    if largest_part == "optimizer" and not layout.shards_optimizer:
        return "use --zero 1, or more --tp or --pp"
    if largest_part in ("weights", "gradients") and not layout.shards_weights:
        return "use more --tp or --pp, or --zero 3"
    return "use more --tp, --cp or --pp, or more instances"
