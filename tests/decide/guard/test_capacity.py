from dataclasses import replace

import pytest
from guarded import CANDIDATE, CHAT

from trnsim.decide.guard.capacity import retained_capacity, today_count
from trnsim.decide.guard.limits import limits
from trnsim.facts import Interval


def test_all_is_kept_at_first_then_what_a_slow_prediction_leaves_over_then_nothing():
    parallel, proven, settled = retained_capacity(limits(CHAT))
    assert (parallel.instances, parallel.usd_per_month) == (4, 100_000)
    assert parallel.saving == pytest.approx(-0.6)
    # 1 - 1000/1250 of four instances is 0.8 of one: a whole one is kept.
    assert (proven.instances, proven.usd_per_month) == (1, 25_000)
    assert proven.saving == pytest.approx(0.15)
    assert (settled.instances, settled.usd_per_month, settled.saving) == (0, 0, 0.4)


def test_a_certain_prediction_leaves_nothing_over():
    sure = replace(CANDIDATE, hours=Interval(1000.0, 1000.0, 1000.0))
    assert [
        one.instances for one in retained_capacity(limits(replace(CHAT, candidates=(sure,))))
    ] == [4, 0, 0]


def test_a_training_run_waits_for_gpus_that_are_bought_when_they_are_needed():
    found = limits(replace(CHAT, kind="train"))
    assert [one.instances for one in retained_capacity(found)] == [4, 0, 0]


@pytest.mark.parametrize(
    ("count", "hours", "instances"),
    [(None, 730.0, 1), (None, 731.0, 2), (None, 1.0, 1), (7, 1.0, 7)],
)
def test_instances_of_today_are_stated_or_those_of_the_hours(count, hours, instances):
    now = replace(CHAT.today, count=count, hours=Interval(hours, hours, hours))
    assert today_count(limits(replace(CHAT, today=now))) == instances


def test_without_count_and_hours_there_is_one_instance():
    now = replace(CHAT.today, count=None, hours=None)
    assert today_count(limits(replace(CHAT, today=now))) == 1


def test_without_a_price_there_no_saving_is_stated():
    there = replace(CANDIDATE, usd_per_month=None, saving=None)
    assert {
        one.saving for one in retained_capacity(limits(replace(CHAT, candidates=(there,))))
    } == {None}
