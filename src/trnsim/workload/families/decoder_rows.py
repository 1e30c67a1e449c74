"""Decoders by ``model_type``: the differences of each from Llama.

Source: configuration_*.py and modeling_*.py of transformers 5.23; parameter counts of each row are
compared with the model that it builds (tests/clients/test_workload_counts.py).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from trnsim.workload.families.keys import Rule
from trnsim.workload.families.sizes import GPT, PLAIN_NAMES, Names, Spelling

NO_WINDOW: Final = 0
ALL_LAYERS: Final = 1
"""A window in all layers."""
AFTER_FIRST: Final = -1
"""A window in layers from ``max_window_layers`` on."""


@dataclass(frozen=True)
class ExpertsRow:
    """Keys of experts in a family's configuration.

    Attributes:
        count: keys of their number.
        per_token: keys of the number that a token takes.
        intermediate: keys of an expert's size.
        shared: keys of the number of shared experts.
        shared_size: the key of the size of all shared experts together.
        has_shared_gate: whether a gate for each token weighs the shared experts.
        dense_size: keys of the size of layers without experts.
        has_biases: whether experts and router have biases.
        has_correction: whether the router has one more parameter for each expert.
    """

    count: Names = ("num_local_experts", "num_experts")
    per_token: Names = ("num_experts_per_tok",)
    intermediate: Names = ("moe_intermediate_size",)
    shared: Names = ()
    shared_size: Names = ()
    has_shared_gate: bool = False
    dense_size: Names = ("intermediate_size",)
    has_biases: bool = False
    has_correction: bool = False


@dataclass(frozen=True)
class Decoder:
    """A family of decoders.

    Attributes:
        names: keys of its sizes.
        is_gated: whether its MLP has a gate.
        mlp_ratio: default elements of an MLP for each hidden one; 0 if their key is required.
        biases: whether queries, keys and values have biases.
        output_bias: whether the attention's output has a bias.
        mlp_biases: whether the MLP has biases.
        head_bias: whether the logits have a bias.
        norm: parameters of a norm for each element: 0, 1, or 2 with a bias.
        norms: norms of a layer.
        head_norm: whether heads of queries and keys have norms.
        is_head_norm_each: whether each head's norm has weights of its own.
        is_parallel: whether attention and MLP read the same input and are summed together.
        parallel_norms: norms of a layer if `is_parallel`; 0 for `norms`.
        is_tied: whether the logits use the embedding table where no key says so.
        head_dim: default elements of a head; 0 for an equal part of the hidden size.
        places: rows of learned positions beyond the longest sequence; None for no table.
        has_fixed_length: whether its angles or slopes are a table for the longest sequence, which
            its code indexes (create_sinusoidal_positions, build_mpt_alibi_tensor).
        has_table_norm: whether a norm follows the embedding table.
        window: layers with a window, unless ``use_sliding_window`` is false: `NO_WINDOW`,
            `ALL_LAYERS`, `AFTER_FIRST`, or n for all but each n-th below ``max_window_layers``.
        window_names: keys of the window's length.
        other_parameters: parameters of a layer outside products and norms.
        has_sinks: whether heads have attention sinks.
        experts: keys of its experts; None without experts.
        is_latent: whether its attention is latent.
        has_gate: whether attention's results have a gate as wide.
        layers: the rule by which its layers are attention or mixers (`hybrids`); "" for attention.
    """

    names: Spelling = PLAIN_NAMES
    is_gated: bool = True
    mlp_ratio: int = 0
    biases: Rule = False
    output_bias: Rule = False
    mlp_biases: Rule = False
    head_bias: Rule = False
    norm: int = 1
    norms: int = 2
    head_norm: Rule = False
    is_head_norm_each: bool = False
    is_parallel: Rule = False
    parallel_norms: int = 0
    is_tied: bool = False
    head_dim: int = 0
    places: int | None = None
    has_fixed_length: bool = False
    has_table_norm: bool = False
    window: int = NO_WINDOW
    window_names: Names = ("sliding_window",)
    other_parameters: int = 0
    has_sinks: bool = False
    experts: ExpertsRow | None = None
    is_latent: bool = False
    has_gate: bool = False
    layers: str = ""


_BIAS: Final = ("attention_bias", False)
_MLP_BIAS: Final = ("mlp_bias", False)
_QK_NORM: Final = ("use_qk_norm", False)


@dataclass(frozen=True)
class _Llama(Decoder):
    """Decoders with Llama's choices of biases."""

    biases: Rule = field(default=_BIAS)
    output_bias: Rule = field(default=_BIAS)
    mlp_biases: Rule = field(default=_MLP_BIAS)


