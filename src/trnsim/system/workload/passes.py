"""A pass of an architecture as blocks of operators, as one rank of a layer's ranks has them.

Heads that the ranks do not divide are made up with unused ones, and keys and values are copied
where there are more ranks than their heads, as NxD Inference does (aws-neuron-sdk,
libraries/nxd-inference/developer_guides/feature-guide.rst).
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.system.workload.architecture import (
    GATED,
    Architecture,
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Tower,
)
from trnsim.system.workload.operators import (
    WHOLE,
    Axis,
    Block,
    Cache,
    Elementwise,
    Exchange,
    Pass,
    Phase,
    Product,
    Split,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_BYTE = 8


def blocks(model: Architecture, given: Pass, split: Split = WHOLE) -> tuple[Block, ...]:
    """The blocks of one forward pass, in their order, as one rank has them."""
    return tuple(block for tower in model.towers for block in _tower(model, tower, given, split))


def _tower(model: Architecture, tower: Tower, given: Pass, split: Split) -> Iterator[Block]:
    maker = _Rank(model, tower, given, split)
    yield maker.embedding()
    for layer in tower.layers:
        yield maker.layer(layer)
    yield maker.head()


class _Rank:
    """One rank's part of a tower in a pass."""

    def __init__(self, model: Architecture, tower: Tower, given: Pass, split: Split) -> None:
        self.model = model
        self.tower = tower
        self.given = given
        self.split = split
        self.rows = given.rows / split.context

    def embedding(self) -> Block:
        """Tokens looked up, or patches multiplied, and places added."""
        tower, bits = self.tower, self.model.other_bits
        products: tuple[Product, ...] = ()
        if tower.patch:
            columns = tower.hidden / self.split.tensor
            products = (Product("patch", self.rows, tower.patch, columns, 1, bits),)
        looked_up = Elementwise("lookup", 2 * self.rows * tower.hidden)
        return Block(
            "embedding",
            1,
            products,
            (looked_up,),
            self._gathered(),
            resident_bytes=(tower.table_parameters + tower.patch * tower.hidden)
            * bits
            / _BYTE
            / self.split.tensor,
        )

    def head(self) -> Block:
        """The last norm, and the product that gives scores."""
        tower, bits = self.tower, self.model.other_bits
        is_last = self.given.phase is Phase.PREFILL or not tower.is_each_token
        rows = self.given.batch if is_last else self.rows
        norm = Elementwise("norm", 2 * self.rows * tower.hidden, tower.final * bits / _BYTE)
        products: tuple[Product, ...] = ()
        exchanges: tuple[Exchange, ...] = ()
        columns = math.ceil(tower.outputs / self.split.tensor)
        if columns:
            products = (Product("scores of words", rows, tower.hidden, columns, 1, bits),)
        if columns and self.split.tensor > 1:
            nbytes = rows * tower.outputs * bits / _BYTE
            exchanges = (Exchange("all_gather", nbytes, Axis.TENSOR),)
        held = (0 if tower.is_tied else columns * tower.hidden) + tower.final
        return Block("head", 1, products, (norm,), exchanges, resident_bytes=held * bits / _BYTE)

    def layer(self, layer: Layer) -> Block:
        """One of equal layers."""
        products: list[Product] = []
        elementwise = [self._norms(layer)]
        exchanges: list[Exchange] = []
        cache = Cache(0.0, 0.0)
        for attention in layer.attentions:
            made, softmax, kept = self._attention(attention)
            products += made
            elementwise.append(softmax)
            exchanges += self._summed()
            cache = Cache(
                cache.read_bytes + kept.read_bytes, cache.written_bytes + kept.written_bytes
            )
        made, between, moved = self._mlp(layer.mlp)
        products += made
        elementwise.append(between)
        exchanges += moved
        return Block(
            "layer",
            layer.times,
            tuple(products),
            tuple(elementwise),
            tuple(exchanges),
            cache,
            self._held(layer),
        )

    def _norms(self, layer: Layer) -> Elementwise:
        passes = 2 * (len(layer.attentions) + 1)  # a norm and a residual for each part
        rows = self.rows / (self.split.tensor if self.split.is_sequence else 1)
        weights = (layer.norms + layer.extra) * self.model.other_bits / _BYTE
        return Elementwise("norms and residuals", 2 * passes * rows * self.tower.hidden, weights)

    def _attention(
        self, attention: Attention | LatentAttention
    ) -> tuple[list[Product], Elementwise, Cache]:
        if isinstance(attention, LatentAttention):
            return self._latent(attention)
        hidden, bits, tensor = self.tower.hidden, self.model.weight_bits, self.split.tensor
        heads = math.ceil(attention.heads / tensor)
        kv_heads = math.ceil(attention.kv_heads / tensor)
        new, keys = self.given.tokens / self.split.context, self._keys(attention)
        queries, values = attention.head_dim, attention.value_dim
        rows, batch = self.rows, self.given.batch
        seen = self._seen(attention, keys)
        products = [
            Product("query", rows, hidden, heads * queries, 1, bits),
            Product("key and value", rows, hidden, kv_heads * (queries + values), 1, bits),
            Product("scores", new, queries, keys, batch * heads, causal=seen),
            Product("values", new, keys, values, batch * heads, causal=seen),
            Product("output", rows, heads * values, hidden, 1, bits),
        ]
        softmax = Elementwise("softmax", 2 * batch * heads * new * keys)
        return products, softmax, self._cache(kv_heads * (queries + values), keys - new)

    def _latent(self, attention: LatentAttention) -> tuple[list[Product], Elementwise, Cache]:
        """Of a prompt with keys and values made; of a step on the short vectors themselves."""
        hidden, bits = self.tower.hidden, self.model.weight_bits
        heads = math.ceil(attention.heads / self.split.tensor)
        plain, rotary, rank = attention.plain_dim, attention.rotary_dim, attention.kv_rank
        rows, batch = self.rows, self.given.batch
        new, keys = self.given.tokens / self.split.context, self._keys(attention)
        source = attention.query_rank or hidden
        products = [
            Product("query", rows, source, heads * (plain + rotary), 1, bits),
            Product("latent", rows, hidden, rank + rotary, 1, bits),
            Product("output", rows, heads * attention.value_dim, hidden, 1, bits),
        ]
        if attention.query_rank:
            products.append(Product("query latent", rows, hidden, source, 1, bits))
        seen = self._seen(attention, keys)
        if self.given.phase is Phase.DECODE:
            products += [
                Product("keys absorbed", rows, plain, rank, heads, bits),
                Product("scores", new, rank + rotary, keys, batch * heads),
                Product("values", new, keys, rank, batch * heads),
                Product("values absorbed", rows, rank, attention.value_dim, heads, bits),
            ]
        else:
            made = heads * (plain + attention.value_dim)
            products += [
                Product("keys and values", rows, rank, made, 1, bits),
                Product("scores", new, plain + rotary, keys, batch * heads, causal=seen),
                Product("values", new, keys, attention.value_dim, batch * heads, causal=seen),
            ]
        softmax = Elementwise("softmax", 2 * batch * heads * new * keys)
        return products, softmax, self._cache(attention.cached, keys - new)

    def _keys(self, attention: Attention | LatentAttention) -> float:
        """Tokens whose keys and values a query meets, masked ones too."""
        keys = self.given.tokens + self.given.past
        if attention.window and self.given.phase is Phase.DECODE:
            keys = min(keys, attention.window)
        return float(keys)

    def _seen(self, attention: Attention | LatentAttention, keys: float) -> float:
        """The part of scores that no mask discards."""
        if not attention.is_causal or self.given.tokens == 1:
            return 1.0
        new, past = self.given.tokens, keys - self.given.tokens
        width = attention.window or keys
        met = new * (past + (new + 1) / 2)
        cut = max(past + new - width, 0.0)
        beyond = cut * (cut + 1) / 2 if past == 0 else max(new * (past + (new + 1) / 2 - width), 0)
        return max(met - beyond, new) / (new * keys)

    def _cache(self, elements: float, past: float) -> Cache:
        """Bytes of `elements` a token: read for `past` tokens, written for new ones."""
        if self.given.phase not in (Phase.DECODE, Phase.PREFILL):
            return Cache(0.0, 0.0)
        nbytes = elements * self.model.kv_bits / _BYTE * self.given.batch
        new = self.given.tokens / self.split.context
        return Cache(nbytes * max(past, 0.0), nbytes * new)

    def _mlp(self, mlp: Mlp | Experts) -> tuple[list[Product], Elementwise, list[Exchange]]:
        if isinstance(mlp, Experts):
            return self._experts(mlp)
        products, between = self._matrices("", mlp, self.rows, 1.0, self.split.tensor)
        return products, between, self._summed()

    def _matrices(
        self, prefix: str, mlp: Mlp, rows: float, times: float, tensor: int
    ) -> tuple[list[Product], Elementwise]:
        hidden, bits = self.tower.hidden, self.model.weight_bits
        columns = math.ceil(mlp.intermediate / tensor)
        ups = mlp.matrices - 1
        products = [
            Product(f"{prefix}up", rows, hidden, ups * columns, times, bits),
            Product(f"{prefix}down", rows, columns, hidden, times, bits),
        ]
        passes = ups + (2 if mlp.matrices == GATED else 1)
        return products, Elementwise(f"{prefix}activation", passes * rows * columns * times)

    def _experts(self, mlp: Experts) -> tuple[list[Product], Elementwise, list[Exchange]]:
        """The experts that are met, evenly: ``E (1 - (1 - k/E)^rows)`` of all expert ranks."""
        split, rows = self.split, self.rows
        met = mlp.count * (1 - (1 - mlp.per_token / mlp.count) ** (rows * split.expert))
        here = max(met / split.expert, 1.0)
        taken = rows * mlp.per_token  # as many come from other ranks as go to them
        products, between = self._matrices("expert ", mlp.expert, taken / here, here, split.tensor)
        bits = self.model.other_bits
        products.append(Product("router", rows, self.tower.hidden, mlp.count, 1, bits))
        elements = between.elements
        if mlp.shared:
            more, shared = self._matrices("shared ", mlp.shared, rows, 1.0, split.tensor)
            products += more
            elements += shared.elements
        exchanges = self._summed()
        if split.expert > 1:
            nbytes = taken * self.tower.hidden * bits / _BYTE
            exchanges += [Exchange("all_to_all", nbytes, Axis.EXPERT, 2)]
        return products, Elementwise("activation", elements), exchanges

    def _summed(self) -> list[Exchange]:
        """The sum of the tensor ranks' parts of an output."""
        if self.split.tensor == 1:
            return []
        nbytes = self.rows * self.tower.hidden * self.model.other_bits / _BYTE
        if not self.split.is_sequence:
            return [Exchange("all_reduce", nbytes, Axis.TENSOR)]
        kinds = ("all_gather", "reduce_scatter")
        return [Exchange(kind, nbytes, Axis.TENSOR) for kind in kinds]

    def _gathered(self) -> tuple[Exchange, ...]:
        """The rows of a table whose columns the tensor ranks share."""
        if self.split.tensor == 1 or not (self.tower.looked_up or self.tower.patch):
            return ()
        nbytes = self.rows * self.tower.hidden * self.model.other_bits / _BYTE
        return (Exchange("all_gather", nbytes, Axis.TENSOR),)

    def _held(self, layer: Layer) -> float:
        """Bytes of the parameters of one layer that the rank holds."""
        hidden, split, model = self.tower.hidden, self.split, self.model
        small = layer.norms + layer.extra
        attention = sum(_held_attention(one, hidden, split.tensor) for one in layer.attentions)
        mlp = layer.mlp
        if isinstance(mlp, Experts):
            shared = mlp.shared.parameters(hidden) / split.tensor if mlp.shared else 0
            experts = math.ceil(mlp.count / split.expert) * mlp.expert.parameters(hidden)
            held = experts / split.tensor + shared
            small += hidden * mlp.count + mlp.router_biases + mlp.shared_gate
        else:
            held = mlp.parameters(hidden) / split.tensor
        return ((attention + held) * model.weight_bits + small * model.other_bits) / _BYTE


def _held_attention(attention: Attention | LatentAttention, hidden: int, tensor: int) -> float:
    """Parameters of an attention that one of `tensor` ranks holds, with unused heads."""
    if isinstance(attention, LatentAttention):
        return attention.parameters(hidden) / min(tensor, attention.heads)
    heads = math.ceil(attention.heads / tensor) + math.ceil(attention.kv_heads / tensor)
    per_head = attention.head_dim + attention.value_dim
    return hidden * per_head * heads + attention.biases / tensor + attention.norms
