"""The value of a pilot is that of many draws, and is nothing where the decision is settled."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pilot_cases import paired_run

from trnsim.decide.pilot.pilot_value import Stake, pilot_value

NEAR = Stake(bill=100_000, ratio=0.9, sigma=0.3, migration_usd=60_000, limit_months=12)


def drawn(stake, count=200_000):
    """The value and the share from draws, without the closed form."""
    z = np.random.default_rng(0).standard_normal(count)
    bills = stake.limit_months * stake.bill
    net = bills * (1 - stake.ratio * np.exp(stake.sigma * z)) - stake.migration_usd
    wrong = np.mean(net <= 0) if net.mean() > 0 else np.mean(net > 0)
    return np.maximum(net, 0).mean() - max(net.mean(), 0), wrong


@settings(max_examples=20, deadline=None)
@given(st.floats(1e3, 1e7), st.floats(0.3, 2.0), st.floats(0.05, 0.6), st.floats(0, 1e5))
def test_the_closed_form_is_that_of_draws(bill, ratio, sigma, cost):
    stake = Stake(bill, ratio, sigma, cost, 12)
    value, share = drawn(stake)
    assert stake.value_usd == pytest.approx(value, abs=0.01 * 12 * bill)
    mean_is_clear = abs(stake.net_usd) > 0.01 * 12 * bill
    assert not mean_is_clear or stake.wrong_probability == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize(
    "changes", [{"ratio": 0.01}, {"ratio": 50.0}, {"sigma": 0.0}, {"migration_usd": 1.2e6}]
)
def test_a_settled_decision_has_nothing_to_learn(changes):
    assert replace(NEAR, **changes).value_usd == pytest.approx(0, abs=1)


def test_a_bill_ten_times_as_large_is_worth_ten_times_as_much():
    large = replace(NEAR, bill=10 * NEAR.bill, migration_usd=10 * NEAR.migration_usd)
    assert large.value_usd == pytest.approx(10 * NEAR.value_usd)


def test_the_length_of_the_run_is_subtracted():
    runs = paired_run()
    found = pilot_value("chat", NEAR, runs)
    longer = pilot_value(
        "chat", NEAR, replace(runs, there=replace(runs.there, hours=200.0, usd=900.0))
    )
    assert found.run_usd == runs.today.usd + runs.there.usd
    assert found.delay_usd == pytest.approx(NEAR.saving_usd_per_month * found.hours / 730)
    assert found.net_usd == found.value_usd - found.run_usd - found.delay_usd
    assert longer.net_usd < found.net_usd


def test_a_side_without_a_price_has_no_cost_of_the_run():
    runs = paired_run()
    found = pilot_value("chat", NEAR, replace(runs, there=replace(runs.there, usd=None)))
    assert found.run_usd is None
    assert found.net_usd == found.value_usd - found.delay_usd
