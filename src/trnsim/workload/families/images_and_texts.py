"""Decoders that read images: a tower of images, a projection, and a decoder of texts.

Tokens of a prompt are those of its text and of its images together.

Source: configuration_*.py and modeling_*.py of transformers 5.23; parameter counts of each family
are compared with the model that it builds (tests/clients/test_workload_counts.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trnsim.workload.architecture import Projection, Tower
from trnsim.workload.families import (
    decoders,
    image_tiles,
    images,
    intern_chats,
    qwen_images,
    resampled_images,
    tiled_images,
)
from trnsim.workload.families.decoder_rows import ROWS
from trnsim.workload.families.keys import ConfigKeys

_GEMMA_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "gemma3_text",
    "hidden_size": 2304,
    "intermediate_size": 9216,
    "num_hidden_layers": 26,
    "num_attention_heads": 8,
    "vocab_size": 262208,
    "sliding_window": 4096,
    "max_position_embeddings": 131072,
}
_LLAVA_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 11008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 32000,
    "max_position_embeddings": 2048,
}
_LLAMA4_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "llama4_text",
    "hidden_size": 5120,
    "intermediate_size": 8192,
    "intermediate_size_mlp": 16384,
    "num_hidden_layers": 48,
    "num_attention_heads": 40,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "num_experts_per_tok": 1,
    "num_local_experts": 16,
    "interleave_moe_layer_step": 1,
    "vocab_size": 202048,
    "max_position_embeddings": 131072,
}
_MISTRAL_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "mistral",
    "hidden_size": 5120,
    "intermediate_size": 32768,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 131072,
    "sliding_window": None,
    "max_position_embeddings": 131072,
}
_PALIGEMMA_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "gemma",
    "hidden_size": 3072,
    "intermediate_size": 24576,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "vocab_size": 256000,
    "max_position_embeddings": 8192,
}
_QWEN_TEXT: Final[Mapping[str, Any]] = {
    "hidden_size": 8192,
    "intermediate_size": 29568,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "vocab_size": 152064,
    "max_position_embeddings": 32768,
}
_QWEN2_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "qwen2",
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 151936,
    "max_position_embeddings": 32768,
}
_QWEN3_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "qwen3_vl_text",
    "hidden_size": 4096,
    "intermediate_size": 22016,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "vocab_size": 151936,
    "max_position_embeddings": 128000,
}
_QWEN3_EXPERTS_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "qwen3_vl_moe_text",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "moe_intermediate_size": 1408,
    "num_experts_per_tok": 4,
    "num_experts": 60,
    "vocab_size": 151936,
    "max_position_embeddings": 128000,
}
_QWEN3_5_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "qwen3_5_text",
    "hidden_size": 4096,
    "intermediate_size": 12288,
    "num_hidden_layers": 32,
    "num_attention_heads": 16,
    "vocab_size": 248320,
    "max_position_embeddings": 32768,
}
_QWEN3_5_EXPERTS_TEXT: Final[Mapping[str, Any]] = {
    "model_type": "qwen3_5_moe_text",
    "hidden_size": 2048,
    "num_hidden_layers": 40,
    "num_attention_heads": 16,
    "vocab_size": 248320,
    "max_position_embeddings": 32768,
}
TEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gemma3": _GEMMA_TEXT,
    "internvl": _QWEN2_TEXT,
    intern_chats.NAME: {"model_type": "internlm2"},
    "llama4": _LLAMA4_TEXT,
    **dict.fromkeys(("idefics3", "llava", "llava_next", "smolvlm"), _LLAVA_TEXT),
    "mistral3": _MISTRAL_TEXT,
    resampled_images.NAME: {
        "model_type": "mistral",
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 32768,
    },
    "mllama": tiled_images.TEXT_SIZES,
    "paligemma": _PALIGEMMA_TEXT,
    "qwen2_vl": {"model_type": "qwen2_vl_text", **_QWEN_TEXT},
    "qwen2_5_vl": {"model_type": "qwen2_5_vl_text", **_QWEN_TEXT},
    "qwen3_5": _QWEN3_5_TEXT,
    "qwen3_5_moe": _QWEN3_5_EXPERTS_TEXT,
    "qwen3_vl": _QWEN3_TEXT,
    "qwen3_vl_moe": _QWEN3_EXPERTS_TEXT,
}
"""Default sizes of the text configuration, by ``model_type``."""
_OTHER_TEXTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "gemma": _PALIGEMMA_TEXT,
    "llama": _LLAVA_TEXT,
    "qwen2": _QWEN2_TEXT,
    "gemma2": {
        "hidden_size": 2304,
        "intermediate_size": 9216,
        "num_hidden_layers": 26,
        "num_attention_heads": 8,
        "vocab_size": 256000,
        "max_position_embeddings": 8192,
    },
    "mistral": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
        "max_position_embeddings": 131072,
    },
}
"""Default sizes of texts whose ``model_type`` is not the usual one of the family."""
NAMES: Final = tuple(TEXTS)
_IMAGE_ENCODERS: Final = {
    "gemma3": "siglip_vision_model",
    "llama4": "llama4_vision_model",
    "llava": "clip_vision_model",
    "llava_next": "clip_vision_model",
    "mistral3": "pixtral",
    resampled_images.NAME: resampled_images.ENCODER,
    "mllama": tiled_images.IMAGES,
    "paligemma": "siglip_vision_model",
    "qwen2_vl": "qwen2_vl_vision",
    "qwen2_5_vl": "qwen2_5_vl_vision",
    "qwen3_5": "qwen3_5_vision",
    "qwen3_5_moe": "qwen3_5_moe_vision",
    "qwen3_vl": "qwen3_vl_vision",
    "qwen3_vl_moe": "qwen3_vl_moe_vision",
    **image_tiles.ENCODERS,
}
_TEXT_KEYS: Final = {intern_chats.NAME: intern_chats.TEXTS}
"""Key of the text configuration, by ``model_type``, where it is not ``text_config``."""
_FLAT_FAMILIES: Final = ("qwen2_vl", "qwen2_5_vl")
"""Families whose older files have the keys of `text_config` beside `vision_config`."""
_OUTER_KEYS: Final = ("architectures", "id2label", "num_labels", "tie_word_embeddings")
"""Keys that may stand above `text_config`, and decide the decoder's head."""
_OUTER_TIES: Final = {
    **dict.fromkeys(("internvl", "paligemma"), True),
    **dict.fromkeys(("idefics2", "idefics3", "llava_next", "qwen3_5", "qwen3_5_moe"), False),
    **dict.fromkeys(("qwen3_vl", "qwen3_vl_moe", "smolvlm"), False),
}
"""Families whose `text_config` does not decide whether embedding and logits share weights.

The value is that of a file that does not state it.
"""
_MARKS: Final = {"gemma3": 4, "llama4": 3}
"""Tokens of a prompt before and behind those of an image, in the families' processors."""
_IMAGE_TOKENS: Final = 256
_PALIGEMMA_WIDTH: Final = 2048
"""Default width of a token of an image behind PaliGemma's projection."""
_VISION_WIDTH: Final = 7680
"""Default width of the output of Llama 4's image encoder."""


