"""Wiring of decoders by ``model_type``: norms, rotations and factors between their products.

Of a family that is not here, sizes alone are known.

Source: configuration_*.py, modeling_*.py and modeling_rope_utils.py of transformers 5.23; values of
each row are compared with the model that it builds (tests/clients/test_workload_values.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Final

from trnsim.workload.architecture import HeadNorm, Norm, Rotary, Wiring
from trnsim.workload.expert_rules import ClampedGate, Routing
from trnsim.workload.families.decoder_rows import Decoder
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import ACTIVATIONS

_EPSILON_KEYS: Final = (
    *("rms_norm_eps", "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps"),
)
_FUNCTION_KEYS: Final = (
    *("hidden_act", "hidden_activation", "activation_function", "activation", "mlp_hidden_act"),
)
_SCALING_KEYS: Final = ("rope_parameters", "rope_scaling")
_ORIGINAL_KEY: Final = "original_max_position_embeddings"
_HUNYUAN: Final = ("hunyuan_v1_dense", "hunyuan_v1_moe")
_UNMODELLED_KEYS: Final = ("clip_qkv", "scale_attn_by_inverse_layer_idx")
"""Keys of features that are not modelled when they are set."""
_PAIR: Final = 2
"""Rotary embeddings turn pairs of elements."""
_LOCAL_PREFIX: Final = "local "
"""Name of the table of frequencies of layers with a window, if they have one of their own."""
_SOFTMAX: Final = Routing()
_FACTOR_KEYS: Final = {
    "attention.input": "attention_in_multiplier",
    "attention.key": "key_multiplier",
    "attention.output": "attention_out_multiplier",
    "mixer.input": "ssm_in_multiplier",
    "mixer.output": "ssm_out_multiplier",
}
"""Keys of Falcon-H1's factors of products and inputs."""
_FACTOR_LISTS: Final = {
    "ssm_multipliers": ("mixer.gate", "mixer.value", "mixer.key", "mixer.query", "mixer.step"),
    "mlp_multipliers": ("mlp.gate", "mlp.down"),
}
"""Keys of lists of such factors, with the name of each item."""


@dataclass(frozen=True)
class Traits:
    """Traits of a family's wiring; the defaults are Llama's.

    Attributes:
        epsilon: default epsilon of its norms.
        is_centered: whether its norms subtract the mean.
        offset: term added to the weights of its norms.
        norm_position: position of norms (`Wiring.norm_position`).
        function: default activation of its MLP.
        has_rotary: whether it has rotary positions.
        rotary_layers: layers with rotary positions: "all", those with a "window", or all but each
            "n-th".
        is_paired: whether neighbours are rotated together.
        rotary_fraction: default part of a head that is rotated.
        has_slopes: whether scores have ALiBi's linear bias.
        is_norm_after_rotation: whether queries and keys are normed after their rotation.
        is_scaled: whether scores are divided by the root of a head's size.
        is_root_embedded: whether embeddings are multiplied by the root of the hidden size.
        has_local_table: whether layers with a window have frequencies of their own.
        routing: rule by which experts are chosen.
        clamped_gate: default of its experts' clamped gate; None for an activation.
    """

    epsilon: float = 1e-6
    is_centered: bool = False
    offset: float = 0.0
    norm_position: str = "before"
    function: str = "silu"
    has_rotary: bool = True
    rotary_layers: str = "all"
    is_paired: bool = False
    rotary_fraction: float = 1.0
    has_slopes: bool = False
    is_norm_after_rotation: bool = False
    is_scaled: bool = True
    is_root_embedded: bool = False
    has_local_table: bool = False
    routing: Routing = _SOFTMAX
    clamped_gate: ClampedGate | None = None


