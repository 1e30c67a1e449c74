"""Layers of decoders with mixers: which layers have attention, a mixer, an MLP, experts.

Source: configuration_*.py and modeling_*.py of transformers 5.23.
"""

from __future__ import annotations

import math
from typing import Any, Final

from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.layer_kinds import check_kinds, expert_layers
from trnsim.workload.families.sizes import MOST_HEADS, MOST_LAYERS
from trnsim.workload.mixer import Mixer
from trnsim.workload.operators import ACTIVATIONS

FULL: Final = "full_attention"
MIXED: Final = "linear_attention"
BESIDE: Final = "hybrid"
"""A mixer and attention side by side."""
SPARSE: Final = "moe"
DENSE: Final = "mlp"
_OLD_KINDS: Final = {"attention": FULL, "mamba": MIXED}
"""Names of kinds before transformers 5."""
_PATTERN: Final = {"M": MIXED, "*": FULL, "-": DENSE, "E": SPARSE}
"""Letters of Nemotron-H's ``hybrid_override_pattern``."""
_PATTERN_KEY: Final = "hybrid_override_pattern"
_BLOCK_KEYS: Final = ("layers_block_type", "layer_types")
_DELTA_CHUNK: Final = 64
"""Source: transformers 5.23, torch_chunk_gated_delta_rule."""
_STATE_BITS: Final = {"float32": 32, "auto": 32, "bfloat16": 16, "float16": 16}
"""Bits of kept states by ``mamba_ssm_cache_dtype``."""
_BOUNDS: Final = 2
"""Numbers of ``time_step_limit``."""


def blocks(keys: ConfigKeys, rule: str, layers: int) -> list[tuple[str, ...]]:
    """For each layer its halves: kinds of attention, then of MLPs.

    Raises:
        BadInput: for a list of kinds of another length, or a kind that is not known.
    """
    if rule == "mixers":
        return [(MIXED,)] * layers
    if rule == "hybrid":
        return [(BESIDE, DENSE)] * layers
    if rule == "layers_block_type":
        return [(kind,) for kind in _single_blocks(keys)]
    kinds = _attention_kinds(keys, rule, layers)
    has_experts = keys.whole("num_local_experts", "num_experts", default=0, minimum=0) > 0
    sparse = expert_layers(keys, layers) if has_experts else [False] * layers
    return [
        (kind, SPARSE if is_sparse else DENSE)
        for kind, is_sparse in zip(kinds, sparse, strict=True)
    ]


def layer_count(keys: ConfigKeys, rule: str) -> int:
    """Number of layers: of Nemotron-H, of the blocks that it lists."""
    if rule == "layers_block_type":
        return len(_single_blocks(keys))
    return keys.whole("num_hidden_layers", maximum=MOST_LAYERS)


def _single_blocks(keys: ConfigKeys) -> list[str]:
    """Nemotron-H's blocks, each of which is a layer, listed or as a pattern of letters.

    Raises:
        BadInput: a letter or a kind is not known.
    """
    legal = f"{MIXED}, {FULL}, {DENSE} and {SPARSE}"
    name = keys.first(_BLOCK_KEYS)
    if name:
        kinds = [_OLD_KINDS.get(kind, kind) for kind in keys.items(name, str, legal)]
        check_kinds(keys, name, kinds, tuple(_PATTERN.values()), max(len(kinds), 1))
        return kinds
    pattern = keys.text(_PATTERN_KEY)
    unknown = sorted(set(pattern) - set(_PATTERN))
    if unknown:
        letters = ", ".join(f"{letter} ({kind})" for letter, kind in _PATTERN.items())
        raise keys.unknown(_PATTERN_KEY, pattern, letters, f"{unknown[0]!r} is not known")
    return [_PATTERN[letter] for letter in pattern] or [MIXED, SPARSE, FULL, DENSE]


def _attention_kinds(keys: ConfigKeys, rule: str, layers: int) -> list[str]:
    """For each layer, whether it has attention or a mixer."""
    if rule == "attn_layer_indices":
        indices: set[int] = set(keys.items(rule, int, "numbers of layers"))
        for number in sorted(indices):
            if not 0 <= number < layers:
                legal = f"a list of 0 to {layers - 1}"
                raise keys.refuse(rule, number, legal, f"the model has {layers} layers")
        return [FULL if place in indices else MIXED for place in range(layers)]
    name = keys.first(("layer_types", "layers_block_type"))
    if name:
        names = keys.items(name, str, f"{layers} of {FULL}, {MIXED}")
        kinds = [_OLD_KINDS.get(kind, kind) for kind in names]
        check_kinds(keys, name, kinds, (FULL, MIXED), layers)
        return kinds
    if rule == "full_attention_interval":
        interval = keys.whole(rule, default=4)
        return [MIXED if (place + 1) % interval else FULL for place in range(layers)]
    return [MIXED] * layers


