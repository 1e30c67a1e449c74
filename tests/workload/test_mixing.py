"""Mixers in passes: a prompt and steps, ranks, states that are kept."""

import pytest

from trnsim.errors import BadInput
from trnsim.graph.ops.collectives import AllReduce
from trnsim.workload.config import from_config
from trnsim.workload.operators import Pass, Phase, Split
from trnsim.workload.passes import summaries
from trnsim.workload.resident import cache_bytes, parameters, state_bytes
from trnsim.workload.whole_graph import whole_graph

MAMBA_2 = {
    "model_type": "mamba2",
    "architectures": ["Mamba2ForCausalLM"],
    "hidden_size": 24,
    "num_hidden_layers": 3,
    "vocab_size": 41,
    "num_heads": 6,
    "head_dim": 8,
    "state_size": 5,
    "n_groups": 2,
    "expand": 2,
    "conv_kernel": 4,
    "chunk_size": 4,
    "torch_dtype": "bfloat16",
}
QWEN3_NEXT = {
    "model_type": "qwen3_next",
    "architectures": ["Qwen3NextForCausalLM"],
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 4,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "vocab_size": 41,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 5,
    "linear_value_head_dim": 6,
    "num_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 10,
    "shared_expert_intermediate_size": 12,
    "torch_dtype": "bfloat16",
}
STATE_BYTES = 3 * (4 * 6 * 5 * 8 + 2 * 3 * (48 + 2 * 2 * 5))
"""Of three layers: states of float32, and the last three tokens of each channel in bfloat16."""


@pytest.fixture
def model():
    return from_config(MAMBA_2, "mine.json")


@pytest.mark.parametrize("tokens", [2, 100, 5000])
def test_a_sequence_keeps_states_of_one_size(model, tokens):
    assert cache_bytes(model, tokens) == state_bytes(model) == STATE_BYTES


def test_ranks_share_states_equally(model):
    assert cache_bytes(model, 100, Split(tensor=2)) == STATE_BYTES / 2


def test_a_step_reads_and_writes_the_states_of_each_sequence(model):
    step = Pass(Phase.DECODE, 3, 1, 7)
    caches = [(part.cache, part.times) for part in summaries(model, step, Split())]
    assert sum(cache.read_bytes * times for cache, times in caches) == 3 * STATE_BYTES
    assert sum(cache.written_bytes * times for cache, times in caches) == 3 * STATE_BYTES


@pytest.mark.parametrize("model_pass", [Pass(Phase.DECODE, 3, 1, 7), Pass(Phase.PREFILL, 3, 9)])
def test_a_convolution_passes_all_its_channels(model, model_pass):
    layer = summaries(model, model_pass, Split())[1]
    (found,) = (part for part in layer.elementwise if part.name == "convolution")
    assert found.elements == 2 * model_pass.rows * (48 + 2 * 2 * 5)


def sums_over_ranks(groups, ranks):
    """Groups of ranks of each sum in the norms of three mixers."""
    model = from_config({**MAMBA_2, "n_groups": groups}, "mine.json")
    graph = whole_graph(model, Pass(Phase.DECODE, 1, 1, 7), Split(tensor=ranks)).graph
    sums = [node for node in graph.nodes if isinstance(node.operation, AllReduce)]
    return [node.operation.replica_groups for node in sums if node.result.dtype == "float32"]


@pytest.mark.parametrize(
    ("groups", "ranks", "expected"),
    [
        (1, 1, []),
        (2, 2, []),
        (1, 2, [((0, 1),)] * 3),
        (1, 3, [((0, 1, 2),)] * 3),
        (3, 6, [((0, 1), (2, 3), (4, 5))] * 3),
    ],
)
def test_ranks_that_share_a_group_sum_its_squares(groups, ranks, expected):
    assert sums_over_ranks(groups, ranks) == expected


def test_context_ranks_are_refused(model):
    with pytest.raises(BadInput, match="2 context ranks"):
        list(summaries(model, Pass(Phase.PREFILL, 1, 8), Split(context=2)))


def test_parameters_are_those_of_the_projections_and_vectors(model):
    projection = 24 * (2 * 48 + 2 * 2 * 5 + 6)
    vectors = 3 * 6 + 48 + (4 + 1) * (48 + 2 * 2 * 5) + 24
    assert parameters(model) == 3 * (projection + 48 * 24 + vectors) + 2 * 41 * 24 + 24


@pytest.fixture
def delta_model():
    return from_config(QWEN3_NEXT, "mine.json")


