"""Jobs that take their best widths in turn."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from trnsim.system.fleet.plan import FleetPlan
from trnsim.system.fleet.policies import threshold
from trnsim.system.fleet.polish import best_path, paths_of, polished_plan

BLOCKS = np.array([0, 1, 2, 4])


def value(path, usd, cost):
    changed = sum(cost[now] for before, now in pairwise(path) if now != before)
    return sum(usd[at] for at in path) - changed


@given(
    room=st.lists(st.integers(0, 5), min_size=1, max_size=5),
    cost=st.floats(0, 3),
    usd=st.permutations([1.0, 2.5, 3.0]),
)
def test_a_path_is_worth_as_much_as_the_best_of_all(room, cost, usd):
    usd, costs = np.array([0.0, *usd]), cost * np.array([0.0, 1.0, 1.5, 2.0])
    found = best_path(usd, costs, BLOCKS, np.array(room))
    assert (BLOCKS[found] <= room).all()
    legal = [
        path
        for path in product(range(4), repeat=len(room))
        if all(BLOCKS[at] <= free for at, free in zip(path, room, strict=True))
    ]
    best = max(value(path, usd, costs) for path in legal)
    assert np.isclose(value(found.tolist(), usd, costs), best)


def test_paths_have_the_counts_and_the_fewest_changes():
    counts = np.array([[2, 1, 0], [1, 1, 1], [0, 1, 2]])
    paths = paths_of(counts)
    assert [np.bincount(row, minlength=3).tolist() for row in paths] == counts.tolist()
    assert (np.diff(paths, axis=0) != 0).sum() == 2


def test_jobs_that_wait_are_put_to_work(scenario_of):
    found = scenario_of({"largest_chips: 640": "largest_chips: 320\n    count: 2"})
    counts = np.zeros((24, 6), np.int64)
    counts[:, 0] = 2
    idle = FleetPlan("idle", threshold(found).services, (counts,))
    plan = polished_plan(found, idle)
    assert plan.policy == "idle"
    assert (plan.jobs[0][:, 5] == 2).all()
    assert (plan.services == idle.services).all()
