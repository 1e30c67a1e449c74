"""The time of a layer by few constants.

forward  = max(products at a part of the peak, weights at HBM's rate) + keys and values at HBM's
           rate, once for each query head + elements at the Vector Engine's rate, those of a
           softmax at another + scores x a time each + halves x (a fixed time + sequences x a time)
backward = two such products, weights read once and their gradients written, all else twice

Where attention of a prompt is one kernel, and in denoisers, each unmasked score takes a time, which
includes the products and the softmax.

In a graph that is read operator by operator, weights and elements pass beside the products, and the
longest of the three counts.

A half is an attention or an MLP with the operators around it; parts before and behind the layers
have none. A denoiser's graph names no halves; each attention counts as `attention_halves`. Results
of an encoder go to the host. Exchanges are not included.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from trnsim.estimate.times import LayerTime
from trnsim.workload.operators import Pass, Phase, Product
from trnsim.workload.summary import PartSummary

_HALVES_OF_LAYER: Final = 2
_SCORES_NAME: Final = "scores"
_ATTENTION_PRODUCTS: Final = (_SCORES_NAME, "values")
"""Names of attention's two products."""
_ABSORBED_PRODUCT: Final = "keys absorbed"
"""Name of the product that latent attention has where all heads read one latent vector."""
_HEAD_PART: Final = "head"
"""Name of the part behind the layers."""
_POOLER_PRODUCT: Final = "dense"
"""Name of an encoder's product on the first token, whose few results are not counted."""
_RESULT_BYTES: Final = 4
"""Bytes of an element of a result, which is float32."""
_WEIGHT_PASSES: Final = 2
"""Passes of weights over HBM in a backward pass: they are read, their gradients written."""
_GRADIENT_PRODUCTS: Final = 2
"""Products of a backward pass for each of the forward pass."""
_SOFTMAX_NAME: Final = "softmax"
_HALF_NAMES: Final = (_SOFTMAX_NAME, "recurrence")
"""Operators of which an attention, or a mixer, has one."""


@dataclass(frozen=True)
class FewConstants:
    """Constants of one family of workloads on one machine.

    Attributes:
        flop_per_s: FLOP per second that a rank's products reach.
        bytes_per_s: bytes per second that are reached with a rank's HBM.
        cache_passes: how often keys and values of each query head cross HBM in a step.
        fixed_s: fixed seconds of a layer of two halves.
        spread: one sigma of the logarithm of (true / estimate), exchanges included.
        sequence_s: seconds of half a layer for each sequence.
        score_s: seconds of a score of a query and a key.
        element_s: seconds of an element that passes the Vector Engine.
        softmax_weight: time of an element of a softmax over that of any other, where scores are
            written to memory.
        kernel_softmax_s: seconds of an element of a softmax in one kernel of attention.
        host_bytes_per_s: bytes per second of results to the host; 0 where they stay.
        repeats_keys: whether keys and values are read once for each query head, not once for the
            heads that share them.
        overlaps_elements: whether elements pass at the same time as products.
        kernel_score_s: seconds of an unmasked score, its products included; 0 where products of
            attention take what others do.
        attention_halves: halves that each attention of a captured graph counts as.
    """

    flop_per_s: float
    bytes_per_s: float
    cache_passes: float
    fixed_s: float
    spread: float
    source: str
    sequence_s: float = 0.0
    score_s: float = 0.0
    element_s: float = 0.0
    softmax_weight: float = 1.0
    kernel_softmax_s: float = 0.0
    host_bytes_per_s: float = 0.0
    repeats_keys: bool = False
    overlaps_elements: bool = False
    kernel_score_s: float = 0.0
    attention_halves: float = 0.0

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        cache = summary.cache.read_bytes * self.cache_passes
        if self.repeats_keys:
            cache *= repeats(summary, model_pass)
        cache += summary.cache.written_bytes
        layer_time = self._time(summary, model_pass, summary.flop, summary.weight_bytes, cache)
        if not self.host_bytes_per_s or not returned_elements(summary):
            return layer_time
        host_s = _RESULT_BYTES * returned_elements(summary) / self.host_bytes_per_s
        parts = {**layer_time.parts_s, "host": host_s}
        return LayerTime(sum(parts.values()), parts, self.spread, self.source, has_exchanges=True)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        weights = _WEIGHT_PASSES * summary.weight_bytes
        return self._time(
            summary, model_pass, _GRADIENT_PRODUCTS * summary.flop, weights, 0.0, _GRADIENT_PRODUCTS
        )

    def _elements_s(self, summary: PartSummary, model_pass: Pass) -> float:
        """Seconds of norms, residuals, softmax and activations."""
        softmax_elements = sum(
            op.elements for op in summary.elementwise if op.name == _SOFTMAX_NAME
        )
        if self.kernel_score_s:
            return (elements(summary) - softmax_elements) * self.element_s
        unfused_s = self.softmax_weight * self.element_s
        softmax_s = softmax_elements * (
            self.kernel_softmax_s if model_pass.is_one_kernel else unfused_s
        )
        return softmax_s + (elements(summary) - softmax_elements) * self.element_s

    def _halves(self, summary: PartSummary) -> float:
        return halves(summary) + self.attention_halves * attentions(summary)

    def _scores_s(self, summary: PartSummary) -> float:
        return scores(summary) * self.score_s + unmasked_scores(summary) * self.kernel_score_s

    def _time(
        self,
        summary: PartSummary,
        model_pass: Pass,
        flop: float,
        weights: float,
        cache: float,
        passes: int = 1,
    ) -> LayerTime:
        half_s = self.fixed_s / _HALVES_OF_LAYER + model_pass.batch * self.sequence_s
        if self.kernel_score_s:
            flop -= passes * attention_flop(summary)
        products_s, weights_s = flop / self.flop_per_s, weights / self.bytes_per_s
        elements_s = passes * self._elements_s(summary, model_pass)
        if self.overlaps_elements:
            elements_s = max(elements_s - max(products_s, weights_s), 0.0)
        parts = {
            "products": products_s,
            "weights": max(weights_s - products_s, 0.0),
            "KV": cache / self.bytes_per_s,
            "elements": elements_s,
            "scores": passes * self._scores_s(summary),
            "fixed": passes * self._halves(summary) * half_s,
        }
        return LayerTime(sum(parts.values()), parts, self.spread, self.source, has_exchanges=True)


