"""Translation of configurations with unusual keys to the keys of other families.

Source of the defaults: configuration_*.py of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import MOST_LAYERS

NORMS: Final = "_norms"
"""A key that only trnsim uses: the number of norms of a layer."""
_DEFAULT_MLP_RATIO: Final = 4
_NEO_KINDS: Final = [[["global", "local"], 12]]
"""The default of GPT-Neo's ``attention_types``."""


def _falcon(keys: ConfigKeys) -> dict[str, Any]:
    """Falcon's generations: the older has one KV head by default, the newer states the number."""
    is_new = keys.flag("new_decoder_architecture")
    is_parallel = is_new or keys.flag("parallel_attn", default=True)
    norms = keys.whole("num_ln_in_parallel_attn", default=2 if is_new else 1)
    values: dict[str, Any] = {NORMS: norms if is_parallel else 2, "parallel_attn": is_parallel}
    if not is_new and keys.flag("multi_query", default=True):
        values |= {"num_kv_heads": 1, "n_head_kv": None}
    return values


def _bigcode(keys: ConfigKeys) -> dict[str, Any]:
    return {"num_key_value_heads": 1 if keys.flag("multi_query", default=True) else None}


def _dbrx(keys: ConfigKeys) -> dict[str, Any]:
    """DBRX's sizes of attention and experts, which lie in nested configurations."""
    attention, experts = keys.nested("attn_config"), keys.nested("ffn_config")
    expert_keys = ("moe_num_experts", "moe_top_k", "ffn_hidden_size")
    return {
        "kv_n_heads": attention.config.get("kv_n_heads", 1),
        **{name: experts.config.get(name) for name in expert_keys},
    }


def _mpt(keys: ConfigKeys) -> dict[str, Any]:
    ratio = keys.whole("expansion_ratio", default=_DEFAULT_MLP_RATIO)
    return {"ffn_hidden_size": ratio * keys.whole("d_model")}


def _neo(keys: ConfigKeys) -> dict[str, Any]:
    """GPT-Neo's kinds of layers, from pairs of a list and the number of its repeats."""
    kinds: list[str] = []
    is_stated = keys.first(("attention_types",)) is not None
    config_entries = keys.items("attention_types", list, "[kinds, times]")
    entries = config_entries if is_stated else _NEO_KINDS
    for entry in entries:
        match entry:
            case [list() as kind_names, int() as times] if 0 < times <= MOST_LAYERS:
                kinds += [str(kind) for kind in kind_names] * times
            case _:
                raise keys.refuse("attention_types", entry, "[kinds, times]", "kinds, how often")
    layers = keys.whole("num_layers", "num_hidden_layers")
    if len(kinds) != layers:
        why = f"these are {len(kinds)}" + ("" if is_stated else ", the default")
        raise keys.refuse("attention_types", entries, f"kinds of {layers} layers", why)
    words = {"global": "full_attention", "local": "local_attention"}
    return {"layer_types": [words.get(kind, kind) for kind in kinds] or None}


def _llama4(keys: ConfigKeys) -> dict[str, Any]:
    """Llama 4's chunks, which layers with rotary positions (1 in ``no_rope_layers``) have."""
    is_rotated = keys.items("no_rope_layers", int, "0 or 1 for each layer")
    if not is_rotated or keys.config.get("layer_types"):
        return {}
    return {
        "layer_types": ["chunked_attention" if flag else "full_attention" for flag in is_rotated]
    }


def _internlm3(keys: ConfigKeys) -> dict[str, Any]:
    """The usual keys of InternLM3, or if absent their names in its release."""
    names = {"attention_bias": "qkv_bias", "mlp_bias": "bias"}
    return {
        name: keys.config.get(name, keys.config.get(release_name))
        for name, release_name in names.items()
    }


def _minimax_m2(keys: ConfigKeys) -> dict[str, Any]:
    """The part of a head that is rotated, for which MiniMax's file has a number of elements."""
    rotary_elements = keys.whole("rotary_dim", default=0, minimum=0)
    dim = keys.whole("head_dim", default=128)
    return {"partial_rotary_factor": rotary_elements / dim} if rotary_elements else {}


