"""Image encoders of Qwen-VL, which read pictures of any size.

A picture is cut into patches, each taken twice, as two frames of a film are. Behind the layers a
merger joins squares of neighbouring patches to one token of the text. A configuration states no
size of pictures: unless ``image_size`` states one, the plan's is a square of 35 x 35 tokens, the
largest within the 1,280 that the model's authors recommend.

Source: configuration_*.py and modeling_*.py of transformers 5.23; of the size, ``max_pixels`` in
the model cards of Qwen2.5-VL and Qwen3-VL.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from trnsim.workload.architecture import (
    GATED_MATRICES,
    PLAIN_MATRICES,
    Attention,
    Layer,
    Mlp,
    Projection,
    Tower,
)
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.sizes import MOST_LAYERS, Spelling, heads_of

_NAMES: Final = Spelling(layers=("depth",), heads=("num_heads",))
_RECOMMENDED_TOKENS: Final = 1280
"""Most tokens of a picture that the model cards recommend."""
_MERGED_SIDE: Final = 2
_FRAMES: Final = 2


@dataclass(frozen=True)
class QwenImageEncoder:
    """A generation of the image encoders.

    Attributes:
        defaults: the default sizes.
        hidden: the key of the elements of a patch's vector.
        outputs: the key of the elements of a token of the text.
        patch_bias: whether the projection of patches has a bias.
        is_gated: whether the MLP has a gate.
        norm_parts: parameters of a norm for each element.
        has_places: whether it has a table of learned positions.
        has_stack: whether layers of the text read tokens of earlier layers too (DeepStack).
    """

    defaults: Mapping[str, Any]
    hidden: str = "hidden_size"
    outputs: str = "out_hidden_size"
    patch_bias: bool = False
    is_gated: bool = False
    norm_parts: int = 2
    has_places: bool = False
    has_stack: bool = False


_QWEN2: Final = QwenImageEncoder(
    {
        "depth": 32,
        "embed_dim": 1280,
        "hidden_size": 3584,
        "mlp_ratio": 4,
        "num_heads": 16,
        "patch_size": 14,
    },
    hidden="embed_dim",
    outputs="hidden_size",
)
_QWEN2_5: Final = QwenImageEncoder(
    {
        "depth": 32,
        "hidden_size": 3584,
        "intermediate_size": 3420,
        "num_heads": 16,
        "patch_size": 14,
        "out_hidden_size": 3584,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
    },
    is_gated=True,
    norm_parts=1,
)
_QWEN3: Final = QwenImageEncoder(
    {
        "depth": 27,
        "hidden_size": 1152,
        "intermediate_size": 4304,
        "num_heads": 16,
        "patch_size": 16,
        "out_hidden_size": 3584,
        "num_position_embeddings": 2304,
        "deepstack_visual_indexes": [8, 16, 24],
    },
    patch_bias=True,
    has_places=True,
    has_stack=True,
)
_QWEN3_5: Final = replace(_QWEN3, has_stack=False)
"""The image encoder of Qwen3.5, whose texts read the last layer's tokens alone."""
ROWS: Final[dict[str, QwenImageEncoder]] = {
    "qwen2_vl_vision": _QWEN2,
    "qwen2_5_vl_vision": _QWEN2_5,
    "qwen3_vl_vision": _QWEN3,
    "qwen3_vl_moe_vision": _QWEN3,
    "qwen3_5_vision": _QWEN3_5,
    "qwen3_5_moe_vision": _QWEN3_5,
}


def image(keys: ConfigKeys, model_type: str) -> Tower:
    """The image encoder with its merger.

    Raises:
        BadInput: for sizes that do not go together, or a picture that squares of patches do not
            fill.
    """
    row = ROWS[model_type]
    keys = keys.filled(row.defaults)
    hidden, side = keys.whole(row.hidden), keys.whole("patch_size")
    merged_side = keys.whole("spatial_merge_size", default=_MERGED_SIDE)
    size = _picture(keys, side * merged_side)
    frames = keys.whole("temporal_patch_size", default=_FRAMES)
    inputs = keys.whole("in_channels", default=3) * frames * side**2
    layers, order = _layers(keys, row, hidden, side * merged_side, merged_side)
    depth = sum(layer.times for layer in layers)
    places = keys.whole("num_position_embeddings") if row.has_places else 0
    stacked_count = len(keys.indexes("deepstack_visual_indexes", depth)) if row.has_stack else 0
    width = hidden * merged_side**2
    return Tower(
        "images",
        hidden,
        layers,
        input_projections=(Projection("patches", inputs, hidden, hidden * row.patch_bias),),
        positions=places,
        output_projections=_mergers(width, keys.whole(row.outputs), merged_side, 1 + stacked_count),
        head_parameters=row.norm_parts * (hidden + stacked_count * width),
        tokens=(size // side) ** 2,
        image=size,
        order=order,
    )


def check_outputs(keys: ConfigKeys, model_type: str, tower: Tower, hidden: int) -> None:
    """Check that the tokens of a picture have the width of those of the text.

    Raises:
        BadInput: they have not; transformers' model then fails at the first picture.
    """
    outputs = tower.output_projections[-1].outputs
    if outputs != hidden:
        legal, why = (
            f"{hidden}, the hidden_size of the text",
            "tokens of a picture are among its own",
        )
        raise keys.refuse(ROWS[model_type].outputs, outputs, legal, why)


def _picture(keys: ConfigKeys, cell: int) -> int:
    """Pixels of a picture along a side, whose tokens are squares of `cell` pixels a side."""
    size = keys.whole("image_size", default=math.isqrt(_RECOMMENDED_TOKENS) * cell)
    if size % cell:
        raise keys.refuse("image_size", size, f"multiples of {cell}", "a token is a whole square")
    return size


def _layers(
    keys: ConfigKeys, row: QwenImageEncoder, hidden: int, cell: int, merged_side: int
) -> tuple[tuple[Layer, ...], tuple[int, ...]]:
    """Groups of equal layers, and for each layer the index of its group."""
    depth = keys.whole(*_NAMES.layers, maximum=MOST_LAYERS)
    heads, dim = heads_of(keys, replace(_NAMES, hidden=(row.hidden,)), hidden)
    attention = Attention(heads, heads, dim, dim, is_causal=False, biases=4 * hidden)
    if row is _QWEN2:
        intermediate = keys.whole("mlp_ratio") * hidden
    else:
        intermediate = keys.whole(*_NAMES.intermediate)
    matrices = GATED_MATRICES if row.is_gated else PLAIN_MATRICES
    mlp = Mlp(intermediate, matrices, biases=(matrices - 1) * intermediate + hidden)
    layer = Layer(depth, (attention,), mlp, 2 * row.norm_parts * hidden)
    if row is not _QWEN2_5:
        return (layer,), ()
    full_layers = {*keys.indexes("fullatt_block_indexes", depth)}
    order = tuple(int(number not in full_layers) for number in range(depth))
    window = (keys.whole("window_size", minimum=cell) // cell * merged_side) ** 2
    window_layer = replace(layer, attentions=(replace(attention, window=window),), times=sum(order))
    groups = (replace(layer, times=depth - sum(order)), window_layer)
    if all(group.times for group in groups):
        return groups, order
    return tuple(group for group in groups if group.times), ()


def _mergers(width: int, outputs: int, merged_side: int, number: int) -> tuple[Projection, ...]:
    """Mergers of the last layer's patches, and of the patches of earlier layers (DeepStack)."""
    share = 1 / merged_side**2
    return number * (
        Projection("first merging projection", width, width, width, rows=share),
        Projection("second merging projection", width, outputs, outputs, rows=share),
    )
