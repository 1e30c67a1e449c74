import plans
import pytest

from trnsim.fabric import hierarchical
from trnsim.fabric.choice import KINDS
from trnsim.fabric.transfers import side_by_side

MB = 1e6


def by_ring(kind, groups, nbytes):
    ring = KINDS[kind][0]
    return side_by_side([ring.plan(one, nbytes) for one in groups])


@pytest.mark.parametrize(
    ("kind", "inside_first", "rounds"),
    [("all_gather", False, 1), ("reduce_scatter", True, 1), ("all_reduce", True, 2)],
)
def test_the_stage_between_instances_has_the_smaller_message(kind, inside_first, rounds):
    group = plans.group(range(128), plans.TWO)
    plan = getattr(hierarchical, kind)(group, MB, by_ring)
    leaves = [bool((one.sources // 64 != one.targets // 64).any()) for one in plan]
    assert leaves[0] != inside_first
    crossing = [one for one, out in zip(plan, leaves, strict=True) if out]
    assert len(crossing) == rounds
    assert sum(one.total_bytes for one in crossing) == pytest.approx(rounds * MB)
    wanted = rounds * MB * 127 / 128
    assert plans.received(plan) == {rank: pytest.approx(wanted) for rank in range(128)}


def test_only_for_equal_places_on_every_instance():
    assert hierarchical.is_possible(plans.group(range(128), plans.TWO))
    assert not hierarchical.is_possible(plans.group(range(64), plans.TWO))
    assert not hierarchical.is_possible(plans.group((0, 64), plans.TWO))
    assert not hierarchical.is_possible(plans.group((0, 1, 64, 66), plans.TWO))
