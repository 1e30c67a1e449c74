import math
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.system.serve import events
from trnsim.system.serve.engine import Engine, ReplicaRole, powers_of_two
from trnsim.system.serve.events import Router, run
from trnsim.system.serve.load import Lengths, Request, Synthetic, lengths
from trnsim.system.serve.replicas import replica_of
from trnsim.system.serve.trace import read, write


class Linear:
    """Costs that are linear in what is computed."""

    def __init__(self, prompt_s=1e-5, token_s=1e-3, row_s=1e-5):
        self.prompt_s, self.token_s, self.row_s = prompt_s, token_s, row_s

    def prefill(self, prompts, tokens, past):
        return self.prompt_s * prompts * (tokens + 0.1 * past)

    def decode(self, batch, length):
        return self.token_s + self.row_s * batch + 1e-8 * batch * length

    def mixed(self, prompts, tokens, past, batch, length):
        return self.decode(batch, length) + self.prefill(prompts, tokens, past)


def engine(is_compiled=True, sequences=8, longest=512, **more):
    given = {
        "is_compiled": is_compiled,
        "max_num_seqs": sequences,
        "max_model_len": longest,
        "max_num_batched_tokens": 512 if not is_compiled else sequences * longest,
        "prompts_at_once": sequences,
        "buckets": powers_of_two(128, longest),
        "batches": (sequences,),
        "block_tokens": 16,
        "blocks": sequences * longest // 16,
    }
    return Engine(**(given | more))


def served(load, *engines, costs=None, **more):
    replicas = [replica_of(one, costs or Linear()) for one in engines]
    return run(load, replicas, **more)


def drawn(count=60, longest=512, **more):
    more = more or {"rate_per_s": 50.0}
    made = Synthetic(lengths("uniform:1:200", ""), lengths("uniform:1:90", ""), count, **more)
    return made.requests(longest)


ENGINES = {
    "compiled": engine(),
    "compiled, one prompt at a time": engine(prompts_at_once=1),
    "compiled, turns": engine(prompts_at_once=1, is_alternating=True),
    "compiled, segments": engine(max_num_batched_tokens=100),
    "dynamic": engine(is_compiled=False),
    "dynamic, few blocks": engine(is_compiled=False, sequences=32, blocks=40),
    "dynamic, whole prompts": engine(is_compiled=False, is_chunked=False),
}


def check_outcome(load, outcome):
    for place in range(len(load)):
        times = (
            outcome.arrival_s[place],
            outcome.start_s[place],
            outcome.first_s[place],
            outcome.end_s[place],
        )
        assert all(math.isfinite(one) for one in times)
        assert list(times) == sorted(times)


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("name", ENGINES)
@settings(deadline=None, max_examples=25)
@given(st.integers(1, 40), st.integers(0, 99), st.booleans())
def test_every_token_is_made_once(name, count, seed, is_closed):
    how = {"concurrency": 5} if is_closed else {"rate_per_s": 200.0}
    load = drawn(count, seed=seed, **how)
    outcome = served(load, ENGINES[name])
    check_outcome(load, outcome)
    replica = outcome.replicas[0]
    firsts = len(load) + replica.preemptions  # a prompt that is computed again gives a token, too
    assert firsts + replica.sequence_steps == sum(one.output_tokens for one in load)
    assert replica.outstanding_tokens == 0
    assert replica.is_idle


def counters(replica):
    return (
        replica.busy_s,
        replica.decodes,
        replica.prefills,
        replica.sequence_steps,
        replica.preemptions,
        replica.cached_tokens,
        replica.outstanding_tokens,
        replica.is_idle,
    )


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.parametrize("digits", [None, 2])  # of arrivals: at two, several come at one moment
def test_one_replica_needs_no_heap_of_events(name, digits, monkeypatch):
    for rate_per_s in (20.0, 300.0, 3000.0):
        load = drawn(60, rate_per_s=rate_per_s)
        if digits:
            load = tuple(replace(one, arrival_s=round(one.arrival_s, digits)) for one in load)
        single = served(load, ENGINES[name])
        with monkeypatch.context() as patch:
            patch.setattr(events._Run, "run_single", events._Run.run_heap)
            by_heap = served(load, ENGINES[name])
        for times in ("arrival_s", "start_s", "first_s", "end_s", "cached_tokens"):
            assert getattr(single, times) == getattr(by_heap, times)
        assert counters(single.replicas[0]) == counters(by_heap.replicas[0])