def towers(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """The image encoder and the decoder, and a resampler between them where there is one.

    Raises:
        BadInput: a configuration is missing, or names an unknown model.
    """
    vision_keys = keys.nested("vision_config")
    if model_type == intern_chats.NAME:
        vision_keys = intern_chats.images_of(keys, vision_keys)
    if model_type == "mllama":
        _with_type(vision_keys, tiled_images.IMAGES, {tiled_images.IMAGES: None})
        texts, _ = _with_type(
            texts_of(keys, model_type), tiled_images.TEXTS, {tiled_images.TEXTS: None}
        )
        return tiled_images.towers(vision_keys, texts)
    tower = _image_encoder(vision_keys, model_type)
    texts, kind = _with_type(texts_of(keys, model_type), TEXTS[model_type]["model_type"], ROWS)
    (decoder,) = decoders.towers(texts, kind)
    if model_type == resampled_images.NAME:
        return resampled_images.towers(keys, tower, texts, decoder)
    project = image_tiles.projections if model_type in image_tiles.ENCODERS else _projection
    projections = project(keys, model_type, tower, decoder.hidden)
    tower = replace(tower, output_projections=(*tower.output_projections, *projections))
    if model_type in image_tiles.ROWS:
        return image_tiles.cut(keys, model_type, tower), decoder
    tokens = round(tower.tokens * tower.output_projections[-1].rows)
    # Behind each row of Pixtral's tokens is one that ends it.
    is_pixtral = vision_keys.text("model_type", _IMAGE_ENCODERS[model_type]) == "pixtral"
    marks = math.isqrt(tokens) if is_pixtral else _MARKS.get(model_type, 0)
    return replace(tower, prompt_tokens=tokens + marks), decoder


def _image_encoder(keys: ConfigKeys, model_type: str) -> Tower:
    """The image encoder that ``vision_config`` describes."""
    usual = _IMAGE_ENCODERS[model_type]
    is_qwen = usual in qwen_images.ROWS
    has_old_name = model_type == resampled_images.NAME or model_type in image_tiles.ENCODERS
    if not is_qwen and not has_old_name:
        return images.image(*_with_type(keys, usual, images.ROWS))
    # Older files name the model in place of its image encoder.
    _with_type(keys, usual, {usual: usual, model_type: usual})
    return qwen_images.image(keys, usual) if is_qwen else images.image(keys, usual)


def texts_of(keys: ConfigKeys, model_type: str) -> ConfigKeys:
    """The text configuration, with defaults filled in."""
    if model_type in _FLAT_FAMILIES and keys.config.get("text_config") is None:
        other_keys = {"model_type", "vision_config"}
        values = {key: value for key, value in keys.config.items() if key not in other_keys}
        return ConfigKeys({**TEXTS[model_type], **values}, keys.file, keys.inside)
    texts = keys.nested(_TEXT_KEYS.get(model_type, "text_config"))
    stated_keys = {key for key in _OUTER_KEYS if texts.config.get(key) is not None}
    outer_values = {key: keys.config.get(key) for key in _OUTER_KEYS if key not in stated_keys}
    usual = TEXTS[model_type]
    kind = texts.text("model_type", usual["model_type"])
    defaults = usual if kind == usual["model_type"] else _OTHER_TEXTS.get(kind, {})
    values = {**defaults, **texts.config, **outer_values, "model_type": kind}
    if model_type in _OUTER_TIES:
        default_tie = _OUTER_TIES[model_type]
        values["tie_word_embeddings"] = keys.flag("tie_word_embeddings", default=default_tie)
    return ConfigKeys(values, keys.file, texts.inside)


def _with_type(keys: ConfigKeys, usual: str, legal: Mapping[str, object]) -> tuple[ConfigKeys, str]:
    """A configuration and its ``model_type``, which must be one of `legal`."""
    kind = keys.text("model_type", usual)
    if kind not in legal:
        raise keys.unknown("model_type", kind, ", ".join(legal), "sizes of others are not known")
    return keys, kind


def _projection(
    keys: ConfigKeys, model_type: str, tower: Tower, hidden: int
) -> tuple[Projection, ...]:
    """Projections from tokens of an image to tokens of a text."""
    encoder = _IMAGE_ENCODERS[model_type]
    if encoder in qwen_images.ROWS:
        qwen_images.check_outputs(keys.nested("vision_config"), encoder, tower, hidden)
        return ()  # the image encoder ends in them
    if model_type == "gemma3":
        tokens = keys.whole("mm_tokens_per_image", default=_IMAGE_TOKENS)
        # Neighbouring tokens are averaged to `tokens`, and normed, before the projection.
        share = min(1.0, tokens / tower.tokens)
        return (Projection("projection", tower.hidden, hidden, tower.hidden, rows=share),)
    if model_type == "paligemma":
        width = keys.whole("projection_dim", default=_PALIGEMMA_WIDTH)
        if width != hidden:
            legal = f"{hidden}, the hidden_size of the text"
            raise keys.refuse("projection_dim", width, legal, "an image's tokens are among its own")
        return (Projection("projection", tower.hidden, hidden, hidden),)
    if model_type == "llama4":
        vision = keys.nested("vision_config")
        width = vision.whole("vision_output_dim", default=_VISION_WIDTH)
        return (Projection("projection", width, hidden, rows=images.joined_share(vision)),)
    if model_type == "mistral3":
        return _merged(keys, tower.hidden, hidden)
    has_bias = keys.flag("multimodal_projector_bias", default=True)
    # "default" leaves out the first token, the class token where there is one.
    is_whole = keys.text("vision_feature_select_strategy", "default") == "full"
    share = 1.0 if is_whole else (tower.tokens - 1) / tower.tokens
    inputs = _chosen_layers(keys) * tower.hidden
    return (
        Projection("first projection", inputs, hidden, hidden * has_bias, rows=share),
        Projection("second projection", hidden, hidden, hidden * has_bias, rows=share),
    )


def _merged(keys: ConfigKeys, width: int, hidden: int) -> tuple[Projection, ...]:
    """Mistral 3's projections: a norm, squares of neighbouring tokens joined, and two layers."""
    joined = keys.whole("spatial_merge_size", default=2) ** 2
    vectors = _chosen_layers(keys)
    bias = hidden * keys.flag("multimodal_projector_bias")
    share = 1 / joined
    return (
        Projection("merging projection", joined * width, width, width, rows=share),
        Projection("first projection", vectors * width, hidden, bias, rows=share),
        Projection("second projection", hidden, hidden, bias, rows=share),
    )


def _chosen_layers(keys: ConfigKeys) -> int:
    """Number of layers of the image encoder whose vectors of a token lie side by side.

    Raises:
        BadInput: where `vision_feature_layer` names no layers.
    """
    chosen = keys.config.get("vision_feature_layer")
    if chosen is None:
        return 1
    layers: list[Any] = chosen if isinstance(chosen, list) else [chosen]
    if not layers or any(type(layer) is not int for layer in layers):
        legal = "the number of a layer, or a list of some"
        raise keys.refuse("vision_feature_layer", chosen, legal, "their vectors lie side by side")
    return len(layers)