def _gpt_oss(keys: ConfigKeys) -> dict[str, Any]:
    """GptOssConfig's stretched positions, where the file says nothing of them."""
    if keys.first(("rope_parameters", "rope_scaling")):
        return {}
    original = {"original_max_position_embeddings": 4096}
    return {"rope_parameters": {"rope_type": "yarn", "factor": 32.0, **original}}


def _cwm(keys: ConfigKeys) -> dict[str, Any]:
    """CWM's windows, which all but each fourth layer have, from the second on."""
    if keys.config.get("layer_types"):
        return {}
    places = range(keys.whole("num_hidden_layers", maximum=MOST_LAYERS))
    return {"layer_types": ["sliding_attention" if n % 4 else "full_attention" for n in places]}


def _hy_v3(keys: ConfigKeys) -> dict[str, Any]:
    """The key of DeepSeek-V3 for the factor of experts' weights."""
    return {"routed_scaling_factor": keys.config.get("router_scaling_factor", 2.826)}


def _hunyuan_moe(keys: ConfigKeys) -> dict[str, Any]:
    """Hunyuan's numbers of experts, where the file lists the same one for each layer.

    Raises:
        BadInput: the listed numbers differ.
    """
    numbers: dict[str, Any] = {}
    for name in ("num_experts", "moe_topk"):
        value = keys.config.get(name)
        if not isinstance(value, list):
            continue
        if len(set(map(repr, value))) != 1:
            raise keys.unknown(name, value, "one number", "layers of different experts are unknown")
        numbers[name] = value[0]
    return numbers


DIALECTS: Final[dict[str, Callable[[ConfigKeys], dict[str, Any]]]] = {
    "cwm": _cwm,
    "falcon": _falcon,
    "gpt_bigcode": _bigcode,
    "dbrx": _dbrx,
    "mpt": _mpt,
    "gpt_neo": _neo,
    "gpt_oss": _gpt_oss,
    "hunyuan_v1_moe": _hunyuan_moe,
    "hy_v3": _hy_v3,
    "internlm3": _internlm3,
    "llama4_text": _llama4,
    "minimax_m2": _minimax_m2,
}
"""Functions that translate unusual keys to the usual ones, by ``model_type``."""