def mixer_of(keys: ConfigKeys, hidden: int, epsilon: float) -> Mixer:
    """The mixer of a decoder's layers.

    Raises:
        BadInput: for sizes that do not go together.
    """
    if keys.first(("linear_num_value_heads",)):
        return _delta_mixer(keys, epsilon)
    if latent := keys.config.get("moe_latent_size"):
        legal = "null: experts of the hidden size"
        raise keys.unknown("moe_latent_size", latent, legal, "latent experts have no formula")
    heads_key = keys.first(("mamba_n_heads", "mamba_num_heads", "num_heads")) or "num_heads"
    heads = keys.whole(heads_key, maximum=MOST_HEADS)
    head_dim = _head_dim(keys, heads, hidden)
    groups_key = keys.first(("mamba_n_groups", "n_groups")) or "n_groups"
    groups = keys.whole(groups_key)
    _check_groups(keys, groups_key, groups, heads)
    is_named = heads_key == "mamba_n_heads"  # Bamba and Granite, whose keys begin with "mamba_"
    has_biases = keys.flag("mamba_proj_bias" if is_named else "use_bias")
    is_output_biased = keys.flag("projectors_bias", default=has_biases)
    of_taps = keys.flag("mamba_conv_bias", default=True)
    least_step, most_step = _step_bounds(keys)
    return Mixer(
        heads,
        groups,
        keys.whole("mamba_d_state", "ssm_state_size", "state_size"),
        head_dim,
        taps=keys.whole("mamba_d_conv", "conv_kernel"),
        chunk=keys.whole("mamba_chunk_size", "chunk_size"),
        has_taps_bias=of_taps if is_named else keys.flag("use_conv_bias", default=of_taps),
        has_biases=has_biases,
        output_biases=hidden if is_output_biased else 0,
        norm=_norm_place(keys),
        epsilon=epsilon,
        activation=_activation(keys),
        least_step=least_step,
        most_step=most_step,
        state_bits=_state_bits(keys),
    )


def _delta_mixer(keys: ConfigKeys, epsilon: float) -> Mixer:
    """The gated delta rule of Qwen3-Next."""
    heads = keys.whole("linear_num_value_heads", maximum=MOST_HEADS)
    groups = keys.whole("linear_num_key_heads", maximum=MOST_HEADS)
    _check_groups(keys, "linear_num_key_heads", groups, heads)
    return Mixer(
        heads,
        groups,
        keys.whole("linear_key_head_dim"),
        keys.whole("linear_value_head_dim"),
        taps=keys.whole("linear_conv_kernel_dim"),
        chunk=_DELTA_CHUNK,
        is_delta=True,
        epsilon=epsilon,
        activation=_activation(keys),
        state_bits=_state_bits(keys),
    )


def _norm_place(keys: ConfigKeys) -> str:
    """Place of the norm before a mixer's output; Falcon-H1 may have none, or one before gates."""
    if not keys.flag("mamba_rms_norm", default=True):
        return ""
    return "plain" if keys.flag("mamba_norm_before_gate") else "gated"


def _activation(keys: ConfigKeys) -> str:
    """Name of the convolution's activation.

    Raises:
        ConfigGap: it is not known.
    """
    name = keys.first(("mamba_hidden_act", "hidden_act")) or "hidden_act"
    activation = keys.text(name, "silu")
    if activation not in ACTIVATIONS:
        legal = ", ".join(ACTIVATIONS)
        raise keys.unknown(name, activation, legal, "the mixers' convolution has it")
    return activation


def _head_dim(keys: ConfigKeys, heads: int, hidden: int) -> int:
    """Elements of a head's values, which may be "auto": an equal part of the expanded size.

    Raises:
        BadInput: heads do not have the expanded size together.
    """
    if keys.first(("mamba_num_heads",)):  # Nemotron-H, whose size is that of its heads
        return keys.whole("mamba_head_dim")
    name = "mamba_d_head" if keys.first(("mamba_n_heads",)) else "head_dim"
    expanded_size = keys.whole("mamba_expand", "expand", default=2) * hidden
    expanded_size = keys.whole("mamba_d_ssm", default=expanded_size)
    is_auto = keys.config.get(name, "auto") == "auto"
    dim = expanded_size // heads if is_auto else keys.whole(name)
    if dim * heads != expanded_size:
        legal = f"what {heads} heads share {expanded_size} elements by"
        raise keys.refuse(name, keys.config.get(name), legal, "they have it together")
    return dim


def _check_groups(keys: ConfigKeys, name: str, groups: int, heads: int) -> None:
    """Check that groups divide heads.

    Raises:
        BadInput: they do not.
    """
    if heads % groups:
        legal = ", ".join(str(n) for n in range(1, heads + 1) if heads % n == 0)
        raise keys.refuse(name, groups, legal, f"each serves an equal part of {heads} heads")


def _step_bounds(keys: ConfigKeys) -> tuple[float, float]:
    """Bounds of the lengths of steps; Nemotron-H has ``time_step_min`` alone."""
    if keys.first(("mamba_num_heads",)):
        return _number(keys, "time_step_min", keys.config.get("time_step_min", 0.001)), math.inf
    bounds = keys.config.get("time_step_limit")
    if bounds is None:
        return 0.0, math.inf
    if not isinstance(bounds, list | tuple) or len(bounds) != _BOUNDS:
        raise keys.refuse("time_step_limit", bounds, "[least, most]", "steps lie between")
    least_step, most_step = (_number(keys, "time_step_limit", bound) for bound in bounds)
    if least_step > most_step:
        raise keys.refuse("time_step_limit", bounds, "[least, most]", "steps lie between")
    return least_step, most_step


def _number(keys: ConfigKeys, name: str, value: Any) -> float:
    """A number of at least 0, which may be infinite.

    Raises:
        BadInput: it is no such number.
    """
    if isinstance(value, str) and value in ("inf", "Infinity"):
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise keys.refuse(name, value, "a number of at least 0", "it bounds a step's length")
    return float(value)


def _state_bits(keys: ConfigKeys) -> float:
    """Bits of an element of a kept state: 32, as the kernels keep it, or as the file says."""
    dtype = keys.text("mamba_ssm_cache_dtype", "float32")
    if dtype not in _STATE_BITS:
        legal = ", ".join(_STATE_BITS)
        raise keys.refuse("mamba_ssm_cache_dtype", dtype, legal, "states are kept in it")
    return _STATE_BITS[dtype]
