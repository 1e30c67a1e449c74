from dataclasses import replace

import pytest

from trnsim.arch.catalogue import parse, read_rows
from trnsim.errors import BadInput
from trnsim.place.machine import compared_platforms, machine, platforms, trainiums


@pytest.mark.parametrize(
    ("name", "lnc", "ranks", "gib", "rank"),
    [
        ("trn1", None, 32, 16, "NeuronCore"),  # a NeuronCore has half of a chip's 32 GiB
        ("trn2", None, 64, 24, "logical NeuronCore (LNC=2)"),  # two NeuronCores share a bank
        ("trn2.48xlarge", 1, 128, 12, "NeuronCore"),
        ("trn3", None, 576, 36, "logical NeuronCore (LNC=2)"),
        ("inf2.xlarge", None, 2, 16, "NeuronCore"),
        ("inf1.xlarge", None, 4, 2, "NeuronCore"),
        ("p5.48xlarge", None, 8, 80e9 / 2**30, "GPU"),
        ("p5en", None, 8, 141e9 / 2**30, "GPU"),
    ],
)
def test_ranks_are_logical_cores_or_gpus(name, lnc, ranks, gib, rank):
    one = machine(name, lnc=lnc)
    assert one.ranks == one.ranks_per_instance == ranks
    assert one.memory_bytes / 2**30 == pytest.approx(gib, rel=0.08)
    assert one.memory_bytes * ranks == pytest.approx(float(one.instance.memory_bytes))
    assert one.rank_name == rank
    assert one.is_neuron is (rank != "GPU")


def test_a_changed_machine_has_the_sizes_of_its_own_fields():
    one = machine("trn2", lnc=2)
    three = replace(one, count=3, lnc=1)
    assert three == machine("trn2", 3, lnc=1) != one
    assert three.ranks == 3 * 2 * one.ranks
    assert three.memory_bytes == one.memory_bytes / 2
    assert (three.chips, three.rank_name) == (3 * one.chips, "NeuronCore")


def test_several_instances_have_as_many_times_the_ranks_and_chips():
    one, three = machine("trn2"), machine("trn2", 3)
    assert (three.ranks, three.chips) == (3 * one.ranks, 3 * one.chips) == (192, 48)
    assert three.ranks_per_instance == one.ranks_per_instance


def test_a_machine_keeps_the_name_that_it_was_asked_by():
    assert (machine("trn2").name, machine("trn2").instance.name) == ("trn2", "trn2.48xlarge")
    assert machine("p4d.24xlarge").chip.name == "a100-40"


def test_these_are_the_short_names_and_those_that_plans_compare():
    assert list(platforms()) == ["trn1", "trn2", "trn3", "inf2", "p5", "p5en"]
    assert all(machine(name).instance.name == full for name, full in platforms().items())
    assert trainiums() == ("trn1", "trn2", "trn3")
    assert compared_platforms() == (*trainiums(), "p5en")


def test_trn3_says_that_nothing_is_measured():
    assert machine("trn3").note == "no public measurement of Trn3 exists"
    assert machine("trn1").note == machine("p5en").note == machine("inf1.xlarge").note == ""


def test_hardware_comes_from_the_catalogue():
    rows = read_rows()
    rows["chips"]["trainium2"]["peak"]["bf16"]["value"] = 1
    assert machine("trn2", rows=parse(rows)).peaks["bf16"] == 1e12


def test_fp8_has_a_peak_of_its_own():
    trn2, p5 = machine("trn2").peaks, machine("p5").peaks
    assert trn2["fp8"] > trn2["bf16"] > trn2["fp32"]
    assert p5["fp8"] == 2 * p5["bf16"]


def test_t4_has_fp16_alone_and_others_multiply_it_as_bf16():
    assert machine("g4dn.xlarge").peaks == {"fp16": 65e12}
    assert machine("p5").peaks["fp16"] == machine("p5").peaks["bf16"]


@pytest.mark.parametrize("count", [0, -4, 1_000_001])
def test_a_number_of_instances_that_cannot_be_is_refused(count):
    with pytest.raises(BadInput, match=f"--instances {count}; legal: from 1 to 1,000,000"):
        machine("trn1", count)


@pytest.mark.parametrize(
    ("name", "lnc", "message"),
    [
        ("trn2", 3, r"^lnc is 3 on trn2; legal: 1 or 2\n  fix: --lnc 2\n  source: aws-neuron-sdk"),
        ("trn2", 0, r"^lnc is 0 on trn2; legal: 1 or 2\n"),
        ("trn1", 2, r"^lnc is 2 on trn1; legal: 1\n"),
        ("inf1.xlarge", 2, r"^lnc is 2 on inf1.xlarge; legal: 1\n"),
        ("p5en", 1, r"^lnc is 1 on p5en; GPUs have no logical NeuronCores\n  fix: leave out --lnc"),
    ],
)
def test_cores_that_cannot_be_joined_are_refused(name, lnc, message):
    with pytest.raises(BadInput, match=message):
        machine(name, lnc=lnc)


def test_an_unknown_name_lists_the_known_ones():
    with pytest.raises(
        BadInput, match=r"^'foo' is no chip, family or instance type; legal: trn1, inf2, trn2, trn3"
    ):
        machine("foo")
