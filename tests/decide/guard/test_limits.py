from dataclasses import replace

import pytest
from guarded import CANDIDATE, CHAT, OTHER, decision

from trnsim.decide.decision import Verdict
from trnsim.decide.guard.limits import limits, moved_limits
from trnsim.errors import BadInput


def test_rates_are_those_of_one_instance_and_the_hours_of_the_prediction():
    found = limits(CHAT)
    assert found.rate == 3.6e9 / 3600 / 1000
    assert found.slowest_rate == 3.6e9 / 3600 / 1250
    assert found.unit == "tokens"
    assert found.usd_per_unit == 60_000 / 3.6e9
    assert found.today_usd_per_unit == 100_000 / 3.6e9


def test_at_the_break_even_rate_the_bill_is_todays():
    """The hours, and with them the bill, grow as the rate falls."""
    found = limits(CHAT)
    assert 60_000 * found.rate / found.break_even_rate == pytest.approx(100_000)


def test_hours_of_gpus_count_no_work():
    found = limits(replace(CHAT, volume_unit="gpu_hours"))
    assert (found.unit, found.rate, found.break_even_rate, found.usd_per_unit) == (None,) * 4


def test_without_a_price_there_is_a_rate_and_no_cost():
    there = replace(CANDIDATE, usd_per_month=None, saving=None, price=None)
    found = limits(replace(CHAT, candidates=(there,)))
    assert (found.rate, found.break_even_rate, found.usd_per_unit) == (1000.0, None, None)


def test_what_moves_is_what_goes_or_is_tried():
    tried = replace(CHAT, name="tried", verdict=Verdict.PILOT)
    found = moved_limits(decision(CHAT, OTHER, tried))
    assert [one.workload.name for one in found] == ["chat", "tried"]


def test_a_decision_in_which_nothing_moves_has_no_guard():
    with pytest.raises(BadInput, match=r"no workload moves \(tuning: no-go\)"):
        moved_limits(decision(OTHER))


def test_a_best_instance_that_is_no_candidate_is_refused():
    with pytest.raises(BadInput, match=r"chat: best is trn9, which is no candidate"):
        limits(replace(CHAT, best="trn9"))
