import json
import math
import re
from pathlib import Path

import pytest
from parameter_formulas import of_model
from published_models import COUNTS, DEEPSEEK_V3, FALCON_7B, GPT_OSS, bert, gpt2, llama, t5

from trnsim.errors import BadInput, NotModelled
from trnsim.workload.config import FAMILIES, from_config, read, read_values
from trnsim.workload.resident import active_parameters, parameters

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-3.1-8b.json"
LLAMA = llama(4096, 32, 32, 14336, 128256, 8)
MIXTRAL = llama(
    64, 2, 8, 96, 100, 2, model_type="mixtral", num_local_experts=4, num_experts_per_tok=2
)


def of(config):
    return from_config(config, "mine.json")


@pytest.mark.parametrize("name", COUNTS)
def test_parameters_are_those_of_the_published_weights(name):
    config, published = COUNTS[name]
    found = of(config)
    assert parameters(found) == of_model(found) == published


def test_the_example_is_read():
    found = read(EXAMPLE)
    assert (found.name, parameters(found)) == ("llama-3.1-8b", 8_030_261_248)


@pytest.mark.parametrize(
    ("config", "billions"),
    [
        (DEEPSEEK_V3, 37.55),  # published as 37 B
        (GPT_OSS, 5.71),  # published as 5.13 B, without the table of words
        (LLAMA, 8.03),
    ],
)
def test_a_token_takes_what_is_published(config, billions):
    assert active_parameters(of(config)) / 1e9 == pytest.approx(billions, abs=0.005)


def refused(config, message, kind=BadInput):
    with pytest.raises(kind, match="^" + re.escape(message)):
        of(config)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"num_key_value_heads": 3},
            (
                "mine.json: num_key_value_heads is 3; legal: 1, 2, 4, 8: "
                "each serves an equal part of 8 heads"
            ),
        ),
        (
            {"num_key_value_heads": 16},
            (
                "mine.json: num_key_value_heads is 16; legal: 1, 2, 4, 8: "
                "each serves an equal part of 8 heads"
            ),
        ),
        (
            {"num_experts_per_tok": 9},
            "mine.json: num_experts_per_tok is 9; legal: 1 to 4: there are 4 experts",
        ),
        (
            {"hidden_size": 1000, "num_attention_heads": 7, "num_key_value_heads": 7},
            (
                "mine.json: hidden_size is 1000; legal: multiples of 7 heads, or any with "
                "head_dim: each head has an equal part"
            ),
        ),
        (
            {"layer_types": ["full_attention"]},
            "mine.json: layer_types is 'a list of 1'; legal: a list of 2: one for each layer",
        ),
        (
            {"layer_types": ["linear_attention", "full_attention"]},
            (
                "mine.json: layer_types is 'linear_attention'; legal: full_attention, "
                "sliding_attention, chunked_attention, local_attention: no other kind is known"
            ),
        ),
        (
            {"layer_types": "full_attention"},
            (
                "mine.json: layer_types is 'full_attention'; legal: a list of 2 of full_attention, "
                "sliding_attention, chunked_attention: it is a list"
            ),
        ),
        (
            {"tie_word_embeddings": "yes"},
            "mine.json: tie_word_embeddings is 'yes'; legal: true, false: it is a choice",
        ),
        (
            {"torch_dtype": "float8"},
            (
                "mine.json: torch_dtype is 'float8'; legal: float32, bfloat16, float16, auto: "
                "a checkpoint's dtype"
            ),
        ),
        ({"model_type": 7}, "mine.json: model_type is 7; legal: text: it is a name"),
        (
            {"num_hidden_layers": 10**6},
            (
                "mine.json: num_hidden_layers is 1000000, it must be a positive whole number, "
                "at most 10,000"
            ),
        ),
    ],
)
def test_what_cannot_be_is_named_with_what_is_legal(given, message):
    refused({**MIXTRAL, **given}, message)


@pytest.mark.parametrize("key", ["hidden_size", "num_hidden_layers", "vocab_size"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "32", True, float("nan"), [4], {"a": 1}])
def test_a_size_is_a_positive_whole_number(key, value):
    refused({**LLAMA, key: value}, f"mine.json: {key} is {value!r}, it must be a positive whole")


@pytest.mark.parametrize("key", ["hidden_size", "num_attention_heads", "intermediate_size"])
def test_a_missing_key_says_what_to_add(key):
    config = {name: value for name, value in LLAMA.items() if name != key}
    found = ", ".join(sorted(config))
    refused(
        config,
        f"mine.json: key {key!r} is missing; keys found: {found}\n"
        f'  fix: add "{key}": <whole number> to mine.json',
    )


def test_a_missing_key_has_the_familys_own_name():
    config = {name: value for name, value in gpt2().items() if name != "n_embd"}
    refused(config, "mine.json: key 'n_embd' is missing; keys found: model_type, n_head, ")


