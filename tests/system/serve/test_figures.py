from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.place.machine import machine
from trnsim.system.serve.figures import WAITING, run_once, serve, transfer_s
from trnsim.system.serve.load import Lengths, Request, Synthetic
from trnsim.system.serve.options import ServerOptions
from trnsim.system.serve.server import deploy
from trnsim.workload.config import read

LLAMA = read(Path(__file__).parents[3] / "examples" / "llama-3.1-8b.json")


def deployment(on="trn2", **more):
    given = {"tensor": 8, "max_num_seqs": 4, "max_model_len": 512, "replicas": 1} | more
    return deploy(LLAMA, machine(on), ServerOptions(**given))


def clients(count=4, outputs=100, requests=16):
    lengths = Lengths("fixed", 256), Lengths("fixed", outputs)
    return Synthetic(*lengths, requests, concurrency=count).requests(512)


def test_a_static_batch_of_equal_requests_has_the_figures_of_its_steps():
    one = deployment(prompts_at_once=4)
    _, found = run_once(one, clients())
    overhead_s = one.steps.host.request_overhead_s(256)
    prefill_s = one.steps.prefill(4, 256, 0).time_s + overhead_s
    decode_s = one.steps.decode(4, 512).time_s  # 257 to 355 keys
    assert found.values["ttft_p50_s"] == pytest.approx(prefill_s)
    assert found.values["tpot_p99_s"] == pytest.approx(decode_s)
    e2e_s = prefill_s + 99 * decode_s
    assert found.values["e2e_p90_s"] == pytest.approx(e2e_s)
    assert found.values["tpot_inclusive_p50_s"] == pytest.approx(e2e_s / 100)
    rate = 4 * 100 / (e2e_s - overhead_s)
    assert found.values["output_tokens_per_s"] == pytest.approx(rate, rel=1e-6)
    assert found.values["utilisation"] == pytest.approx(1.0)
    assert found.values["batch_filled"] == pytest.approx(1.0)
    assert sum(found.parts_s.values()) == pytest.approx(decode_s)
    assert set(found.parts_s) == {*one.steps.decode(4, 512).parts_s, WAITING}


@pytest.mark.parametrize("on", ["trn2", "p5en"])
@pytest.mark.parametrize("more", [{}, {"replicas": 2, "prefill_replicas": 1}])
def test_one_user_has_no_queue(on, more):
    found = run_once(deployment(on, **more), clients(count=1, requests=3))[1].values
    assert found["ttft_unloaded_p50_s"] == pytest.approx(found["ttft_p50_s"])
    assert found["ttft_queue_p99_s"] == pytest.approx(0.0, abs=1e-9)


def test_the_time_to_the_first_token_is_that_of_an_idle_server_and_a_queue():
    one = deployment()
    found = run_once(one, clients(count=12, requests=36))[1].values
    alone_s = one.steps.prefill(1, 256, 0).time_s + one.steps.host.request_overhead_s(256)
    assert found["ttft_unloaded_p50_s"] == pytest.approx(alone_s)
    assert found["ttft_p50_s"] == pytest.approx(alone_s + found["ttft_queue_p50_s"])
    assert found["ttft_queue_p50_s"] > 10 * alone_s  # four places for twelve clients


def test_a_cached_prefix_is_no_part_of_the_time_alone():
    lengths = Lengths("fixed", 64), Lengths("fixed", 4)
    load = Synthetic(*lengths, 8, concurrency=1, prefix_tokens=256).requests(512)
    found = run_once(deployment("p5en", has_prefix_cache=True), load)[1].values
    assert found["ttft_unloaded_p50_s"] < found["ttft_unloaded_p99_s"]
    assert found["ttft_queue_p99_s"] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("on", ["trn2", "p5en"])
def test_more_users_wait_longer_for_each_token(on):
    """Their prompts stall the tokens of those that run."""
    tpot_s = [
        run_once(deployment(on, max_num_seqs=16), clients(count, 60, 6 * count))[1].values
        for count in (1, 4, 16)
    ]
    found = [values["tpot_p50_s"] for values in tpot_s]
    assert found == sorted(set(found))


