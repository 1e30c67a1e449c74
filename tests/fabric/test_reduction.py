"""The order in which each algorithm adds, by hand."""

import pytest

from trnsim.fabric import reduction
from trnsim.fabric.choice import choose
from trnsim.fabric.fabric import fabric
from trnsim.fabric.group import RankGroup
from trnsim.fabric.reduction import ranks_of, reduction_order

NODE = fabric("trn2.48xlarge", lnc=2)
TWO = fabric("trn2.48xlarge", nodes=2, lnc=2)
EIGHT = RankGroup(NODE, tuple(range(8)))
"""Two chips of four ranks."""


@pytest.mark.parametrize(
    ("name", "order"),
    [
        ("ring", (((((((0, 1), 2), 3), 4), 5), 6), 7)),
        ("kangaring", ((((0, 1), 2, 3), 4, 5), 6, 7)),
        ("mesh", ((0, 1, 2, 3), (4, 5, 6, 7))),
        ("single-step mesh", (0, 1, 2, 3, 4, 5, 6, 7)),
        ("rdh", ((0, 1, 2, 3), (4, 5, 6, 7))),
    ],
)
def test_each_algorithm_has_an_order(name, order):
    assert reduction._order(name, EIGHT, "all_reduce", 64.0) == order


def test_a_mesh_of_a_chip_adds_at_once_and_of_single_ranks_over_chips():
    assert reduction._mesh(RankGroup(NODE, (0, 1, 2, 3))) == (0, 1, 2, 3)
    assert reduction._mesh(RankGroup(NODE, (0, 4))) == (0, 4)


def test_rdh_halves_along_one_axis_after_the_other():
    order = reduction._rdh(RankGroup(NODE, (0, 4, 8, 12)))
    assert order in (((0, 4), (12, 8)), ((0, 12), (4, 8)), ((0, 8), (4, 12)))


def test_hierarchical_adds_inside_instances_first():
    order = reduction._order(
        "hierarchical", RankGroup(TWO, tuple(range(128))), "all_reduce", 2.0**20
    )
    first, second = order
    assert sorted(ranks_of(first)) == list(range(64))
    assert sorted(ranks_of(second)) == list(range(64, 128))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("nbytes", [64.0, 2.0**20, 2.0**24, 2.0**28])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter"])
@pytest.mark.parametrize("where", [NODE, TWO])
def test_an_order_has_every_rank_once_whatever_is_chosen(kind, nbytes, where):
    whole = tuple(range(where.ranks))
    pairs = tuple((one, one + 1) for one in range(0, where.ranks, 2))
    for groups in ((whole,), pairs):
        assert choose(where, kind, nbytes, groups).algorithm
        order = reduction_order(where, kind, nbytes, groups, groups[-1])
        assert sorted(ranks_of(order)) == list(groups[-1])


def test_a_group_of_one_has_nothing_to_add():
    assert reduction_order(NODE, "all_reduce", 64.0, ((3,),), (3,)) == 3
