"""Groups of cores that wait for each other: who is one, and who is missing."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.isa.language.meeting import Meeting, group_of, meeting_of


def ring(*cores, at="here"):
    """Where each of some cores waits for all of them."""
    return {core: meeting_of(cores, core, at) for core in cores}


def test_a_core_names_its_neighbours_in_the_ring():
    assert meeting_of((4, 7, 5), 7, "here") == Meeting("here", sender=4, receiver=5)
    assert meeting_of((4, 7, 5), 5, "here") == Meeting("here", sender=7, receiver=4)
    assert meeting_of((3,), 3, "here") == Meeting("here", sender=3, receiver=3)


@pytest.mark.parametrize("cores", [(0,), (0, 1), (1, 0), (2, 0, 1), (5, 127, 0, 9)])
def test_a_group_is_complete_when_its_last_core_has_come(cores):
    for order in itertools.permutations(cores):
        waiting = {}
        for place, core in enumerate(order, 1):
            waiting[core] = ring(*cores)[core]
            group, missing = group_of(core, waiting)
            assert (missing is None) == (place == len(cores))
            assert missing not in waiting
        assert sorted(group) == sorted(cores)
        assert group[0] == order[-1]


def test_a_core_that_waits_elsewhere_is_missing():
    waiting = {**ring(0, 1, at="here"), 1: ring(0, 1, at="there")[1]}
    assert group_of(0, waiting) == ([0], 1)
    assert group_of(1, waiting) == ([1], 0)


def test_a_core_that_waits_there_for_another_is_missing():
    waiting = {0: Meeting("here", 1, 1), 1: Meeting("here", 2, 2)}
    assert group_of(0, waiting) == ([0], 1)
    assert group_of(1, waiting) == ([1], 2)


def test_two_rings_at_one_place_are_two_groups():
    waiting = ring(0, 1) | ring(2, 3, 4)
    assert group_of(1, waiting) == ([1, 0], None)
    assert group_of(3, waiting) == ([3, 4, 2], None)


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=5, max_size=5))
def test_a_group_is_closed_or_names_who_is_missing_whatever_the_cores_name(neighbours):
    """Any five cores, each with any neighbours: the search ends, and its answer can be checked."""
    waiting = {core: Meeting("here", *named) for core, named in enumerate(neighbours)}
    for rank in waiting:
        group, missing = group_of(rank, waiting)
        assert len(set(group)) == len(group)
        steps = [*itertools.pairwise(group), (group[-1], rank if missing is None else missing)]
        for core, following in steps:
            assert waiting[core].receiver == following
        agreed = steps if missing is None else steps[:-1]
        assert all(waiting[following].sender == core for core, following in agreed)
        if missing is not None:
            assert waiting[missing].sender != group[-1]
