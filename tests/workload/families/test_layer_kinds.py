import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.decoder_rows import ROWS
from trnsim.workload.families.keys import ConfigKeys
from trnsim.workload.families.layer_kinds import expert_layers, kind_counts, windows


def of(model_type, layers=6, **given):
    return windows(ConfigKeys(given, "mine.json"), ROWS[model_type], layers)


@pytest.mark.parametrize(
    ("model_type", "given", "expected"),
    [
        ("llama", {}, [0] * 6),
        ("llama", {"sliding_window": 8}, [0] * 6),
        ("mistral", {"sliding_window": 8}, [8] * 6),
        ("mistral", {"sliding_window": None}, [0] * 6),
        ("mistral", {"sliding_window": 8, "use_sliding_window": False}, [0] * 6),
        ("qwen2", {"sliding_window": 8}, [0] * 6),
        (
            "qwen2",
            {"sliding_window": 8, "use_sliding_window": True, "max_window_layers": 4},
            [0] * 4 + [8] * 2,
        ),
        ("gemma2", {"sliding_window": 8}, [8, 0] * 3),
        ("gemma3_text", {"sliding_window": 8}, [8] * 5 + [0]),
        ("gemma3_text", {"sliding_window": 8, "sliding_window_pattern": 3}, [8, 8, 0] * 2),
        ("cohere2", {"sliding_window": 8}, [8, 8, 8, 0, 8, 8]),
        ("llama4_text", {"attention_chunk_size": 8}, [8, 8, 8, 0, 8, 8]),
        ("exaone4", {"sliding_window": 8, "sliding_window_pattern": "LLLG"}, [8, 8, 8, 0, 8, 8]),
        (
            "mistral",
            {"sliding_window": 8, "layer_types": ["sliding_attention", "full_attention"] * 3},
            [8, 0] * 3,
        ),
    ],
)
def test_windows_of_layers(model_type, given, expected):
    assert of(model_type, **given) == expected


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, [1, 1, 1, 1]),
        ({"first_k_dense_replace": 1}, [0, 1, 1, 1]),
        ({"decoder_sparse_step": 2}, [0, 1, 0, 1]),
        ({"interleave_moe_layer_step": 2}, [0, 1, 0, 1]),
        ({"moe_layer_freq": 2}, [1, 0, 1, 0]),
        ({"mlp_only_layers": [3]}, [1, 1, 1, 0]),
        ({"moe_layers": [1]}, [0, 1, 0, 0]),
        ({"moe_layers": []}, [0, 0, 0, 0]),
        ({"mlp_layer_types": ["dense", "sparse", "sparse", "dense"]}, [0, 1, 1, 0]),
        ({"moe_layer_start_index": 1, "moe_layer_end_index": 2}, [0, 1, 1, 0]),
        ({"moe_layer_end_index": -1}, [1, 1, 1, 1]),
    ],
)
def test_which_layers_have_experts(given, expected):
    assert expert_layers(ConfigKeys(given, "mine.json"), 4) == [bool(one) for one in expected]


@pytest.mark.parametrize(
    ("kinds", "reason"),
    [
        (["dense", "sparse"], "is 'a list of 2'; legal: a list of 4: one for each layer"),
        (["dense"] * 5, "is 'a list of 5'; legal: a list of 4"),
        (["dense", "moe", "sparse", "sparse"], "is 'moe'; legal: sparse, dense"),
    ],
)
def test_a_list_of_mlps_has_a_known_kind_for_each_layer(kinds, reason):
    with pytest.raises(BadInput, match=f"mlp_layer_types {reason}"):
        expert_layers(ConfigKeys({"mlp_layer_types": kinds}, "mine.json"), 4)


@pytest.mark.parametrize("name", ["moe_layers", "mlp_only_layers"])
@pytest.mark.parametrize("number", [-1, 4])
def test_a_layer_that_the_model_does_not_have_is_refused(name, number):
    keys = ConfigKeys({name: [0, number]}, "mine.json")
    message = rf"^mine\.json: {name} is {number}; legal: a list of 0 to 3: the model has 4 layers"
    with pytest.raises(BadInput, match=message):
        expert_layers(keys, 4)


def test_kinds_are_counted_in_the_order_of_their_first():
    assert kind_counts("aabab") == [("a", 3), ("b", 2)]
    assert kind_counts("") == []
