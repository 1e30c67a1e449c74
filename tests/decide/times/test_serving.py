"""Speeds of serving are near the planner's, and keep the latency that is promised."""

import pytest
from workload_cases import SMALL, shaped, workload

from trnsim.decide.inventory.workload import Shape
from trnsim.decide.times.serving import speed
from trnsim.errors import EmulatorError
from trnsim.place.machine import machine
from trnsim.system.serve.demand import Slo, saturating_demand
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.workload.model_names import config_file

MIXTURE = config_file("mixtral-8x7b")
LENGTHS = {"input_len": 800, "output_len": 100}


def small(**slo):
    return workload("serve", path=SMALL, shape=Shape(**LENGTHS), slo=Slo(**slo))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["inf2.xlarge", "g5.xlarge"])
def test_without_a_promise_the_speed_is_near_the_planners(name):
    planned = plan(
        small().model, machine(name), ServerOptions(), saturating_demand(800, 100), kind="on_demand"
    ).served.figures["output_tokens_per_s"]
    found = speed(small(), name)
    assert found.is_met is None
    assert found.units_per_s == pytest.approx(planned.p50, rel=0.25)


@pytest.mark.slow
def test_a_promise_lowers_the_speed_until_it_is_kept():
    free, bound = speed(small(), "inf2.xlarge"), speed(small(ttft_s=0.5), "inf2.xlarge")
    assert bound.is_met
    assert bound.units_per_s < free.units_per_s


@pytest.mark.usefixtures("short_runs")
@pytest.mark.parametrize("slo", [{"ttft_s": 1e-6}, {"tpot_s": 1e-6}, {"latency_s": 1e-3}])
def test_a_promise_that_nothing_keeps_is_missed(slo):
    assert speed(small(**slo), "inf2.xlarge").is_met is False


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_a_looser_percentile_serves_at_least_as_much():
    tight, loose = (
        speed(small(ttft_s=0.5, percentile=at), "inf2.xlarge", is_brief=True).units_per_s
        for at in (99, 50)
    )
    assert loose >= tight


@pytest.mark.usefixtures("short_runs")
def test_milliseconds_of_a_token_are_told_by_cause():
    found = speed(small(), "inf2.xlarge")
    assert found.ms["prompts of others"] > 0
    assert sum(found.ms.values()) > found.ms["prompts of others"]


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_a_port_that_is_not_tuned_is_slower_where_it_is_one():
    lengths = Shape(**LENGTHS)
    tuned, ported = (
        workload("serve", path=MIXTURE, shape=lengths, port_state=state)
        for state in ("tuned", "as-ported")
    )
    here, there = (speed(one, "trn2.48xlarge") for one in (tuned, ported))
    assert there.units_per_s < 0.7 * here.units_per_s
    assert there.layout == f"{there.layout.removesuffix(', as ported')}, as ported"
    assert not here.layout.endswith("as ported")
    assert speed(ported, "p5.48xlarge").units_per_s == speed(tuned, "p5.48xlarge").units_per_s


def test_a_model_without_room_is_refused():
    with pytest.raises(EmulatorError):
        speed(shaped("serve", **LENGTHS), "inf1.xlarge")


@pytest.mark.slow
def test_a_brief_answer_is_near_the_one_of_long_runs():
    brief, long = (
        speed(small(ttft_s=2), "inf2.xlarge", is_brief=is_brief).units_per_s
        for is_brief in (True, False)
    )
    assert brief == pytest.approx(long, rel=0.1)
