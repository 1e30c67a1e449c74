"""Architectures: the sizes of a model from which its parameters, FLOPs and bytes follow.

A model is a chain of towers (an encoder, a decoder, a tower of images), a tower a chain of equal
layers. Sizes are those of the whole model; what one rank has of them is `Split`'s matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

GATED: Final = 3
"""Matrices of a gated MLP: gate, up and down."""
PLAIN: Final = 2
"""Matrices of an MLP without a gate."""


@dataclass(frozen=True)
class Attention:
    """Attention with a key and a value for every token.

    Attributes:
        heads: query heads.
        kv_heads: heads of keys and values, each of which serves ``heads / kv_heads`` query heads.
        head_dim: elements of a query and of a key.
        value_dim: elements of a value.
        window: tokens that a query sees at most; 0 for all.
        is_causal: whether a query sees no later token.
        is_cross: whether keys and values are those of another tower's output.
        biases: elements of the biases of its projections.
        norms: elements of the weights of norms over heads.
    """

    heads: int
    kv_heads: int
    head_dim: int
    value_dim: int
    window: int = 0
    is_causal: bool = True
    is_cross: bool = False
    biases: int = 0
    norms: int = 0

    def parameters(self, hidden: int) -> int:
        """``hidden (heads (d + v) + kv_heads (d + v))``, biases and norms."""
        per_head = self.head_dim + self.value_dim
        return hidden * per_head * (self.heads + self.kv_heads) + self.biases + self.norms

    @property
    def cached(self) -> int:
        """Elements of a token's keys and values."""
        return self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: keys and values are products of one short vector a token.

    Attributes:
        heads: query heads.
        query_rank: elements of the vector from which queries are made; 0 where they are made of the
            hidden state.
        kv_rank: elements of the vector from which keys and values are made.
        plain_dim: elements of a query without a place.
        rotary_dim: elements of a query with a place; its key is shared by all heads.
        value_dim: elements of a value.
        norms: elements of the weights of its norms.

    Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.
    """

    heads: int
    query_rank: int
    kv_rank: int
    plain_dim: int
    rotary_dim: int
    value_dim: int
    norms: int = 0

    is_causal: Final = True
    is_cross: Final = False
    window: Final = 0

    def parameters(self, hidden: int) -> int:
        """Projections down and up of queries, keys and values, and that of the output."""
        queries = self.heads * (self.plain_dim + self.rotary_dim)
        made = hidden * queries
        if self.query_rank:
            made = self.query_rank * (hidden + queries)
        down = hidden * (self.kv_rank + self.rotary_dim)
        up = self.kv_rank * self.heads * (self.plain_dim + self.value_dim)
        return made + down + up + self.heads * self.value_dim * hidden + self.norms

    @property
    def cached(self) -> int:
        """Elements of a token's vector and of its shared key."""
        return self.kv_rank + self.rotary_dim


@dataclass(frozen=True)
class Mlp:
    """Two or three matrices and a function between them.

    Attributes:
        intermediate: elements between the matrices.
        matrices: `GATED` or `PLAIN`.
        biases: elements of its biases.
    """

    intermediate: int
    matrices: int = GATED
    biases: int = 0

    def parameters(self, hidden: int) -> int:
        """``matrices hidden intermediate``, and biases."""
        return self.matrices * hidden * self.intermediate + self.biases

    def active_parameters(self, hidden: int) -> int:
        """All of them."""
        return self.parameters(hidden)


@dataclass(frozen=True)
class Experts:
    """Experts of which a router chooses some for each token, and some that every token takes.

    Attributes:
        count: experts to choose from.
        per_token: experts that a token takes.
        expert: one of them.
        shared: what every token takes besides; None where there is none.
        shared_gate: parameters that weigh the shared part.
        router_biases: elements of the router's bias.
    """

    count: int
    per_token: int
    expert: Mlp
    shared: Mlp | None = None
    shared_gate: int = 0
    router_biases: int = 0

    def _fixed(self, hidden: int) -> int:
        shared = self.shared.parameters(hidden) if self.shared else 0
        return hidden * self.count + self.router_biases + shared + self.shared_gate

    def parameters(self, hidden: int) -> int:
        """Those of all experts, of the router and of the shared part."""
        return self.count * self.expert.parameters(hidden) + self._fixed(hidden)

    def active_parameters(self, hidden: int) -> int:
        """Those that one token takes."""
        return self.per_token * self.expert.parameters(hidden) + self._fixed(hidden)


