"""Image encoders: ViT and similar architectures, and pairs of images and texts.

Source: configuration_*.py and modeling_*.py of transformers 5.23; parameter counts of each row are
compared with the model that it builds (tests/clients/test_workload_counts.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from trnsim.workload.architecture import Attention, Layer, Projection, Tower
from trnsim.workload.families.keys import ConfigKeys, Rule
from trnsim.workload.families.sizes import (
    MOST_LAYERS,
    PLAIN_NAMES,
    check_head,
    heads_of,
    mlp_of,
    named_class,
)

_VIT_SIZES: Final[Mapping[str, Any]] = {
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "image_size": 224,
    "patch_size": 16,
    "num_channels": 3,
}
"""Default sizes of most towers: those of ViT-B/16."""
_LLAMA4_SIZES: Final[Mapping[str, Any]] = {
    **_VIT_SIZES,
    "num_hidden_layers": 34,
    "num_attention_heads": 16,
    "intermediate_size": 5632,
    "image_size": 448,
    "patch_size": 14,
}
"""Default sizes of Llama 4's image encoder."""
_PIXTRAL_SIZES: Final[Mapping[str, Any]] = {
    **_VIT_SIZES,
    "hidden_size": 1024,
    "num_hidden_layers": 24,
    "num_attention_heads": 16,
    "intermediate_size": 4096,
    "image_size": 1024,
}
"""Default sizes of Pixtral's image encoder."""
_IDEFICS_SIZES: Final[Mapping[str, Any]] = {
    **_VIT_SIZES,
    "hidden_size": 1152,
    "num_attention_heads": 16,
    "patch_size": 32,
}
"""Default sizes of Idefics3's and SmolVLM's image encoders."""
_INTERN_SIZES: Final[Mapping[str, Any]] = {
    **_PIXTRAL_SIZES,
    "image_size": 448,
    "patch_size": 14,
}
"""Default sizes of InternVL's image encoder."""
_ADAPTER_WIDTH: Final = 4096
"""Default width of Llama 4's adapter and of its two results."""
_SHUFFLE_RATIO: Final = 0.5
"""Default ratio of Llama 4's tokens to patches, along rows and along columns."""
_CLIP_TEXT_SIZES: Final[Mapping[str, Any]] = {
    "hidden_size": 512,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
    "vocab_size": 49408,
    "max_position_embeddings": 77,
}
"""Default sizes of CLIP's text encoder."""
_PROJECTION_WIDTH: Final = 512
"""Default width to which CLIP projects images and texts."""
_NORM_PARTS: Final = {"layer_norm": 2, "rms_norm": 1}
"""Parameters of a norm for each element, by InternVL's ``norm_type``."""
_CLASSIFIERS: Final = ("ForImageClassification", "ForImageClassificationWithTeacher")
_DINO_CLASSIFIER_VECTORS: Final = 2
"""Vectors that a classifier of DINOv2 reads: the class token and the mean of all others."""


@dataclass(frozen=True)
class ImageEncoder:
    """A family of towers of images.

    Attributes:
        tokens: number of tokens beside the patches: a class token, a teacher token.
        extra_positions: rows of learned positions beyond the patches; None for no table, where
            queries and keys are rotated.
        mask_vectors: learned vectors that stand in for masked patches.
        patch_bias: whether the projection of patches has a bias.
        biases: whether queries, keys and values have biases.
        has_other_biases: whether the attention's output and the MLP have biases.
        head_norm: whether queries and keys have a norm each, over all heads.
        norm_parts: parameters of a layer's norm for each element.
        is_gated: whether its MLP has a gate.
        has_last_norm: whether a norm follows the layers.
        is_normed_first: whether a norm is before the layers.
        has_scales: whether the outputs of halves of layers are scaled element by element
            (LayerScale).
        has_ratio: whether the size of its MLP is stated as a ratio to the hidden size.
        has_pooler: whether the plain model has a pooler of the class token.
        has_probe: whether the plain model ends in an attention of one learned query and an MLP.
        has_adapter: whether an MLP joins neighbouring patches to one token.
        parts: number of hidden vectors that a classifier reads.
    """

    defaults: Mapping[str, Any] = field(default_factory=lambda: _VIT_SIZES)
    tokens: int = 1
    extra_positions: int | None = 1
    mask_vectors: int = 0
    patch_bias: bool = True
    biases: Rule = ("qkv_bias", True)
    has_other_biases: bool = True
    head_norm: Rule = False
    norm_parts: int = 2
    is_gated: bool = False
    has_last_norm: bool = True
    is_normed_first: bool = False
    has_scales: bool = False
    has_ratio: bool = False
    has_pooler: bool = False
    has_probe: bool = False
    has_adapter: bool = False
    parts: int = 1


