"""Captures: which instructions can be executed again on other values, and what is refused."""

import numpy as np
import pytest

from trnsim.errors import BadInput, IllegalInstruction
from trnsim.isa import (
    DmaCopy,
    Engine,
    Iota,
    OobMode,
    RegisterLoad,
    RegisterMove,
    TensorCopy,
    TensorCopyPredicated,
    VirtualRegister,
)
from trnsim.memory import AccessPattern, Memory, ScalarIndex, Tile, VectorIndex
from trnsim.program import Capture


@pytest.fixture
def captured(bench, random):
    """A bench that captures, and two tiles on it: one written, one not."""
    on = bench()
    on.context.capture = Capture()
    return on, on.tile(random((4, 8))), on.empty((4, 8))


def at_row(tile, source, limit=32):
    """One row of an HBM tile, at an index."""
    pattern = tile.pattern._replace(shape=(1, tile.shape[1]))
    return Tile(tile.storage, tile.dtype, pattern, ScalarIndex(source, 32, limit))


def test_instructions_are_kept_on_storages_without_bytes(captured):
    on, src, dst = captured
    on.issue(TensorCopy(dst, src))
    on.issue(TensorCopy(dst, src, engine=Engine.vector))
    capture = on.context.capture
    assert capture.places == [0, 1]
    first, second = capture.instructions
    assert second.engine is Engine.vector
    assert first.dst.storage is second.dst.storage is not dst.storage
    assert first.dst.storage.data is None
    assert first.dst.pattern == dst.pattern
    assert first.dst.layout is dst.layout


def test_what_held_values_before_is_given(captured):
    on, src, dst = captured
    on.issue(TensorCopy(dst, src))
    assert set(on.context.capture.initial_bytes) == {src.storage.serial}
    assert on.context.capture.initial_bytes[src.storage.serial] is src.storage.data


def refused(what):
    return pytest.raises(BadInput, match=f"cannot be recorded where .*{what}")


def test_what_is_loaded_into_a_register_is_guarded(captured):
    on, _, _ = captured
    place, register = on.tile(np.array([[2]], np.int32), memory=Memory.SBUF), VirtualRegister(0)
    on.context.issue(RegisterLoad(register, place))
    capture = on.context.capture
    (kept,) = capture.instructions
    assert capture.guards == {0: (2,)}
    assert kept.dst is not register
    assert register.value == 2


def test_a_register_is_kept_with_the_value_that_it_has(captured):
    on, _, _ = captured
    register = VirtualRegister(3)
    on.context.issue(Iota(on.empty((4, 8), np.int32), ((1, 8),), register))
    on.context.issue(RegisterMove(register, 5))
    (kept,) = on.context.capture.instructions
    assert kept.offset.value == 3
    assert register.value == 5
    assert not on.context.capture.guards


def test_an_index_from_memory_is_guarded_and_one_from_a_loop_is_not(captured, random):
    on, _, _ = captured
    rows, line = on.tile(random((4, 8)), memory=Memory.HBM), on.empty((1, 8))
    on.issue(DmaCopy(line, at_row(rows, VirtualRegister(3, frozen=True))))
    capture = on.context.capture
    (kept,) = capture.instructions
    assert kept.src.index is None
    assert kept.src.pattern.offset_bytes == 3 * 32
    assert not capture.guards
    on.issue(DmaCopy(line, at_row(rows, on.tile(np.array([[2]], np.int32)))))
    assert capture.guards == {1: (2,)}
    assert capture.places == [0, 1, 1]
    assert capture.instructions[2].src.pattern.offset_bytes == 2 * 32


def test_an_index_that_is_skipped_is_guarded(captured, random):
    on, _, _ = captured
    rows, line = on.tile(random((4, 8)), memory=Memory.HBM), on.empty((1, 8))
    index = on.tile(np.array([[7]], np.int32))
    on.issue(DmaCopy(line, at_row(rows, index, limit=4), oob_mode=OobMode.skip))
    assert on.context.capture.guards == {0: (7,)}
    assert len(on.context.capture.instructions) == 1


def test_what_was_not_written_makes_a_storage_careful(captured):
    on, src, dst = captured
    half = Tile(dst.storage, dst.dtype, dst.pattern.slice(0, 0, 2))
    on.issue(TensorCopy(half, Tile(src.storage, src.dtype, src.pattern.slice(0, 0, 2))))
    assert not on.context.capture.tracked
    on.issue(TensorCopy(on.empty((4, 8)), dst))
    assert on.context.capture.tracked == {dst.storage.serial}


def test_at_an_address_what_was_not_written_is_refused(captured):
    on, src, _ = captured
    dst = on.empty((4, 8), address=(0, 1024))
    half = Tile(dst.storage, dst.dtype, dst.pattern.slice(0, 0, 2))
    on.issue(TensorCopy(half, Tile(src.storage, src.dtype, src.pattern.slice(0, 0, 2))))
    with refused("never written, at an address"):
        on.issue(TensorCopy(on.empty((4, 8)), dst))


@pytest.mark.parametrize("is_written", [True, False])
def test_a_mask_onto_what_was_not_written_makes_it_careful(captured, is_written):
    on, src, dst = captured
    mask = on.tile(np.ones((4, 8), np.uint8))
    if is_written:
        on.issue(TensorCopy(dst, src))
    on.issue(TensorCopyPredicated(dst, src, mask))
    assert on.context.capture.tracked == (set() if is_written else {dst.storage.serial})


def gathered_rows(on, random):
    """Rows 3, 1, 2 and 5 of a tensor of 16."""
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [2], [5]], np.int32))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    return Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))


@pytest.mark.parametrize("mode", [OobMode.error, OobMode.skip])
@pytest.mark.parametrize("is_written", [True, False])
def test_a_gather_that_may_skip_rows_is_careful_of_what_was_not_written(
    captured, random, is_written, mode
):
    on, src, dst = captured
    if is_written:
        on.issue(TensorCopy(dst, src))
    on.issue(DmaCopy(dst, gathered_rows(on, random), oob_mode=mode))
    capture = on.context.capture
    is_tracked = mode is OobMode.skip and not is_written
    assert capture.tracked == ({dst.storage.serial} if is_tracked else set())
    assert capture.instructions[-1].src.index.source.storage.data is None


def test_a_scatter_is_careful_of_what_was_not_written(captured, random):
    on, src, _ = captured
    dst = gathered_rows(on, random)
    rows = on.empty((16, 8), memory=Memory.HBM)
    on.issue(DmaCopy(dst, src))
    assert not on.context.capture.tracked
    on.issue(DmaCopy(Tile(rows.storage, rows.dtype, dst.pattern, dst.index), src))
    assert on.context.capture.tracked == {rows.storage.serial}


def test_an_error_breaks_it_as_the_kernel_may_go_on(captured, random):
    on, src, dst = captured
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [16], [5]], np.int32))
    on.issue(TensorCopy(dst, src))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    with pytest.raises(IllegalInstruction, match="index 16"):
        on.issue(DmaCopy(dst, Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))))
    assert on.context.capture.is_broken
