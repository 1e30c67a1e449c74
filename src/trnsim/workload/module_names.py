"""Names that a layer's matrices have in checkpoints.

A quantized checkpoint lists the modules that are not quantized by these names.

Source: modeling_*.py of transformers 5.23; of experts also those of the checkpoints, which it
renames (conversion_mapping.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from trnsim.workload.architecture import Experts, LatentAttention, Layer
from trnsim.workload.families import encoders, images, texts_to_texts
from trnsim.workload.mixer import Mixer

Paths = Mapping[str, tuple[str, ...]]
"""Paths of modules below a layer, by the name of a matrix in `RankGraph.names`.

A matrix that graphs have as one, and checkpoints as several, has the paths of all of them.
"""


def _attention(query: str, key: str, value: str, output: str, half: str = "attention") -> Paths:
    """Paths of grouped-query attention; a fused module is the path of several.

    `half` is "attention" or "cross attention", as in `RankGraph.half`.
    """
    return {
        f"{half}.query": (query,),
        f"{half}.gate": (query,),
        f"{half}.key": (key,),
        f"{half}.value": (value,),
        f"{half}.key and value": (key, value),
        f"{half}.output": (output,),
    }


def _fused(module: str, output: str) -> Paths:
    """Paths of attention whose queries, keys and values are one module."""
    return _attention(module, module, module, output)


def _mlp(up: str, down: str, *gates: str, prefix: str = "") -> Paths:
    """Paths of an MLP; gate and up are one matrix in graphs."""
    names = (*gates, up)
    return {
        f"mlp.{prefix}gate": names,
        f"mlp.{prefix}up": names,
        f"mlp.{prefix}down": (down,),
    }


def _joined(*parts: Paths) -> Paths:
    """The paths of all parts for each matrix."""
    names = dict.fromkeys(name for part in parts for name in part)
    return {name: tuple(path for part in parts for path in part.get(name, ())) for name in names}


def _gated(path: str, prefix: str = "") -> Paths:
    """Paths of an MLP with a gate."""
    return _joined(
        _mlp(f"{path}.up_proj", f"{path}.down_proj", f"{path}.gate_proj", prefix=prefix),
        _mlp(f"{path}.gate_up_proj", f"{path}.down_proj", prefix=prefix),
    )


def _llama_attention(path: str, output: str = "o_proj", half: str = "attention") -> Paths:
    query, key, value = (f"{path}.{name}" for name in ("q_proj", "k_proj", "v_proj"))
    return _attention(query, key, value, f"{path}.{output}", half)


_SELF: Final = "self_attn"
_LATENT: Final = {
    "attention.query": (f"{_SELF}.q_b_proj",),
    "attention.query latent": (f"{_SELF}.q_a_proj",),
    "attention.latent": (f"{_SELF}.kv_a_proj_with_mqa",),
    **dict.fromkeys(
        (
            "attention.keys and values",
            "attention.keys absorbed",
            "attention.values absorbed",
        ),
        (f"{_SELF}.kv_b_proj",),
    ),
}


def _mixer(path: str, module: str = "in_proj", steps: str = "in_proj") -> Paths:
    """Paths of a mixer, a module of which may be several matrices in graphs."""
    return {
        "mixer.gate": (f"{path}.{module}",),
        "mixer.mixed": (f"{path}.{module}",),
        "mixer.step": (f"{path}.{steps}",),
        "mixer.output": (f"{path}.out_proj",),
    }


_EXPERTS: Final = ("mlp.experts", "feed_forward.experts", "block_sparse_moe.experts")
_SHARED: Final = ("mlp.shared_expert", "mlp.shared_experts", "feed_forward.shared_expert")
_GRANITE_SHARED: Final = "shared_mlp.input_linear", "shared_mlp.output_linear"
_LLAMA: Final = _joined(
    _llama_attention(_SELF),
    _llama_attention(_SELF, "dense"),
    _fused(f"{_SELF}.qkv_proj", f"{_SELF}.o_proj"),
    _fused(f"{_SELF}.query_key_value", f"{_SELF}.dense"),
    _LATENT,
    *(_gated(path) for path in ("mlp", "feed_forward")),
    _mlp("mlp.fc1", "mlp.fc2"),
    _mlp("mlp.c_fc", "mlp.c_proj"),
    _mlp("mlp.dense_h_to_4h", "mlp.dense_4h_to_h"),
    *(_gated(path, "expert ") for experts in _EXPERTS for path in (experts, f"{experts}.0")),
    *(_mlp(f"{e}.0.w3", f"{e}.0.w2", f"{e}.0.w1", prefix="expert ") for e in _EXPERTS),
    *(_gated(path, "shared ") for path in _SHARED),
    _mixer("mamba"),
    _mixer("linear_attn", "in_proj_qkvz", "in_proj_ba"),
    _mlp(*_GRANITE_SHARED),
    _mlp(*_GRANITE_SHARED, prefix="shared "),
    _mlp("block_sparse_moe.input_linear", "block_sparse_moe.output_linear", prefix="expert "),
)
"""Llama and its like. An expert stands for all experts of its layer."""
_BART: Final = _joined(
    _llama_attention(_SELF, "out_proj"),
    _llama_attention("encoder_attn", "out_proj", "cross attention"),
    _mlp("fc1", "fc2"),
    _mlp("mlp.fc1", "mlp.fc2"),
)
_BERT: Final = _joined(
    *(
        _attention(f"{path}.query", f"{path}.key", f"{path}.value", "attention.output.dense")
        for path in ("attention.self", "attention.attention")
    ),
    _attention("attention.q_lin", "attention.k_lin", "attention.v_lin", "attention.out_lin"),
    _attention("attention.attn.q", "attention.attn.k", "attention.attn.v", "attention.attn.o"),
    _fused("attn.Wqkv", "attn.Wo"),
    _llama_attention("attention"),
    _mlp("intermediate.dense", "output.dense"),
    _mlp("ffn.lin1", "ffn.lin2"),
    _mlp("mlp.Wi", "mlp.Wo"),
    _BART,
)
_ENCODER_LAYERS: Final = (
    "roberta.encoder.layer",
    "encoder.layer",
    "encoder.layers",
    "layers",
    "model.layers",
    "text_model.encoder.layers",
    "vision_model.encoder.layers",
)
"""Prefixes of encoders' layers; ALBERT's groups of layers are not among them."""
_T5: Final = _joined(
    *(
        _attention(f"{path}.q", f"{path}.k", f"{path}.v", f"{path}.o", half)
        for path, half in (
            ("layer.0.SelfAttention", "attention"),
            ("layer.1.EncDecAttention", "cross attention"),
        )
    ),
    *(
        _mlp(f"{path}.{up}", f"{path}.wo", f"{path}.wi_0")
        for path in ("layer.1.DenseReluDense", "layer.2.DenseReluDense")
        for up in ("wi", "wi_1")
    ),
)
_FOUR_H: Final = _mlp("mlp.dense_h_to_4h", "mlp.dense_4h_to_h")
_BLOOM: Final = _joined(
    _fused("self_attention.query_key_value", "self_attention.dense"),
    _FOUR_H,
)


@dataclass(frozen=True)
class _Style:
    """The names of a family.

    Attributes:
        layers: prefixes before a layer's number; "{tower}" in them stands for the tower's name.
        paths: paths below a layer.
    """

    layers: tuple[str, ...]
    paths: Paths


_LLAMA_STYLE: Final = _Style(
    ("model.layers", "model.language_model.layers", "language_model.model.layers"), _LLAMA
)
_GPT2: Final = _Style(
    ("transformer.h",),
    _joined(_fused("attn.c_attn", "attn.c_proj"), _mlp("mlp.c_fc", "mlp.c_proj")),
)
_SINGLE_MODULES: Final = _Style(
    ("backbone.layers", "model.layers"),
    _joined(
        _mixer("mixer"),
        _llama_attention("mixer"),
        _mlp("mixer.up_proj", "mixer.down_proj"),
        *(
            _mlp(f"mixer.{path}.up_proj", f"mixer.{path}.down_proj", prefix=prefix)
            for path, prefix in (
                ("experts", "expert "),
                ("experts.0", "expert "),
                ("shared_experts", "shared "),
            )
        ),
    ),
)
"""Mamba 2 and Nemotron-H, each of whose layers is one module."""
_STYLES: Final[dict[str, _Style]] = {
    **dict.fromkeys(("mamba2", "nemotron_h"), _SINGLE_MODULES),
    **dict.fromkeys(("gpt2", "gpt_bigcode"), _GPT2),
    "gpt_neo": _Style(
        ("transformer.h",),
        _joined(_llama_attention("attn.attention", "out_proj"), _mlp("mlp.c_fc", "mlp.c_proj")),
    ),
    "gpt_neox": _Style(
        ("gpt_neox.layers",),
        _joined(_fused("attention.query_key_value", "attention.dense"), _FOUR_H),
    ),
    **dict.fromkeys(
        ("gptj", "codegen"),
        _Style(
            ("transformer.h",),
            _joined(
                _llama_attention("attn", "out_proj"),
                _fused("attn.qkv_proj", "attn.out_proj"),
                _mlp("mlp.fc_in", "mlp.fc_out"),
            ),
        ),
    ),
    **dict.fromkeys(("bloom", "falcon"), _Style(("transformer.h",), _BLOOM)),
    "opt": _Style(("model.decoder.layers",), _BART),
    "biogpt": _Style(("biogpt.layers",), _BART),
    "mpt": _Style(
        ("transformer.blocks",),
        _joined(_fused("attn.Wqkv", "attn.out_proj"), _mlp("ffn.up_proj", "ffn.down_proj")),
    ),
    "dbrx": _Style(
        ("transformer.blocks",),
        _joined(
            _fused("norm_attn_norm.attn.Wqkv", "norm_attn_norm.attn.out_proj"),
            _mlp(
                "ffn.experts.mlp.v1", "ffn.experts.mlp.w2", "ffn.experts.mlp.w1", prefix="expert "
            ),
            _mlp("ffn.experts", "ffn.experts", prefix="expert "),
        ),
    ),
    **dict.fromkeys(texts_to_texts.T5_NAMES, _Style(("{tower}.block",), _T5)),
    **dict.fromkeys(
        texts_to_texts.BART_ROWS, _Style(("model.{tower}.layers", "{tower}.layers"), _BART)
    ),
    **{
        name: _Style(
            (f"{name}.encoder.layer", f"{name}.transformer.layer", *_ENCODER_LAYERS), _BERT
        )
        for name in (*encoders.NAMES, *images.NAMES)
    },
}
"""Styles of families that are not Llama's."""
_EXPERT_PREFIXES: Final = ("mlp.expert", "mlp.shared")
"""Beginnings of names of matrices of experts."""
_LATENT_NAMES: Final = _LATENT.keys() - {"attention.query"}
"""Matrices of latent attention alone."""
_VISION_LAYERS: Final = (
    "vision_tower.vision_model.encoder.layers",
    "model.vision_tower.vision_model.encoder.layers",
    "vision_tower.transformer.layers",
    "model.vision_tower.transformer.layers",
    "vision_model.encoder.layers",
    "vision_model.model.layers",
    "model.visual.blocks",
    "visual.blocks",
)
_VISION: Final = _Style(
    _VISION_LAYERS,
    _joined(
        _BART,
        _llama_attention(_SELF),
        _llama_attention("attention"),
        _fused("attn.qkv", "attn.proj"),
        _gated("mlp"),
    ),
)


