from dataclasses import replace
from pathlib import Path

import pytest
from mixer_models import MAMBA_2

from trnsim.errors import OutOfMemory
from trnsim.system.serve.memory import RankMemory, activations_bytes, rank_memory
from trnsim.system.serve.options import ServerOptions
from trnsim.workload.config import from_config, read
from trnsim.workload.operators import WHOLE, Split
from trnsim.workload.resident import cache_bytes, parameters, state_bytes, weights_bytes

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
MISTRAL = {
    "model_type": "mistral", "hidden_size": 4096, "intermediate_size": 14336, "vocab_size": 32000,
    "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
    "sliding_window": 4096,
}  # fmt: skip
DRAFT = from_config(
    {
        "model_type": "llama", "hidden_size": 2048, "intermediate_size": 4096, "vocab_size": 128256,
        "num_hidden_layers": 28, "num_attention_heads": 32, "num_key_value_heads": 8,
        "head_dim": 64,
    },
    "draft.json",
)  # fmt: skip
MEMORY = RankMemory(100.0, 0.9, 40.0, 5.0, 5.0, 20.0, 64)


def test_weights_of_a_rank_are_those_of_the_model():
    assert weights_bytes(LLAMA) == 2 * parameters(LLAMA)
    eighth = weights_bytes(LLAMA, Split(tensor=8))
    assert eighth == pytest.approx(2 * parameters(LLAMA) / 8, rel=0.01)
    assert weights_bytes(replace(LLAMA, weight_bits=8)) < 0.6 * weights_bytes(LLAMA)


def test_keys_and_values_of_a_sequence_are_two_vectors_of_every_kv_head_and_layer():
    assert cache_bytes(LLAMA, 1000) == 1000 * 32 * 2 * 8 * 128 * 2
    assert cache_bytes(LLAMA, 1000, Split(tensor=8)) == 1000 * 32 * 2 * 128 * 2
    assert cache_bytes(LLAMA, 1000, Split(tensor=32)) == 1000 * 32 * 2 * 128 * 2  # copied
    assert cache_bytes(replace(LLAMA, kv_bits=8), 1000) == 1000 * 32 * 2 * 8 * 128


def test_a_sliding_window_holds_no_more_than_its_tokens():
    model = from_config(MISTRAL, "mistral.json")
    within, beyond = (cache_bytes(model, tokens) for tokens in (4096, 16384))
    assert beyond == within


def test_activations_grow_with_the_tokens_of_a_step():
    one, two = (activations_bytes(LLAMA, WHOLE, tokens) for tokens in (1024, 2048))
    assert two == pytest.approx(2 * one, rel=0.2)


LAYER_TOKEN = 2 * 8 * 128 * 2
"""Bytes of a token's keys and values in a layer of Llama 3.1 8B: 8 heads of 128, 16 bits."""


@pytest.mark.parametrize(
    ("given", "token_bytes"),
    [
        ({}, 32 * LAYER_TOKEN),
        ({"draft_tokens": 3}, (32 + 1) * LAYER_TOKEN),  # a head of one layer
        ({"draft_tokens": 3, "draft": DRAFT}, 32 * LAYER_TOKEN + 28 * 2 * 8 * 64 * 2),
        (
            {"draft_tokens": 3, "draft": DRAFT, "kv_dtype": "fp8"},
            32 * LAYER_TOKEN + 28 * 2 * 8 * 64,
        ),
    ],
)
def test_a_draft_has_keys_and_values_too(given, token_bytes):
    """A sequence of 1,000 tokens; of the draft's 28 layers each has 8 heads of 64."""
    options = ServerOptions(tensor=1, max_num_seqs=4, max_model_len=1000, acceptance=0.7, **given)
    memory = rank_memory(LLAMA, 96e9, options, WHOLE, 512)
    assert memory.sequence_bytes == 1000 * token_bytes
    eighth = rank_memory(LLAMA, 96e9, options, Split(tensor=8), 512)
    assert eighth.sequence_bytes == 1000 * token_bytes / 8
    free_bytes = 96e9 * options.utilization - memory.weights_bytes - memory.draft_bytes
    free_bytes -= memory.activations_bytes
    assert memory.blocks(16, 4) == int(free_bytes / (16 * token_bytes))


def test_a_drafts_states_are_kept_for_every_sequence():
    options = ServerOptions(max_model_len=1000, draft_tokens=2, acceptance=0.5, draft=MAMBA_2)
    memory = rank_memory(LLAMA, 96e9, options, WHOLE, 512)
    assert memory.state_bytes == state_bytes(MAMBA_2) > 0
    assert memory.sequence_bytes == 1000 * 32 * LAYER_TOKEN + memory.state_bytes


def test_a_head_has_the_window_of_a_model_whose_layers_all_have_one():
    options = ServerOptions(max_model_len=16384, draft_tokens=2, acceptance=0.5)
    memory = rank_memory(from_config(MISTRAL, "mistral.json"), 96e9, options, WHOLE, 512)
    assert memory.sequence_bytes == 33 * 4096 * LAYER_TOKEN


def test_blocks_fill_what_is_left():
    assert MEMORY.free_bytes == 40
    assert MEMORY.blocks(16, 4) == 8
    assert replace(MEMORY, weights_bytes=95.0).blocks(16, 4) == 0


def test_blocks_fill_what_states_of_all_sequences_leave():
    half = replace(MEMORY, state_bytes=10.0)
    assert half.blocks(16, 2) == int((40 - 2 * 10) / (10 / 64 * 16))
    assert half.prompt_bytes(32) == 10 + 10 * 32 / 64
    alone = replace(MEMORY, state_bytes=20.0)
    assert alone.blocks(16, 2) == 2 * 64 / 16
    assert alone.prompt_bytes(1) == alone.prompt_bytes(64) == 20


def test_states_of_all_sequences_and_keys_of_one_have_to_fit():
    states = replace(MEMORY, state_bytes=15.0)
    states.check(1, "GPU", "m", running_sequences=2)
    with pytest.raises(OutOfMemory, match=r"keys and values of 1 x 64 tokens .*states of 3 sequen"):
        states.check(1, "GPU", "m", running_sequences=3)


def test_what_does_not_fit_is_told_by_what():
    MEMORY.check(2, "GPU", "m")
    big = replace(MEMORY, total_bytes=100 * 2**30, weights_bytes=40 * 2**30, draft_bytes=0.0)
    with pytest.raises(
        OutOfMemory,
        match=r"^m: a GPU needs 160 GiB of HBM: weights 40 GiB, keys and values of 6 x 64 tokens "
        r"120 GiB, activations 4.66e-09 GiB; it has 100 GiB, of which 90% may be used\n"
        r"  fix: lower --max-num-seqs or --max-model-len, or use --kv-cache-dtype fp8",
    ):
        replace(big, sequence_bytes=20.0 * 2**30).check(6, "GPU", "m")
    with pytest.raises(
        OutOfMemory,
        match=r"fix: use more ranks or fewer bits a weight.* a larger type, or one with EFA",
    ):
        replace(MEMORY, weights_bytes=95.0).check(1, "GPU", "m")
