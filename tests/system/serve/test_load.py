import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.system.serve.load import (
    Lengths,
    Request,
    Synthetic,
    at_rate,
    check_lengths,
    check_tokens,
    is_closed,
    lengths,
    share_of_load,
)

INPUTS, OUTPUTS = Lengths("fixed", 100), Lengths("fixed", 20)


def open_load(count=400, rate=5.0, **more):
    return Synthetic(INPUTS, OUTPUTS, count, rate_per_s=rate, **more).requests(256)


def closed_load(clients=4, count=12, **more):
    return Synthetic(INPUTS, OUTPUTS, count, concurrency=clients, **more).requests(256)


def test_lengths_are_a_number_or_a_distribution():
    assert lengths("512", "--input-len") == Lengths("fixed", 512)
    assert lengths("uniform:1:9", "--input-len") == Lengths("uniform", 1, 9)
    assert lengths("lognormal:512:0.8", "--input-len") == Lengths("lognormal", 512, 0.8)
    assert [lengths(one, "").longest for one in ("7", "uniform:2:9", "lognormal:5:1")] == [
        7,
        9,
        None,
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0", r"^--output-len is 0; a request has at least 1 token\n  fix: --output-len 128\n"),
        ("-5", r"^--output-len is -5; a request has at least 1 token"),
        ("uniform:9:1", r"^--output-len is 'uniform:9:1'; legal: NUMBER, uniform:LEAST:MOST or lo"),
        ("lognormal:0:1", r"^--output-len is lognormal:0:1; a request has at least 1 token"),
        ("lognormal:9:10.1", r"^--output-len is 'lognormal:9:10.1'; legal: a median up to 1e\+12"),
        ("lognormal:2e12:1", r"^--output-len is 'lognormal:2e12:1'; legal: a median up to 1e\+12"),
        ("lognormal:9:nan", r"^--output-len: 'nan' is no finite number.*; legal: NUMBER, uniform"),
        ("normal:1:2", r"^--output-len is 'normal:1:2'; legal: NUMBER"),
        ("1.5", r"^--output-len: '1.5' is no whole number of tokens; write .*; legal: NUMBER"),
        ("8.000", r"^--output-len: '8.000' may have a separator of thousands"),
    ],
)
def test_lengths_that_no_request_has_are_refused(text, message):
    with pytest.raises(BadInput, match=message):
        lengths(text, "--output-len")


@pytest.mark.parametrize("text", ["7", "uniform:10:30", "lognormal:200:0.5"])
def test_the_mean_is_that_of_what_is_drawn(text):
    one = lengths(text, "")
    drawn = one.draw(100_000, np.random.default_rng(0), 10**6)
    assert drawn.mean() == pytest.approx(one.mean, rel=0.01)


def test_lengths_beyond_every_integer_are_the_most():
    drawn = lengths("lognormal:1000:10", "").draw(100_000, np.random.default_rng(0), 1000)
    assert np.mean(drawn == 1000) == pytest.approx(0.5, abs=0.01)


@settings(deadline=None)
@given(
    st.sampled_from(["7", "uniform:1:300", "lognormal:50:1.5"]),
    st.integers(1, 300),
    st.integers(0, 9),
)
def test_drawn_lengths_are_between_one_and_the_most(text, most, seed):
    drawn = lengths(text, "").draw(200, np.random.default_rng(seed), most)
    assert drawn.min() >= 1
    assert drawn.max() <= most


def test_a_load_is_a_function_of_its_seed():
    assert open_load(seed=1) == open_load(seed=1)
    assert open_load(seed=1) != open_load(seed=2)


def test_another_rate_is_the_same_load_closer_together():
    slow, fast = open_load(rate=1.0), open_load(rate=4.0)
    assert [one.arrival_s for one in slow] == pytest.approx([4 * one.arrival_s for one in fast])


@pytest.mark.parametrize(("shape", "variation"), [(0.25, 2.0), (1.0, 1.0), (4.0, 0.5)])
def test_the_time_between_requests_varies_as_a_gamma_distribution(shape, variation):
    arrivals = np.array([one.arrival_s for one in open_load(20_000, burstiness=shape)])
    between = np.diff(arrivals)
    assert between.mean() == pytest.approx(0.2, rel=0.05)
    assert between.std() / between.mean() == pytest.approx(variation, rel=0.05)


