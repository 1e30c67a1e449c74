"""Tiny configurations, and for what graphs call a weight the modules of transformers that hold it.

Each role has candidates, of which the first that a model has is taken: paths, side by side, or
those and what makes the matrix of them.
"""

import numpy as np

SIZES = {
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 41,
    "max_position_embeddings": 64,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
GPT = {"n_embd": 24, "n_layer": 3, "n_head": 4, "n_inner": 36, "n_positions": 64, "vocab_size": 41}
SIZES_BY_HEAD = {**SIZES, "num_key_value_heads": 6}
_HEADS, _WIDTH = 4, 6
"""Of GPT-2 and its like here, in which all heads have keys of their own."""


def _swapped(matrices):
    """Matrices of experts [E, N, K] as [E, K, N]."""
    return matrices.transpose(0, 2, 1)


def _turned(matrix):
    """A matrix [N, K] as [K, N]; a vector as it is."""
    return matrix.T


def _first_half(matrix):
    """The first half of the rows of [2N, K] as [K, N]."""
    return matrix[: len(matrix) // 2].T


def _second_half(matrix):
    """The second half of the rows of [2N, K] as [K, N]."""
    return matrix[len(matrix) // 2 :].T


def _as_it_is(matrix):
    return matrix


def _neighbours(first, last):
    """Of queries, keys and values one after another, some rows."""
    return lambda fused: fused[first:last].T


def _columns(first, last):
    """The same of GPT-2's matrices [K, N]."""
    return lambda fused: fused[..., first:last]


def _by_head(heads, width, *parts):
    """Of each head's query, key and value, some."""

    def made(fused):
        apart = fused.reshape(heads, 3, width, *fused.shape[1:])
        rows = [apart[:, part].reshape(heads * width, *fused.shape[1:]) for part in parts]
        return np.concatenate(rows).T

    return made


def _of_falcon(*parts):
    """Of two groups of two queries, a key and a value."""

    def made(fused):
        apart = fused.reshape(2, 4, _WIDTH, *fused.shape[1:])
        return np.concatenate([apart[:, part].reshape(-1, *fused.shape[1:]) for part in parts]).T

    return made


def _fused(path, query, key, value, *kinds):
    """Names of one matrix, or of a bias too, of which queries, keys and values are parts."""
    named = {"weight": "", "bias": " bias"}
    return {
        f"attention.{role}{named[kind]}": [(f"{path}.{kind}", make)]
        for role, make in (("query", query), ("key", key), ("value", value))
        for kind in kinds or ("weight",)
    }


def _plain(role, *paths, make=None):
    """A matrix and its bias, or a norm's two vectors."""
    is_norm = role.endswith("norm")
    names = {f"{role} weight" if is_norm else role: "weight", f"{role} bias": "bias"}
    return {
        one: [(f"{path}.{kind}", make) if make else f"{path}.{kind}" for path in paths]
        for one, kind in names.items()
    }


_LAYER, _ATTENTION, _MLP = (
    "model.layers.{n}.",
    "model.layers.{n}.self_attn.",
    "model.layers.{n}.mlp.",
)
NAMES = {
    "table": ["model.embed_tokens.weight"],
    "scores of words": ["lm_head.weight"],
    "scores of words bias": ["lm_head.bias"],
    "frequencies": ["model.rotary_emb.inv_freq"],
    **_plain("norm", "model.norm", "model.final_layernorm"),
    **_plain("attention.norm", f"{_LAYER}input_layernorm"),
    **_plain("attention.query", f"{_ATTENTION}q_proj"),
    **_plain("attention.key", f"{_ATTENTION}k_proj"),
    **_plain("attention.value", f"{_ATTENTION}v_proj"),
    **_plain("attention.output", f"{_ATTENTION}o_proj", f"{_ATTENTION}dense"),
    **_plain(
        "attention.query norm",
        *(f"{_ATTENTION}{name}" for name in ("q_norm", "q_layernorm", "query_layernorm")),
    ),
    **_plain(
        "attention.key norm",
        *(f"{_ATTENTION}{name}" for name in ("k_norm", "k_layernorm", "key_layernorm")),
    ),
    **_plain("mlp.norm", f"{_LAYER}pre_feedforward_layernorm", f"{_LAYER}post_attention_layernorm"),
    "attention.outer norm weight": [
        f"{_LAYER}post_self_attn_layernorm.weight",
        f"{_LAYER}post_attention_layernorm.weight",
    ],
    "mlp.outer norm weight": [
        f"{_LAYER}post_mlp_layernorm.weight",
        f"{_LAYER}post_feedforward_layernorm.weight",
    ],
    "mlp.gate": [f"{_MLP}gate_proj.weight", (f"{_MLP}gate_up_proj.weight", _first_half)],
    "mlp.gate bias": [f"{_MLP}gate_proj.bias"],
    "mlp.up": [
        f"{_MLP}up_proj.weight",
        (f"{_MLP}gate_up_proj.weight", _second_half),
        f"{_MLP}fc1.weight",
        f"{_MLP}c_fc.weight",
    ],
    "mlp.up bias": [f"{_MLP}up_proj.bias", f"{_MLP}fc1.bias", f"{_MLP}c_fc.bias"],
    **_plain("mlp.down", f"{_MLP}down_proj", f"{_MLP}fc2", f"{_MLP}c_proj"),
    "mlp.router": [f"{_MLP}gate.weight"],
    "mlp.router bias": [
        f"{_MLP}gate.e_score_correction_bias",
        f"{_MLP}gate.moe_statics.e_score_correction_bias",
        f"{_MLP}e_score_correction_bias",
    ],
    "mlp.expert up": [(f"{_MLP}experts.gate_up_proj", _swapped)],
    "mlp.expert down": [(f"{_MLP}experts.down_proj", _swapped)],
    **{
        f"mlp.shared {name}": [
            f"{_MLP}{shared}.{name}_proj.weight" for shared in ("shared_experts", "shared_expert")
        ]
        for name in ("gate", "up", "down")
    },
    "mlp.gate of the shared part": [f"{_MLP}shared_expert_gate.weight"],
}
"""Those of Llama and of most others."""
AFTER_NORMS = {
    "attention.norm weight": [f"{_LAYER}post_attention_layernorm.weight"],
    "mlp.norm weight": [f"{_LAYER}post_feedforward_layernorm.weight"],
}
_EACH = " ".join(f"{_ATTENTION}q_layernorm.norms.{head}.weight" for head in range(6))
STABLELM = {
    "attention.query norm weight": [_EACH],
    "attention.key norm weight": [" ".join(_EACH.replace("q_l", "k_l").split()[:2])],
}
_BLOCK = "transformer.h.{n}."
GPT2 = {
    "table": ["transformer.wte.weight", "transformer.word_embeddings.weight"],
    "learned places": ["transformer.wpe.weight"],
    "scores of words": ["lm_head.weight"],
    "scores of words bias": ["lm_head.bias"],
    "frequencies": ["transformer.rotary_emb.inv_freq", np.array([1.0, 0.01])],
    "slopes": [0.25 ** np.arange(1, 1 + _HEADS)],
    **_plain("table norm", "transformer.word_embeddings_layernorm"),
    **_plain("norm", "transformer.ln_f", "transformer.norm_f"),
    **_plain("attention.norm", f"{_BLOCK}ln_1", f"{_BLOCK}input_layernorm", f"{_BLOCK}ln_attn"),
    **_plain("mlp.norm", f"{_BLOCK}ln_2", f"{_BLOCK}post_attention_layernorm"),
    **_plain("mlp.second norm", f"{_BLOCK}ln_mlp"),
    **_fused(
        f"{_BLOCK}attn.c_attn",
        _columns(0, 24),
        _columns(24, 48),
        _columns(48, 72),
        "weight",
        "bias",
    ),
    **_plain("attention.output", f"{_BLOCK}attn.c_proj", make=_as_it_is),
    **_plain("mlp.up", f"{_BLOCK}mlp.c_fc", make=_as_it_is),
    **_plain("mlp.down", f"{_BLOCK}mlp.c_proj", make=_as_it_is),
}
BIGCODE = {
    **GPT2,
    **_fused(
        f"{_BLOCK}attn.c_attn",
        _neighbours(0, 24),
        _neighbours(24, 30),
        _neighbours(30, 36),
        "weight",
        "bias",
    ),
    **_plain("attention.output", f"{_BLOCK}attn.c_proj"),
    **_plain("mlp.up", f"{_BLOCK}mlp.c_fc"),
    **_plain("mlp.down", f"{_BLOCK}mlp.c_proj"),
}


def _at(base, path):
    """Queries, keys and values of modules of their own."""
    return {
        **base,
        "attention.query": [f"{path}q_proj.weight"],
        "attention.key": [f"{path}k_proj.weight"],
        "attention.value": [f"{path}v_proj.weight"],
        **_plain("attention.output", f"{path}out_proj"),
    }


GPT_NEO = _at(BIGCODE, f"{_BLOCK}attn.attention.")
GPTJ = {
    **_at(GPT2, f"{_BLOCK}attn."),
    **_plain("mlp.up", f"{_BLOCK}mlp.fc_in"),
    **_plain("mlp.down", f"{_BLOCK}mlp.fc_out"),
}


def _of_codegen(*parts):
    """Of four blocks of a query, a value and a key."""
    return lambda fused: (
        np.concatenate([fused.reshape(4, 3, 6, 24)[:, p].reshape(24, 24) for p in parts]).T
    )


CODEGEN = {
    **GPTJ,
    **_fused(f"{_BLOCK}attn.qkv_proj", _of_codegen(0), _of_codegen(2), _of_codegen(1)),
}
BLOOM = {
    **GPT2,
    **_fused(
        f"{_BLOCK}self_attention.query_key_value",
        _by_head(_HEADS, _WIDTH, 0),
        _by_head(_HEADS, _WIDTH, 1),
        _by_head(_HEADS, _WIDTH, 2),
        "weight",
        "bias",
    ),
    **_plain("attention.output", f"{_BLOCK}self_attention.dense"),
    **_plain("mlp.up", f"{_BLOCK}mlp.dense_h_to_4h"),
    **_plain("mlp.down", f"{_BLOCK}mlp.dense_4h_to_h"),
}
FALCON = {
    **BLOOM,
    **_fused(
        f"{_BLOCK}self_attention.query_key_value", _of_falcon([0, 1]), _of_falcon(2), _of_falcon(3)
    ),
}
OLD_FALCON = {
    **BLOOM,
    **_fused(
        f"{_BLOCK}self_attention.query_key_value",
        _neighbours(0, 24),
        _neighbours(24, 30),
        _neighbours(30, 36),
    ),
}
_MPT = "transformer.blocks.{n}."
MPT = {
    **GPT2,
    **_plain("attention.norm", f"{_MPT}norm_1"),
    **_plain("mlp.norm", f"{_MPT}norm_2"),
    **_fused(f"{_MPT}attn.Wqkv", _neighbours(0, 24), _neighbours(24, 48), _neighbours(48, 72)),
    **_plain("attention.output", f"{_MPT}attn.out_proj"),
    **_plain("mlp.up", f"{_MPT}ffn.up_proj"),
    **_plain("mlp.down", f"{_MPT}ffn.down_proj"),
}


def _renamed(old, new, names=NAMES):
    """The same names below another module."""
    return {
        role: [one.replace(old, new) if isinstance(one, str) else one for one in found]
        for role, found in names.items()
    }


_NEOX = "gpt_neox.layers.{n}."
NEOX = {
    **_renamed("model.", "gpt_neox."),
    "table": ["gpt_neox.embed_in.weight"],
    "scores of words": ["lm_head.weight"],
    **_plain("norm", "gpt_neox.final_layer_norm"),
    **_plain("attention.norm", f"{_NEOX}input_layernorm"),
    **_plain("mlp.norm", f"{_NEOX}post_attention_layernorm"),
    **_plain("mlp.second norm", f"{_NEOX}post_attention_layernorm"),
    **_fused(
        f"{_NEOX}attention.query_key_value",
        _by_head(6, 4, 0),
        _by_head(6, 4, 1),
        _by_head(6, 4, 2),
        "weight",
        "bias",
    ),
    **_plain("attention.output", f"{_NEOX}attention.dense"),
    **_plain("mlp.up", f"{_NEOX}mlp.dense_h_to_4h"),
    **_plain("mlp.down", f"{_NEOX}mlp.dense_4h_to_h"),
}
PERSIMMON = {
    **NAMES,
    **_fused(
        f"{_ATTENTION}query_key_value",
        _by_head(6, 4, 0),
        _by_head(6, 4, 1),
        _by_head(6, 4, 2),
        "weight",
        "bias",
    ),
    **_plain("mlp.up", f"{_MLP}dense_h_to_4h"),
    **_plain("mlp.down", f"{_MLP}dense_4h_to_h"),
}


def _of_opt(layers, ends):
    """OPT's names and its like's."""
    path = f"{layers}.layers.{{n}}."
    attention = f"{path}self_attn."
    return {
        "table": [f"{layers}.embed_tokens.weight"],
        "learned places": [f"{layers}.embed_positions.weight"],
        **_plain("norm", f"{layers}.{ends}"),
        **_plain("attention.norm", f"{path}self_attn_layer_norm"),
        **_plain("mlp.norm", f"{path}final_layer_norm"),
        **_plain("attention.query", f"{attention}q_proj"),
        **_plain("attention.key", f"{attention}k_proj"),
        **_plain("attention.value", f"{attention}v_proj"),
        **_plain("attention.output", f"{attention}out_proj"),
        **_plain("mlp.up", f"{path}fc1"),
        **_plain("mlp.down", f"{path}fc2"),
        "project in": [f"{layers}.project_in.weight"],
        "project out": [f"{layers}.project_out.weight"],
    }


_UP = f"{_ATTENTION}kv_b_proj.weight"


def _absorbed(first, last, *, is_key):
    """Rows of each head's key or value [heads, *]."""

    def made(fused):
        apart = fused.reshape(6, 11, 8)[:, first:last]
        return apart if is_key else apart.transpose(0, 2, 1)

    return made


DEEPSEEK = {
    **NAMES,
    "attention.query latent": [f"{_ATTENTION}q_a_proj.weight"],
    "attention.query norm weight": [f"{_ATTENTION}q_a_layernorm.weight"],
    "attention.query": [f"{_ATTENTION}q_b_proj.weight", f"{_ATTENTION}q_proj.weight"],
    "attention.latent": [f"{_ATTENTION}kv_a_proj_with_mqa.weight"],
    "attention.latent norm weight": [f"{_ATTENTION}kv_a_layernorm.weight"],
    "attention.keys and values": [_UP],
    "attention.keys absorbed": [(_UP, _absorbed(0, 6, is_key=True))],
    "attention.values absorbed": [(_UP, _absorbed(6, 11, is_key=False))],
}


GRANITE_MOE = {
    **NAMES,
    "mlp.router": [f"{_LAYER}block_sparse_moe.router.weight"],
    "mlp.expert up": [(f"{_LAYER}block_sparse_moe.experts.gate_up_proj", _swapped)],
    "mlp.expert down": [(f"{_LAYER}block_sparse_moe.experts.down_proj", _swapped)],
    "mlp.shared gate": [(f"{_LAYER}shared_mlp.input_linear.weight", _first_half)],
    "mlp.shared up": [(f"{_LAYER}shared_mlp.input_linear.weight", _second_half)],
    "mlp.shared down": [f"{_LAYER}shared_mlp.output_linear.weight"],
}


def _apart(fused):
    """Neighbouring columns of gates and of the other inputs as two halves."""
    return np.concatenate((fused[..., ::2], fused[..., 1::2]), axis=-1)


GPT_OSS = {
    **NAMES,
    "attention.sinks": [f"{_ATTENTION}sinks"],
    "mlp.router": [f"{_MLP}router.weight"],
    "mlp.router bias": [f"{_MLP}router.bias"],
    "mlp.expert up": [(f"{_MLP}experts.gate_up_proj", _apart)],
    "mlp.expert up bias": [(f"{_MLP}experts.gate_up_proj_bias", _apart)],
    "mlp.expert down": [(f"{_MLP}experts.down_proj", _as_it_is)],
    "mlp.expert down bias": [(f"{_MLP}experts.down_proj_bias", _as_it_is)],
}
_WIDTH_OF_VALUES, _WIDTH_OF_KEYS = 48, 10
"""Of a token's values, and of its keys and its queries, in the mixers here."""
MIXER_SIZES = {
    "expand": 2,
    "mamba_expand": 2,
    "n_groups": 2,
    "mamba_n_groups": 2,
    "chunk_size": 4,
    "mamba_chunk_size": 4,
    "conv_kernel": 4,
    "mamba_d_conv": 4,
}


def _of_projection(first, last):
    """Some rows of a mixer's one projection [N, K] as [K, N], or of its bias."""
    return lambda fused: fused[first:last].T


def _half_of_heads(half):
    """Of each of six heads' queries and gates of 8 elements, queries or gates."""

    def made(fused):
        by_head = fused.reshape(6, 2, 8, *fused.shape[1:])
        return by_head[:, half].reshape(48, *fused.shape[1:]).T

    return made


def _taps(kernels):
    """Kernels [C, 1, K] as [K, C]."""
    return kernels[:, 0].T


def _mixer(path):
    """Names of a mixer of Mamba 2, whose projection has gates, values, keys, queries and steps."""
    mixed = 2 * _WIDTH_OF_VALUES + 2 * _WIDTH_OF_KEYS
    cuts = {
        "gate": (0, _WIDTH_OF_VALUES),
        "mixed": (_WIDTH_OF_VALUES, mixed),
        "step": (mixed, None),
    }
    names = {
        f"mixer.{role}{suffix}": [(f"{path}.in_proj.{kind}", _of_projection(*cut))]
        for role, cut in cuts.items()
        for kind, suffix in (("weight", ""), ("bias", " bias"))
    }
    return {
        **names,
        "mixer.taps": [(f"{path}.conv1d.weight", _taps)],
        "mixer.taps bias": [f"{path}.conv1d.bias"],
        "mixer.decay": [f"{path}.A_log"],
        "mixer.skip": [f"{path}.D"],
        "mixer.step offset": [f"{path}.dt_bias"],
        "mixer.state norm weight": [f"{path}.norm.weight"],
        "mixer.output": [f"{path}.out_proj.weight"],
        "mixer.output bias": [f"{path}.out_proj.bias"],
    }


MAMBA_2 = {
    **_mixer("backbone.layers.{n}.mixer"),
    "table": ["backbone.embeddings.weight"],
    "scores of words": ["lm_head.weight"],
    "norm weight": ["backbone.norm_f.weight"],
    "mixer.norm weight": ["backbone.layers.{n}.norm.weight"],
}
BAMBA = {
    **NAMES,
    **_mixer(f"{_LAYER}mamba"),
    "mixer.norm weight": [f"{_LAYER}input_layernorm.weight"],
    "mlp.norm weight": [f"{_LAYER}pre_ff_layernorm.weight"],
    "mlp.gate": [f"{_LAYER}feed_forward.gate_proj.weight"],
    "mlp.up": [f"{_LAYER}feed_forward.up_proj.weight"],
    "mlp.down": [f"{_LAYER}feed_forward.down_proj.weight"],
}
FALCON_H1 = {
    **BAMBA,
    "norm weight": ["model.final_layernorm.weight"],
    **{
        f"mlp.{role} bias": [f"{_LAYER}feed_forward.{role}_proj.bias"]
        for role in ("gate", "up", "down")
    },
}
FALCON_H1_SIZES = {
    "mamba_n_heads": 6,
    "mamba_d_head": 8,
    "mamba_d_state": 5,
    "mamba_d_ssm": 48,
    "head_dim": 4,
    "lm_head_multiplier": 0.7,
    "embedding_multiplier": 2.0,
    "mlp_multipliers": [0.8, 1.5],
    "key_multiplier": 0.6,
    "attention_out_multiplier": 0.9,
    "attention_in_multiplier": 1.2,
    "ssm_multipliers": [0.5, 1.3, 0.7, 1.1, 0.4],
    "ssm_in_multiplier": 1.4,
    "ssm_out_multiplier": 0.3,
}
GRANITE_HYBRID = {
    **GRANITE_MOE,
    **_mixer(f"{_LAYER}mamba"),
    "mixer.norm weight": [f"{_LAYER}input_layernorm.weight"],
    "mlp.gate": [(f"{_LAYER}shared_mlp.input_linear.weight", _first_half)],
    "mlp.up": [(f"{_LAYER}shared_mlp.input_linear.weight", _second_half)],
    "mlp.down": [f"{_LAYER}shared_mlp.output_linear.weight"],
}
_BLOCK = "model.layers.{n}.mixer."
NEMOTRON_H = {
    **_mixer("model.layers.{n}.mixer"),
    "table": ["model.embeddings.weight"],
    "scores of words": ["lm_head.weight"],
    "norm weight": ["model.norm_f.weight"],
    **{
        f"{half}.norm weight": ["model.layers.{n}.norm.weight"]
        for half in ("mixer", "attention", "mlp")
    },
    "attention.query": [f"{_BLOCK}q_proj.weight"],
    "attention.key": [f"{_BLOCK}k_proj.weight"],
    "attention.value": [f"{_BLOCK}v_proj.weight"],
    "attention.output": [f"{_BLOCK}o_proj.weight"],
    "mlp.up": [f"{_BLOCK}up_proj.weight"],
    "mlp.down": [f"{_BLOCK}down_proj.weight"],
    "mlp.router": [f"{_BLOCK}gate.weight"],
    "mlp.router bias": [f"{_BLOCK}gate.e_score_correction_bias"],
    "mlp.router correction": [f"{_BLOCK}gate.e_score_correction_bias"],
    "mlp.expert up": [(f"{_BLOCK}experts.up_proj", _swapped)],
    "mlp.expert down": [(f"{_BLOCK}experts.down_proj", _swapped)],
    "mlp.shared up": [f"{_BLOCK}shared_experts.up_proj.weight"],
    "mlp.shared down": [f"{_BLOCK}shared_experts.down_proj.weight"],
}

_DELTA_PARTS = {"query": (0, 5), "key": (5, 10), "value": (10, 22), "gate": (22, 34)}
"""Of each of two groups, rows of a query, a key, two values of 6 and their gates."""


def _of_groups(*cuts):
    """Rows of two groups one after another, by their place within each group, as [K, N]."""

    def made(fused):
        by_group = fused.reshape(2, -1, fused.shape[-1])
        parts = [by_group[:, first:last].reshape(-1, fused.shape[-1]) for first, last in cuts]
        return np.concatenate(parts).T

    return made


def _delta_taps(kernels):
    """Kernels of queries, keys and values as those of values, keys and queries."""
    query, key, value = np.split(kernels[:, 0].T, (10, 20), axis=1)
    return np.concatenate((value, key, query), axis=1)


_LINEAR = f"{_LAYER}linear_attn."
_QKVZ, _BA = f"{_LINEAR}in_proj_qkvz.weight", f"{_LINEAR}in_proj_ba.weight"
QWEN3_NEXT = {
    **NAMES,
    "mixer.norm weight": [f"{_LAYER}input_layernorm.weight"],
    "mixer.gate": [(_QKVZ, _of_groups(_DELTA_PARTS["gate"]))],
    "mixer.mixed": [
        (_QKVZ, _of_groups(*(_DELTA_PARTS[part] for part in ("value", "key", "query"))))
    ],
    "mixer.step": [(_BA, _of_groups((2, 4), (0, 2)))],
    "mixer.taps": [(f"{_LINEAR}conv1d.weight", _delta_taps)],
    "mixer.decay": [f"{_LINEAR}A_log"],
    "mixer.step offset": [f"{_LINEAR}dt_bias"],
    "mixer.state norm weight": [f"{_LINEAR}norm.weight"],
    "mixer.output": [f"{_LINEAR}out_proj.weight"],
    "attention.query": [(f"{_ATTENTION}q_proj.weight", _half_of_heads(0))],
    "attention.query bias": [(f"{_ATTENTION}q_proj.bias", _half_of_heads(0))],
    "attention.gate": [(f"{_ATTENTION}q_proj.weight", _half_of_heads(1))],
    "attention.gate bias": [(f"{_ATTENTION}q_proj.bias", _half_of_heads(1))],
}


def _value_key_query(fused):
    """Rows of queries, keys and values as columns of values, keys and queries."""
    query, key, value = np.split(fused, (10, 20))
    return np.concatenate((value, key, query)).T


QWEN3_5 = {
    **QWEN3_NEXT,
    "mixer.gate": [f"{_LINEAR}in_proj_z.weight"],
    "mixer.mixed": [(f"{_LINEAR}in_proj_qkv.weight", _value_key_query)],
    "mixer.step": [f"{_LINEAR}in_proj_a.weight {_LINEAR}in_proj_b.weight"],
}
DELTA_SIZES = {
    "head_dim": 8,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 5,
    "linear_value_head_dim": 6,
    "shared_expert_intermediate_size": 12,
}


def decoder(model_type, kind, names=NAMES, sizes=SIZES, **given):
    """A tiny decoder, and its names."""
    return {"model_type": model_type, "architectures": [kind], **sizes, **given}, names


_NEO_SIZES = {
    **{key: SIZES[key] for key in ("hidden_size", "intermediate_size", "vocab_size")},
    "num_layers": 2,
    "num_heads": 4,
    "max_position_embeddings": 64,
    "attention_types": [[["global", "local"], 1]],
    "window_size": 4,
}
_FALCON_SIZES = {
    "hidden_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "vocab_size": 41,
    "max_position_embeddings": 64,
}
_YARN = {
    "rope_type": "yarn",
    "factor": 4.0,
    "original_max_position_embeddings": 16,
    "rope_theta": 10000.0,
}
_LATENT = {
    "n_routed_experts": 8,
    "kv_lora_rank": 8,
    "q_lora_rank": 10,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "moe_intermediate_size": 10,
    "first_k_dense_replace": 1,
    "n_group": 2,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "n_shared_experts": 1,
}
_TWO_TABLES = {
    "frequencies": ["model.rotary_emb.full_attention_inv_freq"],
    "frequencieslocal ": ["model.rotary_emb.sliding_attention_inv_freq"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 10}
DECODERS = {
    "llama": decoder("llama", "LlamaForCausalLM"),
    "llama with biases": decoder("llama", "LlamaForCausalLM", attention_bias=True, mlp_bias=True),
    "llama with yarn": decoder("llama", "LlamaForCausalLM", rope_parameters=_YARN),
    "granite": decoder(
        "granite",
        "GraniteForCausalLM",
        embedding_multiplier=3.0,
        attention_multiplier=0.3,
        residual_multiplier=0.4,
        logits_scaling=5.0,
    ),
    "helium": decoder("helium", "HeliumForCausalLM", head_dim=4),
    "smollm3": decoder("smollm3", "SmolLM3ForCausalLM", no_rope_layers=[1, 0, 1]),
    "arcee": decoder("arcee", "ArceeForCausalLM"),
    "internlm3": decoder("internlm3", "LlamaForCausalLM", head_dim=8),
    "iquestcoder": decoder("iquestcoder", "LlamaForCausalLM", head_dim=8),
    "jais2": decoder("jais2", "Jais2ForCausalLM", head_dim=8),
    "nemotron": decoder("nemotron", "NemotronForCausalLM", head_dim=8),
    "ministral3": decoder(
        "ministral3",
        "Ministral3ForCausalLM",
        head_dim=8,
        rope_parameters={**_YARN, "llama_4_scaling_beta": 0},
    ),
    "ministral": decoder("ministral", "MinistralForCausalLM", head_dim=4, sliding_window=4),
    "mistral": decoder("mistral", "MistralForCausalLM", sliding_window=4),
    "phi3": decoder(
        "phi3",
        "Phi3ForCausalLM",
        {
            **NAMES,
            **_fused(
                f"{_ATTENTION}qkv_proj",
                _neighbours(0, 24),
                _neighbours(24, 32),
                _neighbours(32, 40),
            ),
        },
    ),
    "qwen2": decoder("qwen2", "Qwen2ForCausalLM"),
    "qwen3": decoder("qwen3", "Qwen3ForCausalLM", head_dim=8),
    "seed_oss": decoder("seed_oss", "SeedOssForCausalLM", head_dim=8),
    "glm": decoder("glm", "GlmForCausalLM", head_dim=8, partial_rotary_factor=0.5),
    "glm4": decoder("glm4", "Glm4ForCausalLM", head_dim=8, partial_rotary_factor=0.5),
    "gemma": decoder("gemma", "GemmaForCausalLM", head_dim=8),
    "gemma2": decoder(
        "gemma2", "Gemma2ForCausalLM", head_dim=8, sliding_window=4, query_pre_attn_scalar=10
    ),
    "gemma3": decoder(
        "gemma3_text",
        "Gemma3ForCausalLM",
        {**NAMES, **_TWO_TABLES},
        head_dim=8,
        sliding_window=4,
        sliding_window_pattern=2,
        query_pre_attn_scalar=10,
    ),
    "exaone4": decoder(
        "exaone4",
        "Exaone4ForCausalLM",
        {**NAMES, **AFTER_NORMS},
        sliding_window=4,
        sliding_window_pattern=2,
    ),
    "ernie4_5": decoder("ernie4_5", "Ernie4_5ForCausalLM", head_dim=4, use_bias=True),
    "stablelm": decoder(
        "stablelm",
        "StableLmForCausalLM",
        {**NAMES, **STABLELM},
        use_qkv_bias=True,
        qk_layernorm=True,
        partial_rotary_factor=0.5,
    ),
    "stablelm beside": decoder(
        "stablelm", "StableLmForCausalLM", use_parallel_residual=True, partial_rotary_factor=0.5
    ),
    "cohere": decoder("cohere", "CohereForCausalLM", use_qk_norm=True),
    "cohere2": decoder("cohere2", "Cohere2ForCausalLM", sliding_window=4, sliding_window_pattern=2),
    "olmo": decoder("olmo", "OlmoForCausalLM"),
    "olmo2": decoder("olmo2", "Olmo2ForCausalLM", {**NAMES, **AFTER_NORMS}),
    "olmo3": decoder(
        "olmo3", "Olmo3ForCausalLM", {**NAMES, **AFTER_NORMS, **_TWO_TABLES}, sliding_window=4
    ),
    "starcoder2": decoder("starcoder2", "Starcoder2ForCausalLM", sliding_window=4),
    "gpt2": decoder("gpt2", "GPT2LMHeadModel", GPT2, GPT),
    "gpt_bigcode": decoder("gpt_bigcode", "GPTBigCodeForCausalLM", BIGCODE, GPT),
    "gpt_neo": decoder("gpt_neo", "GPTNeoForCausalLM", GPT_NEO, _NEO_SIZES),
    "gpt_neox": decoder("gpt_neox", "GPTNeoXForCausalLM", NEOX, SIZES_BY_HEAD, rotary_pct=0.5),
    "gpt_neox chained": decoder(
        "gpt_neox",
        "GPTNeoXForCausalLM",
        NEOX,
        SIZES_BY_HEAD,
        rotary_pct=0.5,
        use_parallel_residual=False,
    ),
    "gptj": decoder("gptj", "GPTJForCausalLM", GPTJ, GPT, rotary_dim=4),
    "codegen": decoder("codegen", "CodeGenForCausalLM", CODEGEN, GPT, rotary_dim=4),
    "opt": decoder(
        "opt",
        "OPTForCausalLM",
        _of_opt("model.decoder", "final_layer_norm"),
        SIZES_BY_HEAD,
        ffn_dim=36,
        word_embed_proj_dim=24,
    ),
    "opt after": decoder(
        "opt",
        "OPTForCausalLM",
        _of_opt("model.decoder", "final_layer_norm"),
        SIZES_BY_HEAD,
        ffn_dim=36,
        word_embed_proj_dim=10,
        do_layer_norm_before=False,
    ),
    "biogpt": decoder(
        "biogpt", "BioGptForCausalLM", _of_opt("biogpt", "layer_norm"), SIZES_BY_HEAD
    ),
    "phi": decoder("phi", "PhiForCausalLM", qk_layernorm=True),
    "persimmon": decoder("persimmon", "PersimmonForCausalLM", PERSIMMON, SIZES_BY_HEAD),
    "bloom": decoder(
        "bloom",
        "BloomForCausalLM",
        BLOOM,
        {"hidden_size": 24, "n_layer": 2, "n_head": 4, "vocab_size": 41},
    ),
    "mpt": decoder(
        "mpt", "MptForCausalLM", MPT, {"d_model": 24, "n_layers": 2, "n_heads": 4, "vocab_size": 41}
    ),
    "falcon": decoder(
        "falcon",
        "FalconForCausalLM",
        FALCON,
        _FALCON_SIZES,
        new_decoder_architecture=True,
        num_kv_heads=2,
    ),
    "falcon of one key": decoder("falcon", "FalconForCausalLM", OLD_FALCON, _FALCON_SIZES),
    "mixtral": decoder("mixtral", "MixtralForCausalLM", num_local_experts=4, num_experts_per_tok=2),
    "mamba2": decoder(
        "mamba2",
        "Mamba2ForCausalLM",
        MAMBA_2,
        {key: size for key, size in SIZES.items() if "attention" not in key},
        num_heads=6,
        head_dim=8,
        state_size=5,
        **MIXER_SIZES,
    ),
    "bamba": decoder(
        "bamba",
        "BambaForCausalLM",
        BAMBA,
        mamba_n_heads=6,
        mamba_d_head=8,
        mamba_d_state=5,
        attn_layer_indices=[1],
        head_dim=4,
        mamba_proj_bias=True,
        **MIXER_SIZES,
    ),
    "granitemoehybrid": decoder(
        "granitemoehybrid",
        "GraniteMoeHybridForCausalLM",
        GRANITE_HYBRID,
        mamba_n_heads=6,
        mamba_d_head=8,
        mamba_d_state=5,
        layer_types=["mamba", "attention", "mamba"],
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=12,
        attention_multiplier=0.3,
        embedding_multiplier=2.0,
        residual_multiplier=0.5,
        logits_scaling=3.0,
        **MIXER_SIZES,
    ),
    "falcon_h1": decoder(
        "falcon_h1", "FalconH1ForCausalLM", FALCON_H1, **FALCON_H1_SIZES, **MIXER_SIZES
    ),
    "falcon_h1 with a norm and biases": decoder(
        "falcon_h1",
        "FalconH1ForCausalLM",
        FALCON_H1,
        mamba_rms_norm=True,
        projectors_bias=True,
        mamba_proj_bias=True,
        attention_bias=True,
        mlp_bias=True,
        **FALCON_H1_SIZES,
        **MIXER_SIZES,
    ),
    "falcon_h1 with a norm behind the gate": decoder(
        "falcon_h1",
        "FalconH1ForCausalLM",
        FALCON_H1,
        mamba_rms_norm=True,
        mamba_norm_before_gate=False,
        **MIXER_SIZES,
        **{key: size for key, size in FALCON_H1_SIZES.items() if "multiplier" not in key},
    ),
    "nemotron_h": decoder(
        "nemotron_h",
        "NemotronHForCausalLM",
        NEMOTRON_H,
        {key: size for key, size in SIZES.items() if key != "num_hidden_layers"},
        mamba_num_heads=6,
        mamba_head_dim=8,
        ssm_state_size=5,
        head_dim=4,
        layers_block_type=["linear_attention", "mlp", "full_attention", "moe", "linear_attention"],
        n_routed_experts=4,
        num_experts_per_tok=2,
        moe_intermediate_size=20,
        moe_shared_expert_intermediate_size=12,
        **MIXER_SIZES,
    ),
    "gpt_oss": decoder(
        "gpt_oss",
        "GptOssForCausalLM",
        GPT_OSS,
        head_dim=8,
        sliding_window=4,
        num_local_experts=4,
        num_experts_per_tok=2,
        swiglu_limit=0.5,
    ),
    "gpt_oss with its keys": decoder(
        "gpt_oss",
        "GptOssForCausalLM",
        GPT_OSS,
        head_dim=4,
        attention_bias=False,
        sliding_window=3,
        layer_types=["full_attention", "sliding_attention", "full_attention"],
        num_local_experts=64,
        num_experts_per_tok=3,
        swiglu_alpha=0.7,
        rope_parameters=_YARN,
    ),
    "granitemoe": decoder(
        "granitemoe",
        "GraniteMoeForCausalLM",
        GRANITE_MOE,
        num_local_experts=4,
        num_experts_per_tok=2,
        attention_multiplier=0.4,
    ),
    "olmoe": decoder("olmoe", "OlmoeForCausalLM", num_experts=4, num_experts_per_tok=2),
    "qwen2_moe": decoder(
        "qwen2_moe",
        "Qwen2MoeForCausalLM",
        shared_expert_intermediate_size=12,
        mlp_only_layers=[1],
        **_EXPERTS,
    ),
    "qwen3_moe": decoder(
        "qwen3_moe", "Qwen3MoeForCausalLM", norm_topk_prob=True, head_dim=8, **_EXPERTS
    ),
    "qwen3_next": decoder(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        QWEN3_NEXT,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        mlp_only_layers=[2],
        **DELTA_SIZES,
        **_EXPERTS,
    ),
    "qwen3_5": decoder(
        "qwen3_5_text",
        "Qwen3_5ForCausalLM",
        QWEN3_5,
        full_attention_interval=2,
        **{key: size for key, size in DELTA_SIZES.items() if "expert" not in key},
    ),
    "qwen3_5 with experts": decoder(
        "qwen3_5_moe_text",
        "Qwen3_5MoeForCausalLM",
        QWEN3_5,
        layer_types=["linear_attention", "full_attention", "linear_attention"],
        **DELTA_SIZES,
        **_EXPERTS,
    ),
    "cwm": decoder("cwm", "CwmForCausalLM", head_dim=8, sliding_window=4),
    "hunyuan": decoder("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", head_dim=8),
    "hunyuan with a fixed stretch": decoder(
        "hunyuan_v1_dense",
        "HunYuanDenseV1ForCausalLM",
        head_dim=8,
        attention_bias=True,
        rope_parameters={
            "rope_type": "dynamic",
            "alpha": 50.0,
            "factor": 1.0,
            "rope_theta": 10000.0,
        },
    ),
    "hunyuan with experts": decoder(
        "hunyuan_v1_moe",
        "HunYuanMoEV1ForCausalLM",
        {
            **NAMES,
            "mlp.router": [f"{_MLP}gate.wg.weight"],
            **{
                f"mlp.shared {n}": [f"{_MLP}shared_mlp.{n}_proj.weight"]
                for n in ("gate", "up", "down")
            },
        },
        head_dim=8,
        num_experts=4,
        moe_topk=2,
    ),
    "hy_v3": decoder(
        "hy_v3",
        "HYV3ForCausalLM",
        head_dim=8,
        num_shared_experts=2,
        router_scaling_factor=1.7,
        **_EXPERTS,
    ),
    "qwen3_next with biases": decoder(
        "qwen3_next",
        "Qwen3NextForCausalLM",
        QWEN3_NEXT,
        full_attention_interval=2,
        attention_bias=True,
        norm_topk_prob=False,
        partial_rotary_factor=0.5,
        **DELTA_SIZES,
        **_EXPERTS,
    ),
    "flex_olmo": decoder(
        "flex_olmo",
        "FlexOlmoForCausalLM",
        {**NAMES, **AFTER_NORMS},
        num_experts=4,
        num_experts_per_tok=2,
    ),
    "granitemoeshared": decoder(
        "granitemoeshared",
        "GraniteMoeSharedForCausalLM",
        GRANITE_MOE,
        num_local_experts=4,
        num_experts_per_tok=2,
        shared_intermediate_size=12,
        attention_multiplier=0.3,
    ),
    "minimax_m2": decoder(
        "minimax_m2",
        "MiniMaxM2ForCausalLM",
        num_local_experts=4,
        num_experts_per_tok=2,
        head_dim=8,
        rotary_dim=4,
    ),
    "dots1": decoder("dots1", "Dots1ForCausalLM", **_LATENT),
    "exaone_moe": decoder(
        "exaone_moe",
        "ExaoneMoeForCausalLM",
        num_shared_experts=2,
        sliding_window=4,
        sliding_window_pattern=2,
        first_k_dense_replace=2,
        **_EXPERTS,
    ),
    "solar_open": decoder(
        "solar_open",
        "SolarOpenForCausalLM",
        head_dim=8,
        **{**_LATENT, "first_k_dense_replace": 0},
    ),
    "glm4_moe_lite": decoder(
        "glm4_moe_lite",
        "Glm4MoeLiteForCausalLM",
        DEEPSEEK,
        SIZES_BY_HEAD,
        **{**_LATENT, "routed_scaling_factor": 1.7},
    ),
    "youtu": decoder(
        "youtu",
        "YoutuForCausalLM",
        DEEPSEEK,
        SIZES_BY_HEAD,
        **{key: value for key, value in _LATENT.items() if "expert" not in key},
    ),
    "glm4_moe": decoder(
        "glm4_moe",
        "Glm4MoeForCausalLM",
        use_qk_norm=True,
        head_dim=8,
        partial_rotary_factor=0.5,
        **{**_LATENT, "routed_scaling_factor": 1.7},
    ),
    "ernie4_5_moe": decoder(
        "ernie4_5_moe",
        "Ernie4_5_MoeForCausalLM",
        moe_num_experts=4,
        moe_k=2,
        moe_intermediate_size=10,
        moe_num_shared_experts=1,
        moe_layer_start_index=1,
    ),
    "deepseek_v2": decoder(
        "deepseek_v2",
        "DeepseekV2ForCausalLM",
        DEEPSEEK,
        SIZES_BY_HEAD,
        topk_method="group_limited_greedy",
        **_LATENT,
    ),
    "deepseek_v3": decoder(
        "deepseek_v3",
        "DeepseekV3ForCausalLM",
        DEEPSEEK,
        SIZES_BY_HEAD,
        rope_parameters={**_YARN, "mscale": 0.7, "mscale_all_dim": 0.9},
        **_LATENT,
    ),
}


def _of_bert(base, heads):
    """BERT's names below a module, and those of what is behind the layers."""
    path = f"{base}encoder.layer.{{n}}."
    attention = f"{path}attention.self."
    return {
        "table": [f"{base}embeddings.word_embeddings.weight"],
        "learned places": [f"{base}embeddings.position_embeddings.weight"],
        "kinds of tokens": [f"{base}embeddings.token_type_embeddings.weight"],
        **_plain("table norm", f"{base}embeddings.LayerNorm"),
        **_plain("project in", f"{base}embeddings_project"),
        **_plain("attention.query", f"{attention}query"),
        **_plain("attention.key", f"{attention}key"),
        **_plain("attention.value", f"{attention}value"),
        **_plain("attention.output", f"{path}attention.output.dense"),
        **_plain("attention.norm", f"{path}attention.output.LayerNorm"),
        **_plain("mlp.up", f"{path}intermediate.dense"),
        **_plain("mlp.down", f"{path}output.dense"),
        **_plain("mlp.norm", f"{path}output.LayerNorm"),
        **{
            role: value
            for one, paths in heads.items()
            for role, value in _plain(one, *paths).items()
        },
    }


_HEADS_OF_BERT = {
    "dense": ("cls.predictions.transform.dense", "bert.pooler.dense", "pooler.dense"),
    "dense norm": ("cls.predictions.transform.LayerNorm",),
    "classes": ("classifier", "qa_outputs"),
}
_HEADS_OF_ROBERTA = {
    "dense": ("lm_head.dense", "classifier.dense", "pooler.dense"),
    "dense norm": ("lm_head.layer_norm",),
    "classes": ("classifier.out_proj", "classifier"),
}
_HEADS_OF_ELECTRA = {
    "dense": ("generator_predictions.dense", "discriminator_predictions.dense", "classifier.dense"),
    "dense norm": ("generator_predictions.LayerNorm",),
    "classes": ("discriminator_predictions.dense_prediction", "classifier.out_proj"),
}
_DISTIL, _DISTIL_LAYER = "distilbert.", "distilbert.transformer.layer.{n}."
DISTILBERT = {
    "table": [f"{_DISTIL}embeddings.word_embeddings.weight"],
    "learned places": [f"{_DISTIL}embeddings.position_embeddings.weight"],
    **_plain("table norm", f"{_DISTIL}embeddings.LayerNorm"),
    **_plain("attention.query", f"{_DISTIL_LAYER}attention.q_lin"),
    **_plain("attention.key", f"{_DISTIL_LAYER}attention.k_lin"),
    **_plain("attention.value", f"{_DISTIL_LAYER}attention.v_lin"),
    **_plain("attention.output", f"{_DISTIL_LAYER}attention.out_lin"),
    **_plain("attention.norm", f"{_DISTIL_LAYER}sa_layer_norm"),
    **_plain("mlp.up", f"{_DISTIL_LAYER}ffn.lin1"),
    **_plain("mlp.down", f"{_DISTIL_LAYER}ffn.lin2"),
    **_plain("mlp.norm", f"{_DISTIL_LAYER}output_layer_norm"),
    **_plain("dense", "vocab_transform", "pre_classifier"),
    **_plain("dense norm", "vocab_layer_norm"),
    **_plain("classes", "classifier"),
    "scores of words bias": ["vocab_projector.bias"],
}
_ALBERT = "albert.encoder.albert_layer_groups.0.albert_layers.0."
ALBERT = {
    **_of_bert("albert.", {}),
    **_plain("project in", "albert.encoder.embedding_hidden_mapping_in"),
    **_plain("attention.query", f"{_ALBERT}attention.query"),
    **_plain("attention.key", f"{_ALBERT}attention.key"),
    **_plain("attention.value", f"{_ALBERT}attention.value"),
    **_plain("attention.output", f"{_ALBERT}attention.dense"),
    **_plain("attention.norm", f"{_ALBERT}attention.LayerNorm"),
    **_plain("mlp.up", f"{_ALBERT}ffn"),
    **_plain("mlp.down", f"{_ALBERT}ffn_output"),
    **_plain("mlp.norm", f"{_ALBERT}full_layer_layer_norm"),
    **_plain("dense", "predictions.dense", "albert.pooler"),
    **_plain("dense norm", "predictions.LayerNorm"),
    **_plain("classes", "classifier"),
    "scores of words bias": ["predictions.bias"],
}
_ENCODER = {**SIZES_BY_HEAD, "num_labels": 5, "id2label": {str(n): str(n) for n in range(5)}}
_BERT = _of_bert("bert.", _HEADS_OF_BERT) | {"scores of words bias": ["cls.predictions.bias"]}
_ROBERTA = _of_bert("roberta.", _HEADS_OF_ROBERTA) | {"scores of words bias": ["lm_head.bias"]}
_ELECTRA = _of_bert("electra.", _HEADS_OF_ELECTRA) | {
    "scores of words bias": ["generator_lm_head.bias"]
}
_DISTIL_SIZES = {"dim": 24, "n_layers": 2, "n_heads": 4, "hidden_dim": 36, "vocab_size": 41}
_DISTIL_SIZES |= {key: _ENCODER[key] for key in ("max_position_embeddings", "id2label")}
ENCODERS = {
    "bert": decoder("bert", "BertModel", _of_bert("", _HEADS_OF_BERT), _ENCODER),
    "bert of words": decoder("bert", "BertForMaskedLM", _BERT, _ENCODER),
    "bert of classes": decoder("bert", "BertForSequenceClassification", _BERT, _ENCODER),
    "bert of answers": decoder("bert", "BertForQuestionAnswering", _BERT, _ENCODER),
    "roberta of words": decoder("roberta", "RobertaForMaskedLM", _ROBERTA, _ENCODER),
    "roberta of classes": decoder(
        "roberta", "RobertaForSequenceClassification", _ROBERTA, _ENCODER
    ),
    "xlm-roberta of tokens": decoder(
        "xlm-roberta", "XLMRobertaForTokenClassification", _ROBERTA, _ENCODER
    ),
    "distilbert of words": decoder(
        "distilbert", "DistilBertForMaskedLM", DISTILBERT, _DISTIL_SIZES
    ),
    "distilbert of classes": decoder(
        "distilbert", "DistilBertForSequenceClassification", DISTILBERT, _DISTIL_SIZES
    ),
    "electra": decoder("electra", "ElectraForPreTraining", _ELECTRA, _ENCODER, embedding_size=10),
    "electra of words": decoder(
        "electra", "ElectraForMaskedLM", _ELECTRA, _ENCODER, embedding_size=10
    ),
    "electra of classes": decoder(
        "electra", "ElectraForSequenceClassification", _ELECTRA, _ENCODER, embedding_size=10
    ),
    "albert of words": decoder("albert", "AlbertForMaskedLM", ALBERT, _ENCODER, embedding_size=10),
    "albert of classes": decoder(
        "albert", "AlbertForSequenceClassification", ALBERT, _ENCODER, embedding_size=10
    ),
}
