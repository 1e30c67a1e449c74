"""InternVL as OpenGVLab publishes it (``internvl_chat``), whose code lies beside its weights.

Its parts are those of transformers' InternVL, under other keys.

Source: OpenGVLab/InternVL, internvl_chat/internvl/model/internvl_chat: modeling_internvl_chat.py,
modeling_intern_vit.py, configuration_internvl_chat.py and configuration_intern_vit.py.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from trnsim.workload.families.keys import ConfigKeys

NAME: Final = "internvl_chat"
TEXTS: Final = "llm_config"
_ENCODER: Final = "intern_vit_6b"
"""The ``model_type`` of every image encoder of the family, whatever its size."""
_SIZES: Final[Mapping[str, Any]] = {
    "hidden_size": 3200,
    "num_hidden_layers": 48,
    "num_attention_heads": 25,
    "num_channels": 3,
    "intermediate_size": 12800,
    "image_size": 224,
    "patch_size": 14,
    "norm_type": "rms_norm",
}
"""Default sizes of the image encoder."""
_MOST_TILES: Final = 6
"""Most tiles of an image by default: ``max_dynamic_patch``."""


def images_of(keys: ConfigKeys, vision_keys: ConfigKeys) -> ConfigKeys:
    """The configuration of the image encoder `seeing`, in the keys of transformers' InternVL.

    Raises:
        BadInput: it is another encoder's, or its images have another size than its positions.
    """
    kind = vision_keys.text("model_type", _ENCODER)
    if kind != _ENCODER:
        raise vision_keys.unknown("model_type", kind, _ENCODER, "sizes of others are not known")
    vision_keys = vision_keys.filled(_SIZES)
    size, forced_size = vision_keys.config["image_size"], keys.config.get("force_image_size")
    if forced_size not in (None, size):
        legal = f"{size}, the image_size of vision_config"
        raise keys.unknown("force_image_size", forced_size, legal, "its positions are of that size")
    plain = {
        "model_type": "internvl_vision",
        "attention_bias": vision_keys.flag("qkv_bias"),
        "use_qk_norm": vision_keys.flag("qk_normalization", default=True),
    }
    return ConfigKeys({**vision_keys.config, **plain}, vision_keys.file, vision_keys.inside)


def longest_side(keys: ConfigKeys) -> int:
    """Tiles along a side of the largest square image."""
    if not keys.flag("dynamic_image_size"):
        return 1
    return math.isqrt(keys.whole("max_dynamic_patch", default=_MOST_TILES))


def has_whole(keys: ConfigKeys) -> bool:
    """True if the small whole image is beside several tiles."""
    return keys.flag("use_thumbnail")