ROWS: Final[dict[str, ImageEncoder]] = {
    "vit": ImageEncoder(has_pooler=True),
    "deit": ImageEncoder(tokens=2, extra_positions=2, has_pooler=True),
    "dinov2": ImageEncoder(
        defaults={**_VIT_SIZES, "patch_size": 14},
        mask_vectors=1,
        has_scales=True,
        has_ratio=True,
        parts=_DINO_CLASSIFIER_VECTORS,
    ),
    "dinov2_with_registers": ImageEncoder(
        mask_vectors=1, has_scales=True, has_ratio=True, parts=_DINO_CLASSIFIER_VECTORS
    ),
    "ijepa": ImageEncoder(tokens=0, extra_positions=0),
    "clip_vision_model": ImageEncoder(
        defaults={**_VIT_SIZES, "patch_size": 32},
        patch_bias=False,
        biases=True,
        is_normed_first=True,
    ),
    "siglip_vision_model": ImageEncoder(tokens=0, extra_positions=0, biases=True, has_probe=True),
    "pixtral": ImageEncoder(
        defaults=_PIXTRAL_SIZES,
        tokens=0,
        extra_positions=None,
        patch_bias=False,
        biases=False,
        has_other_biases=False,
        norm_parts=1,
        is_gated=True,
        has_last_norm=False,
        is_normed_first=True,
    ),
    "llama4_vision_model": ImageEncoder(
        defaults=_LLAMA4_SIZES,
        patch_bias=False,
        biases=True,
        is_normed_first=True,
        has_adapter=True,
    ),
    **dict.fromkeys(
        ("idefics3_vision", "smolvlm_vision"),
        ImageEncoder(defaults=_IDEFICS_SIZES, tokens=0, extra_positions=0, biases=True),
    ),
    "idefics2_vision": ImageEncoder(
        defaults={**_VIT_SIZES, "patch_size": 32}, tokens=0, extra_positions=0, biases=True
    ),
    "internvl_vision": ImageEncoder(
        defaults=_INTERN_SIZES,
        biases=("attention_bias", False),
        head_norm=("use_qk_norm", False),
        has_scales=True,
    ),
}
PAIRS: Final = ("clip", "siglip")
TEXTS: Final = ("clip_text_model", "siglip_text_model")
NAMES: Final = (*ROWS, *PAIRS, *TEXTS)


