import pytest

from trnsim.errors import BadInput
from trnsim.fabric.algorithms.group import Group
from trnsim.fabric.choice import KINDS, choose
from trnsim.fabric.closed_form import time_s
from trnsim.fabric.fabric import fabric

NODE = fabric("trn2.48xlarge", lnc=2)
MB = 1e6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "barrier"])
def test_the_shortest_time_is_taken(kind):
    for nbytes in (0, 1, 4096, MB, 1e9):
        found = choose(NODE, kind, nbytes, [range(64)])
        assert all(found.time_s <= other for other in found.others_s.values())
        assert found.time_s == pytest.approx(time_s(NODE, found.plan))


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "barrier"])
def test_time_grows_with_bytes(kind):
    times = [choose(NODE, kind, 4.0**n, [range(16)]).time_s for n in range(16)]
    assert times == sorted(times)
    assert times[-1] > times[0]


def test_one_rank_and_a_barrier():
    assert choose(NODE, "all_reduce", MB, [[3]]).time_s == 0
    assert choose(NODE, "barrier", 0, [range(8)]).time_s == NODE.start_s


def test_groups_that_share_links_take_longer_than_one_alone():
    columns = [range(first, 64, 4) for first in range(4)]
    alone = choose(NODE, "all_reduce", 64 * MB, columns[:1])
    together = choose(NODE, "all_reduce", 64 * MB, columns)
    assert together.time_s > 1.5 * alone.time_s


def test_the_first_generation_has_a_ring_inside_an_instance():
    made = fabric("trn1.32xlarge", nodes=2)
    assert choose(made, "all_reduce", MB, [range(32)]).others_s == {}
    assert set(choose(made, "all_reduce", MB, [range(64)]).others_s) == {"ring"}
    assert choose(made, "all_reduce", MB, [range(64)]).algorithm == "hierarchical"


@pytest.mark.parametrize(("instance", "lnc"), [("trn2.48xlarge", 2), ("trn1.32xlarge", 1)])
def test_a_ring_of_two_is_its_bytes_over_one_direction(instance, lnc):
    made = fabric(instance, lnc=lnc)
    neighbours = (0, made.cores_per_chip)
    link = made.capacity[made.names.index("chip 0 to chip 1")]
    ring = KINDS["all_reduce"][0]
    took_s = time_s(made, ring.plan(Group(made, neighbours), 1e9))
    assert took_s == pytest.approx(
        made.start_s + 2 * made.hop_s(ring.plan(Group(made, neighbours), 1.0)[0]) + 1e9 / link
    )


def test_an_unknown_kind_is_refused():
    with pytest.raises(BadInput, match="'all_reduc'") as error:
        choose(NODE, "all_reduc", 1, [range(2)])
    assert "all_reduce" in error.value.fix
