from dataclasses import replace
from itertools import pairwise

import pytest
from serve_cases import DRAWN, PATTERN, deployed, load_test, measured_capacity

from trnsim.system.serve import capacity
from trnsim.system.serve.capacity import KNEE_RATIO, RequestPattern, saturated_per_s
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.events import Router
from trnsim.system.serve.load import Request, is_closed


def test_a_pattern_has_the_same_requests_at_every_rate():
    slow, fast = PATTERN.load(1.0, 50), PATTERN.load(4.0, 50)
    assert [one.tokens for one in slow] == [one.tokens for one in fast]
    assert fast[-1].arrival_s - fast[0].arrival_s == pytest.approx(49 / 4)
    ratios = [one.arrival_s / two.arrival_s for one, two in zip(slow[1:], fast[1:], strict=True)]
    assert ratios == pytest.approx([4.0] * 49)


def test_every_nth_request_of_a_poisson_process_comes_more_evenly():
    def spread(every):
        times = [one.arrival_s for one in PATTERN.load(1.0, 2000, every)]
        gaps = [late - early for early, late in pairwise(times)]
        mean = sum(gaps) / len(gaps)
        return sum((gap - mean) ** 2 for gap in gaps) / len(gaps) / mean**2

    assert spread(1) == pytest.approx(1.0, rel=0.15)
    assert spread(8) == pytest.approx(1 / 8, rel=0.15)


def test_a_trace_keeps_its_order_and_has_a_rate_of_its_own():
    trace = tuple(Request(0.5 * place, 100 + place, 10) for place in range(9))
    pattern = RequestPattern(DRAWN, trace, 288)
    assert pattern.rate_per_s == pytest.approx(2.0)
    assert [one.input_tokens for one in pattern.load(1.0, 9)] == list(range(100, 109))
    assert pattern.mean_tokens == (104, 10)
    at_once = tuple(replace(one, arrival_s=0.0) for one in trace)
    assert RequestPattern(DRAWN, at_once, 288).rate_per_s is None


def test_requests_one_by_one_never_meet():
    load = PATTERN.sequential_load(5)
    assert is_closed(load)
    assert [one.after for one in load] == [None, 0, 1, 2, 3]
    test = load_test()
    values = test.unloaded_figures().values
    step_s = test.cell.steps.decode(4, 288).time_s
    assert values["tpot_p99_s"] <= step_s * 1.001
    assert values["queue_mean"] == 0


def test_one_replica_is_run_where_all_are_alike():
    assert (load_test().cells, load_test().cell.replicas) == (4, 1)
    assert load_test(router=Router.LEAST_WORK).cells == 1
    assert load_test(deployed(prefill_replicas=1)).cell.replicas == 4


@pytest.fixture(
    params=[pytest.param((4096, 0.05), marks=pytest.mark.slow), (512, 0.2)],
    ids=lambda runs: f"{runs[0]} requests",
)
def runs(request, monkeypatch):
    """Requests of the runs that find a capacity, and what of it their noise may be."""
    count, margin = request.param
    monkeypatch.setattr(capacity, "LONG_RUN", count)
    monkeypatch.setattr(capacity, "LONGEST_RUN", 4 * count if margin < 0.1 else count)
    return count, margin


def test_a_load_is_kept_below_the_capacity_and_broken_above(runs):
    """By runs of other requests than those that found it."""
    count, margin = runs
    capacity = measured_capacity(load_test(), Slo(0.3, 0.03), 12.0)
    assert capacity.binding == "ttft"
    for seed in (1, 2):
        other = load_test(seed=seed)
        assert other.is_within(capacity.limits, (1 - margin) * capacity.per_s, count)
        assert not other.is_within(capacity.limits, (1 + margin) * capacity.per_s, count)


def test_the_guess_does_not_matter():
    slo = Slo(0.3, 0.03)
    test = load_test()
    found = [test.highest_rate(test.limits(slo), guess, 512) for guess in (1.0, 20.0, 400.0)]
    assert found == pytest.approx([found[0]] * 3, rel=0.03)


def test_the_knee_is_twice_the_latency_of_a_request_alone(runs):
    test = load_test()
    capacity = measured_capacity(test, Slo(), 30.0)
    alone_s = test.unloaded_figures().values["e2e_p99_s"]
    assert capacity.binding == "e2e"
    assert capacity.limits == Slo(latency_s=KNEE_RATIO * alone_s)
    assert not test.is_within(capacity.limits, (1 + runs[1]) * capacity.per_s, capacity.requests)


def test_without_a_limit_for_the_first_token_the_queue_may_not_grow(runs):
    test = load_test()
    loose = measured_capacity(test, Slo(tpot_s=10.0), 30.0)
    assert loose.binding == "ttft"
    assert loose.per_s <= (1 + runs[1]) * saturated_per_s(test.deployment, PATTERN)
    assert test.limits(Slo(ttft_s=0.2)) == Slo(ttft_s=0.2)


def test_a_limit_that_a_request_alone_breaks_keeps_no_load():
    capacity = measured_capacity(load_test(), Slo(tpot_s=1e-4), 30.0)
    assert (capacity.per_s, capacity.binding) == (0.0, "tpot")


def test_steps_that_take_longer_keep_less():
    test, slo = load_test(), Slo(0.5, 0.05)
    rates = [
        test.highest_rate(test.limits(slo, name), 20.0, 256, quantile=name)
        for name in ("p90", "p50", "p10")
    ]
    assert rates == sorted(rates)


def test_a_saturated_deployment_serves_its_closed_form():
    test = load_test()
    bound = saturated_per_s(test.deployment, PATTERN)
    served = test.run(3 * bound, 2048)[2].values["requests_per_s"] * test.cells
    assert served == pytest.approx(bound, rel=0.1)
    apart = deployed(prefill_replicas=1)
    assert 0 < saturated_per_s(apart, PATTERN) < bound


def test_runs_are_long_enough_to_show_a_queue_that_grows():
    test = load_test()
    assert test.requests(Slo(0.5), 40.0, 1024) == 1024
    assert test.requests(Slo(0.5), 4000.0, 1024) == 0.5 * 4000 / 4 / 0.05
    assert test.requests(Slo(latency_s=2.0), 400.0, 1024) == 2.0 * 400 / 4 / 0.05
    assert test.requests(Slo(0.5), 4000.0, 512) == 0.5 * 4000 / 4 / 0.2
    assert test.requests(Slo(0.5), 1e9, 512) == 65536


def test_a_broken_rate_is_run_once_and_only_until_it_is_broken(monkeypatch):
    test = load_test()
    limits, runs = test.limits(Slo(ttft_s=0.5)), []
    monkeypatch.setattr(capacity, "run_within", lambda *_, **__: runs.append(1))
    assert not test.is_within(limits, 1000.0, 64)
    assert not test.is_within(limits, 1000.0, 64)
    assert len(runs) == 1
