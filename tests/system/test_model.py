import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from trnsim.errors import BadInput, NotModelled
from trnsim.system.model import LLAMA_3_1_8B, from_config, read

EXAMPLE = Path(__file__).parents[2] / "examples" / "llama-3.1-8b.json"
LLAMA = {
    "hidden_size": 4096,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "intermediate_size": 11008,
    "vocab_size": 32000,
}
MIXTRAL = LLAMA | {
    "model_type": "mixtral",
    "num_key_value_heads": 8,
    "intermediate_size": 14336,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "vocab_size": 50257,
    "n_positions": 1024,
}
QWEN2 = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "intermediate_size": 18944,
    "vocab_size": 152064,
}


def test_the_example_is_the_built_in_shape():
    assert read(EXAMPLE) == LLAMA_3_1_8B


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        (LLAMA, 6_738_415_616),
        (MIXTRAL, 46_702_792_704),
        (GPT2, 124_439_808),
        (QWEN2, 7_615_616_512),
    ],
)
def test_parameters_are_those_of_the_published_weights(config, parameters):
    assert from_config(config, "config.json").parameters == parameters


def test_llama_has_eight_billion_parameters():
    assert LLAMA_3_1_8B.parameters == 8_030_261_248


def test_a_mixture_is_active_in_part():
    mixture = from_config(MIXTRAL, "config.json")
    assert mixture.active_parameters == 12_879_925_248
    assert mixture.weight_bytes_read(1) == pytest.approx(2 * mixture.matmul_parameters)
    assert mixture.weight_bytes_read(1) < mixture.weight_bytes_read(8) < mixture.weight_bytes


def test_flops_follow_from_parameters_and_attention():
    model = LLAMA_3_1_8B
    attention = 6 * 32 * 4096 * 8192
    assert model.training_flop_per_token(8192) == 6 * model.matmul_parameters + attention
    assert model.decode_flop_per_token(0) == 2 * model.matmul_parameters


def test_keys_and_values_follow_the_kv_heads():
    assert LLAMA_3_1_8B.kv_bytes_per_token == 2 * 32 * 8 * 128 * 2
    assert from_config(LLAMA, "config.json").kv_bytes_per_token == 2 * 32 * 4096 * 2


def test_tying_the_embeddings_saves_one_of_them():
    tied = replace(LLAMA_3_1_8B, is_tied=True)
    assert LLAMA_3_1_8B.parameters - tied.parameters == 128256 * 4096
    assert tied.matmul_parameters == LLAMA_3_1_8B.matmul_parameters


@pytest.mark.parametrize("key", sorted(LLAMA))
def test_every_size_counts(key):
    larger = from_config(LLAMA | {key: 2 * LLAMA[key]}, "config.json")
    changed = (larger.parameters, larger.head_dim)
    assert changed != (from_config(LLAMA, "config.json").parameters, 128)


@pytest.mark.parametrize("key", sorted(LLAMA))
def test_a_missing_key_says_what_to_add(key):
    config = {name: value for name, value in LLAMA.items() if name != key}
    found = ", ".join(sorted(config))
    message = (
        f"mine.json: key {key!r} is missing; keys found: {found}\n"
        f'  fix: add "{key}": <whole number> to mine.json'
    )
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        from_config(config, "mine.json")


def test_a_missing_gpt2_key_has_its_own_name():
    config = {name: value for name, value in GPT2.items() if name != "n_embd"}
    with pytest.raises(BadInput, match=r"^mine\.json: key 'n_embd' is missing; keys found: model_"):
        from_config(config, "mine.json")


def test_experts_need_to_know_how_many_a_token_visits():
    config = {name: value for name, value in MIXTRAL.items() if name != "num_experts_per_tok"}
    with pytest.raises(BadInput, match=r"^mine\.json: key 'num_experts_per_tok' is missing"):
        from_config(config, "mine.json")


@pytest.mark.parametrize("value", [0, -1, 1.5, "32", True])
def test_a_size_must_be_a_positive_whole_number(value):
    message = f"mine.json: num_hidden_layers is {value!r}, it must be a positive whole number"
    with pytest.raises(BadInput, match="^" + re.escape(message)):
        from_config(LLAMA | {"num_hidden_layers": value}, "mine.json")


@pytest.mark.parametrize(
    ("extra", "given"),
    [
        ({"model_type": "bert"}, "model_type 'bert'"),
        ({"n_routed_experts": 64}, "key 'n_routed_experts'"),
        ({"kv_lora_rank": 512}, "key 'kv_lora_rank'"),
    ],
)
def test_other_architectures_are_refused(extra, given):
    message = f"mine.json: {given} is not modelled; legal: llama, mistral, mixtral, qwen2, qwen3"
    with pytest.raises(NotModelled, match="^" + re.escape(message)):
        from_config(LLAMA | extra, "mine.json")


def test_a_missing_file_says_what_to_give(tmp_path):
    path = tmp_path / "none.json"
    with pytest.raises(BadInput, match=r"none\.json: No such file or directory\n  fix: give the p"):
        read(path)


def test_a_file_that_is_not_json_names_the_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text('{\n "hidden_size": ,\n}')
    with pytest.raises(BadInput, match=r"config\.json:2: not JSON: Expecting value"):
        read(path)


def test_a_list_is_not_a_config(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps([1]))
    with pytest.raises(BadInput, match=r"config\.json: a config\.json holds an object, not a list"):
        read(path)
