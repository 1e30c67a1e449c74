"""Layouts: found once for tiles that lie alike."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.dtypes import BFLOAT16, FLOAT16, FLOAT32
from trnsim.memory import AccessPattern, Box, Memory, Storage, Tile
from trnsim.memory.layout import layout_of

DENSE = AccessPattern.dense((4, 8), 4)


def tile_of(pattern=DENSE, dtype=FLOAT32, memory=Memory.SBUF, start_partition=0):
    return Tile(Storage(memory, 128, 32, start_partition=start_partition), dtype, pattern)


def test_tiles_of_different_storages_that_lie_alike_share_their_layout():
    assert tile_of().layout is tile_of().layout
    assert tile_of().layout.box == Box(0, 3, 0, 31)


@pytest.mark.parametrize(
    "other",
    [
        tile_of(memory=Memory.PSUM),
        tile_of(AccessPattern.dense((4, 16), 2), BFLOAT16),
        tile_of(DENSE.slice(1, 0, 4)),
        tile_of(start_partition=32),
    ],
    ids=str,
)
def test_what_a_rule_may_ask_for_gives_another_signature(other):
    assert other.layout.signature != tile_of().layout.signature


def test_dtypes_of_one_size_have_signatures_of_their_own():
    halves = AccessPattern.dense((4, 16), 2)
    first, second = (tile_of(halves, dtype) for dtype in (BFLOAT16, FLOAT16))
    assert first.layout.box == second.layout.box
    assert first.layout.signature != second.layout.signature


def test_the_place_in_hbm_does_not_tell_signatures_apart_and_on_chip_its_alignment_does():
    wide = AccessPattern.dense((4, 64), 4)
    parts = [wide.slice(1, first, first + 4) for first in (0, 4, 16, 48)]
    for memory, numbers in ((Memory.HBM, 1), (Memory.SBUF, 2)):
        tiles = [Tile(Storage(memory, 1024, 256), FLOAT32, part) for part in parts]
        assert len({tile.layout.signature for tile in tiles}) == numbers
        assert len({tile.layout.box for tile in tiles}) == len(parts)


def test_tiles_in_psum_tell_by_their_signature_which_powers_of_two_they_cross():
    wide = AccessPattern.dense((4, 64), 4)
    parts = [wide.slice(1, first, first + 32) for first in (0, 16, 32)]
    tiles = [Tile(Storage(Memory.PSUM, 1024, 256), FLOAT32, part) for part in parts]
    within, across, after = (tile.layout.signature for tile in tiles)
    assert within == after != across


def test_a_pattern_that_leaves_its_storage_has_no_layout():
    beyond = AccessPattern((5, 8), (32, 4), 0)
    given = (Memory.SBUF, 128, 32, 0, "float32", np.dtype(np.float32))
    assert layout_of(*given, beyond) is None
    anywhere = layout_of(*given, beyond, is_moved=True)
    assert anywhere is not None
    assert anywhere.box == Box(0, 3, 0, 31)


@given(st.data())
def test_runs_are_the_same_bytes(data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    pattern = AccessPattern.dense(tuple(lengths), 4)
    for dim, length in enumerate(lengths):
        first = data.draw(st.integers(0, length - 1))
        pattern = pattern.slice(dim, first, data.draw(st.integers(first + 1, length)))
    runs, run_bytes = pattern.runs(4)
    assert runs.elements * run_bytes == pattern.elements * 4
    assert bytes_of(runs, run_bytes) == bytes_of(pattern, 4)


def bytes_of(pattern, itemsize):
    flags = np.zeros(4**5, np.bool_)
    view = np.ndarray(
        (*pattern.shape, itemsize),
        np.bool_,
        flags,
        pattern.offset_bytes,
        (*pattern.strides_bytes, 1),
    )
    view[...] = True
    return flags.nonzero()[0].tolist()


def test_whole_tensors_are_one_run():
    assert tile_of().layout.runs == (AccessPattern((), (), 0), 128)


@pytest.mark.parametrize(("elements", "buckets"), [(1, 1), (16384, 1), (16385, 2), (1 << 24, 1024)])
def test_a_vector_has_as_many_buckets_as_a_matrix_of_its_size(elements, buckets):
    storage = Storage(Memory.HBM, 4 * elements, 4)
    vector = Tile(storage, FLOAT32, AccessPattern.dense((elements,), 4))
    parts = [box for _, box in vector.layout.buckets]
    assert len(parts) == buckets
    assert sum(box.nbytes for box in parts) == 4 * elements
    assert (parts[0].first_row, parts[-1].last_row) == (0, elements - 1)
