"""Decoders: Llama and similar architectures, by the rows of `decoder_rows`."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from trnsim.workload.architecture import (
    Attention,
    Experts,
    LatentAttention,
    Layer,
    Mlp,
    Norm,
    Projection,
    Tower,
)
from trnsim.workload.families.decoder_rows import ROWS, Decoder, ExpertsRow
from trnsim.workload.families.decoder_wiring import DecoderConfig
from trnsim.workload.families.dialects import NORMS, plain_keys
from trnsim.workload.families.hybrids import (
    BESIDE,
    DENSE,
    FULL,
    MIXED,
    SPARSE,
    blocks,
    layer_count,
    mixer_of,
)
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.layer_kinds import expert_layers, kind_counts, windows
from trnsim.workload.families.sizes import (
    MOST_EXPERTS,
    MOST_HEADS,
    MOST_LAYERS,
    classes_of,
    has_scores,
    heads_of,
    kv_heads_of,
    mlp_of,
    named_class,
)
from trnsim.workload.mixer import Mixer

NAMES: Final = tuple(ROWS)
_LATENT_EPSILON: Final = 1e-6
"""Epsilon of the norms of latent vectors, fixed in modeling_deepseek_v3.py."""


def towers(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """The one tower of a decoder.

    Raises:
        BadInput: for sizes that do not go together.
    """
    row, keys = ROWS[model_type], plain_keys(keys, model_type)
    if not keys.flag("layer_norm_elementwise_affine", default=True):  # of OPT
        row = replace(row, norm=0)
    hidden, vocabulary = keys.whole(*row.names.hidden), keys.whole("vocab_size")
    config = DecoderConfig(keys, row, model_type, hidden)
    layers, order = layers_of(config)
    outputs = vocabulary if has_scores(keys) else 0
    is_tied = outputs > 0 and keys.flag("tie_word_embeddings", default=row.is_tied)
    head_parameters = 0 if _lacks_last_norm(keys) else row.norm * hidden
    head_parameters += outputs if keys.has_feature(row.head_bias) else 0
    places, norm_parameters = _embedding_sizes(keys, row, hidden)
    width = keys.whole("word_embed_proj_dim", "embedding_size", default=hidden)
    is_narrow = width != hidden
    # A sequence's class is the one of its last token; transformers scores every token.
    is_biased = not named_class(keys).endswith("SequenceClassification")
    classes = classes_of(keys, width, has_bias=is_biased)
    last_products = (Projection("project out", hidden, width),) if is_narrow else ()
    return (
        Tower(
            "decoder",
            hidden,
            layers,
            table_rows=vocabulary,
            table_width=width,
            input_projections=(Projection("project in", width, hidden),) if is_narrow else (),
            positions=places,
            embedding_parameters=norm_parameters,
            output_projections=(*last_products, *filter(None, [classes])),
            head_parameters=head_parameters,
            outputs=outputs,
            is_tied=is_tied,
            has_position_table=places > 0 or row.has_fixed_length,
            order=tuple(order),
            wiring=config.wiring(),
        ),
    )


def _embedding_sizes(keys: ConfigKeys, row: Decoder, hidden: int) -> tuple[int, int]:
    """Rows of learned positions, and parameters of the norm behind the embedding table."""
    norm_parameters = row.norm * hidden if row.has_table_norm else 0
    if row.places is None:
        return 0, norm_parameters
    return keys.whole(*row.names.positions) + row.places, norm_parameters


def _lacks_last_norm(keys: ConfigKeys) -> bool:
    """True if OPT's norms follow its halves of layers, or its last norm was left out."""
    is_before = keys.flag("do_layer_norm_before", default=True)
    return not is_before or keys.flag("_remove_final_layer_norm")


def layers_of(config: DecoderConfig) -> tuple[tuple[Layer, ...], list[int]]:
    """Groups of equal layers, and for each layer the number of its group.

    Raises:
        BadInput: for sizes that do not go together.
    """
    keys, row, hidden = config.keys, config.row, config.hidden
    if row.layers:
        return _hybrid_layers(config)
    count = keys.whole(*row.names.layers, maximum=MOST_LAYERS)
    has_experts = expert_layers(keys, count) if row.experts else [False] * count
    mlps = {is_sparse: _mlp(config, is_sparse) for is_sparse in set(has_experts)}
    is_parallel = keys.has_feature(row.is_parallel)
    default_norms = row.parallel_norms if is_parallel and row.parallel_norms else row.norms
    norms = keys.whole(NORMS, default=default_norms) * row.norm * hidden
    layer_windows = windows(keys, row, count)
    attentions = [attention_of(config, window, place) for place, window in enumerate(layer_windows)]
    kinds = list(zip(attentions, has_experts, strict=True))
    groups = kind_counts(kinds)
    layers = tuple(
        Layer(
            times,
            (attention,),
            mlps[is_sparse],
            norms,
            row.other_parameters,
            is_parallel=is_parallel,
        )
        for (attention, is_sparse), times in groups
    )
    places = {kind: number for number, (kind, _) in enumerate(groups)}
    return layers, [places[kind] for kind in kinds]


