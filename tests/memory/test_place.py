"""Places: who wrote last where tensors with an address overlap."""

import pytest

from trnsim.memory import Box, Memory, Storage
from trnsim.memory.place import MemoryPlaces
from trnsim.memory.storage import PlacedStorage


@pytest.fixture
def placed():
    """Makes storages at boxes of one memory."""
    places, whole = MemoryPlaces(), Storage(Memory.SBUF, 64, 16)

    def make(box):
        return PlacedStorage(whole, 16, 0, *places.place_of(box))

    return make


def test_what_an_overlapping_storage_wrote_is_lost_until_it_is_written_again(placed):
    one, two = placed(Box(0, 1, 0, 15)), placed(Box(0, 1, 4, 11))
    two.note_write(Box(0, 1, 4, 7))
    assert one.overwritten_by(Box(0, 0, 4, 12)) is two
    assert one.overwritten_by(Box(0, 0, 8, 12)) is None
    one.note_write(Box(0, 0, 0, 15))
    assert one.overwritten_by(Box(0, 0, 0, 15)) is None
    assert one.overwritten_by(Box(0, 1, 0, 15)) is two
    assert two.overwritten_by(Box(0, 0, 4, 7)) is one
    assert two.overwritten_by(Box(1, 1, 4, 7)) is None


def test_what_was_written_before_a_tensor_was_allocated_is_its_own_to_read(placed):
    box = Box(0, 3, 0, 15)
    first = placed(box)
    first.note_write(box)
    second = placed(box)
    assert second.overwritten_by(box) is None
    first.note_write(box)
    assert second.overwritten_by(box) is first


def test_tensors_beside_each_other_lose_nothing_to_each_other(placed):
    one, far = (placed(Box(0, 3, *columns)) for columns in ((0, 7), (8, 15)))
    far.note_write(Box(0, 3, 8, 15))
    assert one.overwritten_by(Box(0, 3, 0, 7)) is None


def test_writes_that_a_later_one_covers_are_forgotten(placed):
    one, two = placed(Box(0, 3, 0, 15)), placed(Box(0, 3, 0, 15))
    for column in range(8):
        two.note_write(Box(0, 3, column, column))
    one.note_write(Box(0, 3, 0, 9))
    assert one.overwritten_by(Box(0, 3, 0, 15)) is None
    assert two.overwritten_by(Box(0, 0, 7, 7)) is one
