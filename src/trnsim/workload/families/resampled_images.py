"""Idefics2: an encoder of images, a resampler of their tokens, and a decoder.

Latent vectors of the resampler attend to the image's tokens and to themselves, and are the image's
tokens in a prompt. The plan's image is one of ``image_size``, which the processor does not split.

Source: configuration_idefics2.py, modeling_idefics2.py and processing_idefics2.py of transformers
5.23.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from trnsim.workload.architecture import Attention, Layer, Mlp, Projection, Tower
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import MOST_HEADS, MOST_LAYERS, PLAIN_NAMES

NAME: Final = "idefics2"
ENCODER: Final = "idefics2_vision"
_SIZES: Final[Mapping[str, Any]] = {
    "resampler_n_latents": 64,
    "resampler_depth": 3,
    "resampler_n_heads": 16,
    "resampler_head_dim": 96,
    "num_key_value_heads": 4,
}
"""Default sizes of the resampler."""
_MLP_RATIO: Final = 4
_MARKS: Final = 2
"""Tokens of a prompt around those of an image."""


def towers(keys: ConfigKeys, images: Tower, texts: ConfigKeys, decoder: Tower) -> tuple[Tower, ...]:
    """The encoder of images with its projection, the resampler, and the decoder.

    Raises:
        BadInput: heads share no keys equally.
    """
    hidden, intermediate = decoder.hidden, texts.whole(*PLAIN_NAMES.intermediate)
    projections = (
        Projection("gate projection", images.hidden, intermediate),
        Projection("up projection", images.hidden, intermediate),
        Projection("down projection", intermediate, hidden),
    )
    resampler = _resampler(keys.nested("perceiver_config").filled(_SIZES), hidden)
    images = replace(
        images, output_projections=projections, prompt_tokens=resampler.tokens + _MARKS
    )
    return images, resampler, decoder


def _resampler(keys: ConfigKeys, hidden: int) -> Tower:
    """The resampler, whose layers have a norm of latent vectors, of tokens, and of the MLP."""
    latents, dim = keys.whole("resampler_n_latents"), keys.whole("resampler_head_dim")
    heads = keys.whole("resampler_n_heads", maximum=MOST_HEADS)
    kv_heads = keys.whole("num_key_value_heads", maximum=MOST_HEADS)
    if heads % kv_heads:
        legal = ", ".join(str(number) for number in range(1, heads + 1) if heads % number == 0)
        raise keys.refuse("num_key_value_heads", kv_heads, legal, f"{heads} heads share them")
    attention = Attention(heads, kv_heads, dim, dim, is_causal=False, is_cross=True)
    depth = keys.whole("resampler_depth", maximum=MOST_LAYERS)
    return Tower(
        "resampler",
        hidden,
        (Layer(depth, (attention,), Mlp(_MLP_RATIO * hidden), 3 * hidden),),
        embedding_parameters=latents * hidden,
        head_parameters=hidden,
        tokens=latents,
    )