_WINDOW: Final = {"sliding_window": 4096}
_KV_8: Final = {"num_key_value_heads": 8}
_KV_16: Final = {"num_key_value_heads": 16}
_KV_32: Final = {"num_key_value_heads": 32}
_DEEPSEEK_V3: Final = {"n_shared_experts": 1, "q_lora_rank": 1536, "first_k_dense_replace": 3}
_QWEN: Final = {**_WINDOW, "use_sliding_window": False, "max_window_layers": 28}
_MAMBA: Final = {
    "mamba_n_heads": 128,
    "mamba_n_groups": 1,
    "mamba_d_state": 256,
    "mamba_d_conv": 4,
    "mamba_chunk_size": 256,
}
_DELTA: Final = {
    "linear_conv_kernel_dim": 4,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 32,
}
DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "apertus": {"intermediate_size": 14336, "hidden_act": "xielu"},
    "arcee": {"intermediate_size": 18432},
    "cohere2": _WINDOW,
    "cwm": {**_KV_8, "sliding_window": 8192},
    "deepseek_v2": {"n_shared_experts": 2, "q_lora_rank": 1536},
    "deepseek_v3": _DEEPSEEK_V3,
    "dots1": {**_WINDOW, **_KV_32},
    "ernie4_5": {"num_key_value_heads": 2, "head_dim": 128},
    "ernie4_5_moe": {
        "num_key_value_heads": 4,
        "moe_num_shared_experts": 2,
        "moe_layer_start_index": 1,
    },
    "exaone4": {**_WINDOW, **_KV_32},
    "exaone_moe": {**_WINDOW, **_KV_32, "num_shared_experts": 1, "first_k_dense_replace": 1},
    "falcon": {"max_position_embeddings": 2048},
    "gemma": _KV_16,
    "gemma2": {**_WINDOW, "num_key_value_heads": 4},
    "gemma3_text": {**_WINDOW, "num_key_value_heads": 4},
    "glm": {"num_key_value_heads": 2},
    "glm4": {"num_key_value_heads": 2},
    "glm4_moe_lite": {"n_shared_experts": 1, "q_lora_rank": 768, "first_k_dense_replace": 1},
    "glm4_moe": {**_KV_8, "n_shared_experts": 1, "first_k_dense_replace": 1},
    "gpt_neo": {"window_size": 256},
    "gpt_oss": {**_KV_8, "sliding_window": 128},
    "internlm3": {"num_key_value_heads": 2},
    "iquestcoder": _KV_8,
    "hunyuan_v1_moe": {"num_experts": 1, "moe_topk": 1},
    "hy_v3": {**_KV_8, "num_shared_experts": 1, "first_k_dense_replace": 1},
    "helium": {"num_key_value_heads": 20},
    "llama4_text": {**_KV_8, "attention_chunk_size": 8192},
    "minimax_m2": _KV_8,
    "kimi_k2": _DEEPSEEK_V3,
    "ministral": {**_WINDOW, **_KV_8},
    "ministral3": _KV_8,
    "mistral": {**_WINDOW, **_KV_8},
    "mixtral": _KV_8,
    "olmo3": _WINDOW,
    "phi3": {"original_max_position_embeddings": 4096},
    "phimoe": _KV_8,
    "qwen2": {**_QWEN, **_KV_32},
    "qwen2_moe": {**_QWEN, **_KV_16, "shared_expert_intermediate_size": 5632},
    "qwen3": {**_QWEN, **_KV_32},
    "qwen2_5_vl_text": {**_QWEN, **_KV_8, "max_window_layers": 80},
    "qwen2_vl_text": {**_QWEN, **_KV_8, "max_window_layers": 80},
    "qwen3_vl_moe_text": _KV_16,
    "qwen3_vl_text": _KV_32,
    "qwen3_moe": {**_WINDOW, "use_sliding_window": False, "num_key_value_heads": 4},
    "seed_oss": _KV_8,
    "smollm3": {"num_key_value_heads": 4},
    "solar_open": {**_KV_8, "n_shared_experts": 1},
    "stablelm": _KV_32,
    "starcoder2": {"num_key_value_heads": 2},
    "youtu": {"q_lora_rank": 1536},
    "mamba2": {
        "num_heads": 128,
        "head_dim": 64,
        "state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "chunk_size": 256,
    },
    "bamba": {**_MAMBA, **_KV_8},
    "falcon_h1": {
        **_MAMBA,
        **_KV_8,
        "mamba_rms_norm": False,
        "mamba_norm_before_gate": True,
        "projectors_bias": False,
        "mamba_d_ssm": 1024,
    },
    "granitemoehybrid": {
        **_MAMBA,
        "shared_intermediate_size": 1024,
        "num_local_experts": 8,
        "num_experts_per_tok": 2,
    },
    "qwen3_next": {
        **_DELTA,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts": 512,
        "num_experts_per_tok": 10,
    },
    "qwen3_5_text": {**_DELTA, "num_key_value_heads": 4},
    "qwen3_5_moe_text": {
        **_DELTA,
        "num_key_value_heads": 2,
        "moe_intermediate_size": 512,
        "shared_expert_intermediate_size": 512,
        "num_experts": 256,
        "num_experts_per_tok": 8,
    },
    "nemotron_h": {
        "mamba_num_heads": 128,
        "mamba_head_dim": 64,
        "ssm_state_size": 128,
        "n_groups": 8,
        "conv_kernel": 4,
        "chunk_size": 128,
        "moe_shared_expert_intermediate_size": 7688,
        **_KV_8,
    },
}
"""Values of keys that a file leaves out, where no other rule gives them; null stays null."""


def plain_keys(keys: ConfigKeys, model_type: str) -> ConfigKeys:
    """The configuration in the usual keys, with the family's defaults."""
    config = {**DEFAULTS.get(model_type, {}), **keys.config}
    dialect = DIALECTS.get(model_type)
    if dialect is not None:
        config |= dialect(keys)
    return type(keys)(config, keys.file, keys.inside)
