"""NeuronCores as data: AWS's documented numbers, and a provenance for each."""

import copy
from dataclasses import FrozenInstanceError, asdict, replace

import pytest

from trnsim.behaviours import LATEST, VERSIONS
from trnsim.facts import Evidence

KIB = 1024
# Figures from the architecture guides, the three generations side by side.
DOCUMENTED = {
    "sbuf_partition_bytes": (192 * KIB, 224 * KIB, 256 * KIB),
    "tensor_clock_hz": (2.8e9, 2.4e9, 2.4e9),
    "vector_clock_hz": (1.12e9, 0.96e9, 1.2e9),
    "scalar_clock_hz": (1.4e9, 1.2e9, 1.2e9),
    "gpsimd_clock_hz": (1.4e9, 1.2e9, 1.2e9),
    "moving_free_max": (512, 512, 4096),
    "partitions": (128, 128, 128),
    "quadrant_partitions": (32, 32, 32),
    "psum_banks": (8, 8, 8),
    "psum_bank_bytes": (2 * KIB, 2 * KIB, 2 * KIB),
    "pe_rows": (128, 128, 128),
    "pe_columns": (128, 128, 128),
    "vector_16bit_copy_speedup": (1, 4, 4),
    "scalar_16bit_copy_speedup": (1, 1, 2),
}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_figure_is_what_the_architecture_guides_say(name, core_v2, core_v3, core_v4):
    values = tuple(getattr(core, name) for core in (core_v2, core_v3, core_v4))
    assert values == DOCUMENTED[name]


def test_sbuf_is_24_28_and_32_mib_and_psum_2_mib(core_v2, core_v3, core_v4):
    mib = [c.partitions * c.sbuf_partition_bytes / 2**20 for c in (core_v2, core_v3, core_v4)]
    assert mib == [24, 28, 32]
    assert core_v3.partitions * core_v3.psum_banks * core_v3.psum_bank_bytes == 2 * 2**20


def test_generations_count_up_from_two(core_v2, core_v3, core_v4):
    assert [c.generation for c in (core_v2, core_v3, core_v4)] == [2, 3, 4]
    assert core_v4.name == "NeuronCore-v4"


def test_every_number_has_a_provenance_with_a_source(core):
    facts = core.facts()
    assert len(facts) == len(asdict(core)) - 5  # name, generation, features, nki, is_simulated
    for name, fact in facts.items():
        assert fact.provenance.source, name
        assert fact > 0, name


def test_a_number_that_only_v2_documents_is_assumed_for_later_cores(core_v3, core_v4):
    for core in (core_v3, core_v4):
        for name in ("minimum_interval_cycles", "access_latency_cycles", "gpsimd_overhead_cycles"):
            assert getattr(core, name).provenance.kind is Evidence.ASSUMED


def test_a_core_is_frozen(core):
    with pytest.raises(FrozenInstanceError):
        core.generation = 5


def test_a_core_can_be_copied(core):
    assert copy.deepcopy(core) == core


def test_a_core_that_follows_another_version_is_made_once(core_v3):
    older, newest = VERSIONS["0.4"], LATEST
    follower = core_v3.with_nki(older)
    assert follower.nki is older
    assert core_v3.with_nki(older) is follower
    assert core_v3.with_nki(older, is_simulated=True).is_simulated
    assert follower.with_nki(newest) == core_v3.with_nki(newest)
    assert replace(follower, generation=2).with_nki(newest).generation == 2
