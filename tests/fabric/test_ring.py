import plans
import pytest

from trnsim.fabric import ring

MB = 1e6


@pytest.mark.parametrize("ranks", [range(64), range(2), (0, 4), range(0, 64, 8), (3, 17, 40)])
@pytest.mark.parametrize("kind", ["all_gather", "reduce_scatter"])
def test_each_rank_passes_on_all_chunks_but_one(kind, ranks):
    count = len(ranks)
    plan = getattr(ring, kind)(plans.group(ranks), MB)
    wanted = {rank: pytest.approx(MB * (count - 1) / count) for rank in ranks}
    assert plans.sent(plan) == wanted == plans.received(plan)
    assert sum(one.repeat for one in plan) == count - 1


def test_a_reduction_reads_what_came_and_its_own():
    (scatter,), (gather,) = (
        plan(plans.group(), MB) for plan in (ring.reduce_scatter, ring.all_gather)
    )
    assert (scatter.reads, gather.reads) == (2, 1)


def test_a_ring_over_instances_follows_the_ranks():
    (steps,) = ring.all_gather(plans.group(range(0, 128, 32), plans.TWO), MB)
    assert steps.targets.tolist() == [32, 64, 96, 0]
