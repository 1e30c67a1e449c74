"""Measured factors replace predictions; what they share with others is learnt by hand's formula."""

import math

import pytest
from place_cases import Told
from workload_cases import workload

from trnsim.decide.pilot.refit import FAMILY, Factor, PilotPredictor, update

HERE, THERE, OTHER = "p5.48xlarge", "trn1.32xlarge", "p5en.48xlarge"
DOUBTS = {
    HERE: {"train on GPUs": 0.3, "train on h100": 0.4},
    OTHER: {"train on GPUs": 0.3, "train on h200": 0.4},
    THERE: {"train on trn": 0.2},
}
SPEEDS = {HERE: 100.0, OTHER: 120.0, THERE: 50.0}


def corrected(**factors):
    named = {"here": HERE, "there": THERE}
    measured = {named[key]: one for key, one in factors.items()}
    return PilotPredictor(Told(SPEEDS, DOUBTS, is_validated=False), "a workload", measured)


def test_a_measured_speed_is_the_measured_one_with_the_error_of_the_run():
    found = corrected(here=Factor(1.25, 0.02, is_met=True)).speed(workload(), HERE).speed
    assert found.units_per_s == 80
    assert found.sigmas == {f"pilot on {HERE}": 0.02}
    assert found.family == FAMILY
    assert found.is_validated
    assert found.is_met
    assert found.ms == {"compute": 3.75, "tensor": 1.25}
    assert found.error["p90"] == pytest.approx(1.645 * 0.02, rel=1e-3)


def test_another_instance_learns_the_cause_that_it_shares():
    found = corrected(here=Factor(1.25, 0.0)).speed(workload(), OTHER).speed
    # by hand: of log 1.25, the shared cause explains 0.09 of 0.09 + 0.16
    assert found.units_per_s == pytest.approx(120 / 1.25**0.36)
    assert found.sigmas["train on GPUs"] == pytest.approx(0.3 * math.sqrt(0.64))
    assert found.sigmas["train on h200"] == pytest.approx(0.4)
    assert not found.is_validated


def test_an_instance_that_shares_nothing_is_unchanged():
    base = Told(SPEEDS, DOUBTS).speed(None, THERE)
    found = corrected(here=Factor(1.25, 0.01)).speed(workload(), THERE)
    assert found.speed.units_per_s == base.speed.units_per_s
    assert found.speed.sigmas == base.speed.sigmas


def test_another_workload_and_a_refusal_are_unchanged():
    one = corrected(here=Factor(2.0, 0.01), there=Factor(0.7, 0.01))
    assert one.speed(workload(name="other"), HERE).speed.units_per_s == 100
    assert one.speed(workload(), "inf2.xlarge").refused == "no room"


def test_a_run_that_measures_badly_teaches_little():
    (good, bad) = (update([({"a": 0.1}, Factor(1.5, error))]) for error in (0.0, 1.0))
    assert good.z["a"] * 0.1 == pytest.approx(math.log(1.5))
    assert good.variance["a"] == pytest.approx(0)
    assert bad.z["a"] * 0.1 == pytest.approx(math.log(1.5) * 0.01 / 1.01)
    assert bad.variance["a"] == pytest.approx(1 / 1.01)


def test_a_prediction_without_doubt_learns_nothing():
    assert update([({}, Factor(1.5, 0.01))]).z == {}
