import pytest
from serve_cases import LLAMA

from trnsim.place.machine import machine
from trnsim.system.serve.capacity_report import capacity_values
from trnsim.system.serve.demand import Demand, Slo, open_rate_demand
from trnsim.system.serve.load import Lengths, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan

pytestmark = pytest.mark.usefixtures("short_runs")

OPTIONS = ServerOptions(tensor=8, max_num_seqs=4)


def test_a_rate_has_a_headroom_and_instances():
    drawn = Synthetic(Lengths("fixed", 256), Lengths("fixed", 32), 100, rate_per_s=5.0)
    found = plan(LLAMA, machine("trn1"), OPTIONS, Demand(None, drawn), slo=Slo(0.5, 0.05))
    values = capacity_values(found)
    capacity = values["capacity"]
    assert capacity["limits"] == {"ttft_p99_s": 0.5, "tpot_p99_s": 0.05}
    assert (capacity["spare"], capacity["is_knee"]) == ("instance", False)
    assert capacity["requests_per_s"].p50 == values["max_requests_per_s_within_slo"]
    assert capacity["headroom"] == pytest.approx(capacity["requests_per_s_with_spare_lost"] / 5)
    assert capacity["instances_for_rate"]["p50"] == found.deployment.instances == 2
    assert values["usd_per_hour"] == pytest.approx(2 * found.quote.usd_per_hour)
    assert {point["usd_per_hour"] for point in values["curve"]} == {values["usd_per_hour"]}


@pytest.mark.slow
def test_the_knee_is_no_slo():
    found = plan(LLAMA, machine("trn1"), OPTIONS, open_rate_demand(256, 32))
    values = capacity_values(found)
    assert values["max_requests_per_s_within_slo"] is None
    assert values["capacity"]["is_knee"]
    assert list(values["capacity"]["limits"]) == ["e2e_p99_s"]
    assert values["capacity"]["instances_for_rate"] is None


@pytest.mark.slow
def test_an_infeasible_slo_has_what_comes_nearest():
    found = plan(LLAMA, machine("trn1"), OPTIONS, open_rate_demand(256, 32), slo=Slo(tpot_s=1e-4))
    near = capacity_values(found)["capacity"]["nearest"]
    assert [each["latency"] for each in near["missed"]] == ["tpot"]
    assert near["layout"] == "4 x TP8, 4 sequences"
    assert near["requests_per_s"] > 0


def test_clients_without_an_slo_have_no_capacity():
    drawn = Synthetic(Lengths("fixed", 256), Lengths("fixed", 32), 8, concurrency=2)
    values = capacity_values(plan(LLAMA, machine("trn1"), OPTIONS, Demand(None, drawn)))
    assert (values["capacity"], values["curve"]) == (None, [])