_PLAIN_TRAITS: Final = Traits()
_GPT_TRAITS: Final = Traits(1e-5, is_centered=True, function="gelu_new")
"""Traits of GPT-2's successors, whose norms are centered (LayerNorm)."""
_UNROTATED_GPT_TRAITS: Final = replace(_GPT_TRAITS, has_rotary=False)
"""Traits of GPT-2's successors without rotary embeddings."""
_GEMMA: Final = Traits(offset=1.0, function="gelu_pytorch_tanh", is_root_embedded=True)
_COHERE: Final = Traits(1e-5, is_centered=True, is_paired=True)
_CHOSEN_SCORES: Final = Routing("chosen", is_normed=False)
_SIGMOID: Final = Routing("logistic", is_corrected=True)
_GRANITE_MOE: Final = ("granitemoe", "granitemoeshared", "granitemoehybrid")
_DEEPSEEK_V3: Final = Traits(is_paired=True, routing=_SIGMOID)
TRAITS: Final[dict[str, Traits]] = {
    **dict.fromkeys(
        ("llama", "granite", "internlm2", "ministral", "mistral", "qwen2", "qwen3"), _PLAIN_TRAITS
    ),
    **dict.fromkeys(("seed_oss", "qwen2_moe", "qwen3_moe"), _PLAIN_TRAITS),
    **dict.fromkeys(_GRANITE_MOE, Traits(routing=_CHOSEN_SCORES)),
    "helium": Traits(1e-8, is_paired=True),
    "smollm3": Traits(rotary_layers="n-th"),
    "arcee": Traits(1e-5, function="relu2"),
    **dict.fromkeys(("phi3", "internlm3", "iquestcoder", "ministral3"), Traits(1e-5)),
    "jais2": Traits(1e-5, is_centered=True, function="relu2"),
    "nemotron": Traits(1e-5, is_centered=True, offset=1.0, function="relu2", rotary_fraction=0.5),
    "glm": Traits(1.5625e-7, is_paired=True, rotary_fraction=0.5),
    "glm4": Traits(1.5625e-7, is_paired=True, rotary_fraction=0.5, norm_position="around"),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, norm_position="around"),
    "gemma3_text": replace(_GEMMA, norm_position="around", has_local_table=True),
    "exaone4": Traits(1e-5, norm_position="after", rotary_layers="window"),
    "ernie4_5": Traits(1e-5, is_paired=True),
    "stablelm": Traits(1e-5, is_centered=True, rotary_fraction=0.25),
    "cohere": _COHERE,
    "cohere2": replace(_COHERE, rotary_layers="window"),
    "olmo": Traits(1e-5, is_centered=True),
    "olmo2": Traits(1e-5, norm_position="after"),
    "olmo3": Traits(1e-5, norm_position="after", has_local_table=True),
    "starcoder2": replace(_GPT_TRAITS, function="gelu_pytorch_tanh"),
    "gpt2": _UNROTATED_GPT_TRAITS,
    "gpt_bigcode": replace(_UNROTATED_GPT_TRAITS, function="gelu_pytorch_tanh"),
    "gpt_neo": replace(_UNROTATED_GPT_TRAITS, is_scaled=False),
    "gpt_neox": replace(_GPT_TRAITS, function="gelu", rotary_fraction=0.25),
    **dict.fromkeys(("gptj", "codegen"), replace(_GPT_TRAITS, is_paired=True)),
    "opt": replace(_UNROTATED_GPT_TRAITS, function="relu"),
    "biogpt": replace(_UNROTATED_GPT_TRAITS, epsilon=1e-12, function="gelu", is_root_embedded=True),
    "phi": replace(_GPT_TRAITS, rotary_fraction=0.5),
    "persimmon": replace(_GPT_TRAITS, function="relu2", rotary_fraction=0.5),
    "bloom": replace(_UNROTATED_GPT_TRAITS, has_slopes=True),
    "mpt": replace(_UNROTATED_GPT_TRAITS, function="gelu", has_slopes=True),
    "falcon": replace(_GPT_TRAITS, function="gelu"),
    "mixtral": Traits(1e-5),
    "olmoe": Traits(1e-5),
    "flex_olmo": Traits(norm_position="after"),
    "minimax_m2": Traits(routing=_SIGMOID),
    "dots1": Traits(routing=_SIGMOID),
    "exaone_moe": Traits(1e-5, rotary_layers="window", routing=_SIGMOID),
    "solar_open": Traits(1e-5, routing=_SIGMOID),
    "glm4_moe": Traits(1e-5, rotary_fraction=0.5, routing=_SIGMOID),
    "ernie4_5_moe": Traits(1e-5, is_paired=True, routing=Routing(is_corrected=True)),
    "gpt_oss": Traits(
        1e-5,
        routing=_CHOSEN_SCORES,
        clamped_gate=ClampedGate(alpha=1.702, limit=7.0),
    ),
    "deepseek_v2": Traits(is_paired=True, routing=Routing(is_normed=False, scores_per_group=1)),
    **dict.fromkeys(("deepseek_v3", "kimi_k2", "youtu"), _DEEPSEEK_V3),
    "glm4_moe_lite": replace(_DEEPSEEK_V3, epsilon=1e-5),
    "mamba2": Traits(1e-5, has_rotary=False),
    **dict.fromkeys(
        ("qwen3_next", "qwen3_5_text", "qwen3_5_moe_text"),
        Traits(offset=1.0, rotary_fraction=0.25),
    ),
    **dict.fromkeys(_HUNYUAN, Traits(1e-5, is_norm_after_rotation=True)),
    "cwm": Traits(1e-5),
    "hy_v3": Traits(1e-5, routing=_SIGMOID),
    "falcon_h1": Traits(1e-5),
    "bamba": Traits(1e-5, rotary_fraction=0.5),
    "nemotron_h": Traits(1e-5, function="relu2", has_rotary=False, routing=_SIGMOID),
}
"""Traits by ``model_type``."""
_ALWAYS_NORMED: Final = (
    *("mixtral", "ernie4_5_moe", "minimax_m2", "hunyuan_v1_moe", "hy_v3", "qwen3_5_moe_text"),
)
"""Families that always divide the scores of a token's experts by their sum."""
_NORMED_BY_DEFAULT: Final = (
    *("glm4_moe", "glm4_moe_lite", "solar_open", "exaone_moe", "deepseek_v3", "kimi_k2"),
    *("nemotron_h", "qwen3_next"),
)
"""Families that divide these scores by their sum unless `norm_topk_prob` is false."""
_GROUP_DEFAULTS: Final = {
    **dict.fromkeys(("deepseek_v3", "kimi_k2"), (8, 4, 2.5)),
    **dict.fromkeys(("deepseek_v2", "glm4_moe", "dots1", "solar_open", "nemotron_h"), (1, 1, 1.0)),
    "glm4_moe_lite": (1, 1, 1.8),
    "exaone_moe": (1, 1, 2.5),
    "hy_v3": (1, 1, 2.826),
}
"""By ``model_type``: groups of experts, groups that a token uses, and the factor, by default."""


