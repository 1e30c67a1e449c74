"""Layers of decoders with mixers, as configurations list them."""

import math

import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.hybrids import BESIDE, DENSE, FULL, MIXED, SPARSE, blocks, mixer_of
from trnsim.workload.families.keys import ConfigGap, ConfigKeys

MAMBA = {"num_heads": 6, "head_dim": 8, "state_size": 5, "n_groups": 2, "conv_kernel": 4}
MAMBA |= {"chunk_size": 4}


def keys(**values):
    return ConfigKeys(values, "mine.json")


@pytest.mark.parametrize(
    ("rule", "layers", "values", "expected"),
    [
        ("mixers", 1, {}, [(MIXED,)]),
        ("hybrid", 2, {}, [(BESIDE, DENSE)] * 2),
        (
            "layers_block_type",
            0,
            {"hybrid_override_pattern": "M-*E"},
            [(MIXED,), (DENSE,), (FULL,), (SPARSE,)],
        ),
        (
            "layers_block_type",
            0,
            {"layers_block_type": ["mamba", "attention"]},
            [(MIXED,), (FULL,)],
        ),
        (
            "attn_layer_indices",
            3,
            {"attn_layer_indices": [1]},
            [(MIXED, DENSE), (FULL, DENSE), (MIXED, DENSE)],
        ),
        (
            "layer_types",
            2,
            {"layer_types": ["mamba", "attention"]},
            [(MIXED, DENSE), (FULL, DENSE)],
        ),
        ("layer_types", 1, {"num_local_experts": 4}, [(MIXED, SPARSE)]),
        (
            "full_attention_interval",
            3,
            {"full_attention_interval": 2, "num_experts": 4, "mlp_only_layers": [2]},
            [(MIXED, SPARSE), (FULL, SPARSE), (MIXED, DENSE)],
        ),
        ("full_attention_interval", 1, {"layer_types": ["full_attention"]}, [(FULL, DENSE)]),
    ],
)
def test_layers_are_as_listed(rule, layers, values, expected):
    assert blocks(keys(**values), rule, layers) == expected


@pytest.mark.parametrize(
    ("rule", "layers", "values", "message"),
    [
        ("layers_block_type", 0, {"hybrid_override_pattern": "MX"}, "'X' is not known"),
        ("layers_block_type", 0, {"layers_block_type": []}, "layers_block_type"),
        ("attn_layer_indices", 3, {"attn_layer_indices": [3]}, "the model has 3 layers"),
        ("layer_types", 2, {"layer_types": ["mamba"]}, "layer_types"),
    ],
)
def test_other_lists_are_refused(rule, layers, values, message):
    with pytest.raises((BadInput, ConfigGap), match=message):
        blocks(keys(**values), rule, layers)


def test_a_mixer_has_the_sizes_of_the_file():
    mixer = mixer_of(keys(**MAMBA, time_step_limit=[0.1, "Infinity"]), 24, 1e-5)
    assert (mixer.heads, mixer.groups, mixer.state, mixer.head_dim) == (6, 2, 5, 8)
    assert (mixer.least_step, mixer.most_step) == (0.1, math.inf)
    assert mixer.state_bits == 32


DELTA = {"linear_num_value_heads": 4, "linear_num_key_heads": 2, "linear_key_head_dim": 5}
DELTA |= {"linear_value_head_dim": 6, "linear_conv_kernel_dim": 3}


def test_a_mixer_of_the_delta_rule_has_the_sizes_of_the_file():
    mixer = mixer_of(keys(**DELTA), 24, 1e-5)
    assert (mixer.heads, mixer.groups, mixer.state, mixer.head_dim) == (4, 2, 5, 6)
    assert (mixer.taps, mixer.chunk, mixer.is_delta) == (3, 64, True)
    with pytest.raises((BadInput, ConfigGap), match="linear_num_key_heads is 3"):
        mixer_of(keys(**{**DELTA, "linear_num_key_heads": 3}), 24, 1e-5)


NAMED = {"mamba_n_heads": 6, "mamba_d_head": 8, "mamba_d_state": 5, "mamba_n_groups": 2}
NAMED |= {"mamba_d_conv": 4, "mamba_chunk_size": 4}


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({}, "gated"),
        ({"mamba_rms_norm": False}, ""),
        ({"mamba_rms_norm": True, "mamba_norm_before_gate": True}, "plain"),
        ({"mamba_rms_norm": True, "mamba_norm_before_gate": False}, "gated"),
    ],
)
def test_a_norm_lies_where_the_file_says(values, place):
    assert mixer_of(keys(**NAMED, **values), 24, 1e-5).norm == place


def test_a_mixer_may_have_a_size_of_its_own():
    mixer = mixer_of(keys(**{**NAMED, "mamba_d_ssm": 96, "mamba_d_head": "auto"}), 24, 1e-5)
    assert (mixer.width, mixer.head_dim) == (96, 16)
    with pytest.raises((BadInput, ConfigGap), match="mamba_d_head is 8; legal: what 6 heads share"):
        mixer_of(keys(**NAMED, mamba_d_ssm=96), 24, 1e-5)


def test_an_output_alone_may_have_a_bias():
    mixer = mixer_of(keys(**NAMED, projectors_bias=True), 24, 1e-5)
    assert (mixer.has_biases, mixer.output_biases) == (False, 24)


@pytest.mark.parametrize(
    ("names", "values", "expected"),
    [
        ({}, {"use_bias": True}, (True, True)),
        ({}, {"mamba_proj_bias": True, "use_conv_bias": False}, (False, False)),
        ({"num_heads": "mamba_n_heads"}, {"mamba_proj_bias": True}, (True, True)),
        (
            {"num_heads": "mamba_n_heads"},
            {"use_bias": True, "mamba_conv_bias": False},
            (False, False),
        ),
    ],
)
def test_biases_are_those_that_the_family_reads(names, values, expected):
    sizes = {names.get(key, key): value for key, value in MAMBA.items()}
    sizes = {**sizes, "mamba_d_head": 8} if names else sizes
    mixer = mixer_of(keys(**sizes, **values), 24, 1e-5)
    assert (mixer.has_biases, mixer.has_taps_bias) == expected


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"hidden_act": "snake"}, "hidden_act is 'snake'"),
        ({"mamba_hidden_act": "snake"}, "mamba_hidden_act is 'snake'"),
        ({"head_dim": 7}, "head_dim"),
        ({"n_groups": 4}, "n_groups"),
        ({"time_step_limit": [0.1]}, "time_step_limit"),
        ({"time_step_limit": [-1.0, 1.0]}, "time_step_limit"),
        ({"time_step_limit": [1.0, 0.5]}, "time_step_limit"),
        ({"mamba_ssm_cache_dtype": "int8"}, "mamba_ssm_cache_dtype"),
        ({"moe_latent_size": 8}, "moe_latent_size"),
    ],
)
def test_sizes_that_do_not_go_together_are_refused(values, message):
    with pytest.raises((BadInput, ConfigGap), match=message):
        mixer_of(keys(**{**MAMBA, **values}), 24, 1e-5)
