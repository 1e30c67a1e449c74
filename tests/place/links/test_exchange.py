"""Exchanges of plans, beside the fabric that moves every byte."""

import math

import pytest

from trnsim.errors import BadInput
from trnsim.fabric.collective_time import time_on
from trnsim.fabric.fabric import fabric
from trnsim.fabric.floors import Floor
from trnsim.facts import assumed
from trnsim.place.links import CAMPUS, Site, Spread, exchange
from trnsim.place.links.exchange import GroupLayout, layout_of, ranks_of

KINDS = ("all_gather", "reduce_scatter", "all_reduce", "all_to_all", "permute")
MB = 1 << 20


def walked(instance, lnc, kind, nbytes, spread):
    """The same on the fabric: all groups of the instances that the first one lies on."""
    per_node = fabric(instance, lnc=lnc).ranks_per_node
    reach = spread.size * spread.stride
    starts = range(0, per_node - reach + 1, reach) if reach <= per_node else (0,)
    groups = [
        range(at + one, at + reach, spread.stride) for at in starts for one in range(spread.stride)
    ]
    whole = fabric(instance, nodes=-(-reach // per_node), lnc=lnc)
    return time_on(whole, kind, nbytes, groups).time_s


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("nbytes", [1 << 10, MB, 64 * MB])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "spread",
    [
        Spread(8),
        Spread(64),
        Spread(8, 8),
        Spread(128),
        Spread(4, 64),
        Spread(16, 16),
        Spread(8, 32),
    ],
    ids=str,
)
def test_a_closed_form_is_the_fabrics_time(spread, kind, nbytes):
    found = exchange("trn2.48xlarge", 2, kind, nbytes, spread)
    fabric_s = walked("trn2.48xlarge", 2, kind, nbytes, spread)
    # The fabric chooses the stages of a group without the other groups on its links, which costs it
    # up to 7 %.
    slack = 0.07 if spread == Spread(16, 16) else 0.015
    assert fabric_s * (1 - slack) < found.time_s < fabric_s * 1.015


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("spread", [Spread(2), Spread(64), Spread(4, 32), Spread(16, 8)], ids=str)
def test_so_it_is_on_the_first_generation(spread, kind):
    found = exchange("trn1.32xlarge", 1, kind, MB, spread)
    assert found.time_s == pytest.approx(walked("trn1.32xlarge", 1, kind, MB, spread), rel=0.015)


def test_one_rank_or_no_bytes_take_no_time():
    assert exchange("trn2.48xlarge", 2, "all_reduce", MB, Spread(1)).time_s == 0
    assert exchange("trn2.48xlarge", 2, "all_reduce", 0, Spread(8)).time_s == 0


def test_the_level_is_the_farthest_way():
    levels = [
        exchange("trn2.48xlarge", 2, "all_reduce", MB, spread).level
        for spread in (Spread(4), Spread(8), Spread(2, 64), Spread(2000, 64))
    ]
    assert levels == ["chip", "instance", "EFA", "building"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("instance", "lnc"), [("trn2.48xlarge", 2), ("p5en.48xlarge", 0)])
def test_more_bytes_take_longer(instance, lnc, kind):
    per_node, _ = ranks_of(instance, lnc)
    for spread in (Spread(8), Spread(per_node * 2), Spread(4, per_node)):
        times = [exchange(instance, lnc, kind, 4.0**n, spread).time_s for n in range(4, 17)]
        assert times == sorted(times)
        assert times[-1] > times[0]


def test_an_instance_without_efa_joins_no_other():
    with pytest.raises(BadInput, match=r"several trn1\.2xlarge, which have no EFA"):
        exchange("trn1.2xlarge", 1, "all_reduce", MB, Spread(4))


def test_half_a_million_chips_have_a_time():
    found = exchange("trn2.48xlarge", 2, "all_reduce", 1 << 30, Spread(8192, 64))
    assert found.level == "building"
    assert 0.1 < found.time_s < 10


def test_narrow_links_between_buildings_are_felt():
    narrow = Site(100, assumed(1e9, "a test's"), CAMPUS.between_hop_s)
    spread = Spread(256, 64)
    wide_s = exchange("trn2.48xlarge", 2, "all_gather", 1 << 30, spread).time_s
    assert exchange("trn2.48xlarge", 2, "all_gather", 1 << 30, spread, narrow).time_s > 5 * wide_s


def test_two_ranks_far_apart_share_the_links_between_their_buildings():
    stride = 64 * 1_500  # the second rank is in the second building
    nbytes = 1 << 30
    found = exchange("trn2.48xlarge", 2, "all_reduce", nbytes, Spread(2, stride))
    near = exchange("trn2.48xlarge", 2, "all_reduce", nbytes, Spread(2, 64))
    # Half of the bytes leave a building twice, beside those of the instance's other 63 ranks.
    expected_s = 2 * nbytes / 2 * 64 / float(CAMPUS.between_bytes_per_s)
    assert found.level == "building"
    assert found.time_s == pytest.approx(expected_s, rel=0.01)
    assert found.time_s > 5 * near.time_s


def test_a_broadcast_walks_the_fabric():
    found = exchange("trn2.48xlarge", 2, "broadcast", MB, Spread(2, 64))
    assert found.level == "EFA"
    assert found.time_s > 15e-6


@pytest.mark.parametrize(
    ("spread", "expected"),
    [
        (Spread(8), GroupLayout(8, 1, 8, 1)),
        (Spread(128), GroupLayout(128, 1, 64, 2)),
        (Spread(4, 64), GroupLayout(4, 64, 1, 4)),
        (Spread(16, 16), GroupLayout(16, 16, 4, 4)),
        (Spread(3, 128), GroupLayout(3, 128, 1, 3)),
    ],
)
def test_where_a_group_lies(spread, expected):
    assert layout_of(spread, 64) == expected


@pytest.mark.parametrize(("nbytes", "expected_s"), [(1, 58e-6), (16384, 58e-6)])
def test_a_small_collective_of_the_host_takes_what_was_published(nbytes, expected_s):
    found = exchange("trn1.32xlarge", 1, "all_reduce", nbytes, Spread(2)).floors
    assert found.time_s(Floor.HOST) == pytest.approx(expected_s, rel=1e-3)
    assert found.paid(Floor.HOST) == "started by the host"


@pytest.mark.parametrize(
    ("instance", "lnc", "nbytes", "paid"),
    [
        ("trn1.32xlarge", 1, 64 * MB, "started by the host (hidden)"),
        ("p5en.48xlarge", 0, 1024, "started by the host (hidden)"),
    ],
)
def test_large_ones_and_gpus_take_the_time_of_their_transfers(instance, lnc, nbytes, paid):
    found = exchange(instance, lnc, "all_reduce", nbytes, Spread(8))
    assert found.floors.time_s(Floor.HOST) == found.time_s
    assert found.floors.paid(Floor.HOST) == paid


@pytest.mark.parametrize(
    "spread", [Spread(2), Spread(32), Spread(64), Spread(64, 2), Spread(4, 32)], ids=str
)
@pytest.mark.parametrize("kind", [*KINDS, "broadcast"])
def test_a_plan_and_the_fabric_know_one_start(spread, kind):
    found = exchange("trn1.32xlarge", 1, kind, MB, spread).floors
    reach = spread.size * spread.stride
    whole = fabric("trn1.32xlarge", nodes=-(-reach // 32))
    on_fabric = time_on(whole, kind, MB, [range(0, reach, spread.stride)], Floor.HOST)
    assert found.start_s == on_fabric.floors.start_s
    assert found.start_s.provenance == on_fabric.floors.start_s.provenance


def test_one_rank_takes_no_time():
    found = exchange("trn1.32xlarge", 1, "all_reduce", MB, Spread(1))
    assert found.floors.time_s(Floor.HOST) == 0


@pytest.mark.parametrize(
    ("instance", "lnc", "spread"), [("trn1.32xlarge", 1, 0.2), ("trn2.48xlarge", 2, 0.36)]
)
def test_the_interval_of_many_bytes_is_that_of_bandwidths(instance, lnc, spread):
    found = exchange(instance, lnc, "all_reduce", 1 << 34, Spread(2)).interval(Floor.HOST)
    sigma = math.sqrt(math.log1p(spread**2))
    assert found.p90 / found.p50 == pytest.approx(math.exp(1.2816 * sigma), rel=0.03)


def test_the_interval_of_few_bytes_is_that_of_latencies():
    found = exchange("trn1.32xlarge", 1, "all_reduce", 8, Spread(2)).interval()
    sigma = math.sqrt(math.log1p(0.35**2))
    assert found.p50 / found.p10 == pytest.approx(math.exp(1.2816 * sigma), rel=0.03)
