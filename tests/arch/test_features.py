"""Features as data: which NeuronCore has what, as AWS's pages say, and where they say it."""

import copy
import pickle
from dataclasses import FrozenInstanceError, fields

import pytest

from trnsim.arch import Features, cores
from trnsim.facts import Evidence, Flag, Names

# From the pages of nki.isa and the architecture guides: v2, v3, v4.
FLAGS = {
    "bit_transpose": (False, True, True),
    "matmul_across_banks": (False, False, True),
    "matmul_onto_written": (False, False, True),
    "matmul_indirection": (False, False, True),
    "mx": (False, False, True),
    "sparse_matmul": (False, True, True),
    "indirection": (False, False, True),
    "range_select": (False, True, True),
    "vector_exponential": (False, False, True),
    "rand2": (False, False, True),
    "activate2": (False, False, True),
    "scalar_tensor_copy": (False, True, True),
    "activation_number_bias": (False, True, True),
    "activation_reciprocal_bias": (False, True, True),
    "activation_reduce_add_alone": (True, False, False),
    "nonzero_with_count": (False, True, True),
    "hardware_dge": (False, True, True),
    "indirect_dma": (False, True, True),
    "dma_priority": (False, False, True),
    "int32_matmul": (True, False, False),
}
NUMBERS = {
    "matmul_bfloat16_columns_max": (512, 512, 8192),
    "pe_transpose_psum_banks": (0, 1, 1),
    "fp8_bfloat16_flops": (1, 0.5, 0.5),
    "base_clock_hz": (1.4e9, 1.2e9, None),
}
SETS = {
    "matmul_dst_dtypes": ({"float32"}, {"float32"}, {"float32", "bfloat16"}),
    "rng_engines": ({"vector"}, {"vector", "gpsimd"}, {"vector", "gpsimd"}),
    "random_state_engines": (set(), {"gpsimd"}, {"vector", "gpsimd"}),
}
LONGER_SETS = {"dtypes", "alu_operators"}  # tests/dtypes/test_formats.py, isa/.../test_operators.py


def test_every_feature_is_told_here_or_in_its_own_room():
    assert {field.name for field in fields(Features)} == {*FLAGS, *NUMBERS, *SETS, *LONGER_SETS}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_is_what_the_pages_say(name):
    assert tuple(bool(getattr(core.features, name)) for core in cores()) == FLAGS[name]
    assert all(isinstance(getattr(core.features, name), Flag) for core in cores())


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_is_what_the_pages_say(name):
    assert tuple(getattr(core.features, name) for core in cores()) == NUMBERS[name]


@pytest.mark.parametrize("name", SETS)
def test_a_set_is_what_the_pages_say(name):
    assert tuple(getattr(core.features, name) for core in cores()) == SETS[name]
    assert all(isinstance(getattr(core.features, name), Names) for core in cores())


def test_v4_adds_the_microscaling_formats():
    old, new = (core.features.dtypes for core in cores()[1:])
    assert new - old == {
        *("float8_e4m3fn", "float8_e8m0fnu", "float4_e2m1fn"),
        *("float8_e5m2_x4", "float8_e4m3fn_x4", "float4_e2m1fn_x4"),
    }
    assert cores()[0].features.dtypes == old


def test_every_feature_names_its_document(core):
    for name, fact in core.features.facts().items():
        assert fact.provenance.source, name
        assert fact.provenance.kind is Evidence.DOCUMENTED, name


def test_what_nobody_publishes_is_no_fact(core_v3, core_v4):
    assert "base_clock_hz" in core_v3.features.facts()
    assert "base_clock_hz" not in core_v4.features.facts()


def test_features_are_frozen_and_can_be_copied(core):
    with pytest.raises(FrozenInstanceError):
        core.features.mx = True
    for twin in (copy.deepcopy(core.features), pickle.loads(pickle.dumps(core.features))):  # noqa: S301  our own
        assert twin == core.features
        assert hash(twin) == hash(core.features)
        assert twin.facts()["dtypes"].provenance == core.features.dtypes.provenance
