"""The time of a layer's forward pass, of both its gradients, and of what is computed again."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from trnsim.workload.gradients import Recompute, has_dropout, is_fused, recomputed
from trnsim.workload.summary import Summary

if TYPE_CHECKING:
    from trnsim.estimate.times import LayerTime, LayerTimes
    from trnsim.workload.architecture import Layer
    from trnsim.workload.operators import Pass

AGAIN: Final = "computed again"
_FIXED: Final = "fixed"


@dataclass(frozen=True)
class LayerPasses:
    """What a layer takes in training, without exchanges.

    Attributes:
        ahead: its forward pass.
        back: both gradients.
        again: what backward computes again.
        again_s: seconds of that.
        causes_s: seconds of all of it, by cause.
    """

    ahead: LayerTime
    back: LayerTime
    again: Summary
    again_s: float
    causes_s: dict[str, float]


def layer_passes(
    summary: Summary, layer: Layer | None, model_pass: Pass, recompute: Recompute, times: LayerTimes
) -> LayerPasses:
    """The passes of one layer, or of what lies before or behind all layers.

    Args:
        summary: its forward pass.
        layer: what it is; None outside the layers.
        model_pass: a micro batch.
        recompute: what backward computes again.
        times: of layers.
    """
    model_pass = replace(model_pass, is_one_kernel=is_one_kernel(layer, recompute))
    ahead, back = times.of(summary, model_pass), times.backward(summary, model_pass)
    again = _again(summary, layer, recompute)
    again_s = times.of(again, model_pass).time_s if again.products else 0.0
    if recompute is not Recompute.FULL:
        again_s = max(again_s - ahead.parts_s.get(_FIXED, 0.0), 0.0)  # no launch of its own
    causes_s = dict(ahead.parts_s)
    for name, time_s in back.parts_s.items():
        causes_s[name] = causes_s.get(name, 0.0) + time_s
    return LayerPasses(ahead, back, again, again_s, {**causes_s, AGAIN: again_s})


def is_one_kernel(layer: Layer | None, recompute: Recompute) -> bool:
    """Whether AWS's scripts train a layer with a kernel of attention, which keeps no scores.

    NeuronX Distributed does so by default for decoders of Llama's kind, and computes its scores
    again or nothing. neuronx-nemo-megatron, which computes all of a layer again, has no such
    kernel, nor is there one for GPTs.

    Source: aws-neuron-sdk, training_llama_tp_zero1.rst and training_llama_tp_pp.rst (flash
    attention, selective activation checkpointing); nxd-training/known_issues.rst.
    """
    if layer is None or recompute is Recompute.FULL:
        return False
    return is_fused(layer) and not has_dropout(layer)


def _again(summary: Summary, layer: Layer | None, recompute: Recompute) -> Summary:
    """What backward computes again; one kernel of attention its scores, which it has not kept."""
    if layer is None:
        return Summary(summary.name, summary.times)
    again = recomputed(summary, recompute)
    if recompute is Recompute.NONE and is_fused(layer):
        scores = tuple(product for product in summary.products if product.name == "scores")
        return replace(again, products=scores)
    return again