class DecoderConfig:
    """The configuration of a decoder, read for its wiring.

    Attributes:
        traits: traits of the family; None if sizes alone are known.
    """

    def __init__(self, keys: ConfigKeys, row: Decoder, model_type: str, hidden: int) -> None:
        self.keys, self.row, self.model_type, self.hidden = keys, row, model_type, hidden
        traits = TRAITS.get(model_type)
        self.traits = (
            traits if traits and self.function in ACTIVATIONS and self._is_usual() else None
        )

    def _is_usual(self) -> bool:
        """True if no key sets a feature that is not modelled."""
        keys = self.keys
        if any(keys.config.get(name) for name in _UNMODELLED_KEYS):
            return False
        if keys.config.get("alibi", self.model_type == "mpt") != (self.model_type == "mpt"):
            return False
        if keys.flag("apply_residual_connection_post_layernorm"):
            return False
        rope = self.rope_config.config if self.rope_config else {}
        return not self._is_growing() and not rope.get("llama_4_scaling_beta")

    def _is_growing(self) -> bool:
        """True if frequencies depend on the sequence's length: no table is right for all."""
        name = self.keys.first(_SCALING_KEYS)
        if name is None or not isinstance(self.keys.config[name], dict):
            return False
        scaling = self.keys.nested(name)
        layers = [key for key, value in scaling.config.items() if isinstance(value, dict)]
        return any(
            self._stretch_kind(part) == "dynamic"
            and not (self.model_type in _HUNYUAN and part.config.get("alpha"))
            for part in (scaling, *map(scaling.nested, layers))
        )

    def _stretch_kind(self, rope_config: ConfigKeys) -> str:
        """How positions are stretched, by transformers' name; older files say "type" and "su"."""
        kind = rope_config.text("rope_type") or rope_config.text("type")
        is_old = kind == "su" or (kind == "yarn" and self.model_type == "phi3")
        return "longrope" if is_old else kind

    @property
    def function(self) -> str:
        """Activation of an MLP, by transformers' name."""
        traits = TRAITS.get(self.model_type, _PLAIN_TRAITS)
        if self.model_type in ("bloom", "mpt"):  # which name none
            return traits.function
        name = self.keys.first(_FUNCTION_KEYS)
        return self.keys.text(name, traits.function) if name else traits.function

    @property
    def norm(self) -> Norm:
        """The norm of layers, and of the end of the tower."""
        traits = self.traits or _PLAIN_TRAITS
        name = self.keys.first(_EPSILON_KEYS)
        is_stated = name is not None and self.model_type not in ("olmo", "opt")
        epsilon = _number(self.keys, name or "", traits.epsilon) if is_stated else traits.epsilon
        return Norm(self.row.norm, epsilon, traits.is_centered, traits.offset)

    @property
    def rope_config(self) -> ConfigKeys | None:
        """The nested configuration of rotary positions, if there is one."""
        name = self.keys.first(_SCALING_KEYS)
        if name is None or not isinstance(self.keys.config[name], dict):
            return None
        scaling = self.keys.nested(name)
        nested = scaling.config.get("full_attention")
        return scaling.nested("full_attention") if isinstance(nested, dict) else scaling

    def rotary(self, dim: int, *, has_window: bool, layer: int) -> Rotary | None:
        """Rotary position embedding of heads of `dim` elements in the layer of index `layer`."""
        traits = self.traits
        if traits is None or not traits.has_rotary or not self._has_rotary(layer, has_window):
            return None
        table = _LOCAL_PREFIX if traits.has_local_table and has_window else ""
        factor = 1.0 if table else self._rotation_factor()
        return Rotary(self._width(dim, traits.rotary_fraction), traits.is_paired, table, factor)

    def _rotation_factor(self) -> float:
        """Factor of cosines and sines for stretched positions."""
        keys, rope_config = self.keys, self.rope_config
        kind = self._stretch_kind(rope_config) if rope_config else ""
        if rope_config is None or kind not in ("yarn", "longrope"):
            return 1.0
        if rope_config.config.get("attention_factor") is not None:
            return _number(rope_config, "attention_factor", 1.0)
        positions = keys.whole("max_position_embeddings", default=1)
        # Phi-3 has the key beside rope_scaling; there it counts first (transformers,
        # RotaryEmbeddingConfigMixin).
        config = keys if keys.first((_ORIGINAL_KEY,)) else rope_config
        original = config.whole(_ORIGINAL_KEY, default=positions, minimum=2)
        factor = _number(rope_config, "factor", positions / original)
        if kind == "longrope":
            is_longer = min(factor, original) > 1
            return math.sqrt(1 + math.log(factor) / math.log(original)) if is_longer else 1.0
        scales = [_number(rope_config, name, 0.0) for name in ("mscale", "mscale_all_dim")]
        if min(scales) < 0:
            name = "mscale" if scales[0] < 0 else "mscale_all_dim"
            raise rope_config.refuse(name, min(scales), "numbers from 0", "cosines grow with it")
        if all(scales):
            return _stretch(factor, scales[0]) / _stretch(factor, scales[1])
        return _stretch(factor)

    def _width(self, dim: int, default: float) -> int:
        """Elements of a head that are rotated.

        Raises:
            BadInput: the number is not positive, or more than a head has.
        """
        name, keys = "qk_rope_head_dim" if self.row.is_latent else "head_dim", self.keys
        width = int(dim * default)
        if self.model_type in ("gptj", "codegen"):
            name, width = "rotary_dim", keys.whole("rotary_dim", default=64)
        else:
            for config in (self.rope_config, self.keys):
                key = config.first(("partial_rotary_factor", "rotary_pct")) if config else None
                if config and key:
                    name, keys = key, config
                    width = int(dim * _number(config, key, 1.0))
                    break
        width += width % _PAIR
        if not 0 < width <= dim:
            legal = f"a value by which pairs of up to {dim} elements of a head are rotated"
            raise keys.refuse(name, keys.config.get(name), legal, f"it rotates {width}")
        return width

    def _has_rotary(self, layer: int, has_window: bool) -> bool:
        traits = self.traits or _PLAIN_TRAITS
        if self.model_type == "granitemoehybrid":
            return self.keys.text("position_embedding_type") == "rope"
        if traits.rotary_layers == "window":
            return has_window or (
                self.model_type in ("exaone4", "exaone_moe")
                and not self.keys.config.get("sliding_window")
            )
        if traits.rotary_layers == "n-th":
            flags = self.keys.items("no_rope_layers", int, "0 or 1 for each layer")
            every = self.keys.whole("no_rope_layer_interval", default=4)
            return bool(flags[layer]) if layer < len(flags) else (layer + 1) % every != 0
        return True

    def scale(self, dim: int) -> float:
        """Factor of the products of queries and keys."""
        keys = self.keys
        if self.traits is not None and not self.traits.is_scaled:
            return 1.0
        if self.model_type in ("granite", *_GRANITE_MOE):
            return _number(keys, "attention_multiplier", 1.0)
        if self.model_type in ("gemma2", "gemma3_text"):
            return float(keys.whole("query_pre_attn_scalar", default=256) ** -0.5)
        if not keys.flag("scale_attn_weights", default=True):
            return 1.0
        rope_config = self.rope_config
        if self.row.is_latent and rope_config is not None:
            all_dim = _number(rope_config, "mscale_all_dim", 0.0)
            factor = _number(rope_config, "factor", 1.0)
            if all_dim and self._stretch_kind(rope_config) == "yarn":
                return float(dim**-0.5 * _stretch(factor, all_dim) ** 2)
        return float(dim**-0.5)

    @property
    def cap(self) -> float:
        """Bound of the scores of attention; 0 for none."""
        default = 50.0 if self.model_type == "gemma2" else 0.0
        return _number(self.keys, "attn_logit_softcapping", default)

    @property
    def clamped_gate(self) -> ClampedGate | None:
        """The clamped gate of its experts; None for an activation."""
        default = self.traits.clamped_gate if self.traits else None
        if default is None:
            return None
        return ClampedGate(
            _number(self.keys, "swiglu_alpha", default.alpha),
            _number(self.keys, "swiglu_limit", default.limit),
        )

    @property
    def head_norm(self) -> HeadNorm | None:
        """The norm of queries and keys; None for none."""
        row, norm = self.row, self.norm
        if self.traits is None or not self.keys.has_feature(row.head_norm):
            return None
        if not row.is_head_norm_each:
            return HeadNorm(norm, is_after_rotation=self.traits.is_norm_after_rotation)
        return HeadNorm(replace(norm, parts=1), "heads" if norm.is_centered else "row")

    def routing(self, count: int) -> Routing:
        """The rule by which some of `count` experts are chosen.

        Raises:
            BadInput: groups do not divide them, or a token uses more groups than there are.
        """
        keys, traits = self.keys, self.traits or _PLAIN_TRAITS
        if traits.routing.function == "chosen":
            return traits.routing
        groups, groups_per_token, factor = _GROUP_DEFAULTS.get(self.model_type, (1, 1, 1.0))
        if self.model_type in _GROUP_DEFAULTS:
            factor = _number(keys, "routed_scaling_factor", factor)
            groups = keys.whole("n_group", default=1 if count % groups else groups)
            groups_per_token = keys.whole("topk_group", default=min(groups_per_token, groups))
            minimum_experts = traits.routing.scores_per_group
            if count % groups or groups * minimum_experts > count:
                legal = f"divisors of {count} experts, at most {count // minimum_experts}"
                why = f"groups of equally many, {minimum_experts} or more"
                raise keys.refuse("n_group", groups, legal, why)
            if groups_per_token > groups:
                raise keys.refuse(
                    "topk_group", groups_per_token, f"1 to {groups}", "there are no more groups"
                )
        if keys.config.get("topk_method") == "greedy":
            groups = groups_per_token = 1
        default = self.model_type in (*_ALWAYS_NORMED, *_NORMED_BY_DEFAULT)
        is_normed = (
            default
            if self.model_type in _ALWAYS_NORMED
            else keys.flag("norm_topk_prob", default=default)
        )
        if self.model_type == "deepseek_v2":
            is_normed = False
        return replace(
            traits.routing,
            is_normed=is_normed,
            factor=factor,
            groups=groups,
            groups_per_token=groups_per_token,
        )

    def factors(self) -> tuple[tuple[str, float], ...]:
        """Factors of products and inputs of a layer, as in `Layer`: those of Falcon-H1."""
        if self.model_type != "falcon_h1":
            return ()
        keys = self.keys
        factors = {name: _number(keys, key, 1.0) for name, key in _FACTOR_KEYS.items()}
        for key, names in _FACTOR_LISTS.items():
            items = keys.items(key, object, f"{len(names)} numbers")
            if items and len(items) != len(names):
                legal = f"a list of {len(names)}"
                parts = ", ".join(name.partition(".")[2] for name in names)
                raise keys.refuse(key, f"a list of {len(items)}", legal, f"factors of {parts}")
            values = (_finite(keys, key, value) for value in items)
            factors |= dict(zip(names, values, strict=False))
        return tuple((name, factor) for name, factor in factors.items() if factor != 1)

    def wiring(self) -> Wiring | None:
        """The wiring of the tower; None if sizes alone are known."""
        traits, keys, row = self.traits, self.keys, self.row
        if traits is None:
            return None
        is_before = keys.flag("do_layer_norm_before", default=True)
        is_root = traits.is_root_embedded and keys.flag("scale_embedding", default=True)
        default = self.hidden**0.5 if is_root else 1.0
        divisor = _number(keys, "logits_scaling", 1.0)
        if not divisor:
            raise keys.refuse("logits_scaling", divisor, "any number but 0", "it divides logits")
        score_factor = 1 / divisor
        if self.model_type in ("cohere", "cohere2"):
            score_factor = _number(keys, "logit_scale", 0.0625)
        elif self.model_type == "falcon_h1":
            score_factor = _number(keys, "lm_head_multiplier", 1.0)
        usual_cap = 30.0 if self.model_type == "gemma2" else 0.0
        return Wiring(
            self.norm,
            norm_position=traits.norm_position if is_before else "sum",
            embedding_factor=_number(keys, "embedding_multiplier", default),
            residual_factor=_number(keys, "residual_multiplier", 1.0),
            score_factor=score_factor,
            cap=_number(keys, "final_logit_softcapping", usual_cap),
            has_score_bias=keys.has_feature(row.head_bias),
            has_last_norm=is_before and not keys.flag("_remove_final_layer_norm"),
            first_position_row=row.places or 0,
            has_table_norm=row.has_table_norm,
        )


def _number(keys: ConfigKeys, name: str, default: float) -> float:
    """The number under a key, or `default` if it is absent.

    Raises:
        BadInput: it is no number.
    """
    if name not in keys.config:
        return default
    value: Any = keys.config[name]
    if value is None:
        return 0.0 if "cap" in name else default
    return _finite(keys, name, value)


def _finite(keys: ConfigKeys, name: str, value: Any) -> float:
    """The value of a key as a number.

    Raises:
        BadInput: it is no number.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise keys.refuse(name, value, "a number", "values are computed with it, so it is finite")
    return float(value)


def _stretch(factor: float, scale: float = 1.0) -> float:
    """YaRN's temperature (arXiv:2309.00071), section 3.4."""
    return 0.1 * scale * math.log(factor) + 1 if factor > 1 else 1.0
