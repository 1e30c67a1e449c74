from dataclasses import replace

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.fabric.fabric import fabric
from trnsim.fabric.transfers import Transfer, phase

GIB = 2.0**30


def used(made, source, target, **kwargs):
    """Resource -> how often the bytes of one transfer pass it."""
    found = made.uses(phase([Transfer(source, target, 1.0)], **kwargs))
    total = {}
    for resource, weight in zip(found.resource.tolist(), found.weight.tolist(), strict=True):
        name = made.names[resource]
        total[name] = total.get(name, 0) + weight
    return total


def rate(made, name):
    return made.capacity[made.names.index(name)]


def test_ranks_fill_chips_in_order():
    made = fabric("trn2.48xlarge", nodes=2, lnc=2)
    assert made.ranks == 128
    assert made.place(0) == (0, 0, 0)
    assert made.place(7) == (0, 1, 3)
    assert made.place(64) == (1, 0, 0)
    assert fabric("trn1.32xlarge", first=3, ranks_per_node=2).place(1) == (0, 2, 0)
    assert fabric("trn2.48xlarge", lnc=2, nodes=2, stride=4).place(17) == (1, 1, 0)


@pytest.mark.parametrize(
    ("name", "bytes_per_s"),
    [
        ("trn1.32xlarge", 384 * GIB / 8),
        ("trn1n.32xlarge", 768 * GIB / 8),
        ("inf2.48xlarge", 192 * GIB / 4),
        ("trn2.48xlarge", 1024e9 / 8),
        ("Trn2 UltraServer (u-trn2x64)", 1024e9 / 8),
    ],
)
def test_a_link_has_its_share_of_one_direction(name, bytes_per_s):
    assert rate(fabric(name), "chip 0 to chip 1") == pytest.approx(bytes_per_s)


def test_ultraservers_have_narrower_links_between_servers():
    made = fabric("Trn2 UltraServer (u-trn2x64)", lnc=2)
    assert rate(made, "chip 0 to chip 16") == 256e9 / 4
    switched = fabric("Trn3 Gen2 UltraServer", lnc=2)
    assert rate(switched, "chip 0 to its server's switch") == 256e9
    assert rate(switched, "chip 0 to its rack's switch") == 320e9
    assert rate(switched, "chip 0 to chip 72") == 128e9


def test_a_transfer_uses_links_memories_and_the_senders_engines():
    made = fabric("trn2.48xlarge", lnc=2)
    assert used(made, 0, 4) == {
        "HBM of chip 0": 1,
        "HBM of chip 1": 1,
        "DMA of chip 0, core 0": 1,
        "chip 0 to chip 1": 1,
    }
    assert used(made, 1, 2) == {"HBM of chip 0": 2, "DMA of chip 0, core 1": 1}
    assert used(made, 5, 5, reads=4.0) == {"HBM of chip 1": 5, "DMA of chip 1, core 1": 1}
    assert used(made, 0, 4, copies=1.0)["HBM of chip 0"] == 2
    assert len(used(made, 0, 40)) == 3 + 4  # two links down, two to the side


def test_between_instances_it_uses_the_adapters_of_both():
    made = fabric("trn1.32xlarge", nodes=2)
    assert used(made, 6, 32 + 31) == {
        "instance 0, HBM of chip 3": 1,
        "instance 1, HBM of chip 15": 1,
        "instance 0, DMA of chip 3, core 0": 1,
        "instance 0, EFA 1, out": 1,
        "instance 1, EFA 7, in": 1,
    }
    assert rate(made, "instance 0, EFA 1, out") == 800e9 / 8 / 8


def test_hops_between_instances_take_longer():
    made = fabric("trn2.48xlarge", nodes=2, lnc=2)
    assert made.hop_s(phase([Transfer(0, 1, 1.0)])) == 1.5e-6
    assert made.hop_s(phase([Transfer(0, 1, 1.0), Transfer(0, 64, 1.0)])) == 15e-6


