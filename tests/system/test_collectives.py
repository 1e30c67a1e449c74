import pytest

from trnsim.system.collectives import collective_time
from trnsim.system.platform import platform

GIB = 1 << 30


def test_an_all_reduce_goes_round_twice_and_a_gather_once():
    reduce_s = collective_time("allreduce", GIB, 4, "trn2").time_s
    gather_s = collective_time("allgather_base", GIB, 4, "trn2").time_s
    scatter_s = collective_time("reduce_scatter_base", GIB, 4, "trn2").time_s
    assert reduce_s == pytest.approx(2 * gather_s)
    assert gather_s == scatter_s


def test_a_large_message_is_bound_by_the_link_and_a_small_one_by_hops():
    facts = platform("trn2").facts
    link, hop = facts["chip-to-chip bytes/s"], facts["chip-to-chip hop s"]
    large = collective_time("allreduce", 100 * GIB, 2, "trn2").time_s
    assert large == pytest.approx(100 * GIB / link, rel=1e-3)
    assert collective_time("allreduce", 4, 2, "trn2").time_s == pytest.approx(2 * hop, rel=1e-3)


def test_one_rank_takes_no_time():
    assert collective_time("allreduce", GIB, 1, "trn1").time_s == 0


def test_what_has_no_closed_form_has_no_time():
    assert collective_time("alltoall_base", GIB, 4, "trn2") is None


@pytest.mark.parametrize("target", ["trn1", "trn2", "trn3", "inf2"])
def test_a_time_says_where_it_comes_from(target):
    origin = collective_time("allreduce", GIB, 2, target).origin
    assert "hop" in origin
    assert any(word in origin for word in ("documented", "assumed", "derived"))