@pytest.mark.parametrize("on", ["trn1", "trn2", "p5en"])
def test_figures_are_ordered_in_percentile_and_in_quantile(on):
    found = serve(deployment(on), clients()).figures
    for name, one in found.items():
        assert one.p10 <= one.p50 <= one.p90, name
    for kind in ("ttft", "ttft_unloaded", "ttft_queue", "tpot", "tpot_inclusive", "e2e"):
        p50, p90, p99 = (found[f"{kind}_p{p}_s"].p50 for p in (50, 90, 99))
        assert p50 <= p90 <= p99
    assert found["tpot_p50_s"].p10 < found["tpot_p50_s"].p90


def test_answers_of_one_token_have_no_time_between_tokens():
    found = run_once(deployment(), clients(outputs=1))[1]
    assert "tpot_p50_s" not in found.values
    assert found.parts_s == {}


def test_an_open_load_gives_the_tokens_that_come_as_long_as_it_keeps_up():
    lengths = Lengths("fixed", 100), Lengths("fixed", 20)
    load = Synthetic(*lengths, 800, rate_per_s=5.0).requests(512)
    found = run_once(deployment(), load)[1].values
    assert found["output_tokens_per_s"] == pytest.approx(100, rel=0.1)
    assert found["utilisation"] < 1


def test_more_replicas_of_the_same_have_more_of_what_adds_up():
    one = serve(deployment(), clients())
    two = one.scaled(2)
    assert two.figures["output_tokens_per_s"].p50 == 2 * one.figures["output_tokens_per_s"].p50
    assert two.figures["ttft_p50_s"] == one.figures["ttft_p50_s"]


def test_keys_take_longer_to_another_instance():
    request = Request(0.0, 400, 10)
    here = transfer_s(deployment(replicas=2, prefill_replicas=1), request)
    there = transfer_s(deployment(replicas=2, prefill_replicas=1, instances=2), request)
    assert 0 < here < there
    assert transfer_s(deployment(replicas=2), Request(0.0, 100, 10)) < here


def test_prefill_and_decode_apart_are_of_one_deployment():
    apart = deployment(replicas=4, prefill_replicas=2)
    found = serve(apart, clients(4, requests=16)).figures
    assert found["ttft_p50_s"].p50 > 0
    # A decode makes the first token too, so that answers of one token take a decode.
    assert found["tpot_p50_s"].p50 == pytest.approx(apart.steps.decode(4, 512).time_s, rel=0.01)


MORE = {
    "the compiled batch": ({"max_num_seqs": 8}, {"tpot", "e2e"}),
    "coarser buckets": ({"buckets": (512,)}, {"ttft", "tpot", "e2e"}),
    "bits of keys and values": ({"kv_dtype": "fp8"}, {"tpot", "e2e"}),
    "bits of weights, that products of a prompt hide": ({"quantization": "fp8"}, {"tpot", "e2e"}),
    "the host": ({"host_s": 1e-3}, {"ttft", "tpot", "e2e"}),
    "decodes in fewer places": ({"batches": (1, 4)}, set()),
    "more prompts a step": ({"prompts_at_once": 4}, {"ttft", "tpot", "e2e"}),
    "tokens of a step": ({"max_num_batched_tokens": 256}, set()),
    "a longer longest sequence": ({"max_model_len": 1024, "buckets": (256, 512, 1024)}, set()),
    "tokens of a block": ({"block_tokens": 64}, set()),
    "experts that are not there": ({"imbalance": 2.0}, set()),
    "another instance": ({"instances": 2}, set()),
}


@pytest.mark.parametrize("name", MORE)
def test_every_input_moves_its_figures_and_no_other(name):
    """Four clients whose decodes lie between 257 and 355 keys, in the bucket of 512."""
    more, expected = MORE[name]
    before, after = (run_once(deployment(**one), clients())[1].values for one in ({}, more))
    kinds = ("ttft", "tpot", "e2e")
    found = {one for one in kinds if before[f"{one}_p50_s"] != pytest.approx(after[f"{one}_p50_s"])}
    written = {"ttft"} if "kv_dtype" in more else set()  # keys of prompts are written as well
    assert found - written == expected - written


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 40), st.integers(1, 6), st.sampled_from(["trn2", "p5en"]))
def test_more_replicas_are_never_slower(rate, count, on):
    lengths = Lengths("fixed", 200), Lengths("fixed", 20)
    load = Synthetic(*lengths, 60, rate_per_s=float(rate)).requests(512)
    few, many = (
        run_once(deployment(on, replicas=n), load)[1].values["e2e_p50_s"]
        for n in (count, count + 1)
    )
    assert many <= few * (1 + 1e-9)
