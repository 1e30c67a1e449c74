import plans
import pytest

from trnsim.fabric import rdh

MB = 1e6


@pytest.mark.parametrize("ranks", [range(64), (0, 4), range(8), range(0, 64, 4)])
def test_an_all_gather_brings_every_rank_what_it_lacks(ranks):
    plan = rdh.all_gather(plans.group(ranks), MB)
    wanted = MB * (len(ranks) - 1) / len(ranks)
    assert plans.received(plan) == {rank: pytest.approx(wanted) for rank in ranks}


def test_steps_double_and_halve():
    gather = rdh.all_gather(plans.group(), MB)
    assert [one.nbytes[0] * 64 / MB for one in gather] == [1, 2, 4, 8, 16]
    scatter = rdh.reduce_scatter(plans.group(), MB)
    assert [one.nbytes[0] * 64 / MB for one in scatter] == [16, 8, 4, 2, 1]


def test_partners_are_mutual_and_on_four_links_at_once():
    for one in rdh.all_gather(plans.group(), MB)[:4]:
        pairs = dict(zip(one.sources.tolist(), one.targets.tolist(), strict=True))
        assert all(pairs[pairs[rank]] == rank for rank in pairs)
        others = {pairs[rank] // 4 for rank in range(4)}
        assert len(others) == 4


@pytest.mark.parametrize("ranks", [range(12), (0, 1, 4), range(0, 64, 12), range(4)])
def test_only_for_a_hypercube_of_chips(ranks):
    assert not rdh.is_possible(plans.group(ranks))


def test_one_rank_an_instance():
    one = plans.group((0, 64), plans.TWO)
    assert rdh.is_possible(one)
    (step,) = rdh.all_gather(one, MB)
    assert step.targets.tolist() == [64, 0]
    assert not rdh.is_possible(plans.group(range(128), plans.TWO))
