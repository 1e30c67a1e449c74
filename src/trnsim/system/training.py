"""Time and cost of a training run, in closed form.

    step  = max(compute, HBM) + communication     (max of all three where the efficiency, a GPU's
                                                   MFU, was measured with communication in it)
    run   = step * tokens / batch

Weights and gradients of a replica are spread over `chips_per_replica` chips, the optimizer state
over all chips (ZeRO-1); activations are recomputed. Pipeline bubbles, failures, checkpoints and
input stalls are not modelled. The formulas: docs/design/0005-closed-forms-above-one-node.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from trnsim.errors import BadInput, OutOfMemory
from trnsim.facts import Interval
from trnsim.price import Quote, quote
from trnsim.system.model import BF16_BYTES, ModelShape
from trnsim.system.platform import Platform, platform
from trnsim.system.uncertainty import SEED, Basis, Inputs, Samples, interval

if TYPE_CHECKING:
    from datetime import date

    from trnsim.arch.catalogue import Catalogue

BATCH_TOKENS: Final = 4 * 2**20
"""Default tokens per optimizer step: Llama 3's first batch size (its paper, 3.4.1)."""

WEIGHT_AND_GRADIENT_BYTES: Final = 2 * BF16_BYTES
OPTIMIZER_BYTES: Final = 12  # FP32 master weight and two Adam moments (ZeRO paper, section 3.1).
_LAYER_ACTIVATION_BYTES: Final = 34  # per token and hidden element; Korthikanti et al. 2022, eq. 1.
_LOGIT_BYTES: Final = 4
_PASSES: Final = 3  # forward, recomputed forward, backward
_REDUCES_PER_PASS: Final = 2  # tensor parallelism: one after attention, one after the MLP
_MOST_INSTANCES: Final = 1_000_000  # far beyond any fleet; divisors are found one by one


@dataclass(frozen=True)
class TrainingLayout:
    """The instances of a training run, and the model's distribution over them.

    Attributes:
        chips_per_replica: chips that hold one copy of weights and gradients.
        bytes_per_chip: memory that a chip needs.
        memory_bytes_per_chip: memory that a chip has.
        batch_tokens: tokens per optimizer step.
        microbatches: sequences that each replica processes per step, one at a time.
    """

    instances: int
    chips: int
    chips_per_replica: int
    bytes_per_chip: float
    memory_bytes_per_chip: float
    batch_tokens: float
    microbatches: int

    @property
    def replicas(self) -> int:
        """Copies of the model that work on different sequences."""
        return self.chips // self.chips_per_replica


@dataclass(frozen=True)
class TrainingEstimate:
    """Time and USD of a run on one platform.

    Attributes:
        time_s: wall-clock seconds.
        usd: USD, or None where the quote has no price.
        step_terms_s: median seconds per step of compute, HBM and communication.
        basis: provenance of the inputs.
        note: a caveat that readers must know.
    """

    model: ModelShape
    platform: str
    instance: str
    tokens: float
    sequence: int
    layout: TrainingLayout
    time_s: Interval
    usd: Interval | None
    quote: Quote
    step_terms_s: dict[str, float]
    basis: Basis
    note: str

    @property
    def validated(self) -> bool:
        """Whether the efficiencies were observed on this chip."""
        return self.basis.validated

    @property
    def chip_hours(self) -> float:
        """Median ``time * chips / 3600``, which compares an UltraServer with an instance."""
        return self.time_s.p50 * self.layout.chips / 3600

    @property
    def tokens_per_s(self) -> float:
        """Median tokens per second of all instances together."""
        return self.tokens / self.time_s.p50


