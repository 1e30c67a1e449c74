"""Training beside the forward pass: gradients, recomputation, stored activations.

A layer's forward pass is a `PartSummary`; `backward` and `recomputation` derive summaries from it,
so that the same models give their times.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from trnsim.workload.architecture import (
    GATED_MATRICES,
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Tower,
)
from trnsim.workload.mixer import Mixer
from trnsim.workload.operators import Axis, Cache, Elementwise, Exchange, Product, Split, bytes_of
from trnsim.workload.summary import PartSummary

_ATTENTION_PRODUCTS: Final = ("scores", "values")
"""Names of attention's two products."""
_BACKWARD_KINDS: Final = {
    "all_gather": "reduce_scatter",
    "reduce_scatter": "all_gather",
}
"""The exchange of a gradient, by the exchange of the forward pass."""


class Recompute(StrEnum):
    """The activations that a backward pass recomputes instead of reading stored ones."""

    NONE = "none"
    """Nothing."""
    SELECTIVE = "selective"
    """Scores, their softmax and its product with the values, as fused attention does."""
    FULL = "full"
    """All of a layer but its input."""


def backward(summary: PartSummary) -> PartSummary:
    """The backward pass: gradients by inputs and by weights.

    A product of weights (m, k) (k, n) has two: (m, n) (n, k) by its input, which reads the weights,
    and (k, m) (m, n) by the weights, which writes as many; one of computed matrices has two whose
    sizes are the same. So FLOPs are twice those of forward. Elementwise operators read their
    results and the gradient: twice their elements. Exchanges are those of forward, reversed:
    gathers become reduce-scatters.

    Source: exchanges, Megatron-LM (arXiv:1909.08053), section 3, and Korthikanti et al.
    (arXiv:2205.05198), section 4.2.
    """
    products = tuple(part for product in summary.products for part in _gradients(product))
    elementwise = tuple(
        replace(operator, name=f"{operator.name} gradient", elements=2 * operator.elements)
        for operator in summary.elementwise
    )
    return replace(
        summary,
        products=products,
        elementwise=elementwise,
        exchanges=gradient_exchanges(summary.exchanges),
        cache=Cache(0, 0),
    )


def gradient_exchanges(exchanges: tuple[Exchange, ...]) -> tuple[Exchange, ...]:
    """The exchanges of gradients for those of a forward pass.

    Context ranks gather keys again, and scatter their gradients.
    """
    return tuple(
        replace(exchange, times=2 * exchange.times)
        if exchange.axis is Axis.CONTEXT and exchange.kind == "all_gather"
        else replace(exchange, kind=_BACKWARD_KINDS.get(exchange.kind, exchange.kind))
        for exchange in exchanges
    )


def _gradients(product: Product) -> tuple[Product, Product]:
    input_gradient = replace(
        product, name=f"{product.name} gradient by input", k=product.n, n=product.k
    )
    if not product.weight_bits:
        operand_gradient = replace(
            product, name=f"{product.name} gradient by other", m=product.k, k=product.m
        )
        return input_gradient, operand_gradient
    weight_gradient = replace(
        product, name=f"{product.name} gradient by weights", m=product.k, k=product.m, weight_bits=0
    )
    return input_gradient, weight_gradient


def recomputation(summary: PartSummary, recompute: Recompute) -> PartSummary:
    """The part of a forward pass that is recomputed before its gradients.

    Full recomputation repeats exchanges too, such as a layer's sums over tensor ranks.
    """
    if recompute is Recompute.FULL:
        return replace(summary, cache=Cache(0, 0))
    products: tuple[Product, ...] = ()
    elementwise: tuple[Elementwise, ...] = ()
    if recompute is Recompute.SELECTIVE:
        products = tuple(
            product for product in summary.products if product.name in _ATTENTION_PRODUCTS
        )
        elementwise = tuple(part for part in summary.elementwise if part.name == "softmax")
    return PartSummary(summary.name, summary.times, products, elementwise)


@dataclass(frozen=True)
class KeepPolicy:
    """The policy by which activations are stored between forward and backward.

    Attributes:
        recompute: the activations that are not stored.
        bits: bits of an activation.
        has_dropout: whether masks of dropout are stored too, a byte an element, and scores after
            dropout.
    """

    recompute: Recompute = Recompute.NONE
    bits: float = 16
    has_dropout: bool = False


def is_fused(layer: Layer) -> bool:
    """True if its attention is one kernel, which stores no scores: causal attention is."""
    return all(attention.is_causal for attention in layer.attentions)