@dataclass(frozen=True)
class PhaseConstants:
    """Few constants of each phase.

    Attributes:
        forms: constants by phase.
    """

    forms: Mapping[Phase, FewConstants]

    def forward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The forward time of one layer of a summary."""
        return self.forms[model_pass.phase].forward(summary, model_pass)

    def backward(self, summary: PartSummary, model_pass: Pass) -> LayerTime:
        """The time of both gradients of one layer of a summary."""
        return self.forms[model_pass.phase].backward(summary, model_pass)


def halves(summary: PartSummary) -> int:
    """Attentions, mixers and MLPs of a part."""
    names = [op.name for op in summary.elementwise]
    return sum(name in _HALF_NAMES or name.endswith("activation") for name in names)


def elements(summary: PartSummary) -> float:
    """Elements of norms, residuals, softmax and activations."""
    return sum(op.elements for op in summary.elementwise)


def returned_elements(summary: PartSummary) -> float:
    """Elements that a pass returns: the last product's results, or each token's hidden state.

    A dense product on the first token adds its results, which are few.
    """
    if summary.name != _HEAD_PART:
        return 0.0
    if summary.products and summary.products[-1].name != _POOLER_PRODUCT:
        return summary.products[-1].m * summary.products[-1].n
    return elements(summary) / 2  # a norm reads and writes


def scores(summary: PartSummary) -> float:
    """Scores of queries and keys, masked ones too."""
    return sum(
        product.m * product.n * product.times
        for product in summary.products
        if product.name == _SCORES_NAME
    )


def attention_flop(summary: PartSummary) -> float:
    """FLOPs of attention's two products."""
    return sum(p.flop for p in summary.products if p.name in _ATTENTION_PRODUCTS)


def attentions(summary: PartSummary) -> int:
    """Number of products of queries and keys."""
    return sum(product.name == _SCORES_NAME for product in summary.products)


def unmasked_scores(summary: PartSummary) -> float:
    """Unmasked scores of queries and keys."""
    products = (product for product in summary.products if product.name == _SCORES_NAME)
    return sum(product.m * product.n * product.times * product.causal for product in products)


def repeats(summary: PartSummary, model_pass: Pass) -> float:
    """Query heads of a KV head on the rank, each of which reads keys and values again.

    Latents are kept once for all heads, and count once.
    """
    if any(product.name == _ABSORBED_PRODUCT for product in summary.products):
        return 1.0
    products = [product for product in summary.products if product.name in _ATTENTION_PRODUCTS]
    read_once = sum(_kv_elements(product) for product in products)
    per_head = sum(_kv_elements(product) * product.m / model_pass.tokens for product in products)
    return per_head / read_once if read_once else 1.0


def _kv_elements(product: Product) -> float:
    return product.k * product.n * product.times
