"""Exchanges of NeuronCores."""

from trnsim.fabric.fabric import fabric
from trnsim.place.links import neuron
from trnsim.place.links.exchange import GroupLayout

EFA_S = 15e-6


def test_every_algorithm_of_the_fabric_is_a_line():
    names = {line.name for line in neuron.inside_lines("trn2.48xlarge", 2, "all_reduce", 64, 1)}
    assert names == {"ring", "kangaring", "mesh", "rdh", "single-step mesh"}


def test_a_line_says_what_the_fabric_says():
    (line,) = neuron.inside_lines("trn1.32xlarge", 1, "all_gather", 2, 1)
    assert line.name == "ring"
    assert line.time_s(0) == 37e-6
    assert round(1e-9 / line.per_byte_s, 1) == 113.4  # half of the bytes at 56.7 GB/s


def test_between_instances_by_hand():
    start_s = fabric("trn2.48xlarge", lnc=2).start_s
    lines = {
        line.name: line
        for line in neuron.between_lines("trn2.48xlarge", 2, "all_gather", GroupLayout(4, 64, 1, 4))
    }
    assert lines["ring"].fixed_s == start_s + 3 * EFA_S
    assert lines["rdh"].fixed_s == start_s + 2 * EFA_S
    assert lines["mesh"].fixed_s == start_s + EFA_S
    share = 3200e9 / 8 / 64  # of 64 ranks in 3,200 Gb/s
    assert {round(line.per_byte_s * share, 9) for line in lines.values()} == {0.75}


def test_a_number_of_instances_that_is_no_power_of_two_has_no_halving():
    names = [
        line.name
        for line in neuron.between_lines("trn2.48xlarge", 2, "all_gather", GroupLayout(6, 64, 1, 6))
    ]
    assert names == ["ring", "mesh"]


def test_a_mesh_of_many_instances_is_not_taken():
    layout = GroupLayout(128, 64, 1, 128)
    names = [line.name for line in neuron.between_lines("trn2.48xlarge", 2, "all_reduce", layout)]
    assert names == ["ring", "rdh"]
