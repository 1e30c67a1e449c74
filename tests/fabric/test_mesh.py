import plans
import pytest

from trnsim.fabric import mesh

MB = 1e6


@pytest.mark.parametrize("ranks", [range(64), range(2), (0, 4), range(0, 64, 8), range(8)])
def test_an_all_gather_brings_every_rank_what_it_lacks(ranks):
    plan = mesh.all_gather(plans.group(ranks), MB)
    wanted = MB * (len(ranks) - 1) / len(ranks)
    assert plans.received(plan) == {rank: pytest.approx(wanted) for rank in ranks}
    assert len(plan) <= 2


def test_a_reduce_scatter_sends_one_reduced_chunk_of_each_chip():
    between, last = mesh.reduce_scatter(plans.group(), MB)
    assert between.reads == 4
    assert plans.received((between,)) == {rank: pytest.approx(15 * MB / 64) for rank in range(64)}
    assert len(set(plans.sent((between,)).values())) == 1
    assert last.sources.tolist() == last.targets.tolist()
    assert last.reads == 15 + 4


def test_a_chip_alone_reduces_in_one_step():
    (only,) = mesh.reduce_scatter(plans.group(range(4)), MB)
    assert only.reads == 4
    assert only.total_bytes == 0


def test_the_single_step_sends_everything_to_everyone():
    to_all, own = mesh.all_reduce_at_once(plans.group(range(8)), MB)
    assert plans.sent((to_all,)) == {rank: pytest.approx(7 * MB) for rank in range(8)}
    assert own.reads == 8


def test_chips_with_different_ranks_have_no_mesh():
    assert not mesh.is_possible(plans.group((0, 1, 4)))
