"""Buffers: which tensors share bytes, and where a family lies."""

import numpy as np
import pytest

from trnsim.isa import TensorScalar
from trnsim.memory import Memory, Storage
from trnsim.program.affine import TensorFamily
from trnsim.program.buffers import (
    FamilyRange,
    LiveRange,
    allocate,
    internal_lives,
    live_ranges,
    merge_cores,
    set_bytes,
)


def storage(nbytes=64):
    return Storage(Memory.SBUF, nbytes, nbytes)


def life(first, last, nbytes=64):
    return LiveRange(storage(nbytes), first, last)


@pytest.mark.parametrize(
    ("spans", "buffers"),
    [
        ([(0, 1), (2, 3)], 1),
        ([(0, 1), (1, 2)], 2),  # both live in the position that they share
        ([(0, 3), (1, 1), (2, 2)], 2),
        ([(0, 0), (0, 0)], 2),
    ],
)
def test_tensors_share_a_buffer_if_no_position_has_both(spans, buffers):
    lives = [life(*span) for span in spans]
    allocate(lives, 1 + max(last for _, last in spans))
    assert len({id(each.storage.data) for each in lives}) == buffers


def test_tensors_of_another_size_have_another_buffer():
    lives = [life(0, 0), life(1, 1, 32)]
    allocate(lives, 2)
    assert [each.storage.data.nbytes for each in lives] == [64, 32]


def test_members_of_a_family_lie_at_equal_distances():
    members = [life(2, 3, 40), life(0, 1, 40), life(1, 5, 40)]
    whole = FamilyRange.of(TensorFamily(storage(3 * 64), [m.storage for m in members], 64), members)
    assert (whole.first, whole.last) == (0, 5)
    set_bytes(whole, np.arange(192, dtype=np.uint8))
    assert [m.storage.data[0] for m in members] == [0, 64, 128]
    assert [m.storage.data.size for m in members] == [40] * 3


def test_lives_are_counted_in_positions_and_joined_over_cores(bench):
    on = bench()
    first, second, third = (on.empty((4, 4)) for _ in range(3))
    instructions = [
        TensorScalar(second, first, "add", 1.0),
        TensorScalar(third, second, "add", 1.0),
    ]
    lives = live_ranges(instructions, [7, 7])
    spans = [(each.first, each.last, each.is_written) for each in lives.values()]
    assert spans == [(7, 7, True), (7, 7, False), (7, 7, True)]  # dst comes first
    other = live_ranges(instructions[:1], [0])
    both = merge_cores([lives, other])
    assert len(both) == 3
    assert len(both[first.storage.serial].tiles) == 2
    alone = internal_lives(lives, both, [])
    assert list(alone) == [third.storage.serial]
    assert not internal_lives(lives, both, [third.storage.serial])