@pytest.mark.parametrize("name", ENGINES)
def test_a_run_and_the_run_of_its_trace_agree_bit_for_bit(tmp_path, name):
    for how in ({"concurrency": 7}, {"rate_per_s": 300.0, "burstiness": 0.3}):
        load = drawn(80, **how)
        first = served(load, ENGINES[name], ENGINES[name], router=Router.LEAST_WORK)
        write(tmp_path / "t.jsonl", load, first.arrival_s)
        again = read(tmp_path / "t.jsonl")
        second = served(again, ENGINES[name], ENGINES[name], router=Router.LEAST_WORK)
        for one in ("arrival_s", "start_s", "first_s", "end_s"):
            assert getattr(first, one) == getattr(second, one)


def test_one_request_alone_takes_its_prompt_and_its_steps():
    load = (Request(3.0, 100, 50),)
    outcome = served(load, engine(sequences=1))
    assert outcome.first_s[0] == pytest.approx(3.0 + Linear().prefill(1, 128, 0))
    # Keys of 101 to 128 tokens in the bucket of 128, of 129 to 149 in that of 256.
    steps_s = 28 * Linear().decode(1, 128) + 21 * Linear().decode(1, 256)
    assert outcome.end_s[0] == pytest.approx(outcome.first_s[0] + steps_s)


def test_a_static_batch_costs_its_compiled_size_however_few_are_live():
    load = (Request(0.0, 100, 28),)
    one, eight = (served(load, engine(sequences=n)) for n in (1, 8))
    assert eight.end_s[0] - eight.first_s[0] == pytest.approx(27 * Linear().decode(8, 128))
    assert one.end_s[0] < eight.end_s[0]
    fewer = served(load, engine(sequences=8, batches=(1, 8)))
    assert fewer.end_s == one.end_s


def test_prompts_that_wait_together_are_one_compiled_step():
    load = tuple(Request(0.0, 100, 5) for _ in range(3))
    outcome = served(load, engine())
    assert outcome.first_s == [pytest.approx(Linear().prefill(4, 128, 0))] * 3
    alone = served(load, engine(prompts_at_once=1))
    assert alone.first_s == pytest.approx([n * Linear().prefill(1, 128, 0) for n in (1, 2, 3)])


def test_a_long_prompt_takes_several_steps_behind_one_another():
    outcome = served((Request(0.0, 250, 1),), engine(max_num_batched_tokens=100))
    parts = ((100, 0), (100, 128), (100, 256))
    assert outcome.first_s[0] == pytest.approx(sum(Linear().prefill(1, *one) for one in parts))


def test_a_dynamic_step_fills_its_budget_with_a_chunk_beside_the_decodes():
    load = (Request(0.0, 16, 400), Request(0.1, 800, 2))
    chunked = served(load, engine(False, longest=1024, max_num_batched_tokens=129, blocks=100))
    whole = served(
        load, engine(False, longest=1024, max_num_batched_tokens=1024, is_chunked=False, blocks=100)
    )
    assert sum(chunked.replicas[0].prefills.values()) == 1  # the first; others share steps
    assert sum(whole.replicas[0].prefills.values()) == 2
    # The first request goes on while the second's prompt is computed.
    assert chunked.end_s[0] != whole.end_s[0]


@pytest.mark.slow
@pytest.mark.parametrize("rho", [0.3, 0.6, 0.8])
@pytest.mark.parametrize("is_compiled", [True, False])
def test_the_queue_of_a_replica_that_takes_one_at_a_time_is_that_of_m_d_1(rho, is_compiled):
    """Mean wait ``rho s / (2 (1 - rho))`` of Poisson arrivals and constant service."""
    costs = Linear(prompt_s=1e-4)
    one = engine(is_compiled, sequences=1, longest=128, max_num_batched_tokens=128)
    alone = served((Request(0.0, 112, 1),), one, costs=costs)
    service_s = alone.end_s[0]
    load = Synthetic(
        Lengths("fixed", 112), Lengths("fixed", 1), 60_000, rate_per_s=rho / service_s, seed=3
    ).requests(128)
    outcome = served(load, one, costs=costs)
    waits = [start - came for start, came in zip(outcome.start_s, outcome.arrival_s, strict=True)]
    assert sum(waits) / len(waits) == pytest.approx(rho * service_s / (2 * (1 - rho)), rel=0.06)
    busy = outcome.replicas[0].busy_s / outcome.end_s[-1]
    assert busy == pytest.approx(rho, rel=0.02)


@pytest.mark.parametrize("name", ["compiled", "dynamic"])
@pytest.mark.parametrize("router", Router)
def test_more_replicas_are_never_slower(name, router):
    load = drawn(200, rate_per_s=400.0)
    means = []
    for count in (1, 2, 4):
        outcome = served(load, *[ENGINES[name]] * count, router=router)
        means.append(sum(outcome.end_s) - sum(outcome.arrival_s))
    assert means == sorted(means, reverse=True)


