import plans
import pytest

from trnsim.fabric import kangaring, ring
from trnsim.fabric.closed_form import plan_loads

MB = 1e6
HBM = [plans.NODE.names.index(f"HBM of chip {chip}") for chip in range(16)]


def test_half_the_hops_of_a_ring():
    for kind in ("all_gather", "reduce_scatter"):
        steps, last = getattr(kangaring, kind)(plans.group(), MB)
        assert steps.repeat == 31
        assert last.repeat == 1


@pytest.mark.parametrize(("kind", "part"), [("all_gather", 3 / 4), ("reduce_scatter", 4 / 6)])
def test_it_touches_less_memory_than_a_ring(kind, part):
    ours, theirs = (
        plan_loads(plans.NODE, getattr(one, kind)(plans.group(), MB))[HBM].sum()
        for one in (kangaring, ring)
    )
    assert ours / theirs == pytest.approx(part, rel=0.03)


def test_ranks_take_turns_in_the_ring():
    steps, _ = kangaring.all_gather(plans.group(), MB)
    assert set(steps.sources.tolist()) == set(range(64))
    assert len(set(steps.sources[steps.channels == 0].tolist())) == 32


@pytest.mark.parametrize(
    ("ranks", "is_possible"),
    [(range(64), True), (range(8), True), (range(4), False), (range(0, 64, 4), False)],
)
def test_only_where_every_rank_of_a_chip_takes_part(ranks, is_possible):
    assert kangaring.is_possible(plans.group(ranks)) == is_possible
    assert not kangaring.is_possible(plans.group(range(128), plans.TWO))