def test_a_slow_link_carries_less_and_a_dead_one_is_gone_around():
    whole = fabric("trn1.32xlarge")
    slow = type(whole)(whole.instance, factors={"chip 0 to chip 1": 0.5})
    assert rate(slow, "chip 0 to chip 1") == rate(whole, "chip 0 to chip 1") / 2
    dead = type(whole)(whole.instance, factors={"chip 0 to chip 1": 0.0})
    way = used(dead, 0, 2)
    assert "chip 0 to chip 1" not in way
    assert len(way) == 3 + 3
    assert "chip 1 to chip 0" in used(dead, 2, 0)


def test_chips_without_a_way_are_an_error():
    whole = fabric("inf1.6xlarge")
    cut = type(whole)(whole.instance, factors={"chip 1 to chip 2": 0.0})
    with pytest.raises(BadInput, match="no way is left from chip 0 to chip 3"):
        used(cut, 0, 15)


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda: fabric("trn2.48xlarge", lnc=2, ranks_per_node=65), "it has 64 logical cores"),
        (
            lambda: fabric("trn2.48xlarge", nodes=0),
            "nodes=0 on trn2.48xlarge; legal: .* from 1 to",
        ),
        (lambda: fabric("trn2.48xlarge", lnc=0), "lnc=0 on trn2.48xlarge; legal: .* from 1 to"),
        (
            lambda: fabric("trn2.48xlarge", stride=0),
            "stride=0 on trn2.48xlarge; legal: .* from 1 to",
        ),
        (
            lambda: fabric("trn2.48xlarge", first=-2),
            "first=-2 on trn2.48xlarge; legal: .* from 0 to",
        ),
        (lambda: fabric("trn1.2xlarge", ranks_per_node=-1), "ranks_per_node=-1 on .* from 0 to"),
        (lambda: fabric("trn1.2xlarge", first=2), "0 ranks on trn1.2xlarge from logical core 2"),
        (lambda: fabric("trn9"), "instance 'trn9' is not in the catalogue"),
        (lambda: fabric("p5.48xlarge").topology, "0 ranks on p5.48xlarge"),
    ],
)
def test_what_no_instance_has_is_refused(ask, message):
    with pytest.raises(BadInput, match=message):
        ask()


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("chip 0 to chip 9", "'chip 10 to chip 9'"),
        ("EFA 8", "'EFA 7'"),
        ("instance 2, EFA 0, out", "'instance 0, EFA 0, out'"),
        ("instance 1, EFA 16, in", "'instance 1, EFA 1, in'"),
        ("HBM of chip 0", "to chip 0'"),
        ("", "'"),
    ],
)
def test_an_unknown_link_is_named_with_some_near(name, near):
    whole = fabric("trn1.32xlarge", nodes=2)
    with pytest.raises(BadInput, match=f"no link '{name}'; it has 64, and 8 EFA ad") as error:
        with_faults(whole, {name: 0.0})
    assert near in error.value.fix
    assert error.value.fix.startswith("for example ")


def test_a_chip_alone_has_no_links():
    with pytest.raises(BadInput, match=r"trn1\.2xlarge has no link 'EFA 0'; it has 0") as error:
        with_faults(fabric("trn1.2xlarge"), {"EFA 0": 0.0})
    assert error.value.fix == "it has no links"


def with_faults(whole, factors):
    return replace(whole, factors=factors)


NODES = fabric("trn2.48xlarge", nodes=2, lnc=2)
OUT, IN = "instance 0, EFA 0, out", "instance 1, EFA 0, in"


