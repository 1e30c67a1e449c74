from pathlib import Path

import pytest

from trnsim.place.machine import machine
from trnsim.system.serve.demand import (
    Demand,
    Slo,
    open_rate_demand,
    request_s,
    saturating_demand,
    usual_lengths,
)
from trnsim.system.serve.figures import RunFigures
from trnsim.system.serve.load import Request, Synthetic, lengths
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def deployment(**more):
    given = {"tensor": 8, "max_num_seqs": 4, "max_model_len": 512} | more
    return deploy(LLAMA, machine("trn1"), ServerOptions(**given))


def test_a_busy_deployment_has_a_client_for_each_sequence_that_decodes():
    load = saturating_demand(256, 32).saturating_load(deployment())
    assert sum(one.after is None for one in load) == 4 * 4
    load = saturating_demand(256, 32).saturating_load(deployment(prefill_replicas=3))
    assert sum(one.after is None for one in load) == 4
    first = [one.arrival_s for one in load if one.after is None]
    assert first == sorted(set(first))  # one after another


def test_a_request_of_a_busy_replica_waits_for_the_prompts_of_its_batch():
    one, drawn = deployment(), saturating_demand(256, 32).synthetic
    prefill_s, decode_s = one.steps.prefill(1, 256, 0).time_s, one.steps.decode(4, 512).time_s
    assert request_s(one, drawn) == pytest.approx(4 * prefill_s + 32 * decode_s)


def test_the_longest_sequence_is_that_of_the_requests_or_of_their_lengths():
    drawn = Synthetic(lengths("100", ""), lengths("uniform:1:50", ""), 1, concurrency=1)
    assert Demand(None, drawn).longest == 150
    assert Demand((Request(0, 9, 1), Request(0, 3, 2)), drawn).longest == 10
    tail = Synthetic(lengths("lognormal:100:1", ""), lengths("50", ""), 1, concurrency=1)
    assert Demand(None, tail).longest == pytest.approx(100 * 22.2 + 50, rel=0.01)


def test_a_promise_is_kept_at_p99():
    figures = RunFigures({"ttft_p99_s": 0.5, "tpot_p99_s": 0.02}, {})
    assert Slo(0.5, 0.02).is_met(figures)
    assert not Slo(0.49, 0.02).is_met(figures)
    assert not Slo(None, 0.019).is_met(figures)
    assert not Slo()
    assert Slo(0.25, 0.04).worst(figures) == ("ttft", 2.0)
    assert Slo().worst(figures) == ("", 0.0)


def test_a_promise_at_another_percentile_or_of_the_whole_request():
    figures = RunFigures({"e2e_p50_s": 1.0, "e2e_p90_s": 2.0, "e2e_p99_s": 3.0}, {})
    assert Slo(latency_s=1.5, percentile=50).is_met(figures)
    assert not Slo(latency_s=1.5, percentile=75).is_met(figures)
    assert Slo(latency_s=2.5, percentile=75).reported_percentile == 90
    assert Slo(percentile=99.9).reported_percentile == 99


def test_an_open_rate_demand_has_no_rate_and_does_not_saturate():
    free = open_rate_demand(256, 32)
    assert free.has_open_rate
    assert not free.is_saturating
    assert free.longest == 288


@pytest.mark.parametrize(
    ("longest", "inputs", "outputs", "tokens"),
    [
        (0, None, None, (2048, 256)),
        (2304, None, None, (2048, 256)),
        (2303, None, None, (2047, 256)),
        (1024, None, None, (768, 256)),
        (100, None, None, (50, 50)),
        (1024, "1000", None, (1000, 24)),
        (1024, "uniform:1:900", None, (None, 124)),
        (1024, "1024", None, (1024, 256)),  # which is refused, as a prompt leaves no room
        (1024, None, "1000", (24, 1000)),
        (1024, "lognormal:100:1", None, (None, 256)),
        (1024, "5000", "6000", (5000, 6000)),
    ],
)
def test_lengths_that_nobody_states_fit_into_the_longest_sequence(longest, inputs, outputs, tokens):
    stated = [lengths(text, "--length") if text else None for text in (inputs, outputs)]
    found = usual_lengths(longest, *stated)
    for given, drawn, count in zip(stated, found, tokens, strict=True):
        assert drawn == (given or lengths(str(count), "--length"))
