"""Places of blocks in buildings."""

import numpy as np

from trnsim.system.fleet.placing import building_shares, job_buildings
from trnsim.system.fleet.plan import FleetPlan


def plan_of(scenario, services, level):
    counts = np.zeros((1, len(scenario.jobs[0].levels)), np.int64)
    counts[0, level] = scenario.jobs[0].count
    return FleetPlan("a", np.array([[services]], np.int64), (counts,))


def test_the_widest_job_comes_first_to_the_building_with_most_room(scenario_of):
    found = scenario_of({"buildings: 2\n  ultraservers: 10": "buildings: {small: 10, large: 12}"})
    assert job_buildings(found.jobs, found.building_blocks) == {"big": ["large"]}


def test_a_job_stays_at_home_and_services_fill_what_is_left(scenario_of):
    found = scenario_of()
    assert building_shares(found, plan_of(found, 12, 8), 0) == {
        "building 1": {"big": 8, "chat": 2},
        "building 2": {"chat": 10},
    }


def test_a_job_of_the_fleet_may_lie_in_several_buildings(scenario_of):
    found = scenario_of({"checkpoint_s: 0": "checkpoint_s: 0\n    within: fleet"})
    assert job_buildings(found.jobs, found.building_blocks) == {}
    assert building_shares(found, plan_of(found, 5, 10), 0) == {
        "building 1": {"chat": 5, "big": 5},
        "building 2": {"big": 5},
    }
