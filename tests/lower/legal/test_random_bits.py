import numpy as np
import pytest

from trnsim.graph.ops.leaves import RngBitGenerator, Threefry

WORD = 2**32 - 1


@pytest.mark.parametrize(
    ("key", "count", "expected"),
    [
        ((0, 0), (0, 0), (0x6B200159, 0x99BA4EFE)),
        ((WORD, WORD), (WORD, WORD), (0x1CB996FC, 0xBB002BE7)),
        ((0x13198A2E, 0x03707344), (0x243F6A88, 0x85A308D3), (0xC4923A9C, 0x483DF7A0)),
    ],
)
def test_the_published_answers(values, key, count, expected):
    """Source: Random123, kat_vectors, threefry 2x32 of 20 rounds."""
    (after, bits), _ = values(RngBitGenerator((2,)), np.array([*key, *count], np.uint32))
    assert tuple(bits.tolist()) == expected
    block = count[0] + 2**32 * count[1] + 1
    assert after.tolist() == [*key, block % 2**32, (block >> 32) % 2**32]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("shape3-trn1", "shape3-trn2", "shape3-trn3")
@pytest.mark.parametrize("chip", ["trn1", "trn2", "trn3"])
@pytest.mark.parametrize("shape", [(), (1,), (7, 3), (4097,)])
def test_counts_pass_from_word_to_word(agree, shape, chip):
    state = np.array([0xDEADBEEF, 7, WORD - 1, WORD], np.uint32)
    agree(RngBitGenerator(shape), state, chip=chip)


def test_the_state_after_goes_on_where_the_bits_ended(values):
    state = np.array([1, 2, 3, 4], np.uint32)
    (after, first), _ = values(RngBitGenerator((2, 50)), state)
    (_, second), _ = values(RngBitGenerator((2, 50)), after)
    (_, both), _ = values(RngBitGenerator((2, 100)), state)
    np.testing.assert_array_equal(np.concatenate([first, second], 1), both)


def test_bits_are_even(values):
    (_, bits), _ = values(RngBitGenerator((128, 64)), np.arange(4, dtype=np.uint32))
    ones = np.unpackbits(bits.view(np.uint8)).reshape(-1, 32).mean(0)
    assert np.abs(ones - 0.5).max() < 0.03
    assert len(np.unique(bits)) == bits.size


def test_every_round_turns_by_its_own_places():
    assert Threefry.turns() == (13, 15, 26, 6, 17, 29, 16, 24) * 2 + (13, 15, 26, 6)