def matrix_names(
    model_type: str, tower: str, layer: Layer, index: int
) -> Iterator[tuple[str, list[str]]]:
    """Each matrix of a layer, with the names that its modules may have in checkpoints.

    Args:
        model_type: the family.
        tower: the tower's name; a tower of images beside one of texts has other names.
        layer: the layer.
        index: its index, from 0.
    """
    is_beside_texts = tower == "images" and model_type not in images.ROWS
    style = _VISION if is_beside_texts else _STYLES.get(model_type, _LLAMA_STYLE)
    layers = dict.fromkeys(layers.format(tower=tower) for layers in style.layers)
    prefixes = [f"{path}.{index}." for path in layers]
    for name, paths in style.paths.items():
        if _is_in(layer, name):
            yield name, [prefix + path for path in dict.fromkeys(paths) for prefix in prefixes]


def _is_in(layer: Layer, name: str) -> bool:
    """True if a layer may have the matrix of this name."""
    if name.startswith("mlp."):
        return isinstance(layer.mlp, Experts) == name.startswith(_EXPERT_PREFIXES)
    is_mixer = [isinstance(form, Mixer) for form in layer.attentions]
    if name.startswith("mixer."):
        return any(is_mixer)
    if all(is_mixer):
        return False
    is_latent = isinstance(layer.attentions[0], LatentAttention)
    return is_latent or name not in _LATENT_NAMES
