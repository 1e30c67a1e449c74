"""What a plan meets."""

import numpy as np
import pytest

from trnsim.system.fleet.conditions import drawn_conditions, forecast_conditions


def test_what_is_known_is_one_draw_without_failures(scenario_of):
    found = scenario_of({"s: 90}": "s: 90, p90: 1.5}"})
    one = forecast_conditions(found, "p90")
    assert (one.demand[0][0] == found.services[0].curve.p90).all()
    assert one.draws == 1
    assert not one.missing_ultraservers.any()


def test_draws_are_those_of_their_seed(scenario_of):
    found = scenario_of({"s: 90}": "s: 90, p10: 0.5, p90: 1.5}", "1e12": "1e4"})
    one, same, other = (drawn_conditions(found, 3, seed) for seed in (1, 1, 2))
    assert (one.demand[0] == same.demand[0]).all()
    assert (one.missing_ultraservers == same.missing_ultraservers).all()
    assert (one.demand[0] != other.demand[0]).any()


def test_ultraservers_under_repair_are_those_that_failed_within_a_repair(scenario_of):
    found = scenario_of({"1e12": "6400"})  # 20 UltraServers, a failure of one each 100 h, 24 h
    short = drawn_conditions(found, 400, 0).missing_ultraservers
    assert short.mean() == pytest.approx(20 * 24 / 100, rel=0.1)
    assert short.max() <= 20


def test_spares_replace_the_first_that_fail(scenario_of):
    found = scenario_of(
        {"1e12": "6400", "spares: 0": "spares: 9", "largest_chips: 640": "largest_chips: 64"}
    )
    assert drawn_conditions(found, 100, 0).missing_ultraservers.mean() < 0.05


def test_repairs_without_time_leave_none_short(scenario_of):
    found = scenario_of({"chip_mtbf_hours: 1e12": "chip_mtbf_hours: 6400\n  repair_hours: 0"})
    assert not np.any(drawn_conditions(found, 10, 0).missing_ultraservers)
