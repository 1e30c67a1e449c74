"""Capacity by liveness: what lives together must fit, a Python variable is no use."""

import pytest

from trnsim.dtypes import UINT8
from trnsim.errors import OutOfMemory
from trnsim.isa import Memset, TensorCopy
from trnsim.memory import Memory, Tile
from trnsim.program import check_capacity, peak

SBUF, PSUM = Memory.SBUF, Memory.PSUM


def test_a_program_without_tensors_has_no_peak(bench):
    fullest = peak(bench().program, SBUF)
    assert (fullest.bytes_per_partition, fullest.live) == (0, ())


def test_tensors_that_follow_each_other_share_their_room(bench, core_v3):
    work = bench(has_values=False)
    full = int(core_v3.sbuf_partition_bytes)
    for _ in range(3):
        work.issue(Memset(work.empty((1, full), UINT8), 0))
    assert peak(work.program, SBUF).bytes_per_partition == full
    check_capacity(work.program)


def test_tensors_that_live_together_add_up(bench):
    work = bench(has_values=False)
    a, b, c = (
        work.empty((2, size), UINT8, name=name)
        for name, size in zip("abc", (90, 50, 60), strict=True)
    )
    work.issue(Memset(a, 0))
    work.issue(Memset(b, 0))
    work.issue(TensorCopy(Tile(c.storage, UINT8, c.pattern.slice(1, 0, 50)), b))
    fullest = peak(work.program, SBUF)
    assert (fullest.bytes_per_partition, fullest.index) == (110, 2)
    assert [use.name for use in fullest.live] == ["c", "b"]
    work.issue(TensorCopy(a, work.empty((2, 90), UINT8)))
    fullest = peak(work.program, SBUF)
    assert (fullest.bytes_per_partition, fullest.index) == (200, 2)
    assert [use.name for use in fullest.live] == ["a", "c", "b"]


def test_source_and_destination_of_a_last_use_live_together(bench):
    work = bench(has_values=False)
    a, b = work.empty((1, 10), UINT8), work.empty((1, 10), UINT8)
    work.issue(Memset(a, 0))
    work.issue(TensorCopy(b, a))
    assert peak(work.program, SBUF).bytes_per_partition == 20


@pytest.mark.parametrize(("memory", "name"), [(SBUF, "SBUF"), (PSUM, "PSUM")])
def test_a_program_may_fill_a_memory_and_not_one_byte_more(bench, core, memory, name):
    full = 16 * 1024 if memory is PSUM else int(core.sbuf_partition_bytes)
    for extra in (0, 1):
        work = bench(core, has_values=False)
        half = work.empty((1, full // 2), UINT8, memory)
        rest = work.empty((1, full // 2 + extra), UINT8, memory, name="rest")
        work.issue(Memset(half, 0))
        work.issue(Memset(rest, 0))
        work.issue(TensorCopy(work.empty((1, 1), UINT8), slice_of(half)))
        if not extra:
            check_capacity(work.program)
            continue
        message = rf"{name} of {core.name} holds {full} bytes a partition; {full + 1} are live at "
        with pytest.raises(OutOfMemory, match=message) as caught:
            check_capacity(work.program)
        assert f"{full // 2 + 1} bytes rest from {rest.storage.line}" in str(caught.value)
        assert caught.value.line == rest.storage.line
        assert caught.value.fix


def slice_of(tile):
    return type(tile)(tile.storage, tile.dtype, tile.pattern.slice(1, 0, 1))


def test_a_long_list_of_tensors_is_cut(bench, core_v3):
    work = bench(has_values=False)
    tiles = [work.empty((1, int(core_v3.sbuf_partition_bytes) // 10), UINT8) for _ in range(12)]
    for tile in tiles:
        work.issue(Memset(tile, 0))
    for tile in tiles:
        work.issue(Memset(tile, 0))
    with pytest.raises(OutOfMemory, match="and 4 more"):
        check_capacity(work.program)


def test_placed_tensors_and_hbm_are_not_the_compilers_to_place(bench):
    work = bench(has_values=False)
    work.issue(Memset(work.empty((1, 100), UINT8, address=(0, 0)), 0))
    assert peak(work.program, SBUF).bytes_per_partition == 0
    assert peak(work.program, Memory.HBM).bytes_per_partition == 0


def test_a_tensor_that_is_kept_but_not_used_does_not_live(bench, core_v3):
    work = bench(has_values=False)
    full = int(core_v3.sbuf_partition_bytes)
    kept = [work.empty((1, full), UINT8) for _ in range(4)]
    for tile in kept:
        work.issue(Memset(tile, 0))
    check_capacity(work.program)
    assert len(kept) == 4


def test_every_memory_that_is_too_small_is_told_where_none_is_refused(bench, core_v3):
    work = bench(has_values=False)
    for memory, size in ((SBUF, int(core_v3.sbuf_partition_bytes)), (PSUM, 16 * 1024)):
        tiles = [work.empty((1, half), UINT8, memory) for half in (size // 2, size // 2 + 1)]
        for tile in 2 * tiles:
            work.issue(Memset(tile, 0))
    found = check_capacity(work.program, is_strict=False)
    assert [str(error).split()[0] for error in found] == ["SBUF", "PSUM"]
