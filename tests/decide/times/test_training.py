"""Speeds of training are those of the planner, on as many instances as are needed."""

import pytest
from workload_cases import SMALL, shaped, workload

from trnsim.decide.times.training import speed
from trnsim.errors import BadInput, OutOfMemory
from trnsim.system.train.estimate import estimate


@pytest.fixture(scope="module")
def one():
    return speed(workload(), "trn1.32xlarge", 1)


@pytest.mark.slow_cases("trn1.32xlarge")
@pytest.mark.parametrize("name", ["trn1.32xlarge", "p5.48xlarge"])
def test_the_layout_and_the_speed_are_those_of_a_plan(name):
    decided = speed(workload(), name, 1)
    planned = estimate(workload().model, name)
    assert decided.layout == f"{planned.machine.count} x {name}, {planned.step.layout}"
    assert decided.units_per_s == pytest.approx(planned.tokens / planned.time_s.p50, rel=0.03)
    assert decided.group == planned.machine.count == 1


@pytest.mark.slow
def test_more_instances_are_faster_and_no_faster_each(one):
    four = speed(workload(), "trn1.32xlarge", 4)
    assert four.group == 4
    assert one.units_per_s < four.units_per_s <= 4.01 * one.units_per_s


@pytest.mark.slow
def test_a_large_fleet_is_timed_on_a_part_of_it():
    found = speed(workload(), "trn1.32xlarge", 200)
    assert found.group == 64
    assert found.notes[-1] == "timed on 64 instances"


def test_a_plan_says_which_rows_it_rests_on(one):
    assert one.notes[0].startswith(("validated by 11 published rows", "carried over from 28"))
    assert one.is_validated is one.notes[0].startswith("validated")


def test_a_type_without_efa_trains_alone():
    with pytest.raises(BadInput, match="without EFA they cannot train together"):
        speed(workload(path=SMALL), "g5.xlarge", 2)


def test_a_model_without_room_is_refused():
    with pytest.raises(OutOfMemory):
        speed(workload(), "g5.xlarge", 1)


@pytest.mark.slow
def test_a_batch_that_is_given_is_kept():
    found = speed(shaped("train", sequence=2048, batch=64), "trn1.32xlarge", 1)
    assert found.ms["compute"] > 0
    assert "trn1.32xlarge" in found.layout