def estimate(
    model: ModelShape,
    on: str,
    tokens: float,
    *,
    sequence: int = 8192,
    instances: int | None = None,
    chips_per_replica: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
    kind: str = "capacity_block",
    as_of: date | None = None,
    rows: Catalogue | None = None,
    seed: int = SEED,
) -> TrainingEstimate:
    """Time and USD to train `model` on `tokens` tokens.

    Args:
        model: the model.
        on: platform: a short name of `system.platform.platforms`, or an instance name.
        tokens: tokens of the whole run.
        sequence: tokens per sequence.
        instances: number of instances; by default the smallest with enough memory.
        chips_per_replica: chips per replica; by default the smallest number with enough memory.
        batch_tokens: tokens per optimizer step.
        kind: purchase kind of the price.
        as_of: day of the price; today by default.
        rows: the catalogue; the built-in one by default.
        seed: seed of the draws.

    Raises:
        BadInput: a number that is not positive, an unknown platform or purchase kind.
        OutOfMemory: `instances` was given and is too small.
    """
    _check_positive(tokens=tokens, sequence=sequence, batch_tokens=batch_tokens)
    target = platform(on, rows)
    inputs = Inputs(target.facts, seed=seed)
    layout = _lay_out(
        model, target, inputs, sequence, instances, chips_per_replica, min(batch_tokens, tokens)
    )
    terms_s = {
        "compute": _compute_s(model, target, inputs, layout, sequence),
        "HBM": _hbm_s(model, inputs, layout, sequence),
        "communication": _communication_s(model, target, inputs, layout, sequence),
    }
    time_s = interval(_step_s(target, *terms_s.values()) * (tokens / layout.batch_tokens))
    price = quote(target.instance.name, kind, as_of=as_of, rows=rows)
    return TrainingEstimate(
        model=model,
        platform=on,
        instance=target.instance.name,
        tokens=tokens,
        sequence=sequence,
        layout=layout,
        time_s=time_s,
        usd=run_usd(time_s, layout.instances, price),
        quote=price,
        step_terms_s={name: float(np.median(term_s)) for name, term_s in terms_s.items()},
        basis=inputs.basis("training efficiency"),
        note=target.note,
    )


def _check_positive(**numbers: float) -> None:
    """Refuse a number that is not positive and finite.

    Raises:
        BadInput: naming it.
    """
    for name, value in numbers.items():
        if not (value > 0 and math.isfinite(value)):
            raise BadInput(
                f"{name} must be positive and finite, not {value}", fix=f"give a positive {name}"
            )


def _step_s(
    target: Platform, compute_s: Samples, hbm_s: Samples, communication_s: Samples
) -> Samples:
    """``max(compute, HBM) + communication``, or the maximum of all three."""
    chip_s = np.maximum(compute_s, hbm_s)
    if target.is_communication_included:
        return np.maximum(chip_s, communication_s)
    return chip_s + communication_s


def run_usd(time_s: Interval, instances: int, price: Quote) -> Interval | None:
    """``time / 3600 * instances * USD per hour``, or None without a public price."""
    if price.usd_per_hour is None:
        return None
    return time_s.scaled(instances * price.usd_per_hour / 3600)


def activation_bytes(model: ModelShape, sequence: int) -> float:
    """``2 S H L + 34 S H + 4 S V`` for one sequence: layer inputs, one layer's inside, logits."""
    per_token = (
        BF16_BYTES * model.hidden * model.layers
        + _LAYER_ACTIVATION_BYTES * model.hidden
        + _LOGIT_BYTES * model.vocabulary
    )
    return float(sequence) * per_token


def bytes_per_chip(model: ModelShape, sequence: int, chips_per_replica: int, chips: int) -> float:
    """``4 P / chips_per_replica + 12 P / chips + activations / chips_per_replica``."""
    replica = WEIGHT_AND_GRADIENT_BYTES * model.parameters + activation_bytes(model, sequence)
    return replica / chips_per_replica + OPTIMIZER_BYTES * model.parameters / chips


def all_reduce_s(
    message_bytes: float, ranks: float, bytes_per_s: Samples, hop_s: Samples
) -> Samples:
    """``2 (n-1)/n bytes / bandwidth + 2 (n-1) hop``: a ring; zero for one rank."""
    if ranks <= 1:
        return np.zeros_like(bytes_per_s)
    return 2 * (ranks - 1) * (message_bytes / ranks / bytes_per_s + hop_s)


