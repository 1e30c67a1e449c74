import re

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.families.images_and_texts import towers
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries

NEXT, IDEFICS, SMALL, INTERN = (
    COUNTS[name][0]
    for name in (
        *("llava-v1.6-mistral-7b", "idefics3-8b-llama3", "smolvlm-256m-instruct"),
        "internvl3-1b",
    )
)


def of(config, **given):
    return towers(ConfigKeys({**config, **given}, "mine.json"), config["model_type"])


def refused(config, message, **given):
    with pytest.raises(BadInput, match="^" + re.escape(f"mine.json: {message}")):
        of(config, **given)


# Tokens of the prompt are those that transformers' processors count for a square of that size.
@pytest.mark.parametrize(
    ("config", "size", "tiles", "tokens"),
    [
        (NEXT, None, 5, 5 * 576 + 48),
        (IDEFICS, None, 17, 16 * 171 + 4 + 172),
        (IDEFICS, 364, 1, 172),
        (SMALL, None, 17, 16 * 66 + 4 + 67),
        (SMALL, 1024, 5, 4 * 66 + 2 + 67),
        (INTERN, None, 10, 2562),
        (INTERN, 896, 5, 5 * 256 + 2),
        (INTERN, 448, 1, 258),
    ],
)
def test_a_square_image_has_tiles_and_the_small_whole(config, size, tiles, tokens):
    images, _ = of(config, **({} if size is None else {"image_size": size}))
    assert (images.tiles, images.prompt_tokens) == (tiles, tokens)
    assert size in (None, images.image)


def test_a_single_tile_of_llava_next_has_the_whole_beside_it():
    images, _ = of(NEXT, image_grid_pinpoints=[[336, 336], [336, 672]])
    assert (images.image, images.tiles, images.prompt_tokens) == (336, 2, 2 * 576 + 24)


def test_rows_of_llava_next_end_in_a_learned_vector():
    plain = {**NEXT, "model_type": "llava"}
    assert of(NEXT)[0].head_parameters - of(plain)[0].head_parameters == 4096


@pytest.mark.parametrize(
    ("config", "size", "legal"),
    [
        (NEXT, 336, "672: tiles fill a square image"),
        (INTERN, 1792, "448, 896, 1344: tiles fill a square image"),
        (SMALL, 500, "512, 1024, 1536, 2048, 2560, 3072, 3584, 4096: tiles"),
    ],
)
def test_other_sizes_are_refused(config, size, legal):
    refused(config, f"image_size is {size}; legal: {legal}", image_size=size)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([[336, 672]], "is [[336, 672]]; legal: a list with a square: the plan's image is a"),
        ([[300, 672]], "is [300, 672]; legal: multiples of 336: tiles fill an image"),
        ([[0, 0]], "is [0, 0]; legal: multiples of 336: tiles fill an image"),
        ([[-336, -336]], "is [-336, -336]; legal: multiples of 336: tiles fill an image"),
        ([[672]], "is [672]; legal: [height, width]: sizes of images are pixels"),
        ([672], "is 672; legal: a list of [height, width]"),
    ],
)
def test_sizes_of_images_are_listed_with_a_square(sizes, message):
    refused(NEXT, f"image_grid_pinpoints {message}", image_grid_pinpoints=sizes)


@pytest.mark.parametrize(
    ("config", "key", "given", "legal"),
    [
        (IDEFICS, "scale_factor", 3, "1, 2, 13, 26: it joins squares of 26 x 26 tokens"),
        (INTERN, "downsample_ratio", 0.3, "1/1, 1/2, 1/4, 1/8, 1/16, 1/32: it joins"),
        (INTERN, "downsample_ratio", 0, "above 0, up to 1: it joins tokens"),
        (INTERN, "downsample_ratio", "0.5", "above 0, up to 1: it joins tokens"),
    ],
)
def test_squares_of_tokens_fill_a_tile(config, key, given, legal):
    refused(config, f"{key} is {given!r}; legal: {legal}", **{key: given})


def test_an_image_is_as_high_as_wide():
    legal = "one number, or the same twice: images are squares here"
    vision = {**INTERN["vision_config"], "image_size": [448, 224]}
    message = f"vision_config.image_size is [448, 224]; legal: {legal}"
    refused(INTERN, message, vision_config=vision)


def test_norms_of_internvl_are_of_two_kinds():
    vision = {**INTERN["vision_config"], "norm_type": "batch_norm"}
    legal = "layer_norm, rms_norm: sizes of others are not known"
    message = f"vision_config.norm_type is 'batch_norm'; legal: {legal}"
    refused(INTERN, message, vision_config=vision)


@pytest.mark.parametrize(("config", "kind"), [(INTERN, "internvl"), (SMALL, "idefics3_vision")])
def test_the_image_encoder_may_have_the_name_of_the_model(config, kind):
    vision = {**config["vision_config"], "model_type": kind}
    assert of(config, vision_config=vision) == of(config)
    message = "vision_config.model_type is 'clip_vision_model'; legal: "
    refused(config, message, vision_config={**vision, "model_type": "clip_vision_model"})


@pytest.mark.parametrize("config", [NEXT, IDEFICS, SMALL, INTERN])
@pytest.mark.parametrize("phase", [Phase.PREFILL, Phase.TRAIN])
def test_products_of_a_prompt_are_those_of_each_tile_by_itself(config, phase):
    images, _ = of(config)
    (layer,) = images.layers
    tokens, hidden = images.tokens, images.hidden
    products = 4 * hidden**2 + 2 * hidden * layer.mlp.intermediate
    flops = 2 * tokens * images.input_projections[0].inputs * hidden
    flops += layer.times * 2 * tokens * (products + 2 * tokens * hidden)
    flops += sum(
        2 * tokens * one.rows * one.inputs * one.outputs for one in images.output_projections
    )
    blocks = summaries(from_config(config, "mine.json"), Pass(phase, 1, 4096))
    computed = sum(block.times * block.useful_flop for block in blocks[:3])
    assert computed == pytest.approx(images.tiles * flops, rel=0.02)
