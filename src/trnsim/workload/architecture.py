"""Architectures: the sizes of a model from which its parameters, FLOPs and bytes follow.

A model is a chain of towers (an encoder, a decoder, a tower of images), a tower a chain of groups
of equal layers. Sizes are those of the whole model; `Split` divides them among ranks.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from trnsim.errors import BadInput
from trnsim.workload.expert_rules import PLAIN_ROUTING, ClampedGate, Routing
from trnsim.workload.kinds import ModelKind
from trnsim.workload.matrix_bits import MatrixBits
from trnsim.workload.mixer import Mixer

GATED_MATRICES: Final = 3
"""Matrices of a gated MLP: gate, up and down."""
PLAIN_MATRICES: Final = 2
"""Matrices of an MLP without a gate."""


@dataclass(frozen=True)
class Norm:
    """``x / sqrt(mean(x^2) + epsilon)`` over the last dimension, weighed element by element.

    Attributes:
        parts: parameters for each element: 0, 1 (a weight), or 2 (a weight and a bias).
        epsilon: term added to the mean of squares.
        is_centered: whether the mean is subtracted first (LayerNorm).
        offset: term added to the weight: 1 in Gemma.
    """

    parts: int = 0
    epsilon: float = 1e-6
    is_centered: bool = False
    offset: float = 0.0


@dataclass(frozen=True)
class Rotary:
    """Rotary position embedding: pairs of elements of a query or key rotated by an angle.

    Attributes:
        width: number of a head's first elements, which are rotated.
        is_paired: whether pairs are neighbours; else element i and i + width / 2.
        table: name of the model's table of frequencies.
        factor: factor of all cosines and sines.

    Source: RoFormer (arXiv:2104.09864), section 3.2.
    """

    width: int
    is_paired: bool = False
    table: str = ""
    factor: float = 1.0


@dataclass(frozen=True)
class HeadNorm:
    """A norm of queries and of keys.

    Attributes:
        norm: the norm's kind and weights.
        scope: "head" for weights that all heads share, "heads" for weights of each head, "row" for
            one norm over all heads of a token.
        is_after_rotation: whether it follows the rotation; legal for "head".
    """

    norm: Norm
    scope: str = "head"
    is_after_rotation: bool = False


@dataclass(frozen=True)
class Attention:
    """Attention with a key and a value for every token.

    Attributes:
        heads: query heads.
        kv_heads: heads of keys and values, each of which serves ``heads / kv_heads`` query heads.
        head_dim: elements of a query and of a key.
        window: maximum tokens that a query attends to, its own included; 0 for all.
        is_causal: whether a query attends to no later token.
        is_cross: whether keys and values are those of another tower's output.
        biases: elements of the biases of its projections.
        norms: elements of the weights of norms over heads.
        output_biases: elements of the bias of the output projection, part of `biases`.
        scale: the factor on products of queries and keys; 0 for ``head_dim ** -0.5``.
        cap: bound of the scores, by a tanh; 0 for none.
        rotary: rotary position embedding of queries and keys; None without.
        head_norm: norm of queries and keys; None for none.
        has_slopes: whether scores have a bias linear in the key's position, by a slope of each head
            (ALiBi).
        has_sinks: whether each head's softmax has one more score, of no key (attention sink).
        has_gate: whether results are multiplied by the logistic of a projection as wide.
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
    output_biases: int = 0
    scale: float = 0.0
    cap: float = 0.0
    rotary: Rotary | None = None
    head_norm: HeadNorm | None = None
    has_slopes: bool = False
    has_sinks: bool = False
    has_gate: bool = False

    @property
    def cached_elements(self) -> int:
        """Elements of a token's keys and values."""
        return self.kv_heads * (self.head_dim + self.value_dim)


