"""What one replica does next, step by step."""

import pytest

from trnsim.errors import InternalError
from trnsim.system.serve.engine import Engine, powers_of_two
from trnsim.system.serve.load import Request
from trnsim.system.serve.replica import PrefixCache, Replica, Sequence


class Costs:
    def prefill(self, *_):
        return 1.0

    def decode(self, *_):
        return 0.125

    def mixed(self, *_):
        return 1.125


def replica(is_compiled=True, sequences=4, longest=256, **more):
    given = {
        "is_compiled": is_compiled,
        "max_num_seqs": sequences,
        "max_model_len": longest,
        "max_num_batched_tokens": sequences * longest,
        "prompts_at_once": sequences,
        "buckets": powers_of_two(128, longest),
        "batches": (sequences,),
        "block_tokens": 16,
        "blocks": sequences * longest // 16,
    }
    return Replica(Engine(**(given | more)), Costs())


def sequence(place, inputs, outputs, prefix="", prefix_tokens=0):
    return Sequence(place, Request(0.0, inputs, outputs, prefix, prefix_tokens), outputs - 1)


def test_nothing_to_do_is_no_step():
    one = replica()
    assert one.plan(0.0) is None
    assert one.is_idle
    with pytest.raises(InternalError, match=r"^a replica ends a step that it did not begin"):
        one.complete(0.0)


def test_equal_steps_are_made_at_once_until_a_bucket_is_full():
    one = replica()
    one.add(sequence(0, 100, 60))
    assert one.plan(0.0)[0] == 1.0
    first, ended = one.complete(1.0)
    assert ([made[0].place for made in first], ended) == ([0], [])
    # Steps that meet 101 to 128 keys, then those of the next bucket to the end.
    assert one.plan(1.0)[0] == 1.0 + 28 * 0.125
    one.complete(4.5)
    assert one.plan(4.5)[0] == 4.5 + 31 * 0.125
    assert one.decodes == {(4, 128): 28, (4, 256): 31}


def test_a_request_that_could_begin_ends_the_steps_at_the_next_one():
    one = replica()
    one.add(sequence(0, 100, 60))
    one.plan(0.0)
    one.complete(1.0)
    one.plan(1.0)
    one.add(sequence(1, 10, 5))
    assert one.interrupt(1.3) == 1.0 + 3 * 0.125
    assert one.decodes == {(4, 128): 3}
    assert one.sequence_steps == 3


def test_a_request_that_has_no_place_changes_nothing():
    one = replica(sequences=1)
    one.add(sequence(0, 100, 60))
    one.plan(0.0)
    one.complete(1.0)
    one.plan(1.0)
    one.add(sequence(1, 10, 5))
    assert one.interrupt(1.3) is None
    assert one.decodes == {(1, 128): 28}


def test_what_has_to_go_for_blocks_is_what_began_last():
    one = replica(is_compiled=False, longest=256, blocks=16, max_num_batched_tokens=512)
    one.add(sequence(0, 100, 100))
    one.add(sequence(1, 100, 100))
    now_s = 0.0
    while not one.preempted:
        now_s = one.plan(now_s)[0]
        one.complete(now_s)
    assert [left.place for left in one.waiting] == [1]
    assert one.waiting[0].prompt == 128  # with what it has got until then: eight blocks each


def test_the_cache_keeps_whole_blocks_and_drops_what_nobody_uses():
    cache = PrefixCache(16)
    one, two, other = (
        sequence(0, 200, 1, "a", 100),
        sequence(1, 200, 1, "a", 100),
        sequence(2, 200, 1, "b", 40),
    )
    assert cache.take(one) == 0
    cache.keep(one, 1000)
    assert cache.take(two) == 96
    assert cache.tokens == 96
    assert not cache.evict(1)
    cache.release(one)
    cache.release(two)
    cache.keep(other, 1000)
    assert cache.tokens == 128
    assert cache.evict(50)
    assert cache.tokens == 32
    assert cache.take(sequence(3, 200, 1, "a", 100)) == 0


def test_one_token_of_a_prompt_is_always_computed():
    cache = PrefixCache(16)
    one = sequence(0, 32, 1, "a", 32)
    cache.keep(one, 1000)
    assert one.shared == 16


def test_a_prefix_without_room_is_not_kept():
    cache = PrefixCache(16)
    cache.keep(sequence(0, 200, 1, "a", 100), 50)
    assert cache.tokens == 0