@dataclass(frozen=True)
class Layer:
    """Equal layers, one after another.

    Attributes:
        times: how many.
        attentions: self attention, and cross attention where it has one.
        mlp: its MLP or experts.
        norms: elements of the weights and biases of its norms.
        extra: parameters that are in no product, besides norms and biases.
    """

    times: int
    attentions: tuple[Attention | LatentAttention, ...]
    mlp: Mlp | Experts
    norms: int
    extra: int = 0

    def parameters(self, hidden: int) -> int:
        """Those of one of the layers."""
        return self._other(hidden) + self.mlp.parameters(hidden)

    def active_parameters(self, hidden: int) -> int:
        """Those of one of the layers that one token takes."""
        return self._other(hidden) + self.mlp.active_parameters(hidden)

    def _other(self, hidden: int) -> int:
        return sum(one.parameters(hidden) for one in self.attentions) + self.norms + self.extra


@dataclass(frozen=True)
class Tower:
    """An embedding, layers, and a product at the end.

    Attributes:
        name: "decoder", "encoder", "images".
        hidden: elements of a token.
        layers: groups of equal layers, in their order.
        looked_up: rows of the table in which tokens are looked up; 0 for images.
        patch: elements of an image's patch (channels x side x side), which a product makes a token.
        positions: rows of learned places.
        extra: other parameters before the layers: norms, types, a class token.
        final: elements of the weights of norms and projections behind the layers.
        outputs: columns of the product at the end; 0 where there is none.
        is_tied: whether that product's weights are the table's.
        is_each_token: whether every token goes through it, or one of a sequence.
        tokens: tokens of an image; 0 where the user gives a length.
    """

    name: str
    hidden: int
    layers: tuple[Layer, ...]
    looked_up: int = 0
    patch: int = 0
    positions: int = 0
    extra: int = 0
    final: int = 0
    outputs: int = 0
    is_tied: bool = False
    is_each_token: bool = True
    tokens: int = 0

    @property
    def depth(self) -> int:
        """Layers."""
        return sum(layer.times for layer in self.layers)

    @property
    def table_parameters(self) -> int:
        """Parameters that are looked up, not multiplied; a tied table counts with the product."""
        looked_up = 0 if self.is_tied else self.looked_up
        return (looked_up + self.positions) * self.hidden + self.extra

    @property
    def other_parameters(self) -> int:
        """Parameters of products outside the layers, and of the last norm."""
        return (self.patch + self.outputs) * self.hidden + self.final

    @cached_property
    def parameters(self) -> int:
        """All."""
        layers = sum(one.times * one.parameters(self.hidden) for one in self.layers)
        return layers + self.table_parameters + self.other_parameters

    @cached_property
    def active_parameters(self) -> int:
        """Those that one token takes."""
        layers = sum(one.times * one.active_parameters(self.hidden) for one in self.layers)
        return layers + self.table_parameters + self.other_parameters


@dataclass(frozen=True)
class Architecture:
    """A model.

    Attributes:
        name: the file's or the user's.
        model_type: Hugging Face's name of the architecture.
        towers: in the order in which a pass takes them.
        max_positions: the longest sequence that it knows; 0 where no limit is stated.
        weight_bits: bits of a weight of the layers' products, as the checkpoint holds them.
        other_bits: bits of every other parameter.
        kv_bits: bits of an element of the key-value cache.
    """

    name: str
    model_type: str
    towers: tuple[Tower, ...]
    max_positions: int = 0
    weight_bits: int = 16
    other_bits: int = 16
    kv_bits: int = 16

    @property
    def parameters(self) -> int:
        """All of them."""
        return sum(tower.parameters for tower in self.towers)

    @property
    def active_parameters(self) -> int:
        """Those that one token takes."""
        return sum(tower.active_parameters for tower in self.towers)

    @property
    def decoder(self) -> Tower:
        """The tower that makes tokens: the last one."""
        return self.towers[-1]

    @property
    def is_generating(self) -> bool:
        """Whether it makes one token after another."""
        layers = self.decoder.layers
        attentions = [one for layer in layers for one in layer.attentions]
        return self.decoder.outputs > 0 and any(one.is_causal for one in attentions)

    @property
    def has_experts(self) -> bool:
        """Whether any layer has experts."""
        return self.experts is not None

    @property
    def experts(self) -> Experts | None:
        """The experts of the first layer that has some."""
        for tower in self.towers:
            for layer in tower.layers:
                if isinstance(layer.mlp, Experts):
                    return layer.mlp
        return None
