from dataclasses import replace

import pytest
from parameter_formulas import of_table, of_tower

from trnsim.errors import BadInput
from trnsim.workload.architecture import Experts, LatentAttention
from trnsim.workload.families.decoders import towers
from trnsim.workload.families.keys import ConfigKeys

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 100,
}
ROUTED = {**SMALL, "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 10}


def tower(model_type, **given):
    (found,) = towers(ConfigKeys({**SMALL, **given}, "mine.json"), model_type)
    return found


@pytest.mark.parametrize("key", sorted(SMALL))
def test_every_size_counts(key):
    larger = tower("llama", **{key: 2 * SMALL[key]})
    assert of_tower(larger) != of_tower(tower("llama"))


def test_biases_are_counted_where_the_file_says_so():
    plain = of_tower(tower("llama"))
    biases = (8 + 4) * 4 + 32
    assert of_tower(tower("llama", attention_bias=True)) == plain + 6 * biases
    assert of_tower(tower("llama", mlp_bias=True)) == plain + 6 * (2 * 48 + 32)


def test_tying_saves_a_table():
    tied = tower("llama", tie_word_embeddings=True)
    assert of_tower(tower("llama")) - of_tower(tied) == 100 * 32
    assert of_table(tied) == 0
    assert tower("gemma").is_tied


def test_windows_make_two_groups_of_layers():
    groups = tower("gemma3_text", sliding_window=16, head_dim=4).layers
    assert [(one.times, one.attentions[0].window) for one in groups] == [(5, 16), (1, 0)]


def test_dense_layers_come_first():
    latent = {
        "kv_lora_rank": 12,
        "q_lora_rank": None,
        "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 5,
        "v_head_dim": 7,
        "n_shared_experts": 2,
        "first_k_dense_replace": 2,
    }
    dense, sparse = tower("deepseek_v3", **{**ROUTED, **latent}).layers
    assert (dense.times, sparse.times) == (2, 4)
    assert dense.mlp.intermediate == 48
    assert isinstance(sparse.mlp, Experts)
    assert sparse.mlp.shared.intermediate == 20
    (attention,), wanted = sparse.attentions, LatentAttention(8, 0, 12, 5, 4, 7, norms=12)
    assert attention == replace(
        wanted, norm=attention.norm, rotary=attention.rotary, scale=attention.scale
    )


def test_layers_with_experts_alternate():
    dense, sparse = tower("qwen3_moe", **ROUTED, decoder_sparse_step=2, head_dim=4).layers
    assert (dense.times, sparse.times) == (3, 3)
    groups = tower("qwen3_moe", **ROUTED, mlp_only_layers=[0, 5], head_dim=4).layers
    assert [(one.times, isinstance(one.mlp, Experts)) for one in groups] == [(2, False), (4, True)]


def test_a_gate_weighs_the_shared_part():
    (layer,) = tower("qwen2_moe", **ROUTED, shared_expert_intermediate_size=14).layers
    assert (layer.mlp.shared.intermediate, layer.mlp.shared_gate) == (14, 32)


def test_experts_of_gpt_oss_have_biases_and_heads_sinks():
    (layer,) = tower("gpt_oss", **ROUTED, sliding_window=None, head_dim=4).layers
    assert layer.mlp.expert.biases == 2 * 48 + 32
    assert layer.mlp.router_biases == 4
    assert layer.attentions[0].norms == 8


@pytest.mark.parametrize("model_type", ["phi", "cohere", "gpt_neox"])
def test_parallel_layers_are_known(model_type):
    assert tower(model_type).layers[0].is_parallel
    assert not tower("llama").layers[0].is_parallel


def test_a_parallel_residual_needs_fewer_norms():
    assert tower("stablelm").layers[0].norms == 4 * 32
    assert tower("stablelm", use_parallel_residual=True).layers[0].norms == 2 * 32


def test_tables_narrower_than_layers_are_projected():
    narrow = tower("opt", word_embed_proj_dim=16, ffn_dim=48, max_position_embeddings=20)
    assert narrow.width == 16
    assert [one.name for one in (*narrow.input_projections, *narrow.output_projections)] == [
        "project in",
        "project out",
    ]
    assert narrow.positions == 22


@pytest.mark.parametrize(
    ("given", "windows"),
    [({}, [4096] * 6), ({"sliding_window": None}, [0] * 6), ({"sliding_window": 16}, [16] * 6)],
)
def test_a_window_left_out_is_that_of_the_family_and_null_is_none(given, windows):
    assert windows_of("mistral", **given) == windows


@pytest.mark.parametrize(
    ("model_type", "given", "windows"),
    [
        ("qwen2", {"max_window_layers": 4}, [0, 0, 0, 0, 8, 8]),
        ("qwen2", {}, [0] * 6),
        ("qwen2_moe", {"max_window_layers": 4}, [8, 0, 8, 0, 0, 0]),
        ("qwen3_moe", {"max_window_layers": 4}, [8] * 6),
    ],
)
def test_each_family_of_qwen_has_windows_in_layers_of_its_own(model_type, given, windows):
    given = {**ROUTED, **given, "sliding_window": 8, "num_key_value_heads": 2}
    assert windows_of(model_type, **given, use_sliding_window=True) == windows
    assert windows_of(model_type, **given) == [0] * 6


def test_chunks_are_in_the_layers_of_llama_4_that_are_rotated():
    given = {**ROUTED, "num_local_experts": 4, "attention_chunk_size": 8, "head_dim": 4}
    layers = tower("llama4_text", **given, no_rope_layers=[1, 0, 1, 0, 1, 0]).layers
    assert sorted((layer.attentions[0].window, layer.times) for layer in layers) == [(0, 3), (8, 3)]


def windows_of(model_type, **given):
    """The window of each layer."""
    found = tower(model_type, head_dim=4, **given)
    return [found.layers[kind].attentions[0].window for kind in found.order]


def test_biases_are_those_of_the_family():
    """Helium's outputs have none; experts have none where the MLPs beside them do."""
    heads = {"head_dim": 4}
    plain = of_tower(tower("helium", **heads))
    assert of_tower(tower("helium", **heads, attention_bias=True)) == plain + 6 * (8 + 4) * 4
    sizes = {"moe_num_experts": 4, "moe_k": 2, "moe_intermediate_size": 10, "head_dim": 4}
    sizes |= {"moe_num_shared_experts": 3}
    plain = of_tower(tower("ernie4_5_moe", **sizes))
    attention, shared, dense = 6 * ((8 + 4) * 4 + 32), 5 * (2 * 30 + 32), 2 * 48 + 32
    biased = of_tower(tower("ernie4_5_moe", **sizes, use_bias=True))
    assert biased == plain + attention + shared + dense + 100


def test_norms_of_opt_may_have_no_parameters():
    sizes = {"ffn_dim": 48, "max_position_embeddings": 20}
    plain = of_tower(tower("opt", **sizes))
    bare = of_tower(tower("opt", **sizes, layer_norm_elementwise_affine=False))
    assert plain - bare == (6 * 2 + 1) * 2 * 32


def test_an_mlp_left_out_is_that_of_the_family_or_refused():
    left_out = {"intermediate_size": None}
    assert tower("gpt2", n_positions=8, **left_out).layers[0].mlp.intermediate == 4 * 32
    with pytest.raises(BadInput, match="key 'intermediate_size' is null"):
        tower("phi", **left_out)
    sizes = {key: value for key, value in SMALL.items() if key != "intermediate_size"}
    (arcee,) = towers(ConfigKeys(sizes, "mine.json"), "arcee")
    assert arcee.layers[0].mlp.intermediate == 18432


@pytest.mark.parametrize(
    ("model_type", "kv_heads"),
    [
        *dict.fromkeys(("qwen2", "qwen3", "exaone4", "stablelm"), 32).items(),
        *dict.fromkeys(("gemma", "qwen2_moe"), 16).items(),
        ("helium", 20),
    ],
)
def test_kv_heads_left_out_are_those_of_the_family_and_null_are_all(model_type, kv_heads):
    sizes = {**ROUTED, "num_attention_heads": 2 * kv_heads, "head_dim": 4}
    if model_type == "stablelm":
        sizes |= {"hidden_size": 4 * 2 * kv_heads}
    del sizes["num_key_value_heads"]
    for given, expected in (({}, kv_heads), ({"num_key_value_heads": None}, 2 * kv_heads)):
        (found,) = towers(ConfigKeys({**sizes, **given}, "mine.json"), model_type)
        assert {layer.attentions[0].kv_heads for layer in found.layers} == {expected}


def test_heads_of_ernie_left_out_have_128_elements_and_null_ones_an_equal_part():
    assert tower("ernie4_5").layers[0].attentions[0].head_dim == 128
    assert tower("ernie4_5", head_dim=None).layers[0].attentions[0].head_dim == 32 // 8


def test_the_activation_of_apertus_left_out_is_its_own():
    assert tower("apertus").layers[0].mlp.activation == "xielu"


def test_more_heads_than_any_model_has_are_refused_at_once():
    with pytest.raises(BadInput, match=r"num_attention_heads is 549755813889, .* at most 100,000"):
        tower("llama", num_attention_heads=2**39 + 1)


@pytest.mark.parametrize(
    ("head", "elements"),
    [
        ("SequenceClassification", 32 * 3),
        ("TokenClassification", 33 * 3),
        ("QuestionAnswering", 66),
    ],
)
def test_classifiers_have_classes_in_place_of_words(head, elements):
    """The input table stays; a class of a sequence has no bias."""
    words = tower("llama")
    found = tower("llama", architectures=[f"LlamaFor{head}"], num_labels=3)
    assert (found.outputs, [matrix.name for matrix in found.output_projections]) == (0, ["classes"])
    assert of_tower(found) == of_tower(words) - 100 * 32 + elements


def test_more_experts_than_any_model_has_are_refused():
    with pytest.raises(BadInput, match=r"num_local_experts is 1000000000, .* at most 100,000"):
        tower("mixtral", num_local_experts=10**9, num_experts_per_tok=2)
