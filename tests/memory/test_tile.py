"""Tiles: typed views of storages, and the boxes that hold them."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import ALL, BFLOAT16, FLOAT32, INT8, UINT8
from trnsim.errors import IllegalInstruction, InternalError
from trnsim.memory import AccessPattern, Box, ByteMask, Memory, Storage, Tile, VectorIndex

ROWS, PITCH = 6, 8


def tile_of(pattern, dtype=UINT8, memory=Memory.HBM, *, has_values=True):
    data = np.arange(ROWS * PITCH, dtype=np.uint8) if has_values else None
    return Tile(Storage(memory, ROWS * PITCH, PITCH, data=data), dtype, pattern)


@st.composite
def patterns(draw):
    """Views of a [6, 8] storage of bytes: slices, steps, permutations."""
    pattern = AccessPattern.dense((ROWS, PITCH), 1)
    for dim, length in enumerate((ROWS, PITCH)):
        first = draw(st.integers(0, length - 1))
        end = draw(st.integers(first + 1, length))
        pattern = pattern.slice(dim, first, end, draw(st.integers(1, 3)))
    if draw(st.booleans()):
        pattern = pattern.permute((1, 0))
    return pattern


@given(patterns(), st.sampled_from([Memory.HBM, Memory.SBUF]))
def test_a_box_holds_every_byte_of_its_tile_and_no_smaller_rectangle_does(pattern, memory):
    if memory is Memory.SBUF and pattern.strides_bytes[0] % PITCH:
        pattern = pattern.permute((1, 0))
    tile = tile_of(pattern, memory=memory)
    rows, columns = np.divmod(tile.array.astype(int), PITCH)
    assert tile.box == Box(rows.min(), rows.max(), columns.min(), columns.max())


@given(patterns(), patterns())
def test_boxes_overlap_wherever_tiles_share_a_byte(first, second):
    one, two = tile_of(first), tile_of(second)
    if set(one.array.ravel()) & set(two.array.ravel()):
        assert one.box.overlaps(two.box)
        assert two.box.overlaps(one.box)


def test_a_tile_that_crosses_rows_has_a_box_of_whole_rows():
    flat = AccessPattern.dense((ROWS, PITCH), 1).reshape((-1,)).slice(0, 6, 18)
    assert tile_of(flat).box == Box(0, 2, 0, PITCH - 1)


@pytest.mark.parametrize("dtype", [d for d in ALL if d.name != "tfloat32"], ids=str)
def test_what_is_stored_is_what_is_loaded(bench, core_v4, dtype):
    values = np.array([[0, 1, 1], [1, 0, 1]])
    tile = bench(core_v4).empty(values.shape, dtype)
    tile.store(values.astype(np.float32))
    np.testing.assert_array_equal(tile.load(), values)
    assert tile.array.dtype == dtype.dtype


def test_storing_rounds_once_and_takes_the_shape_of_the_tile(bench):
    tile = bench().empty((2, 2, 2), BFLOAT16)
    tile.store(np.full((2, 4), 1 + 2**-8 + 2**-20, np.float32))
    np.testing.assert_array_equal(tile.load(), np.full((2, 2, 2), 1 + 2**-7, np.float32))


def test_the_array_is_a_view_of_the_storage(bench):
    tile = bench().tile(np.zeros((4, 8)), INT8)
    half = Tile(tile.storage, INT8, tile.pattern.slice(1, 4, 8))
    half.array[...] = 5
    assert tile.array[:, 4:].tolist() == [[5] * 4] * 4
    assert not tile.array[:, :4].any()


def test_a_tile_says_where_it_is_and_what_it_holds(bench):
    tile = bench().empty((4, 8), BFLOAT16, name="scores")
    assert (tile.shape, tile.partitions, tile.nbytes, tile.memory) == ((4, 8), 4, 64, Memory.SBUF)
    assert str(tile) == repr(tile) == "scores SBUF [4, 8] bfloat16"
    assert Tile(tile.storage, BFLOAT16, tile.pattern.slice(0, 2, 4)).start_partition == 2


def test_a_placed_tile_starts_at_the_partition_of_its_address(bench):
    tile = bench().empty((32, 8), FLOAT32, address=(64, 256))
    assert tile.start_partition == 64


def test_equal_tiles_in_different_storages_have_one_signature(bench):
    work = bench()
    first, second = work.empty((4, 8)), work.empty((4, 8))
    assert first.signature == second.signature
    for other in (
        work.empty((4, 8), BFLOAT16),
        work.empty((8, 4)),
        work.empty((4, 8), memory=Memory.PSUM),
        Tile(first.storage, FLOAT32, first.pattern.slice(1, 1, 8)),
        Tile(first.storage, FLOAT32, first.pattern.slice(0, 2, 4)),
    ):
        assert other.signature != first.signature


OUTSIDE = {
    "more rows": AccessPattern((7, 8), (8, 1), 0),
    "from before": AccessPattern((1, 1), (8, 1), -1),
    "beyond the end": AccessPattern((1, 8), (8, 1), 41),
    "backwards": AccessPattern((6, 8), (8, -1), 7),
}


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("memory", [Memory.HBM, Memory.SBUF])
def test_a_pattern_that_leaves_its_storage_is_refused_with_and_without_values(name, memory):
    reason = r"\(8, -1\) bytes; legal: 0" if name == "backwards" else "its storage of 48 bytes"
    for has_values in (True, False):
        with pytest.raises(IllegalInstruction, match=reason):
            _ = tile_of(OUTSIDE[name], memory=memory, has_values=has_values).box


def test_on_chip_a_row_ends_with_its_partition():
    crossing = AccessPattern((3, 10), (8, 1), 0)
    assert tile_of(crossing, memory=Memory.HBM).box == Box(0, 3, 0, 7)
    with pytest.raises(IllegalInstruction, match="8 a row"):
        _ = tile_of(crossing, memory=Memory.SBUF).box
    assert tile_of(AccessPattern((3, 8), (8, 1), 0), memory=Memory.SBUF).box == Box(0, 2, 0, 7)


def test_a_tile_of_the_partition_axis_alone_has_a_box(bench):
    assert bench().empty((4,)).box == Box(0, 3, 0, 3)


def test_a_shape_only_tile_has_no_values():
    with pytest.raises(InternalError, match="shape-only"):
        _ = tile_of(AccessPattern.dense((ROWS, PITCH), 1), has_values=False).array


def test_an_array_outside_its_storage_is_refused():
    with pytest.raises(IllegalInstruction, match="keep the access pattern within"):
        _ = tile_of(AccessPattern((7, 8), (8, 1), 0)).array


def test_a_copy_knows_what_was_written_though_it_was_full_before():
    storage = Storage(Memory.HBM, 64, 16, data=np.zeros(64, np.uint8), is_written=True)
    storage.changed = ByteMask(64)
    Tile(storage, FLOAT32, AccessPattern((2, 2), (16, 4), 8)).mark_written()
    changed = storage.changed.flags(AccessPattern((4, 4), (16, 4), 0), 4)
    assert np.argwhere(changed).tolist() == [[0, 2], [0, 3], [1, 2], [1, 3]]
    assert storage.bare().changed is None


def test_a_copy_knows_which_elements_of_a_partial_write_were_written():
    storage = Storage(Memory.HBM, 64, 16, data=np.zeros(64, np.uint8))
    storage.changed = ByteMask(64)
    every_word, flags = AccessPattern((4, 4), (16, 4), 0), np.eye(2, dtype=np.bool_)
    Tile(storage, FLOAT32, AccessPattern((2, 2), (16, 4), 8)).mark_written_where(flags)
    for mask in (storage.changed, storage.written):
        assert np.argwhere(mask.flags(every_word, 4)).tolist() == [[0, 2], [1, 3]]


def test_more_rows_than_a_table_has_are_gathered_from_its_written_part():
    table, rows = tile_of(AccessPattern.dense((3, PITCH), 1)), 2 * ROWS
    offsets = Tile(
        Storage(Memory.SBUF, rows, 1, data=np.ones(rows, np.uint8)),
        UINT8,
        AccessPattern.dense((rows, 1), 1),
    )
    gathered = AccessPattern.dense((rows, PITCH), 1)
    index = VectorIndex(offsets, PITCH, limit=3)
    tile = Tile(table.storage, UINT8, gathered, index)
    assert not tile.is_written()
    table.mark_written()
    assert not table.storage.written.is_full
    assert tile.is_written()


def test_a_deep_copy_of_what_names_a_tile_names_the_same_one(bench):
    tile = bench().tile(np.zeros((4, 8), np.float32))
    (copied,) = copy.deepcopy([tile])
    copied.store(np.ones((4, 8), np.float32))
    assert (tile.load() == 1).all()
