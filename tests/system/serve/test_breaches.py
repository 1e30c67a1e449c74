"""A run that cannot keep its limits is stopped, and none besides."""

from dataclasses import replace

import numpy as np
import pytest
from serve_cases import PATTERN, deployed

from trnsim.system.serve.breaches import Breaches
from trnsim.system.serve.demand import Slo
from trnsim.system.serve.figures import run_once, run_within
from trnsim.system.serve.load import Request


def load(count, outputs=3):
    return tuple(Request(float(place), 10, outputs) for place in range(count))


@pytest.mark.parametrize("count", [1, 2, 99, 100, 101, 512, 4096])
@pytest.mark.parametrize("percentile", [50, 90, 99])
def test_one_more_than_the_percentile_takes_is_a_breach(count, percentile):
    breaches = Breaches({"ttft": 1.0}, percentile, load(count), lambda _: 0.0)
    latencies = np.zeros(count)
    for place in range(count):
        breaches.start(place, 2.0)
        latencies[place] = 2.0
        if breaches.is_broken:
            break
    assert not breaches.is_broken or np.percentile(latencies, percentile) > 1
    # Of three fewer the percentile may still be kept: no bound stops a run much later.
    fewer = max(int((latencies > 1).sum()) - 3, 0)
    latencies[fewer:] = 0.0
    assert np.percentile(latencies, percentile) <= 1


def test_each_latency_has_its_limit():
    for name, each in (("ttft", 1.4), ("tpot", 0.9), ("e2e", 3.4)):
        for limit, is_broken in ((each, True), (each + 0.2, False)):
            breaches = Breaches({name: limit}, 50, load(2), lambda tokens: tokens / 20)
            for place in (0, 1, 0):
                breaches.start(place, 1.0)
                breaches.end(place, 3.0, 2.0)
            assert breaches.is_broken is is_broken


def test_a_latency_at_its_limit_is_no_breach():
    breaches = Breaches({"ttft": 1.5}, 50, load(2), lambda tokens: tokens / 20)
    for place in (0, 1, 0):
        breaches.start(place, 1.0)
    assert not breaches.is_broken


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("on", ["trn1", "p5en"])
@pytest.mark.parametrize("slo", [Slo(ttft_s=0.4), Slo(tpot_s=0.03), Slo(latency_s=1.5), Slo(1, 1)])
def test_a_run_is_stopped_only_where_the_whole_breaks_a_limit(on, slo):
    one = replace(deployed(on, prompts_at_once=None), replicas=1)
    answers = set()
    for rate_per_s in (0.2, 2.0, 20.0, 200.0, 2000.0):
        requests = PATTERN.load(rate_per_s, 200)
        stopped = run_within(one, requests, slo.by_name, slo.reported_percentile)
        whole = run_once(one, requests)[1]
        assert not slo.is_met(whole) if stopped is None else stopped[1] == whole
        answers.add(stopped is None)
    assert False in answers