def test_code_beside_the_weights_is_not_run():
    refused(
        {**LLAMA, "model_type": "mine", "auto_map": {"AutoModel": "modeling_mine.Mine"}},
        "mine.json: auto_map is {'AutoModel': 'modeling_mine.Mine'}; legal: no such key: it names "
        "code beside the weights, which is not run; take the key out if the model is that of "
        "transformers, else export it and ask trnsim compile model.pt2",
    )


def test_a_known_model_is_that_of_transformers_although_code_is_beside_its_weights():
    stated = from_config({**LLAMA, "auto_map": {"AutoModel": "modeling_mine.Mine"}}, "mine.json")
    assert stated == from_config(LLAMA, "mine.json")


def test_an_unlimited_number_is_one_that_a_key_may_have(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"time_step_limit": [0.0, Infinity], "hidden_size": Infinity}', "utf-8")
    values = read_values(path)
    assert values["time_step_limit"] == [0.0, math.inf]
    refused(
        {**LLAMA, **values}, "mine.json: hidden_size is inf, it must be a positive whole number"
    )


def test_a_file_without_a_model_type_is_no_configuration():
    config = {name: value for name, value in LLAMA.items() if name != "model_type"}
    refused(config, "mine.json: no model_type, so it is no model's configuration")


def test_another_architecture_is_named_with_those_that_are_known():
    legal = ", ".join(sorted(FAMILIES))
    message = f"mine.json: model_type 'lamma' is not modelled; legal: {legal}"
    refused({**LLAMA, "model_type": "lamma"}, message, NotModelled)
    with pytest.raises(NotModelled) as caught:
        of({**LLAMA, "model_type": "lamma"})
    assert caught.value.fix == "perhaps 'llama' or 'mllama'"
    with pytest.raises(NotModelled) as caught:
        of({**LLAMA, "model_type": "zzzz"})
    assert caught.value.fix == "write the model_type, of these, whose layers the model has"


@pytest.mark.parametrize(
    "model_type", ["clip", "siglip", "gemma3", "llama4", "llava", "mllama", "qwen3_vl"]
)
@pytest.mark.parametrize("name", ["text_config", "vision_config"])
def test_a_pair_needs_both_configurations(name, model_type):
    pair = {"model_type": model_type, "text_config": {}, "vision_config": {}}
    missing = {key: value for key, value in pair.items() if key != name}
    refused(missing, f"mine.json: key {name!r} is missing; keys found: model_type, ")
    refused({**pair, name: [1]}, f"mine.json: {name} is [1]; legal: an object: it holds")
    refused(
        {**pair, name: {"hidden_size": -4}},
        f"mine.json: {name}.hidden_size is -4, it must be a positive whole number",
    )


def test_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "config.json"
    path.write_bytes(b'{\n "model_type": "\xff"}')
    with pytest.raises(BadInput, match=r"config\.json:2: byte 0xff is no UTF-8 text"):
        read(path)


def test_nan_is_no_number_of_a_file(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "llama", "hidden_size": NaN}')
    with pytest.raises(BadInput, match="not JSON: NaN is no number of JSON"):
        read(path)


def test_a_missing_file_says_what_to_give(tmp_path):
    with pytest.raises(BadInput, match=r"none\.json: No such file or directory\n  fix: give a m"):
        read(tmp_path / "none.json")


def test_a_list_is_not_a_configuration(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps([1]))
    with pytest.raises(
        BadInput, match=r"config\.json:1: a config\.json holds an object, not a list"
    ):
        read(path)


@pytest.mark.parametrize(
    ("config", "longest", "key"),
    [
        (gpt2(), 1024, "n_positions"),
        (bert(), 512, "max_position_embeddings"),
        (bert(architectures=["BertForPreTraining"]), 512, "max_position_embeddings"),
        (bert(model_type="mpnet"), 510, "max_position_embeddings"),
        (bert(model_type="roberta", max_position_embeddings=514), 512, "max_position_embeddings"),
    ],
)
def test_a_sequence_beyond_the_places_is_refused(config, longest, key):
    found = of(config)
    found.check_length(longest)
    message = (
        f"a sequence of {longest + 1:,} tokens exceeds {key} of mine; legal: 1 to {longest:,}\n"
        f"  fix: ask for at most {longest:,} tokens, input and output together"
    )
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        found.check_length(longest + 1)


def test_a_model_that_knows_distances_alone_has_no_longest_sequence():
    found = of({**t5(512, 6, 8, 2048), "n_positions": 512})
    assert found.max_positions == 0
    found.check_length(10**6)


def test_falcon_was_trained_on_2048_tokens_where_the_file_does_not_say():
    config = {key: value for key, value in FALCON_7B.items() if "position" not in key}
    assert of(config).max_positions == 2048
    assert of({**config, "max_position_embeddings": 4096}).max_positions == 4096


