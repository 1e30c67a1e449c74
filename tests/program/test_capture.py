"""Captures: which instructions can be executed again on other values, and what is refused."""

from contextlib import nullcontext

import numpy as np
import pytest

from trnsim.errors import BadInput, IllegalInstruction
from trnsim.isa import (
    DmaCopy,
    Engine,
    Iota,
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
    assert set(on.context.capture.initial_bytes) == {src.storage.serial}
    assert on.context.capture.initial_bytes[src.storage.serial] is src.storage.data


def refused(what):
    return pytest.raises(BadInput, match=f"cannot be recorded where .*{what}")


def test_a_register_is_refused(captured):
    on, _, _ = captured
    place = on.tile(np.array([[2]], np.int32), memory=Memory.SBUF)
    with refused("register_load uses a register") as caught:
        on.context.issue(RegisterLoad(VirtualRegister(0), place))
    assert "trnsim.run" in caught.value.fix
    assert caught.value.line.file == __file__


def test_a_register_that_is_only_read_is_refused_too(captured):
    on, _, _ = captured
    with refused("iota uses a register"):
        on.context.issue(Iota(on.empty((4, 8), np.int32), ((1, 8),), VirtualRegister(3)))
    on.context.issue(Iota(on.empty((4, 8), np.int32), ((1, 8),), 3))


def test_an_index_from_memory_is_refused_and_one_from_a_loop_is_not(captured, random):
    on, _, _ = captured
    rows, line = on.tile(random((4, 8)), memory=Memory.HBM), on.empty((1, 8))
    on.issue(DmaCopy(line, at_row(rows, VirtualRegister(3, frozen=True))))
    (kept,) = on.context.capture.instructions
    assert kept.src.index is None
    assert kept.src.pattern.offset_bytes == 3 * 32
    with refused("dma_copy takes an index from memory"):
        on.issue(DmaCopy(line, at_row(rows, on.tile(np.array([[2]], np.int32)))))


def test_elements_that_were_not_written_are_refused(captured):
    on, src, dst = captured
    half = Tile(dst.storage, dst.dtype, dst.pattern.slice(0, 0, 2))
    on.issue(TensorCopy(half, Tile(src.storage, src.dtype, src.pattern.slice(0, 0, 2))))
    assert len(on.context.capture.instructions) == 1
    with refused("never written"):
        on.issue(TensorCopy(on.empty((4, 8)), dst))


@pytest.mark.parametrize("is_written", [True, False])
def test_a_mask_onto_what_was_not_written_is_refused(captured, is_written):
    on, src, dst = captured
    mask = on.tile(np.ones((4, 8), np.uint8))
    if is_written:
        on.issue(TensorCopy(dst, src))
    with nullcontext() if is_written else refused("never written"):
        on.issue(TensorCopyPredicated(dst, src, mask))


@pytest.mark.parametrize("is_written", [True, False])
def test_a_gather_that_may_skip_rows_needs_a_written_dst(captured, random, is_written):
    on, _, dst = captured
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [2], [5]], np.int32))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    src = Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))
    if is_written:
        on.issue(DmaCopy(dst, Tile(rows.storage, rows.dtype, pattern)))
    with nullcontext() if is_written else refused("never written"):
        on.issue(DmaCopy(dst, src, oob_mode=OobMode.skip))
    if is_written:
        capture = on.context.capture
        assert capture.instructions[-1].src.index.source.storage.data is None


def test_an_error_breaks_it_as_the_kernel_may_go_on(captured, random):
    on, src, dst = captured
    rows = on.tile(random((16, 8)), memory=Memory.HBM)
    index = on.tile(np.array([[3], [1], [16], [5]], np.int32))
    on.issue(TensorCopy(dst, src))
    pattern = AccessPattern((4, 8), (32, 4), 0)
    with pytest.raises(IllegalInstruction, match="index 16"):
        on.issue(DmaCopy(dst, Tile(rows.storage, rows.dtype, pattern, VectorIndex(index, 32, 16))))
    assert on.context.capture.is_broken
