"""Dynamic addressing: a tile whose place is read from another tile or a register."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import FLOAT32, INT32
from trnsim.errors import IllegalInstruction
from trnsim.memory import Memory, ScalarIndex, SnakeIndex, Tile, VectorIndex
from trnsim.memory.index import is_in_range


class Register:
    value = 2
    origins = ()


@pytest.fixture(scope="module")
def table(bench):
    """A tile [6, 4] of 0, 1, 2 ... in HBM, and a function that makes index tiles."""
    work = bench()
    whole = work.tile(np.arange(24.0, dtype=np.float32).reshape(6, 4), memory=Memory.HBM)
    return whole, lambda values: work.tile(np.asarray(values), INT32)


def rows_of(whole, source, count):
    pattern = whole.pattern.slice(0, 0, 1)
    pattern = type(pattern)((count, 4), whole.pattern.strides_bytes, 0)
    return Tile(whole.storage, FLOAT32, pattern, VectorIndex(source, 16, 6))


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_a_vector_index_gathers_the_row_that_each_partition_names(table, wanted):
    whole, index = table
    tile = rows_of(whole, index([[i] for i in wanted]), len(wanted))
    np.testing.assert_array_equal(tile.load(), whole.load()[wanted])


def test_the_columns_of_a_vector_index_follow_each_other(table):
    whole, index = table
    tile = rows_of(whole, index([[0, 4], [1, 5]]), 4)
    np.testing.assert_array_equal(tile.load(), whole.load()[[0, 1, 4, 5]])


def test_a_vector_index_scatters_into_the_rows_that_it_names(bench):
    work = bench()
    whole = work.tile(np.zeros((6, 4), np.float32), memory=Memory.HBM)
    rows_of(whole, work.tile(np.array([[5], [2]]), INT32), 2).store(np.ones((2, 4), np.float32))
    assert whole.load().sum(axis=1).tolist() == [0, 0, 4, 0, 0, 4]


@pytest.mark.parametrize("source", ["tile", "register"])
def test_a_scalar_index_shifts_the_whole_tile(table, source):
    whole, index = table
    place = index([[2]]) if source == "tile" else Register()
    first = whole.pattern.slice(0, 0, 1)
    tile = Tile(whole.storage, FLOAT32, first, ScalarIndex(place, 16, 6)).resolved()
    np.testing.assert_array_equal(tile.load(), whole.load()[2:3])
    assert tile.index is None


def test_a_scalar_index_out_of_bounds_is_refused(table):
    whole, index = table
    first = whole.pattern.slice(0, 0, 1)
    for value in (6, -1):
        tile = Tile(whole.storage, FLOAT32, first, ScalarIndex(index([[value]]), 16, 6))
        with pytest.raises(IllegalInstruction, match=str(value)):
            tile.resolved()
    inside = Tile(whole.storage, FLOAT32, first, ScalarIndex(index([[5]]), 16, 6)).resolved()
    np.testing.assert_array_equal(inside.load(), whole.load()[5:6])


def test_a_scalar_index_on_chip_picks_along_a_free_axis(bench):
    work = bench()
    whole = work.tile(np.arange(24.0, dtype=np.float32).reshape(3, 2, 4))
    place = work.tile(np.array([[1]]), INT32)
    tile = Tile(whole.storage, FLOAT32, whole.pattern.select(1, 0), ScalarIndex(place, 16, 2))
    assert tile.box == whole.box
    np.testing.assert_array_equal(tile.resolved().load(), whole.load()[:, 1])


def test_a_static_tile_is_resolved_already(table):
    whole, _ = table
    assert whole.resolved() is whole
    assert whole.index_tiles() == ()


@given(st.integers(1, 6))
def test_a_snake_index_winds_through_the_partitions_of_its_group(bench, count):
    offsets = np.arange(32 * 2).reshape(32, 2)
    source = bench().tile(offsets, INT32)
    columns = SnakeIndex(source, 64, count, 16).columns(32)
    expected = [[offsets[p // 16 * 16 + i % 16, i // 16] for i in range(count)] for p in range(32)]
    np.testing.assert_array_equal(columns, expected)


def test_legal_indices_are_those_below_the_limit():
    assert is_in_range(np.array([-1, 0, 5, 6]), 6).tolist() == [False, True, True, False]