def test_rotary_positions_and_linear_biases_go_on_beyond_those_of_training():
    for config in (LLAMA, {**LLAMA, "model_type": "falcon", "alibi": True}):
        found = of(config)
        assert (found.max_positions, found.length_limit) == (4096, 0)
        found.check_length(10**6)


@pytest.mark.parametrize(
    ("scaling", "expected"),
    [
        ({"type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}, 131072),
        ({"rope_type": "llama3", "factor": 8, "original_max_position_embeddings": 256}, 4096),
        ({"rope_type": "llama3", "factor": 32, "original_max_position_embeddings": 8192}, 4096),
        ({"type": "linear", "factor": 4.0}, 4096),
    ],
)
def test_places_may_be_stretched(scaling, expected):
    assert of({**LLAMA, "rope_scaling": scaling}).max_positions == expected


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"rope_scaling": {"type": "linear", "factor": "2"}},
            "rope_scaling.factor is '2'; legal: a",
        ),
        (
            {"rope_scaling": {"rope_type": "yarm"}},
            "rope_scaling.rope_type is 'yarm'; legal: default",
        ),
        (
            {"rope_scaling": {"type": "x", "factor": 2}},
            "rope_scaling.type is 'x'; legal: default, ",
        ),
        ({"rope_parameters": {"rope_type": 3}}, "rope_parameters.rope_type is 3; legal: text"),
        ({"rope_parameters": {"rope_theta": []}}, "rope_parameters.rope_theta is []; legal: a num"),
        ({"rope_theta": "10000"}, "rope_theta is '10000'; legal: a number"),
    ],
)
def test_rotary_positions_that_transformers_fails_on_are_refused(given, message):
    refused({**LLAMA, **given}, f"mine.json: {message}")


@pytest.mark.parametrize("kind", ["default", "proportional", "su", "mrope", None])
def test_kinds_of_rotary_positions_are_those_of_transformers(kind):
    assert of({**LLAMA, "rope_scaling": {"type": kind, "factor": None}}) == of(LLAMA)


@pytest.mark.parametrize("factor", [0, -1, True, "4", float("nan"), float("inf"), 1e6])
def test_a_stretch_is_a_positive_number(factor):
    scaling = {"factor": factor, "original_max_position_embeddings": 8}
    legal = "a number above 0 and below 1,000,000: it stretches positions"
    message = f"mine.json: rope_scaling.factor is {factor!r}; legal: {legal}"
    refused({**LLAMA, "rope_scaling": scaling}, message)


@pytest.mark.parametrize("model_type", ["gptj", "codegen"])
def test_angles_in_a_table_end_with_it(model_type):
    found = of({**gpt2(model_type, 64, 2, 2, 100, 128), "rotary_dim": 32})
    assert found.length_limit == 128
    found.check_length(128)
    with pytest.raises(BadInput, match="129 tokens exceeds n_positions of mine; legal: 1 to 128"):
        found.check_length(129)


def test_slopes_in_a_table_end_with_it():
    config = {"model_type": "mpt", "d_model": 64, "n_layers": 2, "n_heads": 2, "vocab_size": 100}
    assert of({**config, "max_seq_len": 128}).length_limit == 128


def test_a_pair_has_the_places_of_its_texts():
    pair = {"text_config": {"max_position_embeddings": 77}, "vision_config": {}}
    found = of({"model_type": "clip", **pair})
    assert (found.max_positions, found.positions_key) == (77, "text_config.max_position_embeddings")


def test_what_is_generated_has_a_causal_mask_and_words():
    assert of(LLAMA).is_generating
    assert of(t5(512, 6, 8, 2048)).is_generating
    assert not of(bert(architectures=["BertForMaskedLM"])).is_generating
    assert not of({"model_type": "clip_text_model"}).is_generating


def test_bits_are_those_of_the_file():
    found = of({**FALCON_7B, "torch_dtype": "float32"})
    assert (found.weight_bits, found.other_bits, found.kv_bits) == (32, 32, 32)
    fp8 = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    found = of({**DEEPSEEK_V3, "quantization_config": fp8})
    assert (found.other_bits, found.product_bits) == (16, 8)
    assert found.weight_bits == pytest.approx(8.002, abs=1e-3)


@pytest.mark.parametrize(
    ("texts", "is_known"),
    [({"model_type": "llama4_text"}, True), ({"model_type": "mamba"}, False), ("text", False)],
)
def test_a_model_of_several_parts_that_is_not_known_says_how_its_texts_are(texts, is_known):
    config = {"model_type": "idefics9", "text_config": texts}
    with pytest.raises(NotModelled, match=r"mine.json: model_type 'idefics9' is not ") as error:
        from_config(config, "mine.json")
    assert ("its texts are known (llama4_text): write its text_config" in str(error.value)) is (
        is_known
    )
