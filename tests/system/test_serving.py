from dataclasses import replace
from datetime import date

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.arch.catalogue import parse, read_rows
from trnsim.errors import BadInput, OutOfMemory
from trnsim.price import usd_per_million_tokens
from trnsim.system.model import LLAMA_3_1_8B
from trnsim.system.platform import compared, platform
from trnsim.system.serving import estimate, kv_copies

DAY = date(2026, 10, 15)

# aws-neuron-sdk, about-neuron/benchmarks/trn1: Llama-3-8B on trn1.32xlarge, TPOT P50 in ms.
PUBLISHED_TPOT = [(1, 4096, 4096, 7.04), (8, 128, 8064, 9.95), (8, 128, 3968, 7.65)]


@pytest.mark.parametrize(("batch", "context", "output_tokens", "tpot_ms"), PUBLISHED_TPOT)
def test_published_trn1_tpot_is_met_within_a_fifth(batch, context, output_tokens, tpot_ms):
    served = estimate(
        LLAMA_3_1_8B, "trn1", batch=batch, context=context, output_tokens=output_tokens
    )
    assert 1e3 * served.tpot_s.p50 == pytest.approx(tpot_ms, rel=0.2)


@pytest.mark.parametrize("on", compared())
def test_percentiles_are_ordered(on):
    served = estimate(LLAMA_3_1_8B, on, as_of=DAY)
    for found in (served.ttft_s, served.tpot_s, served.tokens_per_s):
        assert 0 < found.p10 <= found.p50 <= found.p90


def test_usd_per_million_tokens_follows_from_price_and_rate():
    served = estimate(LLAMA_3_1_8B, "trn1", as_of=DAY)
    expected = usd_per_million_tokens(served.quote.usd_per_hour, served.tokens_per_s.p50)
    assert served.usd_per_million_tokens.p50 == pytest.approx(expected, rel=1e-3)


def test_trn3_is_unvalidated_and_has_no_price():
    served = estimate(LLAMA_3_1_8B, "trn3", as_of=DAY)
    assert not served.validated
    assert served.usd_per_million_tokens is None
    assert estimate(LLAMA_3_1_8B, "trn1", as_of=DAY).validated


@settings(deadline=None)  # the machine may be busy
@given(st.integers(1, 64), st.integers(1, 32), st.sampled_from(compared()))
def test_more_parameters_take_longer(layers, more, on):
    small, large = (
        estimate(replace(LLAMA_3_1_8B, layers=n), on, as_of=DAY) for n in (layers, layers + more)
    )
    assert small.tpot_s.p50 < large.tpot_s.p50
    assert small.ttft_s.p50 < large.ttft_s.p50


@settings(deadline=None)  # the machine may be busy
@given(st.integers(1, 8192), st.integers(1, 8192))
def test_a_longer_context_takes_longer(context, more):
    short, long = (
        estimate(LLAMA_3_1_8B, "trn2", context=n, as_of=DAY) for n in (context, context + more)
    )
    assert short.tpot_s.p50 <= long.tpot_s.p50
    assert short.ttft_s.p50 <= long.ttft_s.p50


def test_faster_memory_makes_tokens_faster():
    rows = read_rows()
    rows["chips"]["trainium2"]["memory"]["bandwidth"]["value"] *= 2
    before = estimate(LLAMA_3_1_8B, "trn2", as_of=DAY)
    after = estimate(LLAMA_3_1_8B, "trn2", as_of=DAY, rows=parse(rows))
    assert after.tpot_s.p50 < before.tpot_s.p50


def test_an_ultraserver_holds_many_replicas():
    served = estimate(LLAMA_3_1_8B, "trn3", as_of=DAY)
    assert (served.replicas, served.chips_per_replica) == (9, 16)


def test_kv_heads_are_copied_beyond_one_per_rank():
    assert kv_copies(LLAMA_3_1_8B, platform("trn1"), 16) == 4
    assert kv_copies(LLAMA_3_1_8B, platform("p5en"), 8) == 1


def test_a_model_too_large_for_one_instance_takes_several():
    huge = replace(LLAMA_3_1_8B, layers=1600)
    served = estimate(huge, "trn1", as_of=DAY)
    assert served.instances == 3
    assert served.chips_per_replica == 48
    assert served.bytes_per_chip < 32 * 2**30


def test_what_fits_nowhere_says_what_it_needs():
    with pytest.raises(
        OutOfMemory,
        match=r"^llama-3\.1-8b: 1 chips of trn1\.32xlarge have 29 GiB usable; weights, keys and "
        r"values of batch 512 x 2304 tokens need \d+ GiB\n  fix: lower the batch or the context",
    ):
        estimate(LLAMA_3_1_8B, "trn1", batch=512, chips_per_replica=1)


def test_chips_per_replica_must_divide_the_instance():
    with pytest.raises(BadInput, match=r"^chips_per_replica must divide 16: one of 1, 2, 4, 8, 16"):
        estimate(LLAMA_3_1_8B, "trn1", chips_per_replica=3)


@pytest.mark.parametrize("name", ["batch", "context", "output_tokens"])
def test_numbers_must_be_positive(name):
    with pytest.raises(BadInput, match=rf"^{name} must be positive, not 0") as caught:
        estimate(LLAMA_3_1_8B, "trn1", **{name: 0})
    assert caught.value.fix == f"give a positive {name}"