@dataclass(frozen=True)
class _Gpt(Decoder):
    """Decoders with biases everywhere, norms with biases, and an MLP without a gate."""

    is_gated: bool = False
    biases: Rule = True
    output_bias: Rule = True
    mlp_biases: Rule = True
    norm: int = 2


_MPT: Final = Spelling(
    ("d_model",),
    ("n_layers",),
    ("n_heads",),
    intermediate=("ffn_hidden_size",),
    positions=("max_seq_len",),
)
_BLOOM: Final = Spelling(
    ("hidden_size", "n_embed"),
    ("n_layer", "num_hidden_layers"),
    ("n_head", "num_attention_heads"),
    positions=("seq_length",),
)
_NEO: Final = Spelling(
    layers=("num_layers", "num_hidden_layers"), heads=("num_heads", "num_attention_heads")
)
_OPT: Final = Spelling(intermediate=("ffn_dim",))
_FALCON: Final = Spelling(
    layers=("num_hidden_layers", "n_layer"),
    heads=("num_attention_heads", "n_head"),
    kv_heads=("num_kv_heads", "n_head_kv"),
    intermediate=("ffn_hidden_size",),
)
_DEEPSEEK: Final = ExpertsRow(
    count=("n_routed_experts", "num_experts"), shared=("n_shared_experts",)
)
_DEEPSEEK_V3: Final = Decoder(biases=_BIAS, is_latent=True, experts=_DEEPSEEK)
_WIDE_EXPERTS: Final = ExpertsRow(intermediate=("intermediate_size",))
"""Experts whose size has the key of an MLP's size."""

_QWEN3_NEXT: Final = Decoder(
    biases=_BIAS,
    output_bias=_BIAS,
    head_norm=True,
    head_dim=256,
    has_gate=True,
    layers="full_attention_interval",
    experts=ExpertsRow(shared_size=("shared_expert_intermediate_size",), has_shared_gate=True),
)

