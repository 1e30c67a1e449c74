"""Random legal programs of every collective against numpy: docs/runs.md has 2,000.

Programs of several collectives and computations give the same in whatever order ranks take turns.
"""

import os

import numpy as np
import pytest
from drawn_collectives import plans, sequences
from expected import check, raw
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import LEFT_OUT, in_order, launched, run, run_all, unseen

from trnsim.errors import Deadlock, EmulatorError

PROGRAMS = int(os.environ.get("TRNSIM_PROGRAMS", "40"))
DRAWN = settings(max_examples=PROGRAMS, deadline=None, derandomize=True, database=None)
SOME = settings(DRAWN, max_examples=max(PROGRAMS // 5, 1))


@pytest.mark.slow
@DRAWN
@given(plans())
def test_a_collective_leaves_what_numpy_says(plan):
    check(plan, run(plan))


def bits(world):
    """The bits of all that each rank returned."""
    return [[raw(np.asarray(one)).tolist() for one in outputs] for outputs in world.outputs]


def spans(world):
    """When each instruction of each core began and ended."""
    return [
        [(span.opcode, span.start_s, span.end_s) for span in timeline.spans()]
        for run in world.runs
        for timeline in run.timelines
    ]


@pytest.mark.slow
@SOME
@given(sequences(), st.data())
def test_values_and_times_do_not_depend_on_the_order_in_which_ranks_take_turns(some, data):
    ranks = some[0].ranks
    waits = st.lists(st.integers(0, 3), min_size=ranks, max_size=ranks)
    delays = [data.draw(waits) for _ in some]
    seen, world = run_all(some, delays)
    for plan, of_plan in zip(some, seen, strict=True):
        check(plan, of_plan)
    with in_order(data.draw(st.permutations(range(ranks)))):
        _, other = run_all(some, delays)
    assert bits(world) == bits(other)
    assert spans(world) == spans(other)


def outcome(some, delays):
    """What a program gives: bits, or what the error says."""
    try:
        return bits(launched(some, delays, unseen(some)))
    except EmulatorError as error:
        return type(error), str(error)


@pytest.mark.slow
@SOME
@given(sequences(), st.data())
def test_an_error_does_not_depend_on_the_order_in_which_ranks_take_turns(some, data):
    """One rank leaves out one collective: who waits in what is the same, whoever came first."""
    ranks = some[0].ranks
    delays = [[0] * ranks for _ in some]
    place, rank = data.draw(st.integers(0, len(some) - 1)), data.draw(st.integers(0, ranks - 1))
    delays[place][rank] = LEFT_OUT
    first = outcome(some, delays)
    with in_order(data.draw(st.permutations(range(ranks)))):
        assert outcome(some, delays) == first
    is_alone = all(len(group) == 1 for group in some[place].groups if rank in group)
    assert (first[0] is Deadlock) != is_alone
