"""Plans of the solver."""

import numpy as np
import pytest

from trnsim.errors import BadInput
from trnsim.system.fleet import solver
from trnsim.system.fleet.conditions import forecast_conditions
from trnsim.system.fleet.reading import read
from trnsim.system.fleet.simulate import simulate
from trnsim.system.fleet.worth import entering_usd, hourly_usd, perfect_usd

BUSY = {"{peak_requests_per_s: 90}": "{peak_requests_per_s: 190}"}


def training_usd(found, plan):
    outcome = simulate(found, plan, forecast_conditions(found, "p90"))
    return (outcome.cost_usd - outcome.usd)[0]


def test_without_highspy_it_says_what_to_install(scenario_of, monkeypatch):
    monkeypatch.setattr(solver, "find_spec", lambda _: None)
    with pytest.raises(BadInput) as error:
        solver.solver_plan(scenario_of())
    assert "pip install 'trnsim[fleet]', or --policy threshold" in str(error.value)


def test_without_jobs_services_have_what_they_need(yaml_of):
    text = yaml_of().read_text()
    plan = solver.solver_plan(read(yaml_of(None, text[: text.index("jobs:")])))
    assert plan.jobs == ()
    assert plan.services.max() == 9


def test_with_no_cost_of_changes_perfect_sharing_is_reached(scenario_of):
    pytest.importorskip("highspy")
    found = scenario_of(BUSY)
    plan = solver.solver_plan(found)
    assert training_usd(found, plan) == pytest.approx(perfect_usd(found))


def test_a_change_that_is_not_worth_its_cost_is_not_made(scenario_of):
    pytest.importorskip("highspy")
    found = scenario_of(BUSY | {"checkpoint_s: 0": "checkpoint_s: 0\n    restore_s: 3600"})
    (counts,) = solver.solver_plan(found).jobs
    free = scenario_of(BUSY)
    (often,) = solver.solver_plan(free).jobs
    assert np.abs(np.diff(counts, axis=0)).sum() < np.abs(np.diff(often, axis=0)).sum()


def test_the_objective_is_what_the_simulator_finds(scenario_of):
    pytest.importorskip("highspy")
    found = scenario_of(BUSY | {"checkpoint_s: 0": "checkpoint_s: 0\n    restore_s: 700"})
    plan = solver.solver_plan(found)
    usd, cost = (one(found, found.jobs[0]) for one in (hourly_usd, entering_usd))
    (counts,) = plan.jobs
    entered = np.maximum(np.diff(counts, axis=0), 0)
    expected = (counts @ usd).sum() - (entered @ cost).sum()
    assert training_usd(found, plan) == pytest.approx(expected)


def test_hours_kept_together_are_whole(scenario_of):
    pytest.importorskip("highspy")
    planning = {"fleet:\n": "planning: {replan_hours: 5, horizon_hours: 10}\nfleet:\n"}
    found = scenario_of(BUSY | planning)
    plan = solver.solver_plan(found)
    assert (plan.jobs[0].sum(axis=1) == 1).all()
    assert training_usd(found, plan) == pytest.approx(perfect_usd(found))
