"""The time of a layer's forward pass, of both its gradients, and of recomputation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.workload.architecture import Layer
from trnsim.workload.gradients import Recompute, has_dropout, is_fused, recomputation
from trnsim.workload.operators import Pass
from trnsim.workload.summary import PartSummary

AGAIN: Final = "computed again"
_FIXED_PART: Final = "fixed"


@dataclass(frozen=True)
class LayerPasses:
    """The times of a layer in training, without exchanges.

    Attributes:
        ahead: its forward pass.
        back: both gradients.
        again: the part that backward recomputes.
        again_s: seconds of that.
        causes_s: seconds of all three, by cause.
    """

    ahead: LayerTime
    back: LayerTime
    again: PartSummary
    again_s: float
    causes_s: dict[str, float]


def layer_passes(
    summary: PartSummary,
    layer: Layer | None,
    model_pass: Pass,
    recompute: Recompute,
    times: LayerTimes,
) -> LayerPasses:
    """The passes of one layer, or of a part before or behind all layers.

    Args:
        summary: its forward pass.
        layer: the layer; None outside the layers.
        model_pass: a micro batch.
        recompute: the extent of recomputation in backward.
        times: times of layers.
    """
    model_pass = replace(model_pass, is_one_kernel=is_one_kernel(layer, recompute))
    ahead, back = times.forward(summary, model_pass), times.backward(summary, model_pass)
    again = _recomputed_part(summary, layer, recompute)
    again_s = times.forward(again, model_pass).time_s if again.products else 0.0
    if recompute is not Recompute.FULL:
        again_s = max(again_s - ahead.parts_s.get(_FIXED_PART, 0.0), 0.0)  # no launch of its own
    causes_s = dict(ahead.parts_s)
    for name, time_s in back.parts_s.items():
        causes_s[name] = causes_s.get(name, 0.0) + time_s
    return LayerPasses(ahead, back, again, again_s, {**causes_s, AGAIN: again_s})


def is_one_kernel(layer: Layer | None, recompute: Recompute) -> bool:
    """True if AWS's scripts train a layer with one kernel of attention, which keeps no scores.

    NeuronX Distributed does so by default for decoders like Llama's, and recomputes its scores or
    nothing. neuronx-nemo-megatron, which recomputes whole layers, has no such kernel, nor is there
    one for GPTs.

    Source: aws-neuron-sdk, training_llama_tp_zero1.rst and training_llama_tp_pp.rst (flash
    attention, selective activation checkpointing); nxd-training/known_issues.rst.
    """
    if layer is None or recompute is Recompute.FULL:
        return False
    return is_fused(layer) and not has_dropout(layer)


def _recomputed_part(
    summary: PartSummary, layer: Layer | None, recompute: Recompute
) -> PartSummary:
    """The part that backward recomputes; one kernel of attention, which keeps no scores, these."""
    if layer is None:
        return PartSummary(summary.name, summary.times)
    again = recomputation(summary, recompute)
    if recompute is Recompute.NONE and is_fused(layer):
        scores = tuple(product for product in summary.products if product.name == "scores")
        return replace(again, products=scores)
    return again