def test_a_client_sends_its_next_request_when_its_last_has_ended():
    assert [one.after for one in closed_load()] == [None] * 4 + list(range(8))
    assert {one.arrival_s for one in closed_load()} == {0.0}
    ramp = closed_load(ramp_s=8.0)
    assert [one.arrival_s for one in ramp[:4]] == [0.0, 2.0, 4.0, 6.0]


def test_prompts_share_a_prefix_in_front():
    load = open_load(prefix_tokens=64, prefixes=3)
    assert {one.input_tokens for one in load} == {164}
    assert {one.prefix for one in load} == {"prefix 0", "prefix 1", "prefix 2"}
    with pytest.raises(BadInput, match=r"^a prefix of 255 tokens leaves 1 of a longest sequence"):
        open_load(prefix_tokens=255)


@pytest.mark.parametrize("tokens", [21, 100, 256])
def test_no_sequence_is_longer_than_the_longest(tokens):
    drawn = Synthetic(lengths("lognormal:200:2", ""), OUTPUTS, 300, concurrency=1)
    assert max(one.tokens for one in drawn.requests(tokens)) == tokens


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"rate_per_s": 1.0, "concurrency": 2}, r"^both of concurrency and request rate given; le"),
        ({}, r"^neither of concurrency and request rate given; legal: exactly one"),
        ({"rate_per_s": float("nan")}, r"^--request-rate is nan; legal: from 1e-06 to 1e\+09 a"),
        ({"rate_per_s": -1.0}, r"^--request-rate is -1.0; legal: from 1e-06"),
        ({"rate_per_s": 9.9e-7}, r"^--request-rate is 9.9e-07; legal: from 1e-06"),
        ({"rate_per_s": 1.1e9}, r"^--request-rate is 1100000000.0; legal: from 1e-06"),
        ({"rate_per_s": 1.0, "burstiness": 0.0}, r"^--burstiness is 0.0; legal: a positive number"),
        ({"rate_per_s": 1.0, "prefixes": 0}, r"^--num-prefixes is 0; legal: whole numbers from 1"),
        ({"concurrency": -1}, r"^--concurrency is -1; legal: whole numbers from 0 on"),
    ],
)
def test_a_load_that_cannot_be_drawn_is_refused(given, message):
    with pytest.raises(BadInput, match=message):
        Synthetic(INPUTS, OUTPUTS, 4, **given)


def test_part_of_an_open_load_is_every_nth_request():
    load = open_load(40)
    assert share_of_load(load, 4, 256) == (load[::4], 4)
    assert len(share_of_load(load, 4, 3)[0]) == 3


def test_part_of_a_closed_load_is_every_nth_client_with_all_that_it_sends():
    load = closed_load(clients=4, count=12)
    found, active = share_of_load(load, 2, 256)
    assert active == 2
    assert [one.after for one in found] == [None, None, 0, 1, 2, 3]
    assert share_of_load(load, 16, 256)[1] == 4  # the other replicas have no client


@pytest.mark.parametrize("load", [open_load(50), closed_load(), (Request(0.0, 5, 5),)])
def test_a_load_at_a_rate_comes_at_that_rate(load):
    made = at_rate(load, 3.0, 3000, seed=0)
    assert len(made) >= 3000
    assert not is_closed(made)
    arrivals = [one.arrival_s for one in made]
    assert arrivals == sorted(arrivals)
    assert len(made) / arrivals[-1] == pytest.approx(3.0, rel=0.1)
    assert {one.tokens for one in made} == {one.tokens for one in load}
    assert at_rate(load, 3.0, 3000, seed=0, every=7) == made[::7]


def test_requests_of_one_length_fit_or_are_refused_and_those_that_vary_are_shortened():
    fixed = Synthetic(lengths("90", ""), lengths("20", ""), 4, concurrency=1, prefix_tokens=5)
    check_lengths(fixed, 115)
    message = (
        r"^--max-model-len is 114, and a request has 115 tokens: 95 of the prompt .*, 20 of the "
        "answer .*; legal: 115 or more"
    )
    with pytest.raises(BadInput, match=message):
        check_lengths(fixed, 114)
    check_lengths(Synthetic(lengths("lognormal:90:1", ""), lengths("20", ""), 4, concurrency=1), 9)


def test_a_sequence_longer_than_the_longest_is_named():
    with pytest.raises(
        BadInput,
        match=r"^request 2 has 90 input and 20 output tokens, 110 together; max_model_len is 100\n"
        r"  fix: --max-model-len 110, or shorter requests\n",
    ):
        check_tokens((Request(0, 50, 20), Request(0, 90, 20)), 100)
