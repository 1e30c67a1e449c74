"""Plans."""

import numpy as np

from trnsim.system.fleet.plan import FleetPlan, level_changes


def test_blocks_of_jobs_are_those_of_their_levels(scenario_of):
    jobs = scenario_of().jobs
    counts = np.zeros((2, 11), np.int64)
    counts[0, 3] = counts[1, 10] = 1
    plan = FleetPlan("a", np.zeros((2, 1), np.int64), (counts,))
    assert plan.job_blocks(jobs).tolist() == [[3], [10]]
    assert FleetPlan("a", np.zeros((2, 1), np.int64), ()).job_blocks(()).shape == (2, 0)


def test_the_fewest_jobs_change_level():
    counts = np.array([[2, 1, 0], [1, 1, 1], [1, 1, 1], [3, 0, 0]])
    assert level_changes(counts).tolist() == [[0, 0, 0], [0, 0, 1], [0, 0, 0], [2, 0, 0]]
