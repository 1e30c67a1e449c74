"""Capacity by liveness: what lives together must fit, a Python variable is no use."""

import numpy as np
import pytest

from trnsim.dtypes import UINT8
from trnsim.errors import OutOfMemory
from trnsim.isa import DmaCopy, Memset, TensorCopy, TensorScalar
from trnsim.memory import Memory, Tile
from trnsim.program import capacity_errors, fit_programs, peak

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
    assert capacity_errors(work.program) == {}


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
            assert capacity_errors(work.program) == {}
            continue
        message = rf"{name} of {core.name} holds {full} bytes a partition; {full + 1} are live at "
        with pytest.raises(OutOfMemory, match=message) as caught:
            fit_programs([work.program], "raise")
        assert f"{full // 2 + 1} bytes rest from {rest.storage.line}" in str(caught.value)
        assert caught.value.line == rest.storage.line
        assert 'with capacity="spill" it runs' in caught.value.fix
        assert caught.value.source == capacity_source(core, memory)


def capacity_source(core, memory):
    fact = core.sbuf_partition_bytes if memory is SBUF else core.psum_bank_bytes
    return fact.provenance.source


def slice_of(tile):
    return type(tile)(tile.storage, tile.dtype, tile.pattern.slice(1, 0, 1))


def test_a_long_list_of_tensors_is_cut(bench, core_v3):
    work = bench(has_values=False)
    tenth_bytes = int(core_v3.sbuf_partition_bytes) // 10
    write_twice(work, [work.empty((1, tenth_bytes - number), UINT8) for number in range(12)])
    with pytest.raises(OutOfMemory, match="and 4 more"):
        fit_programs([work.program], "raise")


def test_equal_tensors_of_a_line_are_counted(bench, core_v3):
    work = bench(has_values=False)
    tenth_bytes = int(core_v3.sbuf_partition_bytes) // 10
    write_twice(work, [work.empty((1, tenth_bytes), UINT8) for _ in range(12)])
    with pytest.raises(OutOfMemory, match=rf"{tenth_bytes} bytes tensor from \S+, 12 times\n"):
        fit_programs([work.program], "raise")


def write_twice(work, tiles):
    for tile in [*tiles, *tiles]:
        work.issue(Memset(tile, 0))


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
    assert capacity_errors(work.program) == {}
    assert len(kept) == 4


def test_every_memory_that_is_too_small_is_told_where_none_is_refused(bench, core_v3):
    work = bench(has_values=False)
    for memory, size in ((SBUF, int(core_v3.sbuf_partition_bytes)), (PSUM, 16 * 1024)):
        tiles = [work.empty((1, half), UINT8, memory) for half in (size // 2, size // 2 + 1)]
        for tile in 2 * tiles:
            work.issue(Memset(tile, 0))
    (program,), found = fit_programs([work.program], "warn")
    assert program is work.program
    assert [str(error).split()[0] for error in found] == ["SBUF", "PSUM"]
    with pytest.raises(OutOfMemory, match=r"^PSUM of"):
        fit_programs([work.program], "raise")
    (program,), spills = fit_programs([work.program], "spill")
    assert program.issued is work.program
    assert [str(error).split()[0] for error in spills] == ["PSUM", "SBUF"]


def test_what_is_spilled_is_told_with_its_bytes_and_the_line_that_allocated_most(bench, core_v3):
    work = bench(has_values=False)
    half = int(core_v3.sbuf_partition_bytes) // 2 + 1
    a, b = (work.empty((2, half), UINT8, name=name) for name in "ab")
    for tile in (a, b, a):
        work.issue(TensorScalar(tile, tile, "add", 1))
    (program,), (warning,) = fit_programs([work.program], "spill")
    assert program.issued is work.program
    assert f"{2 * half} are live at" in warning.reason
    assert warning.reason.endswith(
        "AWS's compiler spills what has no room. Its choice is not public; estimated: "
        f"{2 * half:,} bytes saved to HBM and {2 * half:,} reloaded in 2 transfers, "
        f"most of them of a from {a.storage.line}"
    )
    assert warning.line == a.storage.line
    assert warning.source == "memory-hierarchy-overview.rst, note on capacity"
    assert "tile the kernel" in warning.fix


def test_where_parts_fit_nothing_is_spilled_and_that_is_told(bench, core_v3):
    work = bench(has_values=False)
    half = int(core_v3.sbuf_partition_bytes) // 2 + 1
    a, b = (work.empty((2, half), UINT8, name=name) for name in "ab")
    for tile in (a, b, a):
        work.issue(Memset(tile, 0))
    _, (warning,) = fit_programs([work.program], "spill")
    assert warning.reason.endswith(
        "estimated: nothing, as parts of these tensors suffice at any time"
    )


def test_a_program_that_fits_is_left_alone(bench):
    work = bench(has_values=False)
    work.issue(Memset(work.empty((1, 8), UINT8), 0))
    for capacity in ("spill", "raise", "warn"):
        (program,), found = fit_programs([work.program], capacity)
        assert program is work.program
        assert found == ()


def test_what_another_core_writes_is_saved(bench, core_v3):
    half = int(core_v3.sbuf_partition_bytes) // 2 + 1
    first, second = bench(has_values=False), bench(has_values=False)
    source, target = (first.empty((2, half), UINT8, Memory.HBM) for _ in range(2))
    a, b = (first.empty((2, half), UINT8, name=name) for name in "ab")
    first.issue(DmaCopy(a, source))
    first.issue(DmaCopy(target, a))
    first.issue(Memset(b, 0))
    first.issue(DmaCopy(target, a))
    saved = []
    for changes in (False, True):
        if changes:
            second.issue(DmaCopy(source, second.tile(np.zeros((2, half), np.uint8))))
        programs, _ = fit_programs([first.program, second.program], "spill")
        uses = [use for use in programs[0].uses.values() if use.is_spill]
        saved.append(sum(use.written_bytes for use in uses))
    assert saved == [0, 2 * half]
