"""A collective of all its groups: time, load, rings of channels, numbers of ranks."""

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.fabric.choice import choose
from trnsim.fabric.closed_form import plan_loads
from trnsim.fabric.exchange import check_ranks, engine_bytes, exchange, groups_like, layout, rings
from trnsim.fabric.fabric import fabric

NODE = fabric("trn2.48xlarge", lnc=2)
GROUPS = tuple(tuple(range(first, 64, 4)) for first in range(4))


def test_groups_of_one_size_take_the_time_of_all_at_once():
    alone = exchange(NODE, "all_reduce", 2.0**20, GROUPS[:1])
    together = exchange(NODE, "all_reduce", 2.0**20, GROUPS)
    chosen = choose(NODE, "all_reduce", 2.0**20, GROUPS)
    assert together.time_s == chosen.time_s > alone.time_s
    assert together.algorithm(NODE, GROUPS[1]) == chosen.algorithm


def test_groups_of_several_sizes_take_the_time_of_the_longest():
    sizes = ((0, 1), tuple(range(2, 64)))
    both = exchange(NODE, "all_gather", 2.0**16, sizes)
    assert both.time_s == max(exchange(NODE, "all_gather", 2.0**16, (one,)).time_s for one in sizes)
    assert set(both.chosen) == {((2,), 1), ((2, *[4] * 15), 1)}


def test_groups_of_one_size_that_lie_differently_take_an_algorithm_each():
    """[0, 1] is on a chip, [2, 4] on two: their plans have other phases."""
    groups = ((0, 1), (2, 4), (3, 5), (6, 7))
    for kind in ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute"):
        both = exchange(NODE, kind, 2.0**16, groups)
        parts = [exchange(NODE, kind, 2.0**16, some) for some in (groups[::3], groups[1:3])]
        assert both.time_s == max(one.time_s for one in parts)
    assert groups_like(NODE, groups, (3, 5)) == ((2, 4), (3, 5))


def test_the_loads_of_groups_add_up_to_that_of_all():
    done = exchange(NODE, "all_reduce", 2.0**20, GROUPS)
    parts = sum(done.loads(NODE, group) for group in GROUPS)
    np.testing.assert_allclose(parts, plan_loads(NODE, done.chosen[layout(NODE, GROUPS[0])].plan))


def test_channels_have_both_directions_of_each_cycle():
    first, back, *others = rings(NODE, tuple(range(64)))
    assert len(others) == 2
    chips = [rank // 4 for rank in first]
    assert [rank // 4 for rank in back] == chips[::-1]
    assert rings(NODE, (0, 1, 2)) == ((0, 1, 2), (2, 1, 0))


def test_rings_between_instances_are_the_group_and_its_reverse():
    two = fabric("trn2.48xlarge", nodes=2, lnc=2)
    assert rings(two, (0, 64)) == ((0, 64), (64, 0))


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16, 32, 64])
def test_numbers_of_ranks_that_the_runtime_knows(ranks):
    check_ranks(NODE, ranks)


@pytest.mark.parametrize("ranks", [0, -1, 3, 5, 6, 12, 24, 33, 48])
def test_numbers_of_ranks_that_it_does_not_know(ranks):
    with pytest.raises(BadInput, match=rf"^{ranks} ranks; legal: 1, 2, 4, 8, 16 and multiples of"):
        check_ranks(NODE, ranks)


def test_more_ranks_than_the_instances_have():
    with pytest.raises(BadInput, match=r"96 ranks on trn2.48xlarge, which has 64 logical cores"):
        check_ranks(NODE, 96)
    check_ranks(fabric("trn2.48xlarge", nodes=2, lnc=2), 128)


@pytest.mark.parametrize("kind", ["all_reduce", "all_gather", "all_to_all", "permute"])
def test_the_busiest_engines_pass_on_what_its_phases_send(kind):
    groups = ((0, 1, 2), (4, 5, 6, 7))
    sent = dict.fromkeys(range(64), 0.0)
    for one in exchange(NODE, kind, 3.0 * 2**20, groups).chosen.values():
        for phase in one.plan:
            for source, nbytes in zip(phase.sources.tolist(), phase.nbytes.tolist(), strict=True):
                sent[source] += nbytes * phase.repeat
    assert engine_bytes(NODE, kind, 3.0 * 2**20, groups) == pytest.approx(max(sent.values()))


def test_a_single_rank_passes_nothing_on():
    assert engine_bytes(NODE, "all_reduce", 2.0**20, ((0,), (1,))) == 0
