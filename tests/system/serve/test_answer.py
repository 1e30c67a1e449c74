from dataclasses import replace

import pytest
from serve_cases import DRAWN, LLAMA, deployed

from trnsim.place.machine import machine
from trnsim.system.serve import answer
from trnsim.system.serve.answer import (
    OPERATING_PART,
    capacity_answer,
    measured_answer,
    other_instances,
)
from trnsim.system.serve.capacity import Capacity
from trnsim.system.serve.demand import Demand, Slo, open_rate_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.sizing import Spare, units_for

pytestmark = pytest.mark.usefixtures("short_runs")

SLO = Slo(0.3, 0.03)
FREE = open_rate_demand(256, 32)


def rated(rate_per_s):
    return Demand(None, replace(DRAWN, rate_per_s=rate_per_s))


@pytest.fixture(scope="module")
def free(short_runs):  # noqa: ARG001
    return capacity_answer([deployed()], FREE, 288, SLO)


def test_without_a_rate_figures_stand_below_the_most_load(free):
    assert free.sizing.rate_per_s is None
    assert free.sizing.spare is Spare.NONE
    assert free.load_per_s == pytest.approx(OPERATING_PART * free.most_per_s)
    assert free.unit_per_s.p10 < free.unit_per_s.p50 == free.most_per_s < free.unit_per_s.p90


def test_a_rate_takes_instances_and_a_spare(free):
    answer = capacity_answer([deployed()], rated(2.5 * free.most_per_s), 288, SLO)
    assert answer.deployment.instances == 4
    assert answer.sizing.headroom == pytest.approx(3 / 2.5, rel=0.01)
    assert answer.instances_for(2.5 * free.most_per_s) == 4
    assert answer.instances_for(2.5 * free.most_per_s, "p10") > 4


def test_of_many_instances_several_are_within_the_tolerance():
    """A rate of a hundred capacities: all that lie within 2 % above it are tried."""

    class Keeps:
        def is_within(self, limits, rate_per_s, count):
            del limits, count
            return rate_per_s <= 1.0151

    capacity = Capacity(1.0, SLO, "ttft", 0.01, 256)
    fewest = answer._at_fewest(Keeps(), capacity, 100.0, 1.0)
    assert units_for(100.0, 1.0, 1.0) == 101
    assert fewest.per_s == pytest.approx(100 / 99)  # 98 are beyond the tolerance
    assert answer._at_fewest(Keeps(), replace(capacity, per_s=1.005), 200.0, 1.0).per_s == (
        pytest.approx(200 / 198)  # 199 and 198 keep it, 197 do not
    )


def test_a_capacity_that_is_raised_to_save_instances_is_that_of_the_interval(monkeypatch):
    """The number of instances for the rate is that of the answer, however it was found."""
    monkeypatch.setattr(answer, "_at_fewest", lambda _, found, *__: replace(found, per_s=2.0))
    found = capacity_answer([deployed()], rated(20.0), 288, SLO)
    assert found.deployment.instances == found.instances_for(20.0) == 11
    assert found.unit_per_s.p10 < 2.0 < found.unit_per_s.p90


def test_instances_that_are_set_are_kept_without_a_spare(free):
    answer = capacity_answer([deployed(instances=2)], rated(9 * free.most_per_s), 288, SLO)
    assert answer.deployment.instances == 2
    assert answer.sizing.spare is Spare.NONE
    assert answer.sizing.headroom == pytest.approx(2 / 9, rel=0.01)
    assert answer.instances_for(9 * free.most_per_s) == 9


def test_what_cannot_be_kept_names_what_could(free):
    slo = Slo(tpot_s=0.004)
    answer = capacity_answer([deployed()], rated(1.0), 288, slo)
    assert (answer.most_per_s, answer.load_per_s) == (0.0, 1.0)
    assert answer.instances_for(1.0) is None
    full = other_instances(answer, LLAMA, machine("trn1"), ServerOptions(), slo)
    assert "trn1.32xlarge" not in full.nearest.instance_types
    assert "p5en.48xlarge" in full.nearest.instance_types
    assert other_instances(free, LLAMA, machine("trn1"), ServerOptions(), slo) is free


def test_one_deployment_is_measured_as_it_is(free):
    answer = measured_answer(deployed(), rated(1.0), SLO)
    assert answer.most_per_s == pytest.approx(free.most_per_s)
    assert answer.tried == 1
