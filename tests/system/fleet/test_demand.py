"""Demand curves."""

from datetime import datetime
from zoneinfo import ZoneInfo

import numpy as np
import pytest

from trnsim.system.fleet import demand

BERLIN = ZoneInfo("Europe/Berlin")
FLAT = (1.0,) * 7


def hourly(curve):
    return curve.p50[:: demand.HOUR_STEPS]


def test_a_day_follows_its_shape():
    hours = tuple(float(hour) for hour in range(24))
    monday = datetime(2026, 3, 2, tzinfo=BERLIN)
    curve = demand.shaped_curve(monday, 24 * 12, 10.0, hours, FLAT, (0.5, 2.0))
    assert np.allclose(hourly(curve), [10 * hour for hour in hours])
    assert curve.p50[6] == pytest.approx(5.0)  # half past midnight, between 0 and 10
    assert np.allclose(curve.p10, 0.5 * curve.p50)
    assert np.allclose(curve.p90, 2.0 * curve.p50)


def test_a_week_follows_its_shape():
    weekdays = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0)
    sunday = datetime(2026, 3, 8, tzinfo=BERLIN)
    curve = demand.shaped_curve(sunday, 48 * 12, 1.0, (1.0,) * 24, weekdays)
    assert curve.p50[0] == 7.0
    assert curve.p50[24 * 12] == 1.0


def test_an_hour_that_clocks_leap_over_is_not_there():
    hours = tuple(float(hour) for hour in range(24))
    leap = datetime(2026, 3, 29, tzinfo=BERLIN)
    found = hourly(demand.shaped_curve(leap, 24 * 12, 1.0, hours, FLAT))
    assert list(found[:4]) == [0, 1, 3, 4]


def test_an_hour_that_clocks_pass_twice_is_there_twice():
    hours = tuple(float(hour) for hour in range(24))
    back = datetime(2026, 10, 25, tzinfo=BERLIN)
    assert list(hourly(demand.shaped_curve(back, 24 * 12, 1.0, hours, FLAT))[:5]) == [0, 1, 2, 2, 3]


def test_draws_have_the_percentiles_of_the_curve():
    level = np.full(12, 100.0)
    curve = demand.Curve(0.8 * level, level, 1.5 * level)
    drawn = curve.at_scores(demand.scores(40_000, 12, np.random.default_rng(0)))[:, 0]
    assert np.percentile(drawn, [10, 50, 90]) == pytest.approx([80, 100, 150], rel=0.02)
    assert drawn.min() >= 0


def test_a_curve_without_a_spread_is_always_the_same():
    level = np.array([0.0, 3.0])
    curve = demand.Curve(level, level, level)
    assert (curve.at_scores(np.array([[-3.0, 2.0], [4.0, -1.0]])) == level).all()


def test_scores_are_normal_held_for_an_hour_and_like_those_of_the_hour_before():
    found = demand.scores(20_000, 36, np.random.default_rng(1))
    assert found.shape == (20_000, 36)
    assert (found[:, :12] == found[:, :1]).all()
    assert found.std(axis=0) == pytest.approx(np.ones(36), abs=0.03)
    expected = np.exp(-2 / demand.CORRELATION_HOURS)
    assert np.corrcoef(found[:, 0], found[:, 24])[0, 1] == pytest.approx(expected, abs=0.03)
