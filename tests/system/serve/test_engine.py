import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.errors import BadInput
from trnsim.system.serve.engine import Engine, checked_buckets, powers_of_two, rounded_count


def engine(**more):
    given = {
        "is_compiled": True,
        "max_num_seqs": 6,
        "max_model_len": 1000,
        "max_num_batched_tokens": 6000,
        "prompts_at_once": 6,
        "buckets": powers_of_two(128, 1000),
        "batches": (2, 6),
        "block_tokens": 32,
        "blocks": 400,
    }
    return Engine(**(given | more))


def test_buckets_are_powers_of_two_from_128_to_the_longest_as_nxd_inference_has_them():
    assert powers_of_two(128, 1024) == (128, 256, 512, 1024)
    assert powers_of_two(128, 1000) == (128, 256, 512, 1000)
    assert powers_of_two(128, 128) == (128,)
    assert powers_of_two(1, 1) == (1,)


@pytest.mark.parametrize(("tokens", "bucket"), [(1, 128), (128, 128), (129, 256), (999.5, 1000)])
def test_a_sequence_takes_the_smallest_bucket_that_holds_it(tokens, bucket):
    assert engine().bucket(tokens) == bucket


@pytest.mark.parametrize(
    ("tokens", "above", "bucket"), [(1, 0, 128), (128, 0, 128), (129, 128, 256), (1001, 512, 1000)]
)
def test_a_bucket_holds_all_lengths_above_the_one_below_it(tokens, above, bucket):
    assert engine().bucket_around(tokens) == (above, bucket)
    assert engine().bucket(above + 1) == bucket


def test_a_batch_takes_the_smallest_compiled_one():
    assert [engine().batch(live) for live in (1, 2, 3, 6)] == [2, 2, 6, 6]
    assert [engine().prompts(count) for count in (1, 2, 3, 5, 6)] == [1, 2, 4, 6, 6]


def test_each_sequence_of_a_compiled_engine_has_blocks_for_the_longest():
    assert engine().slot_blocks == 32


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            (),
            r"^--buckets is empty; legal: ascending whole numbers\n  fix: --buckets 128,256,512,1",
        ),
        ((512, 256), r"^--buckets is 512,256; legal: ascending whole numbers"),
        ((0, 1000), r"^--buckets is 0,1000; legal"),
        ((256, 256, 1000), r"^--buckets is 256,256,1000; legal"),
        (
            (128, 512),
            r"^--buckets: the largest of 128,512 does not hold the longest sequence of 1000",
        ),
    ],
)
def test_buckets_that_do_not_hold_a_sequence_are_refused(given, message):
    with pytest.raises(BadInput, match=message):
        checked_buckets("--buckets", given, 1000, "the longest sequence")


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 8), st.floats(0.05, 0.95), st.integers(0, 5))
def test_the_mean_of_drawn_steps_is_the_closed_form(drafted, acceptance, seed):
    one = engine(draft_tokens=drafted, acceptance=acceptance)
    generator = np.random.default_rng(seed)
    steps = one.steps(40_000, generator)
    assert 40_000 / steps == pytest.approx(one.tokens_per_step, rel=0.05)


def test_without_drafts_each_step_gives_one_token():
    assert engine().tokens_per_step == 1
    assert engine().steps(7, None) == 7
    assert engine().steps(-1, None) == 0


def test_what_is_always_accepted_is_all_that_is_drafted():
    one = engine(draft_tokens=3, acceptance=1.0)
    assert one.tokens_per_step == 4
    assert [one.steps(tokens, np.random.default_rng(0)) for tokens in (1, 4, 5)] == [1, 1, 2]
    never = engine(draft_tokens=3, acceptance=0.0)
    assert never.tokens_per_step == 1
    assert never.steps(5, np.random.default_rng(0)) == 5


def test_shapes_of_mixed_steps_are_near_and_on_the_average_right():
    assert [rounded_count(count) for count in (0, 1, 15, 16, 17, 31, 100)] == [
        0,
        1,
        15,
        16,
        18,
        32,
        104,
    ]
    counts = range(1, 4096)
    assert max(abs(rounded_count(one) / one - 1) for one in counts) <= 1 / 16
    assert sum(map(rounded_count, counts)) == pytest.approx(sum(counts), rel=2e-3)


def test_a_prompt_alone_takes_the_steps_that_a_replica_would_make():
    assert engine().prompt_steps(500) == [(1, 512, 0)]
    assert engine(max_num_batched_tokens=256).prompt_steps(700) == [
        (1, 256, 0),
        (1, 256, 256),
        (1, 256, 512),
    ]
    assert engine().prompt_steps(500, cached=300) == [(1, 256, 512)]
    dynamic = engine(is_compiled=False, max_num_batched_tokens=512)
    assert dynamic.prompt_steps(700) == [(1, 512, 0), (1, rounded_count(188), 512)]
