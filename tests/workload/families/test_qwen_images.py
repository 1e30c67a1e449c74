import re

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput
from trnsim.workload.config import from_config, longest_sequence
from trnsim.workload.families.images_and_texts import towers
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries

FIRST, WINDOWED, STACKED = (
    COUNTS[name][0]
    for name in ("qwen2-vl-2b-instruct", "qwen2.5-vl-7b-instruct", "qwen3-vl-8b-instruct")
)


def of(config, **vision):
    changed = {**config, "vision_config": {**config["vision_config"], **vision}}
    return towers(ConfigKeys(changed, "mine.json"), config["model_type"])


def refused(config, message, **vision):
    with pytest.raises(BadInput, match="^" + re.escape(f"mine.json: vision_config.{message}")):
        of(config, **vision)


@pytest.mark.parametrize(
    ("config", "side", "patches"), [(FIRST, 980, 70), (WINDOWED, 980, 70), (STACKED, 1120, 70)]
)
def test_a_picture_has_the_tokens_that_are_recommended(config, side, patches):
    images, _ = of(config)
    assert (images.image, images.tokens) == (side, patches**2)
    assert images.tokens * images.output_projections[-1].rows == 35**2 <= 1280


@pytest.mark.parametrize(("size", "tokens"), [(28, 1), (56, 4), (1008, 36**2)])
def test_another_size_of_pictures_is_stated(size, tokens):
    images, decoder = of(WINDOWED, image_size=size)
    assert images.tokens == 4 * tokens
    assert [matrix.outputs for matrix in images.output_projections] == [4 * 1280, decoder.hidden]


@pytest.mark.parametrize("size", [1, 27, 29, 1000])
def test_a_picture_has_whole_tokens(size):
    refused(WINDOWED, f"image_size is {size}; legal: multiples of 28: a token is", image_size=size)


def test_most_layers_of_the_second_generation_attend_within_windows():
    images, _ = of(WINDOWED)
    assert [(group.times, group.attentions[0].window) for group in images.layers] == [
        *((4, 0), (28, 64)),
    ]
    assert [number for number, group in enumerate(images.order) if group == 0] == [7, 15, 23, 31]
    wide, _ = of(WINDOWED, window_size=224)
    assert wide.layers[1].attentions[0].window == 256


def test_keys_that_are_null_have_their_defaults():
    assert of(WINDOWED, fullatt_block_indexes=None, depth=None) == of(WINDOWED)


@pytest.mark.parametrize(("full", "window"), [([], 64), ([1, 0], 0)])
def test_layers_may_all_be_of_one_kind(full, window):
    images, _ = of(WINDOWED, depth=2, fullatt_block_indexes=full)
    ((group, order),) = [(images.layers, images.order)]
    assert [(layer.times, layer.attentions[0].window) for layer in group] == [(2, window)]
    assert order == ()


@pytest.mark.parametrize(
    ("config", "key"),
    [(WINDOWED, "fullatt_block_indexes"), (STACKED, "deepstack_visual_indexes")],
)
@pytest.mark.parametrize(("indexes", "named"), [([0, 2], 2), ([-1], -1), ([1, 1], 1)])
def test_indexes_are_those_of_layers(config, key, indexes, named):
    legal = "different indexes from 0 to 1: each is a layer"
    refused(config, f"{key} is {named}; legal: {legal}", depth=2, **{key: indexes})


@pytest.mark.parametrize(
    ("config", "key"),
    [(FIRST, "hidden_size"), (WINDOWED, "out_hidden_size"), (STACKED, "out_hidden_size")],
)
def test_tokens_of_a_picture_have_the_width_of_the_texts(config, key):
    width = of(config)[1].hidden
    for wrong in (width - 1, 1):
        message = f"{key} is {wrong}; legal: {width}, the hidden_size of the text: tokens"
        refused(config, message, **{key: wrong})


def test_a_window_holds_a_token():
    message = "window_size is 27, it must be a whole number from 28 on"
    refused(WINDOWED, message, window_size=27)


def test_layers_before_the_last_are_merged_too():
    images, decoder = of(STACKED)
    assert [(matrix.inputs, matrix.outputs) for matrix in images.output_projections] == 4 * [
        *((4 * 1152, 4 * 1152), (4 * 1152, decoder.hidden)),
    ]
    assert images.head_parameters == 2 * 1152 + 3 * 2 * 4 * 1152


@pytest.mark.parametrize("config", [FIRST, WINDOWED, STACKED])
def test_products_of_a_prompt_are_those_of_its_picture_and_its_tokens(config):
    images, decoder = of(config)
    layers = [
        (layer.times, layer.attentions[0].window or images.tokens, layer.mlp)
        for layer in images.layers
    ]
    patches, hidden = images.tokens, images.hidden
    flops = 2 * patches * images.input_projections[0].inputs * hidden
    for times, keys, mlp in layers:
        products = 4 * hidden**2 + mlp.matrices * hidden * mlp.intermediate
        flops += times * 2 * patches * (products + 2 * keys * hidden)
    flops += sum(
        2 * patches // 4 * matrix.inputs * matrix.outputs for matrix in images.output_projections
    )
    blocks = summaries(from_config(config, "mine.json"), Pass(Phase.PREFILL, 1, 2048))
    groups = 2 + len(layers)
    found = sum(block.times * block.useful_flop for block in blocks[:groups])
    assert found == pytest.approx(flops, rel=0.02)
    assert len(blocks) == groups + 2 + len(decoder.layers)


def test_older_files_have_the_keys_of_texts_beside_those_of_images():
    nested = {key: value for key, value in FIRST.items() if key != "vision_config"}
    text = {key: value for key, value in nested.items() if key != "model_type"}
    newer = {
        "model_type": "qwen2_vl",
        "vision_config": FIRST["vision_config"],
        "text_config": {**text, "model_type": "qwen2_vl_text"},
    }
    assert from_config(newer, "a.json").towers == from_config(FIRST, "a.json").towers
    assert longest_sequence(ConfigKeys(FIRST, "a.json"), "qwen2_vl")[1] == "max_position_embeddings"
    assert longest_sequence(ConfigKeys(newer, "a.json"), "qwen2_vl")[1].startswith("text_config.")


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "qwen2_5_vl_vision"])
def test_older_files_name_the_model_in_place_of_its_image_encoder(kind):
    assert of(WINDOWED, model_type=kind) == of(WINDOWED)


def test_an_image_encoder_of_another_generation_is_refused():
    refused(WINDOWED, "model_type is 'qwen2_vl_vision'; legal: ", model_type="qwen2_vl_vision")


def test_the_whole_decides_whether_words_are_tied():
    assert of(FIRST)[1].is_tied
    assert not of(WINDOWED)[1].is_tied
    tied = {**STACKED["text_config"], "tie_word_embeddings": True}
    assert not of({**STACKED, "text_config": tied})[1].is_tied
    assert of({**STACKED, "tie_word_embeddings": True})[1].is_tied


def test_texts_of_qwen3_5_read_the_last_layers_tokens_alone():
    texts = {**STACKED["text_config"], "model_type": "qwen3_5_text"}
    vision = {**STACKED["vision_config"], "model_type": "qwen3_5"}
    config = {**STACKED, "model_type": "qwen3_5", "text_config": texts, "vision_config": vision}
    (stacked, _), (images, decoder) = of(STACKED), of(config)
    assert images.output_projections == stacked.output_projections[:2]
    assert images.positions == stacked.positions == 2304
    assert stacked.head_parameters - images.head_parameters == 3 * 2 * 4 * images.hidden
    assert len(decoder.layers) == 2
