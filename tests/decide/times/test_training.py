"""Speeds of training are those of the planner, on as many instances as are needed."""

import pytest
from workload_cases import SMALL, shaped, workload

from trnsim.decide.times.training import speed
from trnsim.errors import BadInput, OutOfMemory
from trnsim.system.train.best import Effort
from trnsim.system.train.estimate import estimate


@pytest.fixture(scope="module")
def one():
    return speed(workload(), "trn1.32xlarge", 1)


def test_the_speed_is_near_the_planners(one):
    planned = estimate(workload().model, "trn1.32xlarge", effort=Effort(budget=8))
    assert one.units_per_s == pytest.approx(planned.tokens / planned.time_s.p50, rel=0.03)
    assert one.group == planned.machine.count == 1


def test_more_instances_are_faster_and_no_faster_each(one):
    four = speed(workload(), "trn1.32xlarge", 4)
    assert four.group == 4
    assert one.units_per_s < four.units_per_s <= 4.01 * one.units_per_s


def test_a_large_fleet_is_timed_on_a_part_of_it():
    found = speed(workload(), "trn1.32xlarge", 200)
    assert found.group == 64
    assert found.notes == ("timed on 64 instances",)


def test_a_type_without_efa_trains_alone():
    with pytest.raises(BadInput, match="without EFA they cannot train together"):
        speed(workload(path=SMALL), "g5.xlarge", 2)


def test_a_model_without_room_is_refused():
    with pytest.raises(OutOfMemory):
        speed(workload(), "g5.xlarge", 1)


def test_a_batch_that_is_given_is_kept():
    found = speed(shaped("train", sequence=2048, batch=64), "trn1.32xlarge", 1)
    assert found.ms["compute"] > 0
    assert "trn1.32xlarge" in found.layout