@dataclass(frozen=True)
class LatentAttention:
    """Multi-head latent attention: keys and values are products of one short vector per token.

    Attributes:
        heads: query heads.
        query_rank: elements of the latent vector of queries; 0 if they are projected from the
            hidden state.
        kv_rank: elements of the latent vector of keys and values.
        plain_dim: elements of a query without rotation.
        rotary_dim: elements of a query with rotation; its key is shared by all heads.
        norms: elements of the weights of its norms.
        norm: norm of the latent vectors.
        rotary: rotary position embedding of the last elements of queries, and of the shared key.
        scale: factor of scores; 0 for ``(plain_dim + rotary_dim) ** -0.5``.

    Source: DeepSeek-V2 (arXiv:2405.04434), section 2.1.
    """

    heads: int
    query_rank: int
    kv_rank: int
    plain_dim: int
    rotary_dim: int
    value_dim: int
    norms: int = 0
    norm: Norm = Norm()
    rotary: Rotary | None = None
    scale: float = 0.0

    is_causal: Final = True
    is_cross: Final = False
    window: Final = 0
    cap: Final = 0.0
    has_slopes: Final = False
    has_sinks: Final = False

    @property
    def cached_elements(self) -> int:
        """Elements of a token's latent vector and of its shared key."""
        return self.kv_rank + self.rotary_dim


@dataclass(frozen=True)
class Mlp:
    """An MLP: two or three matrices and an activation between them.

    Attributes:
        intermediate: elements between the matrices.
        matrices: `GATED_MATRICES` or `PLAIN_MATRICES`.
        biases: elements of its biases.
        activation: name of the activation in transformers.
        clamped_gate: the clamped gate in place of the activation; None for the activation.
    """

    intermediate: int
    matrices: int = GATED_MATRICES
    biases: int = 0
    activation: str = "silu"
    clamped_gate: ClampedGate | None = None


@dataclass(frozen=True)
class Experts:
    """Experts of which a router chooses some for each token, and shared experts.

    Attributes:
        count: experts to choose from.
        per_token: experts that a token takes.
        shared: the shared experts as one MLP; None for none.
        router_biases: elements of the router's bias.
        routing: the rule of choice and weights.
    """

    count: int
    per_token: int
    expert: Mlp
    shared: Mlp | None = None
    shared_gate: int = 0
    router_biases: int = 0
    routing: Routing = PLAIN_ROUTING

    def __post_init__(self) -> None:
        if not 1 <= self.per_token <= self.count:
            raise BadInput(
                f"a token takes {self.per_token} of {self.count} experts; legal: 1 to {self.count}"
            )


@dataclass(frozen=True)
class Wiring:
    """The operations of a tower between its products: norms, factors, biases and masks.

    Attributes:
        norm: the norm of its layers and ends.
        norm_position: position of norms: "before" a half of a layer (attention or MLP), "after" it,
            "around" it (both), or "sum": after the sum of its output and input.
        residual_factor: factor of the output of a half of a layer.
        score_factor: factor of the logits.
        cap: bound of the logits, by a tanh; 0 for none.
        has_score_bias: whether the logits have a bias.
        has_last_norm: whether a norm follows the layers.
        first_position_row: row of the position table that a sequence's first token takes.
        position_rows: rows of a position table as wide as the embedding, before any product.
        token_types: rows of a table of token types of the same width.
        has_table_norm: whether a norm follows these tables.
        has_mask: whether a padding mask is an input.
    """

    norm: Norm
    norm_position: str = "before"
    embedding_factor: float = 1.0
    residual_factor: float = 1.0
    score_factor: float = 1.0
    cap: float = 0.0
    has_score_bias: bool = False
    has_last_norm: bool = True
    first_position_row: int = 0
    position_rows: int = 0
    token_types: int = 0
    has_table_norm: bool = False
    has_mask: bool = False


@dataclass(frozen=True)
class Layer:
    """Equal layers.

    Attributes:
        times: number of layers.
        attentions: self attention or a mixer, and cross attention where it has one.
        mlp: its MLP or experts; None without.
        norms: elements of the weights and biases of its norms.
        other_parameters: parameters outside products and norms.
        is_shared: whether all share one set of weights, as in ALBERT.
        is_parallel: whether attention and MLP read the same input and are summed together, as in
            GPT-J; tensor ranks then exchange one sum a layer instead of two.
        own_bits: bits of the matrices whose bits differ from the model's.
        is_beside: whether attentions read the same input and are summed, as in Falcon-H1.
        factors: factors of results of products by name ("mlp.gate"), and of inputs of halves.
    """

    times: int
    attentions: tuple[Attention | LatentAttention | Mixer, ...]
    mlp: Mlp | Experts | None
    norms: int
    other_parameters: int = 0
    is_shared: bool = False
    is_parallel: bool = False
    own_bits: tuple[MatrixBits, ...] = ()
    is_beside: bool = False
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def copies(self) -> int:
        """Layers with weights of their own."""
        return 1 if self.is_shared else self.times


