"""XORWOW, against Marsaglia's recurrence word by word, and the stated rules of its state."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trnsim.isa import Engine
from trnsim.isa.numerics.xorwow import RandomState, advance

MASK = 2**32 - 1
word = st.integers(0, MASK)


def marsaglia(state, steps):
    """Xorshift RNGs (2003), section 3.1, in Python integers."""
    x, y, z, w, v, d = state
    numbers = []
    for _ in range(steps):
        t = x ^ (x >> 2)
        x, y, z, w = y, z, w, v
        v = (v ^ (v << 4) ^ t ^ (t << 1)) & MASK
        d = (d + 362437) & MASK
        numbers.append((d + v) & MASK)
    return numbers, [x, y, z, w, v, d]


@settings(max_examples=30)
@given(st.lists(st.lists(word, min_size=6, max_size=6), min_size=1, max_size=4), st.integers(1, 23))
def test_every_generator_follows_marsaglias_recurrence(states, steps):
    numbers, after = advance(np.array(states, np.uint32), steps)
    for i, state in enumerate(states):
        expected, end = marsaglia(state, steps)
        assert numbers[:, i].tolist() == expected
        assert after[i].tolist() == end


def test_the_first_numbers_of_marsaglias_own_seed():
    seed = [123456789, 362436069, 521288629, 88675123, 5783321, 6615241]
    numbers, _ = advance(np.array([seed], np.uint32), 4)
    assert numbers.ravel().tolist() == [246875399, 3690007200, 1264581005, 3906711041]


@pytest.mark.parametrize(("engine", "generators"), [(Engine.vector, 4), (Engine.gpsimd, 1)])
def test_elements_take_turns_among_the_generators_of_a_lane(engine, generators):
    state = RandomState(engine, 8)
    before = state.states.copy()
    numbers = state.draw(2, 3, 10)
    assert numbers.shape == (3, 10)
    for lane in range(3):
        for generator in range(generators):
            expected, end = marsaglia(
                [int(w) for w in before[lane + 2, generator]], -(-10 // generators)
            )
            mine = numbers[lane, generator::generators]
            assert mine.tolist() == expected[: len(mine)]
            assert state.states[lane + 2, generator].tolist() == end
    untouched = [0, 1, 5, 6, 7]
    np.testing.assert_array_equal(state.states[untouched], before[untouched])


def test_two_draws_continue_where_one_would_have():
    one, two = RandomState(Engine.vector, 4), RandomState(Engine.vector, 4)
    whole = one.draw(0, 4, 24)
    parts = np.concatenate((two.draw(0, 4, 16), two.draw(0, 4, 8)), axis=1)
    np.testing.assert_array_equal(whole, parts)


def test_an_engine_starts_the_same_every_time_and_as_if_seeded_with_0():
    first, second = RandomState(Engine.vector, 128), RandomState(Engine.vector, 128)
    second.seed(0)
    np.testing.assert_array_equal(first.states, second.states)


def test_lanes_engines_and_seeds_differ():
    state = RandomState(Engine.vector, 128)
    rows = state.draw(0, 128, 8)
    assert len({tuple(row) for row in rows.tolist()}) == 128
    other = RandomState(Engine.gpsimd, 128).draw(0, 128, 8)
    state.seed(1)
    assert not (state.draw(0, 128, 8) == rows).all(axis=1).any()
    assert not (other == rows).all(axis=1).any()


def test_words_come_back_as_they_were_put():
    state = RandomState(Engine.vector, 8)
    words = np.arange(48, dtype=np.uint32).reshape(2, 24)
    state.put(3, words)
    np.testing.assert_array_equal(state.words(3, 2), words)
    assert state.states[3, 1].tolist() == [6, 7, 8, 9, 10, 11]


def test_a_million_numbers_are_uniform_in_every_bit_and_byte():
    numbers = RandomState(Engine.vector, 128).draw(0, 128, 8192).ravel()
    count = numbers.size
    for bit in range(32):
        ones = int((numbers >> np.uint32(bit) & 1).sum())
        assert abs(ones - count / 2) < 5 * np.sqrt(count) / 2
    for shift in (0, 8, 16, 24):
        counted = np.bincount(numbers >> np.uint32(shift) & 255, minlength=256)
        chi_square = ((counted - count / 256) ** 2 / (count / 256)).sum()
        assert abs(chi_square - 255) < 5 * np.sqrt(2 * 255)
    fraction = numbers / 2.0**32
    assert abs(np.corrcoef(fraction[1:], fraction[:-1])[0, 1]) < 5 / np.sqrt(count)