def towers(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """The image encoder, or the encoders of images and of texts.

    Raises:
        BadInput: for sizes that do not go together, or a missing configuration.
    """
    check_head(keys, "MaskedImageModeling", *(_CLASSIFIERS if model_type in PAIRS else ()))
    if model_type in PAIRS:
        return _pair(keys, model_type)
    if model_type in TEXTS:
        return (text(keys, model_type),)
    return (image(keys, model_type),)


def image(keys: ConfigKeys, model_type: str) -> Tower:
    """A tower of images.

    Raises:
        BadInput: for sizes that do not go together, or an image that patches do not fill.
    """
    row = ROWS[model_type] if model_type != "internvl_vision" else _intern(keys)
    keys = _with_sides(ConfigKeys({**row.defaults, **keys.config}, keys.file, keys.inside))
    hidden = keys.whole(*PLAIN_NAMES.hidden)
    default = 4 if "registers" in model_type else 0
    registers = keys.whole("num_register_tokens", default=default, minimum=0)
    patches, inputs = _patches(keys)
    vectors = row.tokens + registers + row.mask_vectors
    return Tower(
        "images",
        hidden,
        (_layer(keys, row, hidden),),
        input_projections=(Projection("patches", inputs, hidden, hidden * row.patch_bias),),
        positions=0 if row.extra_positions is None else patches + row.extra_positions,
        embedding_parameters=(vectors + row.norm_parts * row.is_normed_first) * hidden,
        output_projections=_behind(keys, row, hidden),
        head_parameters=2 * hidden * row.has_last_norm + _probe_norms(keys, row, hidden),
        tokens=patches + row.tokens + registers,
        image=keys.whole("image_size"),
    )


def _intern(keys: ConfigKeys) -> ImageEncoder:
    """InternVL's image encoder, of which several parts are options."""
    kind = keys.text("norm_type", "layer_norm")
    if kind not in _NORM_PARTS:
        why = "sizes of others are not known"
        raise keys.unknown("norm_type", kind, ", ".join(_NORM_PARTS), why)
    has_places = keys.flag("use_absolute_position_embeddings", default=True)
    return replace(
        ROWS["internvl_vision"],
        norm_parts=_NORM_PARTS[kind],
        extra_positions=1 if has_places else None,
        mask_vectors=int(keys.flag("use_mask_token")),
        has_last_norm=not keys.flag("use_mean_pooling", default=True),
    )


def _with_sides(keys: ConfigKeys) -> ConfigKeys:
    """The configuration with one number where it has the height and width of images or patches.

    Raises:
        BadInput: they differ.
    """
    sides: dict[str, Any] = {}
    for name in ("image_size", "patch_size"):
        match keys.config.get(name):
            case [height, width]:
                if height != width:
                    legal = "one number, or the same twice"
                    raise keys.unknown(name, [height, width], legal, "images are squares here")
                sides[name] = height
            case _:
                pass
    return ConfigKeys({**keys.config, **sides}, keys.file, keys.inside)


def _patches(keys: ConfigKeys) -> tuple[int, int]:
    """Patches of an image, and elements of one."""
    image_size, side = keys.whole("image_size"), keys.whole("patch_size")
    if image_size < side:
        raise keys.refuse("patch_size", side, f"1 to {image_size}", "an image has whole patches")
    return (image_size // side) ** 2, keys.whole("num_channels") * side**2


def _layer(keys: ConfigKeys, row: ImageEncoder, hidden: int) -> Layer:
    heads, dim = heads_of(keys, PLAIN_NAMES, hidden)
    biases = (3 * keys.has_feature(row.biases) + row.has_other_biases) * hidden
    head_norms = 2 * hidden * keys.has_feature(row.head_norm)
    attention = Attention(heads, heads, dim, dim, is_causal=False, biases=biases, norms=head_norms)
    has_swiglu = keys.flag("use_swiglu_ffn")
    size = keys.whole("mlp_ratio", default=4) * hidden if row.has_ratio else 0
    size = size or keys.whole(*PLAIN_NAMES.intermediate)
    if has_swiglu:  # DINOv2 keeps the matrices' elements, in whole eights
        size = (size * 2 // 3 + 7) // 8 * 8
    is_gated = has_swiglu or row.is_gated
    mlp = mlp_of(hidden, size, is_gated=is_gated, has_biases=row.has_other_biases)
    norms = 2 * hidden * row.norm_parts
    scales = 2 * hidden if row.has_scales else 0
    return Layer(
        keys.whole(*PLAIN_NAMES.layers, maximum=MOST_LAYERS), (attention,), mlp, norms, scales
    )


def _behind(keys: ConfigKeys, row: ImageEncoder, hidden: int) -> tuple[Projection, ...]:
    """The projections of the head of the class that the configuration names."""
    if row.has_adapter:
        return _adapter(keys)
    name = named_class(keys)
    if name.endswith(_CLASSIFIERS) and not row.has_probe:
        labels = keys.labels()
        classes = Projection("classes", row.parts * hidden, labels, labels, is_each_token=False)
        is_taught = name.endswith("WithTeacher")
        return (classes, replace(classes, name="classes of the teacher token"))[: 1 + is_taught]
    if name.endswith("WithProjection"):
        width = keys.whole("projection_dim", default=_PROJECTION_WIDTH)
        return (Projection("projection", hidden, width, is_each_token=False),)
    if row.has_pooler:
        return (Projection("pooler", hidden, hidden, hidden, is_each_token=False),)
    if not (row.has_probe and keys.flag("vision_use_head", default=True)):
        return ()
    size = keys.whole(*PLAIN_NAMES.intermediate)
    return (
        Projection("probe's keys and values", hidden, 2 * hidden, 2 * hidden),
        Projection("probe's query", hidden, hidden, hidden, is_each_token=False),
        Projection("probe's output", hidden, hidden, hidden, is_each_token=False),
        Projection("probe's up", hidden, size, size, is_each_token=False),
        Projection("probe's down", size, hidden, hidden, is_each_token=False),
    )


def _adapter(keys: ConfigKeys) -> tuple[Projection, ...]:
    """Llama 4's MLP on joined neighbouring patches, without the class token."""
    joined_width = keys.whole(*PLAIN_NAMES.intermediate)
    width = keys.whole("projector_input_dim", default=_ADAPTER_WIDTH)
    result = keys.whole("projector_output_dim", default=_ADAPTER_WIDTH)
    share = joined_share(keys)
    return (
        Projection("adapter's first", joined_width, width, rows=share),
        Projection("adapter's second", width, result, rows=share),
    )


def joined_share(keys: ConfigKeys) -> float:
    """Ratio of the tokens that Llama 4's decoder reads to those of its image encoder."""
    keys = ConfigKeys({**_LLAMA4_SIZES, **keys.config}, keys.file, keys.inside)
    patches, _ = _patches(keys)
    ratio = keys.config.get("pixel_shuffle_ratio", _SHUFFLE_RATIO)
    if isinstance(ratio, bool) or not isinstance(ratio, int | float) or not 0 < ratio <= 1:
        raise keys.refuse("pixel_shuffle_ratio", ratio, "above 0, up to 1", "it joins patches")
    return float(ratio**2 * patches / (patches + 1))


def _probe_norms(keys: ConfigKeys, row: ImageEncoder, hidden: int) -> int:
    """Elements of the learned query and of the norm behind it."""
    return 3 * hidden if row.has_probe and keys.flag("vision_use_head", default=True) else 0


def text(keys: ConfigKeys, model_type: str) -> Tower:
    """The text encoder of CLIP or SigLIP.

    Raises:
        BadInput: for sizes that do not go together.
    """
    is_clip = model_type.startswith("clip")
    keys = texts_of(keys, model_type)
    hidden = keys.whole(*PLAIN_NAMES.hidden)
    heads, dim = heads_of(keys, PLAIN_NAMES, hidden)
    attention = Attention(heads, heads, dim, dim, is_causal=is_clip, biases=4 * hidden)
    size = keys.whole(*PLAIN_NAMES.intermediate)
    mlp = mlp_of(hidden, size, is_gated=False, has_biases=True)
    projections: tuple[Projection, ...] = ()
    if named_class(keys).endswith("WithProjection"):
        width = keys.whole("projection_dim", default=_PROJECTION_WIDTH)
        projections = (Projection("projection", hidden, width, is_each_token=False),)
    if not is_clip:
        width = keys.whole("projection_size", default=hidden)
        projections = (Projection("projection", hidden, width, width, is_each_token=False),)
    return Tower(
        "texts",
        hidden,
        (
            Layer(
                keys.whole(*PLAIN_NAMES.layers, maximum=MOST_LAYERS), (attention,), mlp, 4 * hidden
            ),
        ),
        table_rows=keys.whole("vocab_size"),
        positions=keys.whole(*PLAIN_NAMES.positions),
        output_projections=projections,
        head_parameters=2 * hidden,
        has_position_table=True,
    )


def texts_of(keys: ConfigKeys, model_type: str) -> ConfigKeys:
    """The configuration of the text encoder of CLIP or SigLIP, with the family's default sizes.

    A model of images and texts has it under ``text_config``; a text encoder's is `keys` itself.
    """
    keys = keys.nested("text_config") if model_type in PAIRS else keys
    is_clip = model_type.startswith("clip")
    base = (
        _CLIP_TEXT_SIZES
        if is_clip
        else {**_VIT_SIZES, "vocab_size": 32000, "max_position_embeddings": 64}
    )
    return ConfigKeys({**base, **keys.config}, keys.file, keys.inside)


def _pair(keys: ConfigKeys, model_type: str) -> tuple[Tower, ...]:
    """Encoders of images and texts; CLIP projects both to one width."""
    images = image(keys.nested("vision_config"), f"{model_type}_vision_model")
    texts = text(keys.nested("text_config"), f"{model_type}_text_model")
    if model_type == "siglip":
        return images, _ending_in(texts, texts.output_projections, 2)
    width = keys.whole("projection_dim", default=_PROJECTION_WIDTH)
    ends = [
        (Projection("projection", tower.hidden, width, is_each_token=False),)
        for tower in (images, texts)
    ]
    return _ending_in(images, ends[0], 0), _ending_in(texts, ends[1], 1)


def _ending_in(tower: Tower, projections: tuple[Projection, ...], scales: int) -> Tower:
    """A tower that ends in `projections`, with as many `scales` of similarities as parameters."""
    return replace(
        tower, output_projections=projections, head_parameters=tower.head_parameters + scales
    )
