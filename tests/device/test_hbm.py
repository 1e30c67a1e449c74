from types import SimpleNamespace

import pytest

from trnsim.device.hbm import DeviceMemory, device_memory
from trnsim.errors import OutOfMemory

GIB = 1024**3


class Storage:
    """What a framework has under its tensors; this one is a name of its own."""


class Refused(OutOfMemory):
    """A framework's own error."""


@pytest.fixture
def memory():
    return DeviceMemory(0, 100, "a test")


def test_a_storage_counts_until_its_owner_dies(memory):
    first, second = Storage(), Storage()
    memory.hold(first, 60, (15,), "float32")
    memory.hold(second, 40, (10,), "float32")
    assert memory.holds(first)
    assert not memory.holds(Storage())
    assert (memory.live_bytes, memory.peak_bytes) == (100, 100)
    del first
    assert (memory.live_bytes, memory.peak_bytes) == (40, 100)
    memory.reset_peak()
    assert memory.peak_bytes == 40
    del second
    assert (memory.live_bytes, memory.allocations) == (0, {})


@pytest.mark.parametrize("refused", [OutOfMemory, Refused])
def test_what_does_not_fit_is_refused_by_the_error_asked_for(memory, refused):
    kept = Storage()
    memory.hold(kept, 60, (15,), "some.float32")
    memory.require_room(40)
    with pytest.raises(refused, match="41 B asked for, 60 B of 100 B in use") as caught:
        memory.require_room(41, refused)
    assert "60 B        1  float32[15]" in str(caught.value)
    assert (memory.refusals, memory.live_bytes) == (1, 60)
    assert caught.value.source == "a test"
    assert caught.value.line.file == __file__


def test_the_table_groups_what_is_alike_and_the_rest(memory):
    kept = [Storage() for _ in range(17)]
    for owner, elements in zip(kept, (5, 5, *range(10, 25)), strict=True):
        memory.hold(owner, 4 * elements, (elements,), "float32")
    lines = memory.table().splitlines()
    assert len(lines) == 14
    assert lines[1].split() == ["96", "B", "1", "float32[24]"]
    # Twelve rows of 13 to 24 elements; the rest: 10, 11, 12 and twice 5.
    assert lines[-1].split() == [f"{4 * (10 + 11 + 12 + 5 + 5)}", "B", "5", "others"]


@pytest.mark.parametrize(("nbytes", "is_known"), [((1 << 20) - 1, False), (1 << 20, True)])
def test_large_tensors_have_the_line_that_made_them(nbytes, is_known):
    memory, owner = DeviceMemory(0, GIB, "a test"), Storage()
    memory.hold(owner, nbytes, (nbytes,), "uint8")
    assert (__file__ in memory.table()) is is_known


def test_the_summary_is_one_line(memory):
    kept = Storage()
    memory.hold(kept, 60, (15,), "float32")
    assert memory.summary().endswith("60 B of 100 B in use, peak 60 B")


def test_every_visible_core_has_a_memory_and_no_other():
    assert device_memory(0).capacity_bytes > GIB
    assert device_memory(0) is device_memory(0)
    with pytest.raises(RuntimeError, match="neuron:-1 does not exist"):
        device_memory(-1)


def test_an_entry_that_is_released_twice_counts_once():
    memory = DeviceMemory(0, 100, "")
    entry = SimpleNamespace(nbytes=60, shape=(60,), dtype="uint8", line=None)
    memory.count(1, entry, 60)
    assert (memory.live_bytes, memory.peak_bytes, memory.holds(entry)) == (60, 60, False)
    assert "uint8[60]" in memory.table()
    memory.release(1)
    memory.release(1)
    assert (memory.live_bytes, memory.peak_bytes, memory.allocations) == (0, 60, {})