def _lay_out(
    model: ModelShape,
    target: Platform,
    inputs: Inputs,
    sequence: int,
    instances: int | None,
    chips_per_replica: int | None,
    batch_tokens: float,
) -> TrainingLayout:
    """The smallest number of instances, and of chips per replica, whose memory is enough."""
    per_instance = target.instance.count
    usable = inputs.use("usable memory fraction")
    room = target.instance.memory_bytes / per_instance * usable
    least = math.ceil(bytes_per_chip(model, sequence, 1, 1) / (per_instance * room))
    if instances is not None and instances > _MOST_INSTANCES:
        raise BadInput(
            f"{instances} instances; legal: at most {_MOST_INSTANCES:,}",
            fix="leave the number out for the smallest that fits",
        )
    if instances is not None and instances < least:
        raise OutOfMemory(
            f"{model.name}: training needs "
            f"{bytes_per_chip(model, sequence, 1, 1) / 2**30:.0f} GiB of weights, gradients, "
            f"optimizer state and activations; {instances} x {target.instance.name} has "
            f"{instances * per_instance * room / 2**30:.0f} GiB usable",
            fix=f"use at least {least} instances",
        )
    instances = instances or least
    chips = instances * per_instance
    fitting = [
        size
        for size in _replica_sizes(per_instance, instances)
        if bytes_per_chip(model, sequence, size, chips) <= room
    ]
    size = chips_per_replica or fitting[0]
    if size not in _replica_sizes(per_instance, instances):
        legal = ", ".join(map(str, _replica_sizes(per_instance, instances)))
        raise BadInput(f"chips_per_replica must be one of {legal}, not {size}")
    replicas = chips // size
    return TrainingLayout(
        instances=instances,
        chips=chips,
        chips_per_replica=size,
        bytes_per_chip=bytes_per_chip(model, sequence, size, chips),
        memory_bytes_per_chip=room,
        batch_tokens=batch_tokens,
        microbatches=math.ceil(batch_tokens / (replicas * sequence)),
    )


def _replica_sizes(per_instance: int, instances: int) -> list[int]:
    """Powers of two that divide an instance, the instance, and whole groups of instances."""
    inside = [2**power for power in range(8) if per_instance % 2**power == 0]
    groups = [size * per_instance for size in range(1, instances + 1) if instances % size == 0]
    return sorted({*inside, *groups})


def _compute_s(
    model: ModelShape, target: Platform, inputs: Inputs, layout: TrainingLayout, sequence: int
) -> Samples:
    """``microbatches S (6 N + 6 L D S) recompute / (chips_per_replica peak efficiency)``."""
    flop = layout.microbatches * sequence * model.training_flop_per_token(sequence)
    used = inputs.draw("peak FLOP/s (bf16)") * inputs.draw("training efficiency")
    return flop * target.recompute / (layout.chips_per_replica * used)


def _hbm_s(model: ModelShape, inputs: Inputs, layout: TrainingLayout, sequence: int) -> Samples:
    """Weights and activations once per pass, optimizer state read and written once per step."""
    weights = model.weight_bytes
    activations = _LAYER_ACTIVATION_BYTES * sequence * model.hidden * model.layers
    moved = (
        layout.microbatches * _PASSES * (weights + activations) / layout.chips_per_replica
        + 2 * OPTIMIZER_BYTES * model.parameters / layout.chips
    )
    return moved / (inputs.draw("HBM bytes/s") * inputs.draw("HBM efficiency"))


def _communication_s(
    model: ModelShape, target: Platform, inputs: Inputs, layout: TrainingLayout, sequence: int
) -> Samples:
    """Tensor-parallel all-reduces of each layer, then one all-reduce of the gradients.

    The gradients are reduced inside each instance first, then over EFA among instances.
    """
    per_instance = target.instance.count
    tensor_ranks = min(layout.chips_per_replica, per_instance)
    stages = layout.chips_per_replica // tensor_ranks
    link, hop = inputs.draw("chip-to-chip bytes/s"), inputs.draw("chip-to-chip hop s")
    reduces = layout.microbatches * _PASSES * _REDUCES_PER_PASS * model.layers / stages
    tensor_s = reduces * all_reduce_s(BF16_BYTES * sequence * model.hidden, tensor_ranks, link, hop)
    inside_s = all_reduce_s(
        model.weight_bytes / layout.chips_per_replica, per_instance / tensor_ranks, link, hop
    )
    groups = layout.instances // stages
    if groups <= 1:
        return tensor_s + inside_s
    if "EFA bytes/s" not in target.facts:
        raise BadInput(f"{target.instance.name} has no EFA: it cannot train over several instances")
    efa, efa_hop = inputs.draw("EFA bytes/s"), inputs.draw("EFA hop s")
    return tensor_s + inside_s + all_reduce_s(model.weight_bytes / stages, groups, efa, efa_hop)
