"""Layers of decoders with mixers, as configurations list them."""

import math

import pytest

from trnsim.errors import BadInput
from trnsim.workload.families.hybrids import DENSE, FULL, MIXED, SPARSE, blocks, mixer_of
from trnsim.workload.families.keys import ConfigGap, ConfigKeys

MAMBA = {"num_heads": 6, "head_dim": 8, "state_size": 5, "n_groups": 2, "conv_kernel": 4}
MAMBA |= {"chunk_size": 4}


def keys(**values):
    return ConfigKeys(values, "mine.json")


@pytest.mark.parametrize(
    ("rule", "layers", "values", "expected"),
    [
        ("mixers", 1, {}, [(MIXED,)]),
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


@pytest.mark.parametrize(
    ("values", "message"),
    [
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