@dataclass(frozen=True)
class Projection:
    """A linear projection outside the layers: patches, poolers, adapters.

    Attributes:
        name: "patches", "pooler".
        inputs: elements of a row.
        outputs: elements of a result.
        biases: elements of its bias.
        rows: number of rows for each of the tower's tokens.
        is_each_token: whether every token is a row; else one token of each sequence.
        activation: name of the activation of its result in transformers; "" for none.
        is_normed: whether a norm follows.
    """

    name: str
    inputs: int
    outputs: int
    biases: int = 0
    rows: float = 1.0
    is_each_token: bool = True
    activation: str = ""
    is_normed: bool = False


@dataclass(frozen=True)
class Tower:
    """Tables and products before the layers, the layers, and products behind them.

    Attributes:
        name: "decoder", "encoder", "images".
        hidden: elements of a token.
        layers: groups of equal layers, in the order of their first layers.
        table_rows: rows of the embedding table; 0 for images.
        table_width: elements of a row of that table; 0 for `hidden`.
        input_projections: products before the layers.
        positions: rows of the table of learned positions.
        embedding_parameters: other parameters before the layers: norms, types, a class token.
        output_projections: products behind the layers, before the logits.
        head_parameters: parameters of norms and biases behind the layers.
        outputs: size of the vocabulary of the logits; 0 without logits.
        is_tied: whether the weights of the logits are the embedding table.
        is_table_shared: whether the embedding table is that of the tower before.
        tokens: tokens of an image, of one of its tiles or of a sound; 0 if the user chooses them.
        tiles: tiles of an image, each of which passes by itself; 0 if images are not cut.
        image: pixels of an image along a side; 0 without images.
        prompt_tokens: tokens of a prompt that an image takes; 0 if prompts do not hold them.
        has_position_table: whether positions, angles or slopes are rows of a table, which ends at
            the longest sequence.
        order: for each layer the index of its group in `layers`; () for one group after another.
        wiring: operations between products; None if only sizes are known.
    """

    name: str
    hidden: int
    layers: tuple[Layer, ...]
    table_rows: int = 0
    table_width: int = 0
    input_projections: tuple[Projection, ...] = ()
    positions: int = 0
    embedding_parameters: int = 0
    output_projections: tuple[Projection, ...] = ()
    head_parameters: int = 0
    outputs: int = 0
    is_tied: bool = False
    is_table_shared: bool = False
    tokens: int = 0
    tiles: int = 0
    image: int = 0
    prompt_tokens: int = 0
    has_position_table: bool = False
    order: tuple[int, ...] = ()
    wiring: Wiring | None = None

    @property
    def depth(self) -> int:
        """Number of layers."""
        return sum(layer.times for layer in self.layers)

    @property
    def width(self) -> int:
        """Elements of a row of the embedding table, and of the input of the logits."""
        return self.table_width or self.hidden