@pytest.mark.parametrize(
    ("name", "slowed"),
    [
        (OUT, {OUT}),
        ("instance 0, EFA 0", {OUT, "instance 0, EFA 0, in"}),
        ("EFA 0, in", {"instance 0, EFA 0, in", IN}),
        ("EFA 0", {OUT, "instance 0, EFA 0, in", "instance 1, EFA 0, out", IN}),
        ("instance 1, chip 0 to chip 1", {"instance 1, chip 0 to chip 1"}),
        ("chip 0 to chip 1", {f"instance {n}, chip 0 to chip 1" for n in (0, 1)}),
    ],
)
def test_an_adapter_or_a_link_of_a_node_is_slow_under_each_of_its_names(name, slowed):
    rates = dict(zip(NODES.names, NODES.capacity, strict=True))
    found = with_faults(NODES, {name: 0.25})
    for one, now in zip(found.names, found.capacity, strict=True):
        assert now == rates[one] * (0.25 if one in slowed else 1), one


def test_the_more_precise_name_counts():
    found = with_faults(NODES, {OUT: 0.75, "instance 0, EFA 0": 0.5, "EFA 0": 0.25})
    rates = dict(zip(NODES.names, NODES.capacity, strict=True))
    left = {one: now / rates[one] for one, now in zip(found.names, found.capacity, strict=True)}
    assert [left[one] for one in (OUT, "instance 0, EFA 0, in", IN)] == [0.75, 0.5, 0.25]


def test_a_dead_adapter_is_gone_around_by_the_next_one_of_its_node():
    dead = with_faults(NODES, {"instance 0, EFA 0, out": 0.0, "instance 0, EFA 1": 0.0})
    there = 64  # the first rank of the second instance
    assert {OUT, IN} <= used(NODES, 0, there).keys()
    assert {"instance 0, EFA 2, out", IN} <= used(dead, 0, there).keys()
    assert {"instance 1, EFA 0, out", "instance 0, EFA 0, in"} <= used(dead, there, 0).keys()
    assert {"instance 0, EFA 2, in"} <= used(dead, there, 4).keys()
    last = with_faults(NODES, {"EFA 15": 0.0})
    assert {"instance 0, EFA 0, out", "instance 1, EFA 0, in"} <= used(last, 63, 127).keys()


def test_a_dead_link_of_one_node_is_gone_around_there_alone():
    dead = with_faults(NODES, {"instance 1, chip 0 to chip 1": 0.0})
    assert "instance 0, chip 0 to chip 1" in used(dead, 0, 4)
    assert "instance 1, chip 0 to chip 1" not in used(dead, 64, 68)
    assert used(dead, 64, 68).keys() > {"instance 1, HBM of chip 0", "instance 1, HBM of chip 1"}


def test_faults_that_leave_no_way_are_refused_before_a_rank_asks():
    gone = {f"instance 1, EFA {number}, in": 0.0 for number in range(16)}
    with pytest.raises(BadInput, match="no way is left into instance 1: all of its 16 EFA adapt"):
        with_faults(NODES, gone).check_ways()
    with_faults(replace(NODES, nodes=2), {"EFA 3": 0.0}).check_ways()
    chain = fabric("inf1.6xlarge")
    with pytest.raises(BadInput, match="no way is left from chip 0 to chip 2"):
        with_faults(chain, {"chip 1 to chip 2": 0.0}).check_ways()
    with_faults(replace(chain, ranks_per_node=8), {"chip 1 to chip 2": 0.0}).check_ways()


def test_ranks_on_two_instances_need_efa():
    with pytest.raises(BadInput, match=r"inf2\.48xlarge has no EFA"):
        used(fabric("inf2.48xlarge", nodes=2), 0, 24)


def test_engines_are_those_of_the_rank():
    made = fabric("trn2.48xlarge", nodes=2, lnc=2)
    assert made.names[made.engines(np.array(5))] == "instance 0, DMA of chip 1, core 1"
    assert made.names[made.engines(np.array(64))] == "instance 1, DMA of chip 0, core 0"


@pytest.mark.parametrize("name", ["nodes", "lnc"])
@pytest.mark.parametrize("count", [0, 1 << 70, 2.5, "2"])
def test_counts_are_whole_and_no_more_than_any_fleet_has(name, count):
    with pytest.raises(BadInput, match=f"{name}={count!r} on .*; legal: a whole number from 1 to"):
        fabric("trn2.48xlarge", **{name: count})
