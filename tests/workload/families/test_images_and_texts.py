import re

import pytest
from published_models import COUNTS

from trnsim.errors import BadInput
from trnsim.workload.config import from_config
from trnsim.workload.families.images_and_texts import towers
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.operators import Pass, Phase
from trnsim.workload.passes import summaries

GEMMA, LLAVA, PALIGEMMA = (
    COUNTS[name][0] for name in ("gemma-3-4b-it", "llava-1.5-7b", "paligemma-3b-pt-224")
)


def of(config, **given):
    return towers(ConfigKeys({**config, **given}, "mine.json"), config["model_type"])


def test_an_image_becomes_tokens_of_a_text():
    seen, read = of(GEMMA)
    assert seen.tokens == 64 * 64
    assert seen.tokens * seen.output_projections[-1].rows == 256
    assert [one.attentions[0].window for one in read.layers] == [1024, 0]
    seen, read = of(LLAVA)
    assert [one.inputs for one in seen.output_projections] == [1024, 4096]
    assert seen.tokens * seen.output_projections[0].rows == pytest.approx(576)
    assert read.table_rows == 32064


def test_four_neighbours_are_one_token_of_llama_4():
    seen, read = of(COUNTS["llama-4-scout-17b-16e"][0])
    assert seen.tokens == 24 * 24 + 1
    assert [(one.inputs, one.outputs) for one in seen.output_projections] == [
        *((5632, 4096), (4096, 4096), (4096, 5120)),
    ]
    assert {round(seen.tokens * one.rows) for one in seen.output_projections} == {144}
    assert read.table_rows == 202_048


def test_squares_of_neighbours_are_one_token_of_mistral():
    config = COUNTS["mistral-small-3.1-24b"][0]
    seen, read = of(config)
    assert (seen.tokens, seen.positions, seen.head_parameters) == (110 * 110, 0, 0)
    assert [(one.inputs, one.outputs) for one in seen.output_projections] == [
        *((4096, 1024), (1024, 5120), (5120, 5120)),
    ]
    assert {seen.tokens * one.rows for one in seen.output_projections} == {55 * 55}
    assert not read.is_tied
    given = {"vision_feature_layer": [-2, -1], "multimodal_projector_bias": True}
    changed, _ = of(config, spatial_merge_size=1, **given)
    assert [(one.inputs, one.biases, one.rows) for one in changed.output_projections] == [
        *((1024, 1024, 1), (2048, 5120, 1), (5120, 5120, 1)),
    ]


def test_each_patch_is_a_token_of_paligemma():
    seen, read = of(PALIGEMMA)
    assert (seen.tokens, [(one.inputs, one.outputs) for one in seen.output_projections]) == (
        *(256, [(1152, read.hidden)]),
    )
    assert read.is_tied
    assert not of(PALIGEMMA, tie_word_embeddings=False)[1].is_tied
    legal = "2048, the hidden_size of the text: an image's tokens are among its own"
    with pytest.raises(BadInput, match=f"^mine.json: projection_dim is 2304; legal: {legal}"):
        of(PALIGEMMA, projection_dim=2304)


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("gemma-3-4b-it", 260),
        ("llava-1.5-7b", 576),
        ("llama-4-scout-17b-16e", 147),
        ("llama-3.2-11b-vision-instruct", 0),
        ("mistral-small-3.1-24b", 55 * 56),
        ("paligemma-3b-pt-224", 256),
        ("qwen2.5-vl-7b-instruct", 1225),
    ],
)
def test_an_image_takes_tokens_of_a_prompt(name, tokens):
    assert of(COUNTS[name][0])[0].prompt_tokens == tokens


def test_sizes_left_out_are_those_of_the_kind_of_texts():
    texts = {"model_type": "gemma2", "num_key_value_heads": 2}
    read = of(PALIGEMMA, text_config=texts, projection_dim=2304)[1]
    assert (read.hidden, read.depth, read.table_rows) == (2304, 26, 256_000)
    with pytest.raises(BadInput, match=r"^mine.json: key 'text_config.hidden_size' is missing"):
        of(PALIGEMMA, text_config={"model_type": "olmo"})


@pytest.mark.parametrize("ratio", [0, -0.5, 2, "0.5", True, None])
def test_a_share_of_patches_is_a_share(ratio):
    given = {"vision_config": {"pixel_shuffle_ratio": ratio}}
    with pytest.raises(BadInput, match=r"pixel_shuffle_ratio is .*; legal: above 0, up to 1"):
        of(COUNTS["llama-4-scout-17b-16e"][0], **given)


def test_what_ties_the_whole_ties_its_texts():
    assert of(GEMMA)[1].is_tied
    assert not of(LLAVA)[1].is_tied
    assert of(LLAVA, tie_word_embeddings=True)[1].is_tied


def test_images_are_seen_once():
    model = from_config(LLAVA, "mine.json")
    names = [block.name for block in summaries(model, Pass(Phase.PREFILL, 1, 600))]
    assert names == ["embedding", "layer", "head"] * 2
    assert len(summaries(model, Pass(Phase.DECODE, 1, 1, 600))) == 3
    assert model.is_generating
    assert model.max_positions == 4096


@pytest.mark.parametrize(("key", "given"), [("text_config", "mamba"), ("vision_config", "siglip2")])
def test_a_part_that_is_not_known_is_named(key, given):
    message = f"mine.json: {key}.model_type is {given!r}; legal: "
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        of(LLAVA, **{key: {"model_type": given}})


def test_the_named_class_ends_the_decoder_of_texts():
    given = {"architectures": ["Gemma3ForSequenceClassification"], "num_labels": 3}
    text = {**GEMMA["text_config"], "architectures": None}
    read = of(GEMMA, **given, text_config=text)[1]
    assert (
        read.outputs,
        read.output_projections[-1].name,
        read.output_projections[-1].outputs,
    ) == (0, "classes", 3)
    assert of(GEMMA, architectures=["Gemma3Model"])[1].outputs == 0


def test_all_tokens_of_an_image_are_read_where_the_file_says_so():
    seen, _ = of(LLAVA, vision_feature_select_strategy="full")
    assert [matrix.rows for matrix in seen.output_projections] == [1, 1]


@pytest.mark.parametrize("layers", ["x", [], [-2, "x"], 1.5, True, {}])
def test_layers_of_the_image_encoder_are_numbers(layers):
    with pytest.raises(BadInput, match=r"vision_feature_layer is .*; legal: the number of a layer"):
        of(LLAVA, vision_feature_layer=layers)


@pytest.mark.parametrize(("layers", "count"), [(None, 1), (-2, 1), ([-2], 1), ([-2, -5, -8], 3)])
def test_vectors_of_chosen_layers_lie_side_by_side(layers, count):
    seen, _ = of(LLAVA, vision_feature_layer=layers)
    assert seen.output_projections[0].inputs == 1024 * count
