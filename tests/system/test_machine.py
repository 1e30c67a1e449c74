import pytest

from trnsim.errors import BadInput
from trnsim.system.machine import machine


@pytest.mark.parametrize(
    ("name", "ranks", "gib"),
    [
        ("trn1", 32, 16),  # a NeuronCore has half of a chip's 32 GiB
        ("trn2.48xlarge", 64, 24),  # two NeuronCores share a bank
        ("trn3", 576, 36),
        ("p5en", 8, 141e9 / 2**30),
    ],
)
def test_a_rank_has_its_part_of_a_chip(name, ranks, gib):
    found = machine(name)
    assert found.ranks_per_instance == ranks
    assert found.memory_bytes / 2**30 == pytest.approx(gib, rel=0.01)
    assert found.memory_bytes * ranks == pytest.approx(float(found.instance.memory_bytes))


def test_without_pairs_of_cores_there_are_twice_as_many_ranks():
    assert machine("trn2", lnc=1).ranks == 2 * machine("trn2").ranks


def test_fp8_has_a_peak_of_its_own():
    assert machine("trn2").peak("fp8") > machine("trn2").peak("bf16") > machine("trn2").peak("fp32")
    assert machine("p5").peak("fp8") == 2 * machine("p5").peak("bf16")


@pytest.mark.parametrize("count", [0, -4, 1_000_001])
def test_a_number_of_instances_that_cannot_be_is_refused(count):
    with pytest.raises(BadInput, match=f"--instances {count}; legal: from 1 to 1,000,000"):
        machine("trn1", count)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(BadInput, match=r"^target 'foo' is not known; legal: trn1, trn2, trn3, "):
        machine("foo")


def test_t4_has_fp16_alone_and_others_multiply_it_as_bf16():
    assert machine("g4dn.xlarge").peak("fp16") == 65e12
    with pytest.raises(BadInput, match="--dtype bf16: t4 has no published peak in it; legal: fp16"):
        machine("g4dn.xlarge").peak("bf16")
    assert machine("p5").peak("fp16") == machine("p5").peak("bf16")
