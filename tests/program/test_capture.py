"""Captures: which instructions can be executed again on other values."""

import numpy as np
import pytest

from trnsim.errors import IllegalInstruction
from trnsim.isa import (
    DmaCopy,
    Engine,
    OobMode,
    RegisterLoad,
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


def at_row(tile, source):
    """One row of an HBM tile, at an index."""
    pattern = tile.pattern._replace(shape=(1, tile.shape[1]))
    return Tile(tile.storage, tile.dtype, pattern, ScalarIndex(source, 32, 4))


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
    assert set(on.context.capture.given) == {src.storage.serial}
    assert on.context.capture.given[src.storage.serial] is src.storage.data


def test_a_register_gives_it_up(captured):
    on, _, _ = captured
    place = on.tile(np.array([[2]], np.int32), memory=Memory.SBUF)
    on.context.issue(RegisterLoad(VirtualRegister(0), place))
    assert on.context.capture.is_given_up


def test_an_index_from_memory_gives_it_up_and_one_from_a_loop_does_not(captured, random):
    on, _, _ = captured
    rows, line = on.tile(random((4, 8)), memory=Memory.HBM), on.empty((1, 8))
    on.issue(DmaCopy(line, at_row(rows, VirtualRegister(3, frozen=True))))
    assert not on.context.capture.is_given_up
    (kept,) = on.context.capture.instructions
    assert kept.src.index is None
    assert kept.src.pattern.offset_bytes == 3 * 32
    on.issue(DmaCopy(line, at_row(rows, on.tile(np.array([[2]], np.int32)))))
    assert on.context.capture.is_given_up


def test_elements_that_were_not_written_give_it_up(captured):
    on, src, dst = captured
    half = Tile(dst.storage, dst.dtype, dst.pattern.slice(0, 0, 2))
    on.issue(TensorCopy(half, Tile(src.storage, src.dtype, src.pattern.slice(0, 0, 2))))
    assert not on.context.capture.is_given_up
    on.issue(TensorCopy(on.empty((4, 8)), dst))
    assert on.context.capture.is_given_up


@pytest.mark.parametrize("is_written", [True, False])
def test_a_mask_onto_what_was_not_written_gives_it_up(captured, is_written):
    on, src, dst = captured
    mask = on.tile(np.ones((4, 8), np.uint8))
    if is_written:
        on.issue(TensorCopy(dst, src))
    on.issue(TensorCopyPredicated(dst, src, mask))
    assert on.context.capture.is_given_up is not is_written


@pytest.mark.parametrize("is_written", [True, False])
def test_a_gather_that_may_skip_rows_needs_a_written_dst(captured, random, is_written):
    on, _, dst = captured
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [2], [5]], np.int32))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    src = Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))
    if is_written:
        on.issue(DmaCopy(dst, Tile(rows.storage, rows.dtype, pattern)))
    on.issue(DmaCopy(dst, src, oob_mode=OobMode.skip))
    capture = on.context.capture
    assert capture.is_given_up is not is_written
    if is_written:
        assert capture.instructions[-1].src.index.source.storage.data is None


def test_an_error_gives_it_up_as_the_kernel_may_go_on(captured, random):
    on, src, dst = captured
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [16], [5]], np.int32))
    on.issue(TensorCopy(dst, src))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    with pytest.raises(IllegalInstruction, match="index 16"):
        on.issue(DmaCopy(dst, Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))))
    assert on.context.capture.is_given_up


def test_a_long_program_is_given_up_and_nothing_of_it_kept(captured, monkeypatch):
    on, src, dst = captured
    monkeypatch.setattr(Capture, "MAX_INSTRUCTIONS", 2)
    for _ in range(4):
        on.issue(TensorCopy(dst, src))
    capture = on.context.capture
    assert capture.is_given_up
    assert not capture.instructions
    assert not capture.storages
