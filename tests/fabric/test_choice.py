import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.fabric.choice import KINDS, choose
from trnsim.fabric.closed_form import plan_loads, time_s
from trnsim.fabric.fabric import fabric
from trnsim.fabric.group import RankGroup

NODE = fabric("trn2.48xlarge", lnc=2)
MB = 1e6


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "barrier"])
def test_the_shortest_time_is_taken(kind):
    for nbytes in (0, 1, 4096, MB, 1e9):
        found = choose(NODE, kind, nbytes, [range(64)])
        assert all(found.time_s <= other for other in found.others_s.values())
        assert found.time_s == pytest.approx(time_s(NODE, found.plan))


@pytest.mark.slow_but_every(3)
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
    took_s = time_s(made, ring.plan(RankGroup(made, neighbours), 1e9))
    assert took_s == pytest.approx(
        made.start_s + 2 * made.hop_s(ring.plan(RankGroup(made, neighbours), 1.0)[0]) + 1e9 / link
    )


@pytest.mark.parametrize(
    ("name", "phases"), [("ring", 2), ("kangaring", 4), ("mesh", 4), ("rdh", 10)]
)
def test_an_all_reduce_reduces_and_then_gathers(name, phases):
    (algorithm,) = (each for each in KINDS["all_reduce"] if each.name == name)
    reads = [phase.reads for phase in algorithm.plan(RankGroup(NODE, tuple(range(64))), MB)]
    assert len(reads) == phases
    # A rank that reduces reads what came and its own; one that gathers copies.
    assert min(reads[: phases // 2]) >= 2
    assert max(reads[phases // 2 :]) <= 1


def test_an_unknown_kind_is_refused():
    with pytest.raises(BadInput, match="'all_reduc'") as error:
        choose(NODE, "all_reduc", 1, [range(2)])
    assert "all_reduce" in error.value.fix


@settings(max_examples=30)
@given(
    st.sampled_from(["all_gather", "reduce_scatter", "all_reduce", "all_to_all"]),
    st.integers(1, 2**30),
    st.sampled_from([range(8), range(16), range(0, 64, 4), range(64)]),
    st.floats(0.1, 1.0),
)
def test_slower_links_never_take_less(kind, nbytes, ranks, factor):
    slow = type(NODE)(
        NODE.instance, lnc=2, factors={link.name: factor for link in NODE.topology.links}
    )
    usual, held_up = (choose(one, kind, nbytes, [ranks]).time_s for one in (NODE, slow))
    assert usual <= held_up * (1 + 1e-12)
    assert held_up <= usual / factor * (1 + 1e-12)


@settings(max_examples=30)
@given(st.integers(1, 2**24), st.sampled_from([range(8), range(64), range(0, 64, 4)]))
def test_bytes_are_conserved_over_links(nbytes, ranks):
    """What leaves a chip enters another, and of an all-gather each chip gets the rest."""
    chips = {NODE.place(rank).chip for rank in ranks}
    for one in KINDS["all_gather"]:
        group = RankGroup(NODE, tuple(ranks))
        if not one.is_possible(group):
            continue
        load = plan_loads(NODE, one.plan(group, nbytes))
        entering = dict.fromkeys(chips, 0.0)
        leaving = dict(entering)
        for link, passed in zip(NODE.topology.links, load, strict=False):
            source, target = int(link.name.split()[1]), int(link.name.split()[4])
            leaving[source] = leaving.get(source, 0.0) + passed
            entering[target] = entering.get(target, 0.0) + passed
        least = nbytes * (1 - 1 / len(chips))
        for chip in chips:
            assert entering[chip] >= least * (1 - 1e-9)
        assert sum(entering.values()) == pytest.approx(sum(leaving.values()))
