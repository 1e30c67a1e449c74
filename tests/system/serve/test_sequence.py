"""The cache of prefixes."""

from replica_cases import sequence

from trnsim.system.serve.sequence import PrefixCache


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
    assert one.shared_tokens == 16


def test_a_prefix_without_room_is_not_kept():
    cache = PrefixCache(16)
    cache.keep(sequence(0, 200, 1, "a", 100), 50)
    assert cache.tokens == 0