ROWS: Final[dict[str, Decoder]] = {
    "llama": _Llama(),
    "granite": _Llama(),
    **dict.fromkeys(("internlm3", "iquestcoder"), _Llama(head_dim=128)),
    # Source: OpenGVLab/InternVL, internvl_chat/internvl/model/internlm2/modeling_internlm2.py.
    "internlm2": Decoder(biases=("bias", True), output_bias=("bias", True)),
    "helium": _Llama(head_dim=128, output_bias=False),
    "smollm3": _Llama(is_tied=True),
    "arcee": _Llama(is_gated=False),
    "jais2": Decoder(
        is_gated=False,
        biases=("attention_bias", True),
        output_bias=("attention_bias", True),
        mlp_biases=("mlp_bias", True),
        norm=2,
        head_dim=128,
    ),
    "nemotron": _Llama(is_gated=False, norm=2),
    "ministral": Decoder(window=ALL_LAYERS),
    "ministral3": Decoder(head_dim=128),
    "mistral": Decoder(window=ALL_LAYERS),
    "phi3": Decoder(window=ALL_LAYERS),
    **dict.fromkeys(
        ("qwen2", "qwen2_vl_text", "qwen2_5_vl_text"), Decoder(biases=True, window=AFTER_FIRST)
    ),
    "qwen3_vl_text": Decoder(biases=_BIAS, output_bias=_BIAS, head_norm=True, head_dim=128),
    "qwen3_vl_moe_text": Decoder(
        biases=_BIAS, output_bias=_BIAS, head_norm=True, is_tied=True, experts=ExpertsRow()
    ),
    "qwen3": Decoder(
        biases=_BIAS, output_bias=_BIAS, head_norm=True, head_dim=128, window=AFTER_FIRST
    ),
    "hunyuan_v1_dense": Decoder(biases=_BIAS, output_bias=_BIAS, head_norm=True),
    "hunyuan_v1_moe": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        head_norm=True,
        experts=ExpertsRow(
            per_token=("moe_topk",),
            intermediate=("intermediate_size",),
            shared_size=("intermediate_size",),
        ),
    ),
    "hy_v3": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        head_norm=True,
        head_dim=128,
        experts=ExpertsRow(shared=("num_shared_experts",)),
    ),
    "cwm": Decoder(head_dim=128, window=ALL_LAYERS),
    "seed_oss": Decoder(
        biases=("attention_bias", True),
        output_bias=("attention_out_bias", False),
        mlp_biases=_MLP_BIAS,
        head_dim=128,
    ),
    "glm": Decoder(biases=("attention_bias", True), head_dim=128),
    "glm4": Decoder(biases=("attention_bias", True), head_dim=128, norms=4),
    "gemma": Decoder(biases=_BIAS, output_bias=_BIAS, is_tied=True, head_dim=256),
    "gemma2": Decoder(
        biases=_BIAS, output_bias=_BIAS, is_tied=True, head_dim=256, norms=4, window=2
    ),
    "gemma3_text": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        is_tied=True,
        head_dim=256,
        norms=4,
        head_norm=True,
        window=6,
    ),
    "exaone4": Decoder(head_norm=True, window=4),
    "ernie4_5": Decoder(
        biases=("use_bias", False),
        output_bias=("use_bias", False),
        mlp_biases=("use_bias", False),
        is_tied=True,
    ),
    "apertus": Decoder(
        biases=_BIAS, output_bias=_BIAS, is_gated=False, head_norm=True, other_parameters=2
    ),
    "stablelm": Decoder(
        biases=("use_qkv_bias", False),
        norm=2,
        head_norm=("qk_layernorm", False),
        is_head_norm_each=True,
        is_parallel=("use_parallel_residual", False),
        parallel_norms=1,
    ),
    "cohere": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        norms=1,
        is_parallel=True,
        head_norm=_QK_NORM,
        is_head_norm_each=True,
        is_tied=True,
    ),
    "cohere2": Decoder(
        biases=_BIAS, output_bias=_BIAS, norms=1, is_parallel=True, is_tied=True, window=4
    ),
    "olmo": Decoder(biases=_BIAS, output_bias=_BIAS, norm=0),
    "olmo2": Decoder(biases=_BIAS, output_bias=_BIAS, head_norm=True, is_head_norm_each=True),
    "olmo3": Decoder(
        biases=_BIAS, output_bias=_BIAS, head_norm=True, is_head_norm_each=True, window=4
    ),
    "starcoder2": Decoder(
        is_gated=False,
        biases=("use_bias", True),
        output_bias=("use_bias", True),
        mlp_biases=("use_bias", True),
        norm=2,
        is_tied=True,
        window=ALL_LAYERS,
    ),
    "gpt2": _Gpt(names=GPT, mlp_ratio=4, is_tied=True, places=0),
    "gpt_bigcode": _Gpt(names=GPT, mlp_ratio=4, is_tied=True, places=0),
    "gpt_neo": _Gpt(
        names=_NEO, mlp_ratio=4, biases=False, is_tied=True, places=0, window_names=("window_size",)
    ),
    "gpt_neox": _Gpt(
        biases=("attention_bias", True),
        output_bias=("attention_bias", True),
        is_parallel=("use_parallel_residual", True),
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        _Gpt(
            names=GPT,
            mlp_ratio=4,
            biases=False,
            output_bias=False,
            head_bias=True,
            norms=1,
            is_parallel=True,
            has_fixed_length=True,
        ),
    ),
    "opt": _Gpt(
        names=_OPT,
        biases=("enable_bias", True),
        output_bias=("enable_bias", True),
        mlp_biases=("enable_bias", True),
        is_tied=True,
        places=2,
    ),
    "biogpt": _Gpt(is_tied=True, places=2),
    "phi": _Gpt(head_bias=True, norms=1, is_parallel=True, head_norm=("qk_layernorm", False)),
    "persimmon": _Gpt(head_norm=("qk_layernorm", True)),
    "bloom": _Gpt(names=_BLOOM, mlp_ratio=4, is_tied=True, has_table_norm=True),
    "mpt": Decoder(names=_MPT, is_gated=False, is_tied=True, has_fixed_length=True),
    "falcon": _Gpt(
        names=_FALCON,
        mlp_ratio=4,
        biases=("bias", False),
        output_bias=("bias", False),
        mlp_biases=("bias", False),
        is_parallel=("parallel_attn", True),
        is_tied=True,
    ),
    "mixtral": Decoder(window=ALL_LAYERS, experts=_WIDE_EXPERTS),
    "minimax_m2": Decoder(
        head_norm=True, is_head_norm_each=True, head_dim=128, experts=_WIDE_EXPERTS
    ),
    "phimoe": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        head_bias=("lm_head_bias", False),
        norm=2,
        window=ALL_LAYERS,
        experts=_WIDE_EXPERTS,
    ),
    "granitemoe": Decoder(biases=_BIAS, output_bias=_BIAS, experts=_WIDE_EXPERTS),
    "granitemoeshared": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        experts=replace(_WIDE_EXPERTS, shared_size=("shared_intermediate_size",)),
    ),
    **dict.fromkeys(
        ("olmoe", "flex_olmo"),
        Decoder(
            biases=_BIAS,
            output_bias=_BIAS,
            head_norm=True,
            is_head_norm_each=True,
            experts=_WIDE_EXPERTS,
        ),
    ),
    "qwen2_moe": Decoder(
        biases=("qkv_bias", True),
        window=2,
        experts=ExpertsRow(shared_size=("shared_expert_intermediate_size",), has_shared_gate=True),
    ),
    "qwen3_moe": Decoder(
        biases=_BIAS, output_bias=_BIAS, head_norm=True, window=ALL_LAYERS, experts=ExpertsRow()
    ),
    **dict.fromkeys(("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"), _QWEN3_NEXT),
    "dots1": Decoder(
        biases=_BIAS, output_bias=_BIAS, head_norm=True, window=AFTER_FIRST, experts=_DEEPSEEK
    ),
    "exaone_moe": Decoder(
        head_norm=True, window=4, experts=ExpertsRow(shared=("num_shared_experts",))
    ),
    "solar_open": Decoder(biases=_BIAS, head_dim=128, experts=_DEEPSEEK),
    "glm4_moe": Decoder(biases=_BIAS, head_norm=_QK_NORM, experts=_DEEPSEEK),
    "ernie4_5_moe": Decoder(
        biases=("use_bias", False),
        output_bias=("use_bias", False),
        mlp_biases=("use_bias", False),
        head_bias=("use_bias", False),
        is_tied=True,
        experts=ExpertsRow(
            count=("moe_num_experts",),
            per_token=("moe_k",),
            shared=("moe_num_shared_experts",),
            has_correction=True,
        ),
    ),
    "gpt_oss": Decoder(
        biases=("attention_bias", True),
        output_bias=("attention_bias", True),
        head_dim=64,
        window=2,
        has_sinks=True,
        experts=ExpertsRow(intermediate=("intermediate_size",), has_biases=True),
    ),
    "llama4_text": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        head_dim=128,
        window=4,
        window_names=("attention_chunk_size",),
        experts=ExpertsRow(
            intermediate=("intermediate_size",),
            shared_size=("intermediate_size",),
            dense_size=("intermediate_size_mlp",),
        ),
    ),
    "dbrx": Decoder(
        names=Spelling(
            ("d_model",), ("n_layers",), ("n_heads",), ("kv_n_heads",), positions=("max_seq_len",)
        ),
        experts=ExpertsRow(
            count=("moe_num_experts",),
            per_token=("moe_top_k",),
            intermediate=("ffn_hidden_size",),
        ),
    ),
    "deepseek_v2": Decoder(biases=_BIAS, mlp_biases=_MLP_BIAS, is_latent=True, experts=_DEEPSEEK),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "glm4_moe_lite"), _DEEPSEEK_V3),
    "youtu": replace(_DEEPSEEK_V3, is_tied=True, experts=None),
    "mamba2": Decoder(is_gated=False, layers="mixers"),
    "bamba": Decoder(
        biases=_BIAS, output_bias=_BIAS, mlp_biases=_MLP_BIAS, layers="attn_layer_indices"
    ),
    "granitemoehybrid": Decoder(
        biases=_BIAS,
        output_bias=_BIAS,
        layers="layer_types",
        experts=replace(
            _WIDE_EXPERTS,
            shared_size=("shared_intermediate_size",),
            dense_size=("shared_intermediate_size",),
        ),
    ),
    "falcon_h1": Decoder(biases=_BIAS, output_bias=_BIAS, mlp_biases=_MLP_BIAS, layers="hybrid"),
    "nemotron_h": Decoder(
        is_gated=False,
        mlp_biases=_MLP_BIAS,
        head_dim=128,
        layers="layers_block_type",
        experts=replace(_DEEPSEEK, shared=(), shared_size=("moe_shared_expert_intermediate_size",)),
    ),
}
