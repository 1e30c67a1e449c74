"""Llama 3.2 Vision: an encoder of tiles of an image, and a decoder that attends to its tokens.

An image is cut into tiles, all of which the encoder reads together. Tokens of an image are no
tokens of the prompt: layers with cross attention keep their keys and values for the whole answer.

Source: configuration_mllama.py and modeling_mllama.py of transformers 5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trnsim.workload.architecture import PLAIN_MATRICES, Attention, Layer, Mlp, Projection, Tower
from trnsim.workload.families import decoders
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import (
    MOST_LAYERS,
    PLAIN_NAMES,
    Spelling,
    heads_of,
    kv_heads_of,
)

IMAGES: Final = "mllama_vision_model"
TEXTS: Final = "mllama_text_model"
TEXT_SIZES: Final[Mapping[str, Any]] = {
    "model_type": TEXTS,
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 40,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "cross_attention_layers": [3, 8, 13, 18, 23, 28, 33, 38],
}
"""Default sizes of the decoder."""
_IMAGE_SIZES: Final[Mapping[str, Any]] = {
    "hidden_size": 1280,
    "num_hidden_layers": 32,
    "num_global_layers": 8,
    "attention_heads": 16,
    "num_channels": 3,
    "intermediate_size": 5120,
    "vision_output_dim": 7680,
    "image_size": 448,
    "patch_size": 14,
    "max_num_tiles": 4,
}
_ASPECT_RATIOS: Final = 8
"""Ways to arrange up to four tiles."""
_NAMES: Final = Spelling(heads=("attention_heads", "num_attention_heads"))
_IMAGE_WORDS: Final = 8
"""Rows of the embedding table behind those of words."""
_GATES: Final = 2
"""Scalar gates of a layer: of its attention and of its MLP."""


def towers(images: ConfigKeys, texts: ConfigKeys) -> tuple[Tower, Tower]:
    """The encoder of tiles and the decoder.

    Raises:
        BadInput: for sizes that do not go together.
    """
    texts, images = texts.filled(TEXT_SIZES), images.filled(_IMAGE_SIZES)
    (decoder,) = decoders.towers(texts, "llama")
    width = images.whole("vision_output_dim")
    projection = Projection("projection", width, decoder.hidden, decoder.hidden)
    return replace(_encoder(images), output_projections=(projection,)), _with_cross_attention(
        texts, decoder
    )


def _encoder(keys: ConfigKeys) -> Tower:
    """The encoder, whose last layers have gates.

    A LayerNorm has 2 * hidden parameters: there are two in a layer, one before and one behind the
    layers. The embedding of the class token has `hidden`.
    """
    hidden, side = keys.whole("hidden_size"), keys.whole("patch_size")
    size, tiles = keys.whole("image_size"), keys.whole("max_num_tiles")
    if size < side:
        raise keys.refuse("patch_size", side, f"1 to {size}", "a tile has whole patches")
    tokens = (size // side) ** 2 + 1
    heads, dim = heads_of(keys, _NAMES, hidden)
    intermediate = keys.whole("intermediate_size")
    mlp = Mlp(intermediate, PLAIN_MATRICES, biases=intermediate + hidden)
    count = keys.whole("num_hidden_layers", maximum=MOST_LAYERS)
    layer = Layer(count, (Attention(heads, heads, dim, dim, is_causal=False),), mlp, 4 * hidden)
    gated_count = keys.whole("num_global_layers", maximum=MOST_LAYERS)
    gated_layer = replace(layer, times=gated_count, other_parameters=_GATES)
    return Tower(
        "images",
        hidden,
        (layer, gated_layer),
        input_projections=(Projection("patches", keys.whole("num_channels") * side**2, hidden),),
        embedding_parameters=_tables(keys, hidden, tiles, tokens) + 3 * hidden,
        head_parameters=2 * hidden,
        tokens=tiles * tokens,
        image=size,
    )


def _tables(keys: ConfigKeys, hidden: int, tiles: int, tokens: int) -> int:
    """Elements of the tables of positions (`of_tokens`), and of tiles before and behind the layers.

    Each table has a gate.
    """
    ratios = keys.items("supported_aspect_ratios", list, "pairs of numbers of tiles")
    rows = 1 + (len(ratios) if "supported_aspect_ratios" in keys.config else _ASPECT_RATIOS)
    token_elements = tokens * hidden + rows * tiles * tokens * hidden + 1
    return token_elements + 2 * (rows * tiles * hidden + 1)


def _with_cross_attention(keys: ConfigKeys, decoder: Tower) -> Tower:
    """The decoder with cross attention in place of self attention in some of its layers."""
    depth, cross_layers = decoder.depth, {*keys.indexes("cross_attention_layers", decoder.depth)}
    (layer,) = decoder.layers
    heads, dim = heads_of(keys, PLAIN_NAMES, decoder.hidden)
    kv_heads = kv_heads_of(keys, PLAIN_NAMES, heads)
    cross_attention = Attention(
        heads, kv_heads, dim, dim, is_causal=False, is_cross=True, norms=2 * dim
    )
    groups = (
        replace(layer, times=depth - len(cross_layers)),
        replace(
            layer, times=len(cross_layers), attentions=(cross_attention,), other_parameters=_GATES
        ),
    )
    layers = tuple(group for group in groups if group.times)
    return replace(
        decoder,
        layers=layers,
        order=tuple(int(place in cross_layers) for place in range(depth))
        if len(layers) > 1
        else (),
        table_rows=decoder.table_rows + _IMAGE_WORDS,
        wiring=None,
    )
