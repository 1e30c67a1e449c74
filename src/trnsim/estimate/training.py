"""The time of a layer's forward pass, of both its gradients, of recomputation, and of a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from trnsim.estimate.certainty import FEW
from trnsim.estimate.estimate import EXCHANGES, HOST, Estimate
from trnsim.estimate.times import LayerTime, LayerTimes
from trnsim.fabric.constants import BANDWIDTHS
from trnsim.workload.architecture import Layer
from trnsim.workload.gradients import Recompute, has_dropout, is_fused, recomputation
from trnsim.workload.operators import Pass
from trnsim.workload.summary import PartSummary

RECOMPUTED: Final = "computed again"
_FIXED_PART: Final = "fixed"


@dataclass(frozen=True)
class LayerPasses:
    """The times of a layer in training, without exchanges.

    Attributes:
        backward: both gradients.
        recomputed: the part of the layer that backward recomputes.
        recomputed_s: seconds of the recomputation.
        causes_s: seconds of all three, by cause.
    """

    forward: LayerTime
    backward: LayerTime
    recomputed: PartSummary
    recomputed_s: float
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
    forward, backward = times.forward(summary, model_pass), times.backward(summary, model_pass)
    recomputed = _recomputed_part(summary, layer, recompute)
    recomputed_s = times.forward(recomputed, model_pass).time_s if recomputed.products else 0.0
    if recompute is not Recompute.FULL:  # no launch of its own
        recomputed_s = max(recomputed_s - forward.parts_s.get(_FIXED_PART, 0.0), 0.0)
    causes_s = dict(forward.parts_s)
    for name, time_s in backward.parts_s.items():
        causes_s[name] = causes_s.get(name, 0.0) + time_s
    causes_s[RECOMPUTED] = recomputed_s
    return LayerPasses(forward, backward, recomputed, recomputed_s, causes_s)


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
    """The part that backward recomputes.

    Without any recomputation it is the scores, if attention is one kernel, which keeps no scores.
    """
    if layer is None:
        return PartSummary(summary.name, summary.times)
    part = recomputation(summary, recompute)
    if recompute is Recompute.NONE and is_fused(layer):
        scores = tuple(product for product in summary.products if product.name == "scores")
        return replace(part, products=scores)
    return part


def step_estimate(passes: Estimate, other_parts_s: Mapping[str, float], host_s: float) -> Estimate:
    """The estimate of a step, from that of its passes and the seconds of other parts.

    The other parts have the relative error of the passes. With a user's measured times of layers
    the collectives of data ranks have the error of bandwidths: such a table does not measure them.

    Args:
        passes: the estimate of all forward and backward passes.
        other_parts_s: seconds of the parts "data" (collectives of data ranks), "bubble" and so on.
        host_s: seconds of the host.
    """
    estimate, proportional_s = passes, dict(other_parts_s)
    # The error of an estimate by few constants covers collectives; that of a measured table not.
    if not any(source.startswith(FEW) for source in estimate.errors_s):
        data_s, spread = proportional_s.pop("data"), BANDWIDTHS.provenance.spread
        estimate = estimate.plus("data", data_s, source=EXCHANGES, spread=spread)
    return estimate.with_parts_in_proportion(proportional_s).plus(HOST, float(host_s))