@dataclass(frozen=True)
class Architecture:
    """A model.

    Attributes:
        name: the file's or the user's.
        model_type: Hugging Face's name of the architecture.
        towers: the towers, in the order of a pass.
        max_positions: the longest sequence of its training; 0 if none is stated.
        weight_bits: bits of a weight of the layers' products in the checkpoint, its share of scales
            included.
        other_bits: bits of every other parameter, and of hidden states.
        kv_bits: bits of an element of the key-value cache.
        product_bits: bits of the operands of the layers' products: below 16 only if activations
            are quantized too.
        mlp_bits: bits of a weight of MLPs and experts; 0 for `weight_bits`.
        positions_key: the key that states `max_positions`, which errors name.
        short_dtype: the floating-point type of 16 bits.
        depth: layers of all towers.
        decoder: the tower that generates tokens: the last one.
        experts: the experts of the first layer with experts; None without.
        length_limit: the longest sequence that can be computed; 0 for no limit. Tables of positions
            end at `max_positions`; angles and slopes that are computed for each length go on.
        is_generating: whether it generates one token after another.
        kind: its kind: the first of several that it could have, so MLA before experts.
    """

    name: str
    model_type: str
    towers: tuple[Tower, ...]
    max_positions: int = 0
    weight_bits: float = 16
    other_bits: float = 16
    kv_bits: float = 16
    product_bits: float = 16
    mlp_bits: float = 0
    positions_key: str = "max_position_embeddings"
    short_dtype: str = "bfloat16"

    depth: int = field(init=False, repr=False, compare=False)
    decoder: Tower = field(init=False, repr=False, compare=False)
    experts: Experts | None = field(init=False, repr=False, compare=False)
    length_limit: int = field(init=False, repr=False, compare=False)
    is_generating: bool = field(init=False, repr=False, compare=False)
    kind: ModelKind = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        towers, decoder = self.towers, self.towers[-1]
        layers = [layer for tower in towers for layer in tower.layers]
        experts = [layer.mlp for layer in layers if isinstance(layer.mlp, Experts)]
        forms = [form for layer in decoder.layers for form in layer.attentions]
        is_limited = any(tower.has_position_table for tower in towers)
        is_generating = decoder.outputs > 0 and any(form.is_causal for form in forms)
        of_images = [tower.tokens > 0 for tower in towers]
        forms = [form for layer in layers for form in layer.attentions]
        kinds = {
            ModelKind.VISION: all(of_images),
            ModelKind.PAIR: any(of_images) and not is_generating,
            ModelKind.RECURRENT: any(isinstance(form, Mixer) for form in forms),
            ModelKind.LATENT: any(isinstance(form, LatentAttention) for form in forms),
            ModelKind.EXPERTS: bool(experts),
            ModelKind.ENCODER_DECODER: len(towers) > 1,
            ModelKind.DENSE: is_generating,
            ModelKind.ENCODER: True,
        }
        derived = {
            "depth": sum(tower.depth for tower in towers),
            "decoder": decoder,
            "experts": experts[0] if experts else None,
            "length_limit": self.max_positions if is_limited else 0,
            "is_generating": is_generating,
            "kind": next(kind for kind, applies in kinds.items() if applies),
        }
        for name, value in derived.items():
            object.__setattr__(self, name, value)

    @property
    def bits_of_mlp(self) -> float:
        """Bits of a weight of MLPs and experts."""
        return self.mlp_bits or self.weight_bits

    def usual_length(self, tokens: int) -> int:
        """Tokens of an image or a sound; for texts `tokens`, at most `max_positions`."""
        return self.decoder.tokens or min(tokens, self.max_positions or tokens)

    def check_length(self, tokens: int) -> None:
        """Refuse a sequence length that the model does not allow.

        Raises:
            BadInput: `tokens` exceed `length_limit`, or are not those of an image.
        """
        token_count = self.decoder.tokens
        if token_count and tokens != token_count:
            raise BadInput(
                f"a sequence of {tokens:,} tokens for {self.name} ({self.model_type}), whose "
                f"configuration makes {token_count:,} tokens of each image; legal: {token_count:,}",
                fix="leave the length out, or change image_size or patch_size in the configuration",
            )
        check_length(self.name, tokens, self.length_limit, self.positions_key)


def check_length(name: str, tokens: int, longest: int, key: str) -> None:
    """Refuse `tokens` beyond the `longest` sequence that `key` states; 0 for no limit.

    Raises:
        BadInput: there are more.
    """
    if longest and tokens > longest:
        raise BadInput(
            f"a sequence of {tokens:,} tokens exceeds {key} of {name}; legal: 1 to {longest:,}",
            fix=f"ask for at most {longest:,} tokens, input and output together",
        )
