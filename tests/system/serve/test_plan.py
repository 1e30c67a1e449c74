from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput, OutOfMemory
from trnsim.place.machine import machine
from trnsim.system.serve.demand import Demand, Slo, open_rate_demand, request_s, saturating_demand
from trnsim.system.serve.load import Lengths, Request, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.plan import plan
from trnsim.system.serve.sizing import Spare
from trnsim.system.serve.tensor_degrees import legal_tensor_sizes
from trnsim.workload.config import from_config, read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")
LARGE = from_config(
    {
        "model_type": "llama", "hidden_size": 16384, "intermediate_size": 53248,
        "vocab_size": 128256, "num_hidden_layers": 126, "num_attention_heads": 128,
        "num_key_value_heads": 8,
    },
    "llama-405b.json",
)  # fmt: skip


def demand(count=64, outputs=32, **how):
    how = how or {"rate_per_s": 4.0}
    lengths = Lengths("fixed", 256), Lengths("fixed", outputs)
    return Demand(None, Synthetic(*lengths, count, **how))


def figures(found):
    return {name: one.p50 for name, one in found.served.figures.items()}


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_a_layout_that_is_set_is_taken():
    found = plan(
        LLAMA, machine("trn1"), ServerOptions(tensor=8, max_num_seqs=4, replicas=2), demand()
    )
    assert found.tried == 1
    assert found.deployment.options.tensor == 8
    assert found.deployment.engine.max_num_seqs == 4
    assert found.deployment.engine.max_model_len == 288
    assert len(found.load) == 64


@pytest.mark.slow_cases("p5en")
@pytest.mark.parametrize("on", ["trn1", "p5en"])
def test_no_layout_kept_busy_is_cheaper_than_the_one_that_is_found(on):
    where, busy = machine(on), saturating_demand(256, 64)
    best = plan(LLAMA, where, ServerOptions(), busy)
    assert best.tried > 10
    for tensor in (2, 8):
        for sequences in (4, 32):
            one = plan(LLAMA, where, ServerOptions(tensor=tensor, max_num_seqs=sequences), busy)
            assert one.usd_per_million_tokens.p50 >= 0.98 * best.usd_per_million_tokens.p50


def test_what_a_busy_deployment_gives_is_near_its_closed_form():
    options = ServerOptions(tensor=8, max_num_seqs=16, prompts_at_once=1)
    found = plan(LLAMA, machine("trn1"), options, saturating_demand(256, 64))
    one = found.deployment
    guess = 16 * 64 * one.replicas / request_s(one, saturating_demand(256, 64).synthetic)
    assert figures(found)["output_tokens_per_s"] == pytest.approx(guess, rel=0.2)


@pytest.mark.slow
def test_a_promise_is_kept_below_the_load_that_is_found_and_not_above():
    slo = Slo(ttft_s=0.5, tpot_s=0.02)
    found = plan(LLAMA, machine("trn1"), ServerOptions(), open_rate_demand(512, 64), slo=slo)
    shown = figures(found)
    assert found.is_met
    assert shown["ttft_p99_s"] <= 0.5
    assert shown["tpot_p99_s"] <= 0.02
    assert shown["requests_per_s"] == pytest.approx(0.8 * found.most_per_s, rel=0.05)
    layout = replace(found.deployment.options, max_model_len=None, instances=1)
    for part, is_met in ((0.95, True), (1.05, False)):
        load = replace(
            open_rate_demand(512, 64).synthetic.at_rate(part * found.most_per_s), count=6000
        )
        again = plan(LLAMA, machine("trn1"), layout, Demand(None, load), slo=slo)
        assert again.is_met is is_met


@pytest.mark.slow
def test_a_looser_promise_allows_more():
    rates = [
        plan(
            LLAMA, machine("trn1"), ServerOptions(tensor=8), open_rate_demand(512, 64), slo=slo
        ).most_per_s
        for slo in (Slo(1.0, 0.015), Slo(1.0, 0.03), Slo(1.0, 0.06))
    ]
    assert rates == sorted(rates)
    assert rates[0] < rates[-1]


def test_a_promise_that_one_request_misses_is_said_to_be_missed():
    options = ServerOptions(tensor=8, max_num_seqs=4)
    found = plan(LLAMA, machine("trn1"), options, open_rate_demand(256, 32), slo=Slo(tpot_s=1e-4))
    assert found.most_per_s == 0
    assert not found.is_met
    assert found.answer.nearest is not None


@pytest.mark.slow
def test_a_rate_is_served_by_the_fewest_instances_with_a_spare():
    options = ServerOptions(tensor=8, max_num_seqs=4, max_model_len=288)
    slo = Slo(0.5, 0.03)
    unit = plan(LLAMA, machine("trn1"), options, open_rate_demand(256, 32), slo=slo).most_per_s
    for spare, instances in ((None, 4), (Spare.INSTANCE, 4), (Spare.NONE, 3), (Spare.REPLICA, 3)):
        load = demand(rate_per_s=2.6 * unit)
        found = plan(LLAMA, machine("trn1"), options, load, slo=slo, spare=spare)
        assert found.deployment.instances == instances
        assert found.is_met
        assert found.most_per_s == pytest.approx(instances * unit, rel=0.001)
        assert found.answer.sizing.headroom >= 1
    hourly = found.quote.usd_per_hour
    assert found.usd_per_hour == pytest.approx(3 * hourly)


