import pytest
from serve_cases import LLAMA, PATTERN, deployed, load_test

from trnsim.place.machine import machine
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.nearest import keeps_alone, nearest
from trnsim.system.serve.options import ServerOptions

pytestmark = pytest.mark.usefixtures("short_runs")


def test_the_nearest_layout_says_which_limit_is_missed_and_by_how_much():
    slow, fast = load_test(deployed(tensor=2)), load_test(deployed(tensor=32, max_num_seqs=1))
    near = nearest([slow, fast], Slo(1.0, 1e-3))
    assert near.test is fast
    (missed,) = near.missed_limits
    assert (missed.name, missed.limit_s) == ("tpot", 1e-3)
    assert missed.least_s == pytest.approx(fast.unloaded_figures().values["tpot_p99_s"])


def test_the_nearest_slo_is_feasible():
    test = load_test()
    near = nearest([test], Slo(1e-3, 1e-3))
    assert {each.name for each in near.missed_limits} == {"ttft", "tpot"}
    assert near.slo.is_met(test.unloaded_figures())
    assert near.most_per_s > 0
    assert test.is_within(near.slo, near.most_per_s, 512)


def test_an_instance_keeps_an_slo_if_a_request_alone_does():
    for limit_s, expected in ((0.05, True), (1e-4, False)):
        slo = Slo(tpot_s=limit_s)
        assert keeps_alone(LLAMA, machine("trn1"), ServerOptions(), PATTERN, slo) is expected
    assert not keeps_alone(LLAMA, machine("inf1.xlarge"), ServerOptions(), PATTERN, Slo(1.0))
    options = ServerOptions(host_s=0.06)
    assert not keeps_alone(LLAMA, machine("trn1"), options, PATTERN, Slo(tpot_s=0.05))
    assert keeps_alone(LLAMA, machine("trn1"), options, PATTERN, Slo(tpot_s=0.11))
    odd = ServerOptions(quantization="awq")
    assert not keeps_alone(LLAMA, machine("trn1"), odd, PATTERN, Slo(1.0))
