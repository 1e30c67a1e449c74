"""Exchanges of GPUs."""

import pytest

from trnsim.arch.catalogue import catalogue
from trnsim.place.links import Spread, exchange, gpu
from trnsim.place.links.exchange import GroupLayout

GB = 1e9


def busbw(instance, nbytes, spread):
    """What nccl-tests calls bus bandwidth of an all-reduce, bytes per second."""
    time_s = exchange(instance, 0, "all_reduce", nbytes, spread).time_s
    return 2 * (spread.size - 1) / spread.size * nbytes / time_s


def test_a_ring_inside_an_instance_by_hand():
    lines = {
        line.name: line for line in gpu.lines("p4d.24xlarge", "all_reduce", GroupLayout(8, 1, 8, 1))
    }
    ring = lines["ring"]
    assert ring.fixed_s == pytest.approx(8.4e-6 + 14 * 3.4e-6)
    assert ring.per_byte_s == pytest.approx(2 * 7 / 8 / (0.8 * 300 * GB))
    assert lines["ring, LL"].per_byte_s == pytest.approx(4 * ring.per_byte_s)


@pytest.mark.parametrize(("instance", "published"), [("p4d.24xlarge", 600), ("p5.48xlarge", 900)])
def test_large_messages_reach_the_links_part(instance, published):
    assert 0.95 < busbw(instance, 8 << 30, Spread(8)) / (0.8 * published / 2 * GB) <= 1.0


def test_small_messages_take_the_protocol_of_low_latency():
    assert exchange("p5.48xlarge", 0, "all_reduce", 1024, Spread(8)).algorithm == "ring, LL"
    assert exchange("p5.48xlarge", 0, "all_reduce", 1 << 30, Spread(8)).algorithm == "ring"


def test_a_tree_has_fewer_steps_than_a_ring_over_many_instances():
    assert exchange("p5.48xlarge", 0, "all_reduce", 1024, Spread(1024)).algorithm == "tree, LL"
    assert exchange("p5.48xlarge", 0, "all_gather", 1024, Spread(1024)).algorithm == "ring, LL"


def test_between_instances_the_adapters_are_the_narrowest():
    row = catalogue().instance("p5.48xlarge")
    assert gpu.net_bytes_per_s(row) == pytest.approx(0.9 * 3200e9 / 8 / 8)
    assert busbw("p5.48xlarge", 8 << 30, Spread(16, 8)) < gpu.net_bytes_per_s(row)


def test_a_rack_is_one_domain_of_nvlink():
    assert exchange("u-p6e-gb200x72", 0, "all_reduce", 1 << 30, Spread(72)).level == "instance"


def test_cards_without_nvlink_share_pcie():
    assert gpu.local_bytes_per_s(catalogue().instance("g5.48xlarge")) == 12 * GB
    assert busbw("g5.48xlarge", 1 << 30, Spread(8)) < 12 * GB


def test_what_leaves_and_what_stays_go_at_once():
    near = gpu.lines("p5.48xlarge", "all_to_all", GroupLayout(8, 1, 8, 1))[1]
    far = gpu.lines("p5.48xlarge", "all_to_all", GroupLayout(16, 1, 8, 2))[1]
    assert far.per_byte_s == pytest.approx(0.5 / (0.9 * 50 * GB))
    assert near.per_byte_s == pytest.approx(7 / 8 / (0.8 * 450 * GB))
