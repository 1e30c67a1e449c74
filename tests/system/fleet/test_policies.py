"""Policies without a solver."""

import numpy as np
import pytest

from trnsim.system.fleet.need import needs
from trnsim.system.fleet.policies import separate, threshold


@pytest.fixture
def found(scenario_of):
    return scenario_of({"{peak_requests_per_s: 90}": "{peak_requests_per_s: 150}"})


def widths(plan, scenario):
    return plan.job_blocks(scenario.jobs)[:, 0]


def test_separate_fleets_are_the_same_all_day(found):
    plan = separate(found)
    assert (plan.services == needs(found, "p90").max()).all()
    assert (widths(plan, found) == 5).all()


def test_thresholds_give_jobs_what_services_leave(found):
    plan = threshold(found)
    assert (plan.services >= needs(found, "p90")).all()
    used = plan.services[:, 0] + widths(plan, found)
    assert used.max() <= 20
    assert len(set(widths(plan, found))) > 2


def test_a_service_shrinks_late(found):
    plan, needed = threshold(found), needs(found, "p90")
    held = plan.services[:, 0]
    shrinks = np.flatnonzero(np.diff(held) < 0) + 1
    assert len(shrinks)
    assert (needed[shrinks, 0] < 0.85 * held[shrinks - 1]).all()


def test_a_service_that_needs_more_than_there_is_has_all(scenario_of):
    found = scenario_of({"{peak_requests_per_s: 90}": "{peak_requests_per_s: 900}"})
    for plan in (separate(found), threshold(found)):
        assert plan.services.max() == 20
    assert (widths(separate(found), found) == 0).all()


def test_without_services_jobs_have_the_largest_width(scenario_of):
    found = scenario_of({"{peak_requests_per_s: 90}": "{peak_requests_per_s: 0}"})
    for plan in (separate(found), threshold(found)):
        assert (widths(plan, found) == 10).all()


def test_the_last_of_several_jobs_gives_way_first(scenario_of):
    found = scenario_of(
        {
            "{peak_requests_per_s: 90}": "{peak_requests_per_s: 150}",
            "largest_chips: 640": "largest_chips: 320\n    count: 3",
        }
    )
    plan = threshold(found)
    assert (plan.jobs[0].sum(axis=1) == 3).all()
    assert (plan.jobs[0][:, 5] >= 1).all()
