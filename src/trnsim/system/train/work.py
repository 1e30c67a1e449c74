"""Work of one micro batch on a rank of a stage: seconds of compute and of collectives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.estimate.training import layer_passes
from trnsim.system.train.exchanges import Exchanges
from trnsim.system.train.layout import Layout
from trnsim.system.train.memory import GRADIENT_BYTES, WEIGHT_BYTES
from trnsim.system.train.stages import StagePart, training_pass
from trnsim.workload.gradients import Recompute, gradient_exchanges
from trnsim.workload.operators import Axis, Exchange
from trnsim.workload.summary import PartSummary

_WEIGHTS_PART_OF_GRADIENTS: Final = 0.5
"""Fraction of the backward FLOPs of a product with weights that are its weight gradients."""


@dataclass(frozen=True)
class StageWork:
    """Seconds of a rank by compute and by axis of collectives.

    Attributes:
        compute_s: time of products and of all other computation.
        tensor_s: time of exchanges between tensor ranks.
        context_s: time of exchanges between context ranks.
        expert_s: time of exchanges between expert ranks.
        data_s: time of weights and gradients that ZeRO-2 and 3 move for each micro batch, beyond
            the compute that hides them.
    """

    compute_s: float = 0.0
    tensor_s: float = 0.0
    context_s: float = 0.0
    expert_s: float = 0.0
    data_s: float = 0.0

    @property
    def total_s(self) -> float:
        """Sum of all fields: none of these collectives overlaps compute."""
        return self.compute_s + self.tensor_s + self.context_s + self.expert_s + self.data_s

    def scaled(self, count: float) -> StageWork:
        """The work repeated `count` times."""
        return StageWork(
            count * self.compute_s,
            count * self.tensor_s,
            count * self.context_s,
            count * self.expert_s,
            count * self.data_s,
        )

    def __add__(self, other: StageWork) -> StageWork:
        return StageWork(
            self.compute_s + other.compute_s,
            self.tensor_s + other.tensor_s,
            self.context_s + other.context_s,
            self.expert_s + other.expert_s,
            self.data_s + other.data_s,
        )


@dataclass(frozen=True)
class Passes:
    """The work of a micro batch on one layer, or on `count` equal layers.

    Attributes:
        backward: the work of recomputation, and of the gradients of inputs and weights.
        weights_s: seconds of weight gradients, a part of `backward`.
        forward_layer: time of the forward pass of one layer, without collectives.
        backward_layer: time of the gradients of inputs and weights of one layer, without
            collectives.
        causes_s: seconds of compute of one layer, by cause.
        times: times of one layer, each with its seconds of compute and of collectives.
        count: number of equal layers whose work `forward`, `backward` and `weights_s` are.
    """

    forward: StageWork
    backward: StageWork
    weights_s: float
    forward_layer: LayerTime
    backward_layer: LayerTime
    causes_s: Mapping[str, float] = field(default_factory=dict)
    times: Sequence[tuple[LayerTime, float, float]] = ()
    count: float = 1.0


def passes_without_zero(
    part: StagePart, layout: Layout, times: LayerTimes, exchanges: Exchanges
) -> Passes:
    """The work of one layer of a part, without the collectives of ZeRO-2 and 3.

    It does not depend on the number of data ranks.
    """
    summary, recompute = part.summary, Recompute(layout.recompute)
    gradient_collectives = gradient_exchanges(summary.exchanges)
    layer = layer_passes(summary, part.layer, training_pass(layout), recompute, times)
    forward_time, backward_time = layer.forward, layer.backward
    forward = _with_exchanges(forward_time.time_s, summary.exchanges, layout, exchanges)
    gradients = _with_exchanges(backward_time.time_s, gradient_collectives, layout, exchanges)
    recomputed_collectives = layer.recomputed.exchanges
    recomputed_work = _with_exchanges(layer.recomputed_s, recomputed_collectives, layout, exchanges)
    times_s = [
        (time, work.compute_s, work.total_s - work.compute_s)
        for time, work in (
            (forward_time, forward),
            (backward_time, gradients),
            (forward_time, recomputed_work),
        )
    ]
    return Passes(
        forward,
        gradients + recomputed_work,
        _WEIGHTS_PART_OF_GRADIENTS * backward_time.time_s * _weighted_share(summary),
        forward_time,
        backward_time,
        layer.causes_s,
        times_s,
    )


def passes_with_zero(
    without_zero: Passes, part: StagePart, layout: Layout, exchanges: Exchanges
) -> Passes:
    """Passes with the time of ZeRO-2's and 3's collectives beyond compute."""
    if not layout.shards_gradients:
        return without_zero
    gathered_s, moved_s = _moved_s(part, layout, exchanges)
    forward, backward = without_zero.forward, without_zero.backward
    return replace(
        without_zero,
        forward=forward + StageWork(data_s=max(gathered_s - forward.compute_s, 0.0)),
        backward=backward + StageWork(data_s=max(moved_s - backward.compute_s, 0.0)),
    )


def _with_exchanges(
    compute_s: float, collectives: Iterable[Exchange], layout: Layout, exchanges: Exchanges
) -> StageWork:
    sums = dict.fromkeys(Axis, 0.0)
    spreads = layout.spreads
    for exchange in collectives:
        sums[exchange.axis] += exchange.times * exchanges.time_s(
            exchange.kind, exchange.nbytes, spreads[exchange.axis]
        )
    return StageWork(compute_s, sums[Axis.TENSOR], sums[Axis.CONTEXT], sums[Axis.EXPERT])


def _weighted_share(summary: PartSummary) -> float:
    """Fraction of a layer's FLOPs in products with weights, and so with weight gradients."""
    flop = summary.flop
    weighted_flop = sum(product.flop for product in summary.products if product.weight_bits)
    return weighted_flop / flop if flop else 0.0


def _moved_s(part: StagePart, layout: Layout, exchanges: Exchanges) -> tuple[float, float]:
    """Seconds of the collectives of ZeRO-2 and 3 in a forward pass and in a backward pass."""
    gathered_s = 0.0
    if layout.shards_weights:
        gathered_s = parameter_exchange_s(
            "all_gather", part, WEIGHT_BYTES[layout.dtype], layout, exchanges
        )
    scattered_s = parameter_exchange_s("reduce_scatter", part, GRADIENT_BYTES, layout, exchanges)
    return gathered_s, gathered_s + scattered_s


def parameter_exchange_s(
    kind: str, part: StagePart, element_bytes: float, layout: Layout, exchanges: Exchanges
) -> float:
    """Seconds of a collective of a part's parameters or gradients, among ranks with equal ones.

    Args:
        kind: "all_reduce", "all_gather" or "reduce_scatter".
        part: the part, of one layer or of a whole stage.
        element_bytes: bytes of a parameter or gradient.
        layout: the layout.
        exchanges: times of collectives.
    """
    spreads = layout.spreads
    dense_s = exchanges.time_s(kind, element_bytes * part.dense, spreads["data"])
    return dense_s + exchanges.time_s(kind, element_bytes * part.experts, spreads["expert data"])
