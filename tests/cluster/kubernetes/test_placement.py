"""Placements against a search over all assignments of sets, which shares no code with them."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.cluster.kubernetes.nodes import NeuronNode
from trnsim.cluster.kubernetes.placement import first_refusal, place
from trnsim.cluster.kubernetes.pods import ContainerDemand

RING = NeuronNode("ring", "inf2.24xlarge", 6, 2)
TORUS = NeuronNode("torus", "trn1.32xlarge", 16, 2)
DRAWN = [set(range(at, at + size)) for size in (1, 4, 8, 16) for at in range(0, 16, size)]
RUNS = [set(range(at, at + size)) for size in range(1, 7) for at in range(7 - size)]


def devices(count, name="a", **fields):
    return ContainerDemand(name, count, is_of_cores=False, **fields)


def cores(count, name="a", **fields):
    return ContainerDemand(name, count, is_of_cores=True, **fields)


def of_devices(*numbers, per_device=2):
    return frozenset(core for n in numbers for core in range(n * per_device, (n + 1) * per_device))


def is_possible(sets, free, counts):
    """True if disjoint sets of these counts of devices are free."""
    options = [[each for each in sets if len(each) == count and each <= free] for count in counts]
    return any(sum(map(len, chosen)) == len(set().union(*chosen)) for chosen in product(*options))


@pytest.mark.parametrize(("node", "sets"), [(RING, RUNS), (TORUS, DRAWN)])
def test_a_pod_of_one_container_fits_wherever_a_set_is_free(node, sets):
    @given(st.sets(st.integers(0, node.devices - 1)), st.integers(1, node.devices))
    def check(free, count):
        placed = place(node, [devices(count)], of_devices(*free))
        if not is_possible(sets, free, [count]):
            assert placed is None
            return
        held = {core // 2 for core in placed["a"]}
        assert held in sets
        assert placed["a"] == tuple(sorted(of_devices(*held)))
        assert held <= free

    check()


@given(st.sets(st.integers(0, 5)), st.lists(st.integers(1, 3), min_size=2, max_size=3))
def test_containers_that_run_together_get_disjoint_sets_wherever_there_are_some(free, counts):
    wanted = [devices(count, f"c{at}") for at, count in enumerate(counts)]
    placed = place(RING, wanted, of_devices(*free))
    if not is_possible(RUNS, free, counts):
        assert placed is None
        return
    held = [set(placed[f"c{at}"]) for at in range(len(counts))]
    assert sum(map(len, held)) == len(set().union(*held)) == 2 * sum(counts)
    for at, count in enumerate(counts):
        assert {core // 2 for core in held[at]} in [run for run in RUNS if len(run) == count]


def test_a_choice_is_taken_back_where_another_has_room_for_all():
    """Four would leave most in the gap of five, where three and two must go."""
    ring, gaps = NeuronNode("ring", "inf2.48xlarge", 12, 1), {*range(6), *range(7, 12)}
    wanted = [devices(count, f"c{at}") for at, count in enumerate((2, 4, 2, 3))]
    placed = place(ring, wanted, frozenset(gaps))
    assert {core for each in placed.values() for core in each} == gaps
    assert set(placed["c1"]) <= set(range(6))
    assert place(ring, wanted, frozenset(gaps - {2})) is None


def test_cores_and_devices_are_never_both_lent():
    placed = place(TORUS, [devices(1, "a"), cores(1, "b"), cores(2, "c")], of_devices(0, 1, 2))
    assert placed == {"a": (0, 1), "c": (2, 3), "b": (4,)}
    assert place(TORUS, [devices(1, "a"), cores(1, "b")], frozenset({0, 1})) is None
    assert place(TORUS, [devices(1, "a")], frozenset({1, 2})) is None  # half of two devices


def test_an_init_container_has_the_devices_of_the_others():
    warm = devices(4, "warm", is_initial=True)
    placed = place(TORUS, [warm, devices(1, "a")], of_devices(*range(16)))
    assert placed == {"warm": tuple(range(8)), "a": (0, 1)}
    small = devices(1, "warm", is_initial=True)
    placed = place(TORUS, [small, devices(4, "a")], of_devices(*range(4, 8)))
    assert placed == {"a": tuple(range(8, 16)), "warm": (8, 9)}


def test_an_init_container_alone_and_several():
    first, second = devices(4, "x", is_initial=True), devices(4, "y", is_initial=True)
    assert place(TORUS, [first, second], of_devices(*range(4))) == {
        "x": tuple(range(8)),
        "y": tuple(range(8)),
    }
    assert place(TORUS, [first], of_devices(1, 2, 3, 4)) is None
    assert place(
        RING, [devices(2, "x", is_initial=True), devices(3, "a")], of_devices(1, 2, 3)
    ) == {
        "a": tuple(range(2, 8)),
        "x": (2, 3, 4, 5),
    }


def test_init_containers_that_need_more_get_more():
    wanted = [devices(3, "x", is_initial=True), devices(2, "a"), devices(2, "b")]
    placed = place(RING, wanted, of_devices(*range(6)))
    held = set(placed["a"]) | set(placed["b"])
    assert len(held) == 8
    assert set(placed["x"]) <= held | set(range(12))
    assert place(RING, wanted, of_devices(0, 1, 3, 4)) is None  # no run of three


def test_an_init_container_shares_no_device_with_a_sidecar_before_it():
    sidecar, app = devices(1, "proxy"), devices(1, "a")
    for warm in (devices(1, "warm", is_initial=True), devices(4, "warm", is_initial=True)):
        placed = place(TORUS, [sidecar, warm, app], of_devices(*range(16)))
        assert not set(placed["proxy"]) & {*placed["warm"], *placed["a"]}
        assert set(placed["a"]) <= set(placed["warm"])
        placed = place(TORUS, [warm, sidecar, app], of_devices(*range(16)))
        assert not set(placed["proxy"]) & set(placed["a"])
    warm = devices(4, "warm", is_initial=True)
    assert place(TORUS, [sidecar, warm, app], of_devices(*range(4))) is None
    placed = place(TORUS, [warm, sidecar, app], of_devices(*range(4)))
    assert placed["warm"] == tuple(range(8))


def test_each_init_container_runs_beside_the_sidecars_before_it():
    first, second = devices(1, "x", is_initial=True), devices(1, "y", is_initial=True)
    wanted = [first, devices(1, "s"), second, devices(1, "t"), devices(1, "a")]
    placed = place(TORUS, wanted, of_devices(0, 1, 2))
    assert len({*placed["s"], *placed["t"], *placed["a"]}) == 6
    assert not set(placed["y"]) & set(placed["s"])


def test_many_containers_end_the_search():
    wanted = [cores(1, f"c{at}") for at in range(33)]
    assert place(TORUS, wanted, frozenset(range(32))) is None
    placed = place(TORUS, wanted[:32], frozenset(range(32)))
    assert sorted(core for each in placed.values() for core in each) == list(range(32))


def test_a_number_that_no_set_has_is_refused():
    assert first_refusal(TORUS, [devices(4), cores(2)]) is None
    assert "does not support requests for device: 7" in first_refusal(TORUS, [devices(7)]).reason
    assert "for neuroncore: 3" in first_refusal(TORUS, [devices(1), cores(3)]).reason
    assert first_refusal(RING, [devices(6), cores(12)]) is None
