import re

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.families.images_and_texts import towers
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries
from trnsim.workload.resident import cache_bytes

LLAMA = COUNTS["llama-3.2-11b-vision-instruct"][0]
TOKENS = 4 * (40 * 40 + 1)


def of(texts=None, **vision):
    changed = {
        "vision_config": {**LLAMA["vision_config"], **vision},
        "text_config": {**LLAMA["text_config"], **(texts or {})},
    }
    return towers(ConfigKeys({**LLAMA, **changed}, "mine.json"), "mllama")


def refused(message, texts=None, **vision):
    with pytest.raises(BadInput, match="^" + re.escape(f"mine.json: {message}")):
        of(texts, **vision)


def test_an_image_is_four_tiles():
    images, decoder = of()
    assert (images.image, images.tokens) == (560, TOKENS)
    assert [(layer.times, layer.other_parameters) for layer in images.layers] == [(32, 0), (8, 2)]
    (projection,) = images.output_projections
    assert (projection.inputs, projection.outputs) == (7680, decoder.hidden)
    assert of(max_num_tiles=1)[0].tokens == 40 * 40 + 1


def test_some_layers_attend_to_the_image_and_not_to_the_prompt():
    _, decoder = of()
    own, crossed = decoder.layers
    assert [(one.times, one.attentions[0].is_cross) for one in (own, crossed)] == [
        *((32, False), (8, True)),
    ]
    assert [place for place, group in enumerate(decoder.order) if group] == [*range(3, 40, 5)]
    assert (decoder.table_rows, decoder.outputs) == (128_264, 128_256)


@pytest.mark.parametrize(("crossed", "group"), [([], (2, False)), ([1, 0], (2, True))])
def test_layers_may_all_be_of_one_kind(crossed, group):
    _, decoder = of({"num_hidden_layers": 2, "cross_attention_layers": crossed})
    assert [(one.times, one.attentions[0].is_cross) for one in decoder.layers] == [group]
    assert decoder.order == ()


def test_keys_that_are_null_have_their_defaults():
    assert of({"cross_attention_layers": None}, supported_aspect_ratios=None) == of()


@pytest.mark.parametrize(("ratios", "named"), [("x", "'x'"), (3, "3"), ([1], "1")])
def test_arrangements_of_tiles_are_pairs(ratios, named):
    message = f"vision_config.supported_aspect_ratios is {named}; legal: a list of pairs of"
    refused(message, supported_aspect_ratios=ratios)


@pytest.mark.parametrize(("indexes", "named"), [([0, 2], 2), ([-1], -1), ([0, 0], 0)])
def test_layers_that_attend_to_images_are_layers(indexes, named):
    legal = "different indexes from 0 to 1: each is a layer"
    message = f"text_config.cross_attention_layers is {named}; legal: {legal}"
    refused(message, {"num_hidden_layers": 2, "cross_attention_layers": indexes})


def test_a_tile_has_whole_patches():
    refused("vision_config.patch_size is 14; legal: 1 to 13: a tile has whole", image_size=13)


@pytest.mark.parametrize(
    ("part", "kind"), [("text_config", "llama"), ("vision_config", "clip_vision_model")]
)
def test_parts_of_other_models_are_refused(part, kind):
    changed = {**LLAMA, part: {"model_type": kind}}
    with pytest.raises(BadInput, match=rf"^mine.json: {part}.model_type is '{kind}'; legal: mlla"):
        towers(ConfigKeys(changed, "mine.json"), "mllama")


@pytest.mark.parametrize("tokens", [1, 2048])
def test_keys_and_values_of_an_image_are_kept(tokens):
    model = from_config(LLAMA, "mine.json")
    of_token = 2 * 8 * 128 * 2  # keys and values, 8 heads of 128 elements, 16 bits
    assert cache_bytes(model, tokens) == (32 * tokens + 8 * TOKENS) * of_token


def test_a_step_attends_to_the_tokens_of_an_image():
    model = from_config(LLAMA, "mine.json")
    own, crossed = summaries(model, Pass(Phase.DECODE, 1, 1, 600))[1:-1]
    scores = {
        product.name: (product.m, product.n, product.k, product.times)
        for product in crossed.products
        if "scores" in product.name
    }
    assert len(scores) == 1
    assert TOKENS in next(iter(scores.values()))
    assert own.times == 32
