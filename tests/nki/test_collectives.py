"""`nki.collectives`: the names import; running one says that it is not emulated."""

import inspect

import nki
import nki.collectives as ncc
import numpy as np
import pytest

import trnsim
from trnsim.errors import NotModelled, SourceLine

PUBLISHED = [
    "all_gather",
    "all_gather_v",
    "all_reduce",
    "all_to_all",
    "all_to_all_v",
    "collective_permute",
    "collective_permute_implicit",
    "collective_permute_implicit_current_processing_rank_id",
    "collective_permute_implicit_reduce",
    "rank_id",
    "reduce_scatter",
    "reduce_scatter_v",
]


@pytest.mark.parametrize("name", PUBLISHED)
def test_every_published_collective_is_there_and_says_that_it_does_not_run(name):
    collective = getattr(ncc, name)
    assert collective.__name__ == name
    with pytest.raises(NotModelled, match=rf"nki\.collectives\.{name}: ") as caught:
        collective([], dsts=[], name="label")
    assert caught.value.source == f"nki.collectives.{name}"
    assert caught.value.fix


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_collective_in_a_kernel_is_refused_at_its_own_line(name):
    @nki.jit
    def kernel(a):
        return getattr(ncc, name)([a], [a])  # here

    with pytest.raises(NotModelled) as caught:
        trnsim.run(kernel, np.ones((4, 4), np.float32))
    lines, first = inspect.getsourcelines(kernel._function)
    (here,) = [first + i for i, line in enumerate(lines) if "# here" in line]
    assert caught.value.line == SourceLine(__file__, here)


def test_there_is_no_other_collective():
    assert sorted(ncc.NAMES) == PUBLISHED
    assert not hasattr(ncc, "broadcast")


def test_a_replica_group_keeps_its_ranks_and_compares_by_them():
    group = ncc.ReplicaGroup(((0, 1), (2, 3)))
    assert group.groups == ((0, 1), (2, 3))
    assert group == ncc.ReplicaGroup(((0, 1), (2, 3))) != ncc.ReplicaGroup(((0, 2), (1, 3)))
    assert len({group, ncc.ReplicaGroup(((0, 1), (2, 3)))}) == 1
