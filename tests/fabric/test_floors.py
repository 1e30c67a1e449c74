"""The floors of a collective: inside a program, or started by the host."""

import math

import pytest

from trnsim.fabric.collective_time import collective_time
from trnsim.fabric.constants import EFA_HOP_S, HOST_STEP_S, host_base_s
from trnsim.fabric.floors import Floor, floor_times, host_start_s, mixture, ring_way

BASE_S = float(host_base_s("trainium1"))
STEP_S = float(HOST_STEP_S)
EFA_S = float(EFA_HOP_S)


@pytest.mark.parametrize(
    ("kind", "ranks", "nodes", "steps", "crossings"),
    [
        ("all_reduce", 2, 1, 2, 0),
        ("all_gather", 32, 1, 31, 0),
        ("all_reduce", 64, 2, 122, 4),
        ("all_reduce", 2, 2, 0, 2),
        ("all_gather", 64, 4, 59, 4),
        ("barrier", 32, 1, 62, 0),
        ("send", 64, 2, 0, 1),
        ("permute", 64, 1, 1, 0),
    ],
)
def test_the_way_around_a_ring(kind, ranks, nodes, steps, crossings):
    assert ring_way(kind, ranks, nodes) == (steps, crossings * EFA_S)


def test_a_start_by_hand():
    assert host_start_s("trainium1", "all_gather", 8, 32, 1) == BASE_S + 31 * STEP_S
    way_s = 122 * STEP_S + 4 * EFA_S
    assert host_start_s("trainium1", "all_reduce", 8, 64, 2) == BASE_S + way_s
    # Of 64 KiB every rank's chunk waits for EFA in each of 126 steps; of 4 KiB 16 chunks do.
    assert host_start_s("trainium1", "all_reduce", 1 << 16, 64, 2) == BASE_S + 126 * EFA_S
    assert host_start_s("trainium1", "all_reduce", 4096, 64, 2) == BASE_S + way_s


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "permute", "barrier"])
def test_more_ranks_instances_and_bytes_start_no_sooner(kind):
    sizes = [host_start_s("trainium1", kind, 8, ranks, 1) for ranks in (1, 2, 8, 32)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 0
    places = [host_start_s("trainium1", kind, 1 << 20, 64, nodes) for nodes in (1, 2, 4)]
    assert places == sorted(places)
    messages = [host_start_s("trainium1", kind, 4.0**n, 64, 2) for n in range(15)]
    assert messages == sorted(messages)


@pytest.mark.parametrize(
    ("kind", "ranks", "nbytes", "published_us", "off"),
    [
        ("all_reduce", 2, 1024, 58, 0.01),
        ("all_reduce", 2, 4 << 20, 107, 0.05),
        ("all_gather", 32, 1024, 151, 0.01),
        ("all_reduce", 64, 8, 520, 0.05),
        ("all_reduce", 64, 1 << 16, 1315, 0.50),
        ("all_reduce", 64, 1 << 24, 2138, 0.10),
        ("all_reduce", 64, 1 << 30, 41_806, 0.15),
    ],
)
def test_tables_of_the_first_generation(kind, ranks, nbytes, published_us, off):
    """nccom-test.rst; the 64 ranks are on two instances, and no constant comes from them."""
    found = collective_time(kind, nbytes, ranks, "trn1", floor=Floor.HOST)
    assert found.time_s == pytest.approx(published_us * 1e-6, rel=off)


def test_the_longer_of_start_and_transfers_counts():
    short = floor_times("trainium1", "all_reduce", 8, [(2, 1)], 37e-6, 1e-6)
    assert short.time_s(Floor.PROGRAM) == pytest.approx(38e-6)
    assert short.time_s(Floor.HOST) == short.start_s > 38e-6
    long = floor_times("trainium1", "all_reduce", 8, [(2, 1)], 37e-6, 1e-3)
    assert long.time_s(Floor.HOST) == long.time_s(Floor.PROGRAM)
    assert [times.paid(Floor.HOST) for times in (short, long)] == [
        "started by the host",
        "started by the host (hidden)",
    ]
    assert short.paid(Floor.PROGRAM) == "inside a program"


def test_the_slowest_group_decides():
    groups = [(2, 1), (8, 1)]
    found = floor_times("trainium1", "all_reduce", 8, groups, 37e-6, 0.0)
    assert found.start_s == host_start_s("trainium1", "all_reduce", 8, 8, 1)


@pytest.mark.parametrize(
    ("chip", "nodes", "spread"),
    [("trainium1", 1, 0.10), ("trainium1", 2, math.hypot(0.10, 0.3)), ("trainium2", 1, 0.86)],
)
def test_a_start_is_as_uncertain_as_its_tables(chip, nodes, spread):
    start = host_start_s(chip, "all_reduce", 8, 16, nodes)
    assert start.provenance.spread == pytest.approx(spread)
    found = floor_times(chip, "all_reduce", 8, [(16, nodes)], 1e-6, 0.0).interval(Floor.HOST)
    sigma = math.sqrt(math.log1p(spread**2))
    assert found.p90 / found.p50 == pytest.approx(math.exp(1.2816 * sigma), rel=0.04)


def test_an_unnamed_instance_is_any_of_its_candidates():
    near = floor_times("trainium1", "all_reduce", 8, [(16, 1)], 37e-6, 0.0)
    far = floor_times("trainium1", "all_reduce", 8, [(16, 1)], 37e-6, 1e-3)
    both = mixture([near, far], Floor.HOST)
    assert both.p10 == pytest.approx(near.interval(Floor.HOST).p10, rel=0.1)
    assert both.p90 > far.interval(Floor.HOST).p50