def test_a_model_too_large_for_an_instance_is_spread_over_as_few_as_hold_it():
    found = plan(LARGE, machine("trn1"), ServerOptions(), demand(8, concurrency=2))
    assert found.deployment.options.stages == found.deployment.instances == 2
    assert found.deployment.options.tensor == 32
    with pytest.raises(OutOfMemory, match=r"^llama-405b: a NeuronCore needs .* weights "):
        plan(LARGE, machine("inf2.xlarge"), ServerOptions(), demand(8))


@pytest.mark.slow
def test_more_instances_serve_a_load_no_slower():
    e2e = []
    for count in (1, 2, 4):
        options = ServerOptions(tensor=32, max_num_seqs=4, instances=count)
        found = plan(LLAMA, machine("trn1"), options, demand(rate_per_s=40.0))
        e2e.append(figures(found)["e2e_p50_s"])
    assert e2e == sorted(e2e, reverse=True)


@pytest.mark.slow
@pytest.mark.usefixtures("short_runs")
def test_a_trace_is_its_own_load():
    requests = tuple(Request(0.1 * n, 100, 20) for n in range(30))
    options = ServerOptions(tensor=8, max_num_seqs=4)
    found = plan(LLAMA, machine("trn1"), options, replace(demand(), trace=requests))
    assert found.load == requests
    assert found.deployment.engine.max_model_len == 120
    with pytest.raises(BadInput, match=r"^request 1 has 100 input and 20 output tokens, 120 toget"):
        plan(
            LLAMA,
            machine("trn1"),
            ServerOptions(max_model_len=119),
            replace(demand(), trace=requests),
        )


def test_clients_are_no_more_than_sequences_that_are_searched():
    found = plan(LLAMA, machine("trn1"), ServerOptions(tensor=8, replicas=1), demand(concurrency=6))
    assert found.deployment.engine.max_num_seqs <= 6


@pytest.mark.slow
def test_the_price_is_that_of_the_instances():
    found = plan(LLAMA, machine("trn1"), ServerOptions(tensor=8, max_num_seqs=4), demand())
    assert found.usd_per_hour == found.deployment.instances * found.quote.usd_per_hour
    usd_per_s = found.usd_per_hour / 3600
    rate = figures(found)["output_tokens_per_s"]
    assert found.usd_per_million_tokens.p50 == pytest.approx(1e6 * usd_per_s / rate)
    assert plan(LLAMA, machine("trn3"), ServerOptions(tensor=8, max_num_seqs=4), demand())
    assert (
        plan(
            LLAMA, machine("trn3"), ServerOptions(tensor=8, max_num_seqs=4), demand()
        ).usd_per_million_tokens
        is None
    )


@pytest.mark.parametrize("value", [0.0, -1.0, float("nan")])
def test_a_promise_is_a_positive_time(value):
    with pytest.raises(BadInput, match=r"^--slo-ttft is .*; legal: a positive number of seconds"):
        Slo(ttft_s=value)
    with pytest.raises(BadInput, match=r"^--slo-tpot is "):
        Slo(tpot_s=value)


# aws-neuron-sdk, about-neuron/benchmarks/trn1: Llama-3-8B, int8 weights, TP32; ms at P50.
PUBLISHED = [(1, 4096, 4096, 153.0, 7.04), (8, 128, 8064, 55.2, 9.95), (8, 128, 3968, 49.1, 7.65)]


@pytest.mark.parametrize(("batch", "inputs", "outputs", "ttft_ms", "tpot_ms"), PUBLISHED)
def test_published_latencies_of_a_static_batch_are_met(batch, inputs, outputs, ttft_ms, tpot_ms):
    lengths = Lengths("fixed", inputs), Lengths("fixed", outputs)
    asked = Demand(None, Synthetic(*lengths, 2 * batch, concurrency=batch))
    options = ServerOptions(
        tensor=32, max_num_seqs=batch, prompts_at_once=batch, quantization="int8"
    )
    shown = figures(plan(LLAMA, machine("trn1"), options, asked))
    assert 1e3 * shown["tpot_p50_s"] == pytest.approx(tpot_ms, rel=0.2)
    assert 0.5 < 1e3 * shown["ttft_p50_s"] / ttft_ms < 2


@settings(max_examples=8, deadline=None)
@given(
    hidden=st.sampled_from([1024, 4096]),
    on=st.sampled_from(["trn1", "trn2", "p5en"]),
    power=st.integers(0, 2),
    clients=st.sampled_from([1, 4]),
)
def test_more_ranks_are_never_slower_without_a_word(hidden, on, power, clients):
    model = from_config(
        {
            "model_type": "llama", "hidden_size": hidden, "intermediate_size": 2 * hidden,
            "vocab_size": 8000, "num_hidden_layers": 4, "num_attention_heads": 32,
        },
        "small.json",
    )  # fmt: skip
    load = Demand(
        None, Synthetic(Lengths("fixed", 128), Lengths("fixed", 8), 4, concurrency=clients)
    )
    ranks = legal_tensor_sizes(model, machine(on))[power : power + 2]
    fewer, more = (
        plan(model, machine(on), ServerOptions(tensor=tensor, max_num_seqs=4), load)
        for tensor in ranks
    )
    if figures(more)["e2e_p50_s"] >= figures(fewer)["e2e_p50_s"]:
        assert more.smaller_split is not None
        assert more.smaller_split.tensor <= ranks[0]
        assert more.smaller_split.e2e_s <= 1.02 * more.smaller_split.requested_e2e_s