def test_round_robin_and_least_work_place_differently():
    load = (Request(0.0, 200, 80), Request(0.001, 10, 2), Request(0.002, 10, 2))
    turns, least = (
        served(load, engine(sequences=1), engine(sequences=1), router=one) for one in Router
    )
    assert turns.start_s[2] > least.start_s[2]


def test_a_prompt_waits_for_a_place_and_takes_the_one_that_is_free_first():
    load = tuple(Request(0.0, 10, outputs) for outputs in (50, 10, 5))
    outcome = served(load, engine(sequences=2))
    assert outcome.start_s[2] == outcome.end_s[1]


def test_keys_that_go_over_a_link_delay_the_first_token_alone():
    load = drawn(20, rate_per_s=5.0)
    roles = (engine(role=ReplicaRole.PREFILL), engine(role=ReplicaRole.DECODE))
    here = served(load, *roles, transfer=lambda _: 0.0)
    there = served(load, *roles, transfer=lambda _: 0.25)
    check_outcome(load, there)
    late = [two - one for one, two in zip(here.first_s, there.first_s, strict=True)]
    assert min(late) > 0.2
    made = there.replicas[1].sequence_steps
    assert made == sum(one.output_tokens for one in load)  # the first is a decode's as well


def test_prefixes_in_the_cache_are_not_computed_again():
    requests = tuple(Request(float(n), 200, 4, "a", 100) for n in range(3))
    for one in (engine(blocks=300), engine(is_compiled=False)):
        without = served(requests, one)
        with_cache = served(requests, Engine(**(vars_of(one) | {"has_prefix_cache": True})))
        assert with_cache.replicas[0].cached_tokens == 2 * 96  # whole blocks of 16
        times = [
            [first - came for first, came in zip(o.first_s, o.arrival_s, strict=True)]
            for o in (without, with_cache)
        ]
        assert times[1][0] == times[0][0]
        assert times[1][1] < times[0][1]


def vars_of(one):
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


def test_accepted_drafts_make_a_run_shorter_and_it_stays_a_function_of_the_seed():
    load = drawn(40, concurrency=4)
    plain = served(load, engine())
    drafted = engine(draft_tokens=3, acceptance=0.8)
    one, two, other = (served(load, drafted, seed=seed) for seed in (1, 1, 2))
    check_outcome(load, one)
    assert one.end_s == two.end_s
    assert one.end_s != other.end_s
    assert max(one.end_s) < max(plain.end_s)


def test_sequences_that_have_no_blocks_left_go_and_come_back():
    load = tuple(Request(0.0, 100, 200) for _ in range(8))
    few = engine(is_compiled=False, blocks=50)
    outcome = served(load, few)
    check_outcome(load, outcome)
    assert outcome.replicas[0].preemptions > 0
    many = served(load, engine(is_compiled=False, blocks=500))
    assert many.replicas[0].preemptions == 0
    assert max(many.end_s) < max(outcome.end_s)


def test_a_prompt_that_comes_stalls_the_tokens_of_the_others():
    """One prompt a step goes ahead of all tokens, so that a running sequence waits for each."""
    load = (Request(0.0, 100, 28), *(Request(0.015, 100, 5) for _ in range(3)))
    alone, among = (served(part, engine(prompts_at_once=1)) for part in (load[:1], load))
    prompts_s = 3 * Linear().prefill(1, 128, 0)
    assert among.end_s[0] - alone.end_s[0] == pytest.approx(prompts_s)


def test_running_sequences_take_a_step_between_two_prompts_where_they_take_turns():
    load = tuple(Request(0.0, 100, 28) for _ in range(3))
    ahead, turns = (
        served(load, engine(prompts_at_once=1, is_alternating=turn)) for turn in (False, True)
    )
    prefill_s, decode_s = Linear().prefill(1, 128, 0), Linear().decode(8, 128)
    assert ahead.first_s == pytest.approx([n * prefill_s for n in (1, 2, 3)])
    assert turns.first_s == pytest.approx([n * prefill_s + (n - 1) * decode_s for n in (1, 2, 3)])
    assert turns.end_s[0] == pytest.approx(3 * prefill_s + 27 * decode_s)


def test_cached_tokens_of_each_prompt_are_told():
    load = tuple(Request(float(n), 100, 2, "p", 64) for n in range(2))
    outcome = served(load, engine(False, has_prefix_cache=True))
    assert outcome.cached_tokens == [0, 64]
