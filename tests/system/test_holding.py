"""How many instances hold a model, against sizes worked out by hand."""

import dataclasses

import pytest

from trnsim.errors import BadInput
from trnsim.place.machine import machine
from trnsim.system.holding import smallest_holding
from trnsim.workload.config import from_config, read
from trnsim.workload.model_names import config_file
from trnsim.workload.resident import parameters, weights_bytes

LLAMA = from_config(
    {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 131072,
        "torch_dtype": "bfloat16",
    },
    "llama-8b.json",
)
BERT = from_config(
    {
        "model_type": "bert",
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "vocab_size": 30522,
        "max_position_embeddings": 512,
    },
    "bert.json",
)
CACHE = 2 * 32 * 8 * 128 * 2
"""Bytes a token: keys and values of 32 layers, 8 heads of 128, two bytes each."""


def test_weights_are_two_bytes_a_parameter():
    assert weights_bytes(LLAMA) == 2 * parameters(LLAMA)


def test_one_gpu_holds_weights_and_one_short_sequence():
    found = smallest_holding(LLAMA, machine("p5.4xlarge"), tokens=1000)
    assert (found.instances, found.tensor, found.pipeline) == (1, 1, 1)
    assert found.needed_bytes == pytest.approx(2 * parameters(LLAMA) + 1000 * CACHE)
    assert found.usable_bytes == pytest.approx(0.9 * 80e9)


def test_the_first_sequence_that_does_not_fit_takes_another_gpu():
    free = 0.9 * 80e9 - 2 * parameters(LLAMA)
    most = int(free / (1024 * CACHE))
    gpu = machine("p5.4xlarge")
    assert smallest_holding(LLAMA, gpu, tokens=1024, sequences=most).instances == 1
    assert smallest_holding(LLAMA, gpu, tokens=1024, sequences=most + 1).instances == 2


def test_layers_are_cut_into_whole_ones():
    """16 GB of weights on chips that may use 1.93 GB each: 4 layers a part at most of 32."""
    found = smallest_holding(LLAMA, machine("inf1.xlarge"), tokens=1)
    per_layer = 2 * parameters(LLAMA) / 32
    assert found.pipeline * found.tensor / 4 == pytest.approx(found.instances, abs=0.99)
    assert found.needed_bytes % per_layer == pytest.approx(0, abs=per_layer) or found.tensor > 1
    assert found.needed_bytes <= found.usable_bytes


def test_an_encoder_keeps_no_keys_and_values():
    few = smallest_holding(BERT, machine("inf2.xlarge"), tokens=512, sequences=1)
    many = smallest_holding(BERT, machine("inf2.xlarge"), tokens=512, sequences=1000)
    assert few == many
    assert few.instances == 1


def test_a_layer_that_fits_no_rank_fits_no_number_of_instances():
    chip = machine("inf1.xlarge")
    tiny = dataclasses.replace(chip, instance=dataclasses.replace(chip.instance, memory_bytes=1e6))
    assert smallest_holding(LLAMA, tiny, tokens=1) is None


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"tokens": 0}, "tokens is 0; legal: a positive whole number"),
        ({"tokens": 1, "sequences": 0}, "sequences is 0; legal: a positive whole number"),
    ],
)
def test_what_cannot_be_held_is_refused(asked, message):
    with pytest.raises(BadInput) as refused:
        smallest_holding(LLAMA, machine("trn2"), **asked)
    assert refused.value.reason == message


def test_learned_positions_end_and_rotary_ones_go_on():
    assert smallest_holding(LLAMA, machine("trn2"), tokens=131_073) is not None
    with pytest.raises(BadInput, match=r"^a sequence of 1,025 tokens exceeds n_positions of gpt2;"):
        smallest_holding(read(config_file("gpt2")), machine("trn2"), tokens=1025)