def _hybrid_layers(config: DecoderConfig) -> tuple[tuple[Layer, ...], list[int]]:
    """Groups of equal layers of a decoder with mixers, each half with a norm, as `layers_of`."""
    keys, row, hidden = config.keys, config.row, config.hidden
    kinds = blocks(keys, row.layers, layer_count(keys, row.layers))
    groups = kind_counts(kinds)
    halves = {half for kind in kinds for half in kind}
    forms: dict[str, tuple[Attention | LatentAttention | Mixer, ...]] = {}
    if halves & {MIXED, BESIDE}:
        forms[MIXED] = (mixer_of(keys, hidden, config.norm.epsilon),)
    if halves & {FULL, BESIDE}:
        forms[FULL] = (attention_of(config, 0, 0),)
    if BESIDE in halves:
        forms[BESIDE] = (*forms[MIXED], *forms[FULL])
    mlps = {kind: _mlp(config, kind == SPARSE) for kind in (DENSE, SPARSE) if kind in halves}
    layers = tuple(
        Layer(
            times,
            next((forms[half] for half in kind if half in forms), ()),
            next((mlps[half] for half in kind if half in mlps), None),
            len(kind) * row.norm * hidden,
            is_beside=BESIDE in kind,
            factors=config.factors(),
        )
        for kind, times in groups
    )
    places = {kind: number for number, (kind, _) in enumerate(groups)}
    return layers, [places[kind] for kind in kinds]


def attention_of(config: DecoderConfig, window: int, place: int) -> Attention | LatentAttention:
    """The attention of the layer with index `place`.

    Raises:
        BadInput: where heads do not divide the hidden size, or KV heads not the heads.
    """
    keys, row, hidden = config.keys, config.row, config.hidden
    if row.is_latent:
        return _latent(config)
    heads, dim = heads_of(keys, row.names, hidden, row.head_dim)
    kv_heads = kv_heads_of(keys, row.names, heads)
    output_biases = hidden if keys.has_feature(row.output_bias) else 0
    head_count = heads * (2 if row.has_gate else 1) + 2 * kv_heads
    biases = head_count * dim if keys.has_feature(row.biases) else 0
    norms = heads if row.has_sinks else 0
    if keys.has_feature(row.head_norm):
        norms += (heads + kv_heads) * dim if row.is_head_norm_each else 2 * dim * row.norm
    return Attention(
        heads,
        kv_heads,
        dim,
        dim,
        window,
        biases=biases + output_biases,
        norms=norms,
        output_biases=output_biases,
        scale=config.scale(dim),
        cap=config.cap,
        rotary=config.rotary(dim, has_window=window > 0, layer=place),
        head_norm=config.head_norm,
        has_slopes=config.traits is not None and config.traits.has_slopes,
        has_sinks=config.traits is not None and row.has_sinks,
        has_gate=row.has_gate,
    )


def _latent(config: DecoderConfig) -> LatentAttention:
    keys, row, hidden = config.keys, config.row, config.hidden
    query_rank = keys.whole("q_lora_rank", default=0)
    kv_rank, rotary = keys.whole("kv_lora_rank"), keys.whole("qk_rope_head_dim")
    biases = query_rank + kv_rank + rotary + hidden if keys.has_feature(row.biases) else 0
    plain_dim = keys.whole("qk_nope_head_dim")
    return LatentAttention(
        heads=keys.whole(*row.names.heads, maximum=MOST_HEADS),
        query_rank=query_rank,
        kv_rank=kv_rank,
        plain_dim=plain_dim,
        rotary_dim=rotary,
        value_dim=keys.whole("v_head_dim"),
        norms=query_rank + kv_rank + biases,
        norm=Norm(row.norm, _LATENT_EPSILON),
        rotary=config.rotary(rotary, has_window=False, layer=0),
        scale=config.scale(plain_dim + rotary),
    )


def _mlp(config: DecoderConfig, is_sparse: bool) -> Mlp | Experts:
    keys, row, hidden = config.keys, config.row, config.hidden
    has_biases = keys.has_feature(row.mlp_biases)
    if is_sparse and row.experts:
        return _experts(config, row.experts, has_biases=has_biases)
    names = row.experts.dense_size if row.experts else row.names.intermediate
    size = keys.whole(*names, default=row.mlp_ratio * hidden or None)
    mlp = mlp_of(hidden, size, is_gated=row.is_gated, has_biases=has_biases)
    return replace(mlp, activation=config.function)


def _experts(config: DecoderConfig, row: ExpertsRow, *, has_biases: bool) -> Experts:
    """The experts of a layer.

    Raises:
        BadInput: where a token takes more experts than there are.
    """
    keys, hidden = config.keys, config.hidden
    count = keys.whole(*row.count, maximum=MOST_EXPERTS)
    per_token = keys.whole(*row.per_token)
    if per_token > count:
        name = keys.first(row.per_token) or row.per_token[0]
        raise keys.refuse(name, per_token, f"1 to {count}", f"there are {count} experts")
    size = keys.whole(*row.intermediate)
    shared = keys.whole(*row.shared, default=0, minimum=0) * size if row.shared else 0
    shared += keys.whole(*row.shared_size, default=0, minimum=0) if row.shared_size else 0
    expert_mlp, shared_mlp = (
        replace(
            mlp_of(hidden, width, is_gated=config.row.is_gated, has_biases=is_biased),
            activation=config.function,
            clamped_gate=config.clamped_gate,
        )
        for width, is_biased in ((size, row.has_biases), (shared, has_biases))
    )
    return Experts(
        count,
        per_token,
        expert_mlp,
        shared_mlp if shared else None,
        hidden if shared and row.has_shared_gate else 0,
        count * (row.has_biases + row.has_correction),
        config.routing(count),
    )