def has_dropout(layer: Layer) -> bool:
    """True if the layer has dropout: assumed of MLPs without a gate, as in GPT and BERT."""
    return isinstance(layer.mlp, Mlp) and layer.mlp.matrices != GATED_MATRICES


def activation_bytes(
    tower: Tower, layer: Layer, sequence: int, split: Split, policy: KeepPolicy
) -> float:
    """Bytes of activations that a rank stores of one layer, for each token of a micro-batch.

    Of GPT with dropout, for h = hidden, a = heads, s = sequence, t = tensor ranks in bf16:
    ``h (10 + 24/t + 5 a s / (h t))``; ``h/t (34 + 5 a s / h)`` where norms are spread too;
    without the last term where recomputation is selective; ``2 h`` where it is full. Other layers
    have the terms of their own sizes. `sequence` is the whole length: context ranks share its
    tokens, not the keys that each attends to.

    Source: Korthikanti et al. (arXiv:2205.05198), equations 1 to 4 and table 2.
    """
    hidden = bytes_of(tower.hidden, policy.bits)
    norm_ranks = split.tensor if split.is_sequence else 1
    if policy.recompute is Recompute.FULL:
        return hidden / norm_ranks
    masks = tower.hidden if policy.has_dropout else 0
    halves = 1 if layer.is_beside else len(layer.attentions)
    halves += layer.mlp is not None
    parts = 1 if layer.is_parallel else halves
    # Of each half: the inputs of its norm and of itself, and the dropout mask of its output.
    half_bytes = parts * (2 * hidden) + halves * masks
    product_bytes = sum(
        _mixer_bytes(form, policy, split.tensor)
        if isinstance(form, Mixer)
        else _attention_bytes(form, sequence, policy)
        for form in layer.attentions
    )
    if layer.mlp is not None:
        product_bytes += _mlp_bytes(layer.mlp, tower.hidden, policy, split.tensor)
    return half_bytes / norm_ranks + product_bytes / split.tensor


def _mixer_bytes(mixer: Mixer, policy: KeepPolicy, tensor: int) -> float:
    """Bytes per token of what a mixer's products read, its part of a state, and chunks' scores.

    Of all tensor ranks together, which have copies of groups if there are fewer groups.
    """
    keys = max(mixer.groups, tensor) * mixer.state
    elements = 2 * (mixer.width + 2 * keys) + 3 * mixer.width + 2 * mixer.heads
    if mixer.is_delta:  # the inverse of each chunk's system
        elements += mixer.heads * mixer.chunk
    if policy.recompute is Recompute.NONE:
        elements += mixer.heads * mixer.chunk
    states = bytes_of(mixer.state_elements / mixer.chunk, mixer.state_bits)
    return bytes_of(elements, policy.bits) + states


def _attention_bytes(
    attention: Attention | LatentAttention, sequence: int, policy: KeepPolicy
) -> float:
    """Bytes per token of queries, keys, values and results, and of scores if they are stored."""
    if isinstance(attention, LatentAttention):
        queries = keys = attention.plain_dim + attention.rotary_dim
        elements = attention.heads * (queries + keys + 2 * attention.value_dim)
        elements += attention.query_rank + attention.kv_rank + attention.rotary_dim
    else:
        elements = (
            attention.heads * (attention.head_dim + attention.value_dim) + attention.cached_elements
        )
        if attention.has_gate:  # the gate, and results before it
            elements += 2 * attention.heads * attention.value_dim
    nbytes = bytes_of(elements, policy.bits)
    if policy.recompute is Recompute.NONE:
        score_bytes = bytes_of(2 if policy.has_dropout else 1, policy.bits) + policy.has_dropout
        nbytes += score_bytes * attention.heads * sequence
    return nbytes


def _mlp_bytes(mlp: Mlp | Experts, hidden: int, policy: KeepPolicy, tensor: int) -> float:
    """Bytes per token between the MLP's matrices; for experts, of their inputs and results too."""
    if isinstance(mlp, Mlp):
        results = 3 if mlp.matrices == GATED_MATRICES else 2
        return bytes_of(results * mlp.intermediate, policy.bits)
    routed = bytes_of(2 * hidden * tensor, policy.bits)  # inputs and results, whole on each rank
    expert = routed + _mlp_bytes(mlp.expert, hidden, policy, tensor)
    shared = _mlp_bytes(mlp.shared, hidden, policy, tensor) if mlp.shared else 0.0
    return mlp.per_token * expert + shared
