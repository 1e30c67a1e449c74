"""Storages: what an allocation knows of itself."""

import gc
import weakref

import pytest

from trnsim.memory import AccessPattern, Box, Memory, Storage
from trnsim.memory.place import MemoryPlace
from trnsim.memory.storage import PlacedStorage


def test_only_hbm_has_no_partition_axis():
    assert [memory.is_on_chip for memory in (Memory.HBM, Memory.SBUF, Memory.PSUM)] == [
        False,
        True,
        True,
    ]


@pytest.mark.parametrize("is_written", [False, True])
def test_a_storage_knows_what_was_written_and_starts_no_accumulation(is_written):
    storage = Storage(Memory.SBUF, 32, 16, is_written=is_written)
    whole = AccessPattern.dense((2, 4), 4)
    assert storage.written.covers(whole, 4) is is_written
    assert storage.accumulation_mask.is_disjoint(whole, 4)
    assert storage.data is None


def test_serial_numbers_count_allocations():
    first, second = (Storage(Memory.HBM, 4, 4) for _ in range(2))
    assert first.serial < second.serial


def test_a_storage_ends_with_its_last_reference():
    storage = Storage(Memory.SBUF, 32, 16)
    reference = weakref.ref(storage)
    gc.disable()
    try:
        del storage
        assert reference() is None
    finally:
        gc.enable()


def test_a_storage_within_another_shares_its_bytes_and_what_was_written():
    whole = Storage(Memory.SBUF, 32, 16, is_written=True)
    part = PlacedStorage(whole, 8, 4, MemoryPlace(Box(0, 1, 4, 11)), 0)
    assert part.root_serial == whole.serial
    assert part.written is whole.written
    assert whole.root_serial == whole.serial