def test_layers_of_the_delta_rule_keep_states_and_others_keys(delta_model):
    states = 3 * (4 * 4 * 5 * 6 + 2 * 3 * (4 * 6 + 2 * 2 * 5))
    assert state_bytes(delta_model) == states
    assert cache_bytes(delta_model, 100) == states + 100 * 2 * 2 * 8 * 2
    assert cache_bytes(delta_model, 100, Split(tensor=2)) == (states + 100 * 2 * 2 * 8 * 2) / 2


def test_a_gate_of_attention_and_of_heads_are_parameters(delta_model):
    mixer = 24 * (2 * 24 + 2 * 10 + 2 * 4) + 24 * 24 + 4 * (24 + 2 * 10) + 2 * 4 + 6
    attention = 24 * (2 * 48 + 2 * 16) + 48 * 24 + 2 * 8
    mlp = 24 * 4 + 4 * 3 * 24 * 10 + 3 * 24 * 12 + 24
    every = 3 * mixer + attention + 4 * (mlp + 2 * 24)
    assert parameters(delta_model) == every + 2 * 41 * 24 + 24


def test_heads_of_the_delta_rule_are_normed_by_their_rank_alone(delta_model):
    graph = whole_graph(delta_model, Pass(Phase.PREFILL, 1, 7), Split(tensor=2)).graph
    sums = [node for node in graph.nodes if isinstance(node.operation, AllReduce)]
    assert {node.result.dtype for node in sums} == {"bfloat16"}
    assert len(sums) == 2 * 4


@pytest.mark.parametrize("tensor", [1, 2, 4])
@pytest.mark.parametrize("model_pass", [Pass(Phase.DECODE, 2, 1, 7), Pass(Phase.PREFILL, 1, 9, 4)])
def test_plans_count_the_products_of_the_graph(delta_model, model_pass, tensor):
    split = Split(tensor=tensor)
    wired, sizes = (
        summaries(delta_model, model_pass, split, is_wired=is_wired) for is_wired in (True, False)
    )
    for graph, plan in zip(wired, sizes, strict=True):
        assert graph.flop == pytest.approx(plan.flop)
        assert graph.weight_bytes == pytest.approx(plan.weight_bytes)
        assert graph.cache == plan.cache


FALCON_H1 = {
    "model_type": "falcon_h1",
    "architectures": ["FalconH1ForCausalLM"],
    "hidden_size": 24,
    "intermediate_size": 36,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "vocab_size": 41,
    "mamba_d_ssm": 48,
    "mamba_n_heads": 6,
    "mamba_n_groups": 2,
    "mamba_d_state": 5,
    "torch_dtype": "bfloat16",
}


@pytest.mark.parametrize("tensor", [1, 2])
def test_a_mixer_beside_attention_keeps_states_and_keys(tensor):
    model = from_config(FALCON_H1, "mine.json")
    states = 2 * (4 * 6 * 5 * 8 + 2 * 3 * (48 + 2 * 2 * 5))
    keys = 2 * 100 * 2 * 2 * 4 * 2
    split = Split(tensor=tensor)
    assert cache_bytes(model, 100, split) == (states + keys) / tensor
    assert state_bytes(model, split) == states / tensor


@pytest.mark.parametrize("model_pass", [Pass(Phase.DECODE, 2, 1, 7), Pass(Phase.TRAIN, 1, 9)])
def test_ranks_sum_a_mixer_and_attention_beside_it_once(model_pass):
    layer = summaries(from_config(FALCON_H1, "mine.json"), model_pass, Split(tensor=2))[1]
    sums = [(one.kind, one.nbytes) for one in layer.exchanges]
    assert sums == [("all_reduce", model_pass.rows * 24 * 2)] * 2


@pytest.mark.parametrize(
    ("values", "vectors", "sums"),
    [
        ({}, 0, 0),
        ({"mamba_rms_norm": True}, 48, 0),
        ({"mamba_rms_norm": True, "mamba_n_groups": 1}, 48 - 2 * (5 * 5 + 24 * 5), 1),
    ],
)
def test_a_norm_is_there_if_the_file_says_so(values, vectors, sums):
    plain, model = (from_config({**FALCON_H1, **more}, "mine.json") for more in ({}, values))
    assert parameters(model) - parameters(plain) == 2 * vectors
    layer = summaries(model, Pass(Phase.DECODE, 1, 1, 7), Split(tensor=2))[1]
    assert len(layer.exchanges) == 2 + sums
