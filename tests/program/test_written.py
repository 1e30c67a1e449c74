"""Written elements: what may be read, and what is written after an instruction."""

import numpy as np
import pytest

from trnsim.errors import UninitializedRead
from trnsim.isa import TensorCopy, TensorTensor
from trnsim.memory import Memory, Tile
from trnsim.program.written import note_written, partly_written, refuse_unreadable


def half_written(on):
    """A tile of which the first two of four rows are written."""
    tile = on.empty((4, 8))
    Tile(tile.storage, tile.dtype, tile.pattern.slice(0, 0, 2)).mark_written()
    return tile


def test_an_unwritten_tile_is_refused_and_a_shared_one_is_noted(bench):
    on, noted = bench(), []
    tile = on.empty((4, 8), memory=Memory.HBM)
    with pytest.raises(UninitializedRead, match=r"tensor_copy reads HBM .* no instruction has"):
        refuse_unreadable(TensorCopy(tile, tile), tile, noted)
    tile.storage.is_shared = True
    refuse_unreadable(TensorCopy(tile, tile), tile, noted)
    assert [type(error) for error in noted] == [UninitializedRead]
    tile.mark_written()
    refuse_unreadable(TensorCopy(tile, tile), tile, noted)
    assert len(noted) == 1


def test_a_written_tile_that_another_tensor_overwrote_is_refused(bench):
    on = bench()
    first, second = (on.empty((4, 8), address=(0, 4 * start)) for start in (0, 7))
    dst = on.empty((4, 8))
    first.mark_written()
    assert partly_written(TensorCopy(dst, first), [first], []) == []
    second.mark_written()
    assert not first.storage.written.is_full
    with pytest.raises(UninitializedRead, match=r"tensor_copy reads .* has overwritten since"):
        partly_written(TensorCopy(dst, first), [first], [])
    assert partly_written(TensorCopy(dst, second), [second], []) == []
    left = Tile(first.storage, first.dtype, first.pattern.slice(1, 0, 7))
    assert partly_written(TensorCopy(dst, left), [left], []) == []


def test_a_result_of_what_is_half_written_is_half_written(bench):
    on = bench()
    src, dst = half_written(on), on.empty((4, 8))
    partly = partly_written(TensorCopy(dst, src), [src], [])
    assert [tile for tile, _ in partly] == [dst]
    note_written([dst], partly, by_matmul=False)
    np.testing.assert_array_equal(dst.written_flags(), src.written_flags())
    assert not dst.is_written()


def test_a_result_of_two_is_written_where_both_are(bench):
    on = bench()
    first, second, dst = half_written(on), on.empty((4, 8)), on.empty((4, 8))
    Tile(second.storage, second.dtype, second.pattern.slice(1, 0, 3)).mark_written()
    add = TensorTensor(dst, first, second, "add")
    note_written([dst], partly_written(add, [first, second], []), by_matmul=False)
    expected = np.zeros((4, 8), np.bool_)
    expected[:2, :3] = True
    np.testing.assert_array_equal(dst.written_flags(), expected)


def test_what_is_entirely_unwritten_is_refused(bench):
    on = bench()
    src, dst = on.empty((4, 8)), on.empty((4, 8))
    with pytest.raises(UninitializedRead):
        partly_written(TensorCopy(dst, src), [src], [])


def test_a_write_by_another_instruction_is_noted_where_matmuls_add(bench):
    on = bench()
    tile = on.empty((4, 8), memory=Memory.PSUM)
    tile.storage.accumulation_mask.fill()
    note_written([tile], [], by_matmul=True)
    assert not tile.storage.is_set_by_others
    note_written([tile], [], by_matmul=False)
    assert tile.storage.is_set_by_others
    note_written([tile], [], by_matmul=True)
    assert not tile.storage.set_by_others.flags(tile.pattern, 4).any()
