import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.dialects import NORMS, plain_keys
from trnsim.workload.families.keys import ConfigKeys


def said(model_type, **given):
    return plain_keys(ConfigKeys(given, "mine.json"), model_type).config


@pytest.mark.parametrize(
    ("given", "kv_heads", "norms", "is_parallel"),
    [
        ({}, 1, 1, True),
        ({"multi_query": False}, None, 1, True),
        ({"parallel_attn": False}, 1, 2, False),
        ({"new_decoder_architecture": True, "num_kv_heads": 8}, 8, 2, True),
        ({"new_decoder_architecture": True, "num_ln_in_parallel_attn": 1}, None, 1, True),
    ],
)
def test_falcon_has_two_generations(given, kv_heads, norms, is_parallel):
    found = said("falcon", **given)
    assert found.get("num_kv_heads") == kv_heads
    assert (found[NORMS], found["parallel_attn"]) == (norms, is_parallel)


def test_one_head_of_keys_is_said_as_a_number():
    assert said("gpt_bigcode")["num_key_value_heads"] == 1
    assert said("gpt_bigcode", multi_query=False)["num_key_value_heads"] is None


def test_inner_configurations_are_spread_out():
    inner = {"moe_num_experts": 16, "moe_top_k": 4, "ffn_hidden_size": 10752}
    found = said("dbrx", attn_config={"kv_n_heads": 8}, ffn_config=inner)
    assert found["kv_n_heads"] == 8
    assert found["moe_top_k"] == 4
    with pytest.raises(BadInput, match="key 'ffn_config' is missing"):
        said("dbrx", attn_config={})


def test_a_ratio_is_a_size():
    assert said("mpt", d_model=8)["ffn_hidden_size"] == 32
    assert said("mpt", d_model=8, expansion_ratio=2)["ffn_hidden_size"] == 16


def test_kinds_of_layers_are_repeated():
    found = said("gpt_neo", num_layers=4, attention_types=[[["global", "local"], 2]])
    assert found["layer_types"] == ["full_attention", "local_attention"] * 2
    found = said("gpt_neo", num_layers=24)
    assert found["layer_types"] == ["full_attention", "local_attention"] * 12


def test_kinds_of_another_number_of_layers_are_refused():
    message = (
        r"attention_types is \[\[\['global', 'local'\], 12\]\]; legal: kinds of 6 layers: "
        "these are 24, the default"
    )
    with pytest.raises(BadInput, match=message):
        said("gpt_neo", num_layers=6)
    with pytest.raises(BadInput, match=r"legal: kinds of 6 layers: these are 2\n"):
        said("gpt_neo", num_layers=6, attention_types=[[["global", "local"], 1]])


@pytest.mark.parametrize("wrong", [[], [1, 2], [["global"], -1], [["global"], "2"]])
def test_kinds_that_are_no_lists_are_named(wrong):
    with pytest.raises(BadInput, match=r"attention_types is .*; legal: \[kinds, times\]"):
        said("gpt_neo", attention_types=[wrong])


def test_others_speak_plainly():
    assert plain_keys(ConfigKeys({"a": 1}, "mine.json"), "llama").config == {"a": 1}


def test_a_key_left_out_has_the_value_of_the_family_and_null_stays_null():
    plain = plain_keys(ConfigKeys({"sliding_window": None}, "mine.json"), "mistral").config
    assert plain == {"sliding_window": None, "num_key_value_heads": 8}
    assert plain_keys(ConfigKeys({}, "mine.json"), "gpt_oss").config["sliding_window"] == 128


def test_internlm_3_has_names_of_its_release():
    found = said("internlm3", qkv_bias=True, bias=False)
    assert (found["attention_bias"], found["mlp_bias"]) == (True, False)
    assert said("internlm3", attention_bias=False, qkv_bias=True)["attention_bias"] is False
    assert said("internlm3")["mlp_bias"] is None


def test_minimax_rotates_elements_of_a_head():
    assert said("minimax_m2", rotary_dim=64)["partial_rotary_factor"] == 0.5
    assert said("minimax_m2", rotary_dim=32, head_dim=64)["partial_rotary_factor"] == 0.5
    assert "partial_rotary_factor" not in said("minimax_m2")


def test_hunyuans_lists_of_one_number_for_each_layer_are_that_number():
    found = said("hunyuan_v1_moe", num_experts=64, moe_topk=[8, 8, 8])
    assert (found["num_experts"], found["moe_topk"]) == (64, 8)
    with pytest.raises(BadInput, match=r"num_experts is \[16, 64\]; legal: one number: layers of"):
        said("hunyuan_v1_moe", num_experts=[16, 64])


def test_every_fourth_layer_of_cwm_has_no_window():
    short, full = "sliding_attention", "full_attention"
    assert said("cwm", num_hidden_layers=6)["layer_types"] == [full, *[short] * 3, full, short]
    assert said("cwm", num_hidden_layers=1, layer_types=[short])["layer_types"] == [short]


def test_positions_of_gpt_oss_are_stretched_unless_the_file_says_more():
    assert said("gpt_oss")["rope_parameters"]["factor"] == 32.0
    assert "rope_parameters" not in said("gpt_oss", rope_scaling={"factor": 2.0})
