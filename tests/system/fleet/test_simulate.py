"""Plans in steps of 5 minutes, beside sums by hand."""

import numpy as np
import pytest

from trnsim.system.fleet.conditions import FleetConditions, drawn_conditions, forecast_conditions
from trnsim.system.fleet.plan import FleetPlan
from trnsim.system.fleet.simulate import simulate

FLAT = "hours: [1" + ", 1" * 23 + "], weekdays: [1, 1, 1, 1, 1, 1, 1]}"
CONSTANT = {"{peak_requests_per_s: 90}": "{peak_requests_per_s: 90, " + FLAT}
SLOW = {
    **CONSTANT,
    "replica_chips: 64": "replica_chips: 64\n    weights_s: 600",
    "checkpoint_s: 0": "checkpoint_s: 0\n    restore_s: 450",
}


def plan_of(services, levels):
    counts = np.zeros((24, 11), np.int64)
    counts[np.arange(24), levels] = 1
    return FleetPlan("a", np.broadcast_to(services, 24)[:, None].astype(np.int64), (counts,))


def test_what_is_above_a_steps_capacity_is_missed(scenario_of):
    found = scenario_of(CONSTANT)
    outcome = simulate(found, plan_of(8, 0), forecast_conditions(found))
    assert outcome.requests.sum() == pytest.approx(90 * 86400)
    assert outcome.missed_part == pytest.approx([1 / 9])
    assert outcome.utilisation == pytest.approx([8 / 20])
    assert simulate(found, plan_of(9, 0), forecast_conditions(found)).missed.sum() == pytest.approx(
        0, abs=1e-6
    )


def test_a_block_serves_once_it_has_started(scenario_of):
    found = scenario_of(SLOW)
    services = np.array([8] * 12 + [9] * 12)
    missed = simulate(found, plan_of(services, 0), forecast_conditions(found)).missed[0, 0]
    assert missed[11] == pytest.approx(10 * 3600)
    assert missed[12] == pytest.approx(10 * 600)
    assert missed[13:].sum() == pytest.approx(0, abs=1e-4)


def test_a_job_stands_still_where_its_width_changes(scenario_of):
    found = scenario_of(SLOW)
    levels = np.array([10] * 10 + [5] * 14)
    tokens = simulate(found, plan_of(9, levels), forecast_conditions(found)).tokens[0, 0]
    rates = [one.kept_tokens_per_s for one in found.jobs[0].levels]
    assert tokens[9] == pytest.approx(3600 * rates[10])
    assert tokens[10] == pytest.approx((3600 - 450) * rates[5])
    assert tokens[11:] == pytest.approx([3600 * rates[5]] * 13)


def test_usd_are_chips_and_misses_less_tokens(scenario_of):
    found = scenario_of(
        {**CONSTANT, "replica_chips": "usd_per_missed_request: 0.01\n    replica_chips"}
    )
    outcome = simulate(found, plan_of(8, 10), forecast_conditions(found))
    chips, missed, worth = 1280 * 24, 10 * 86400 * 0.01, 640 * 24
    assert outcome.cost_usd == pytest.approx([chips + missed])
    assert outcome.usd == pytest.approx([chips + missed - worth])
    assert outcome.energy_kwh is None


def test_energy_is_that_of_what_each_chip_does(scenario_of):
    watts = "usd_per_chip_hour: 1\n  usd_per_kwh: 0.1\n"
    watts += "  watts_per_chip: {serving: 400, training: 500, idle: 100}"
    found = scenario_of({**CONSTANT, "usd_per_chip_hour: 1": watts})
    outcome = simulate(found, plan_of(9, 10), forecast_conditions(found))
    expected = 64 * 24 * (9 * 0.4 + 10 * 0.5 + 1 * 0.1)
    assert outcome.energy_kwh == pytest.approx(expected)
    assert outcome.cost_usd == pytest.approx([1280 * 24 + expected / 10])


def test_failures_without_spares_take_idle_blocks_then_jobs_then_services(scenario_of):
    found = scenario_of(CONSTANT)
    demand = forecast_conditions(found).demand
    for short, missed, trained in ((1, 0, 1), (2, 0, 0.9), (11, 0, 0), (12, 1 / 9, 0)):
        given = FleetConditions(demand, np.full((1, 288), short), None)
        outcome = simulate(found, plan_of(9, 10), given)
        assert outcome.missed_part == pytest.approx([missed], abs=1e-9)
        most = simulate(found, plan_of(9, 10), forecast_conditions(found)).tokens.sum()
        assert outcome.tokens.sum() / most == pytest.approx(trained, abs=1e-9)


def test_draws_of_failures_have_the_mean_that_is_expected(scenario_of):
    found = scenario_of(
        {
            **CONSTANT,
            "chip_mtbf_hours: 1e12": "chip_mtbf_hours: 5000\n  repair_hours: 0",
            "replica_chips: 64": "replica_chips: 64\n    weights_s: 300",
            "recovery_s: 0": "recovery_s: 300",
        }
    )
    plan = plan_of(9, 10)
    mean = simulate(found, plan, forecast_conditions(found))
    some = simulate(found, plan, drawn_conditions(found, 400, 0))
    assert some.tokens_per_day.mean() == pytest.approx(mean.tokens_per_day[0], rel=0.01)
    assert some.tokens_per_day.std() > 0
    assert some.missed.sum(axis=2).mean() == pytest.approx(mean.missed.sum(), rel=0.15)
    assert mean.missed.sum() > 0


def test_the_same_seed_gives_the_same_draws(scenario_of):
    found = scenario_of({"1e12": "5000"})
    one, two = (
        simulate(found, plan_of(9, 10), drawn_conditions(found, 3, 5)).usd for _ in range(2)
    )
    assert (one == two).all()
