"""Random legal programs of every collective against numpy: `make collectives` runs 2,000.

Programs of several collectives and computations give the same in whatever order ranks take turns.
"""

import os

import numpy as np
from expected import check, raw
from hypothesis import given, settings
from hypothesis import strategies as st
from planned import in_order, run, run_all
from plans import plans, sequences

PROGRAMS = int(os.environ.get("TRNSIM_PROGRAMS", "40"))
DRAWN = settings(max_examples=PROGRAMS, deadline=None, derandomize=True, database=None)
SOME = settings(DRAWN, max_examples=max(PROGRAMS // 5, 1))


@DRAWN
@given(plans())
def test_a_collective_leaves_what_numpy_says(plan):
    check(plan, run(plan))


def spans(world):
    """When each instruction of each core began and ended."""
    return [
        [(span.opcode, span.start_s, span.end_s) for span in timeline.spans()]
        for run in world.runs
        for timeline in run.timelines
    ]


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
    for first, second in zip(world.outputs, other.outputs, strict=True):
        for one, two in zip(first, second, strict=True):
            np.testing.assert_array_equal(raw(np.asarray(one)), raw(np.asarray(two)))
    assert spans(world) == spans(other)
