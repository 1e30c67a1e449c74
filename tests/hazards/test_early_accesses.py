"""Accesses that are kept as a list until one meets an access of another core."""

import numpy as np
import pytest

import trnsim
from trnsim.errors import DataRace, SourceLine
from trnsim.hazards import RaceDetector

HERE, THERE = SourceLine("kernel.py", 1), SourceLine("kernel.py", 2)


def test_an_element_picked_by_an_index_and_read_again_is_remembered_as_last_read(shared, bench):
    """A read by an index is noted at once, earlier plain reads at the first write."""
    detector = RaceDetector(2, is_strict=False)
    tile = shared[0:4]
    rows = bench().tile(np.zeros((4, 1), np.int32))
    index = trnsim.memory.VectorIndex(rows, 4, 4)
    pattern = tile.pattern._replace(shape=(4, 1), strides_bytes=(4, 4))
    picked = trnsim.memory.Tile(tile.storage, tile.dtype, pattern, index)
    detector.accessed(0, [tile], [], SourceLine("kernel.py", 7))
    detector.accessed(0, [picked], [], HERE)
    detector.accessed(1, [], [shared[0:1]], THERE)
    assert "kernel.py:1:" in str(detector.races[0])


def test_an_element_picked_by_an_index_that_changed_since_is_remembered(shared, bench):
    detector = RaceDetector(2)
    rows = bench().tile(np.zeros((1, 1), np.int32))
    index = trnsim.memory.VectorIndex(rows, 4, 4)
    tile = shared[0:4]
    pattern = tile.pattern._replace(shape=(1, 1), strides_bytes=(4, 4))
    picked = trnsim.memory.Tile(tile.storage, tile.dtype, pattern, index)
    for row in (0, 3):
        rows.array[...] = row
        detector.accessed(0, [picked], [], HERE)
    detector.accessed(1, [], [shared[1:3]], THERE)
    with pytest.raises(DataRace):
        detector.accessed(1, [], [shared[0:1]], THERE)


def test_a_write_again_after_a_barrier_is_the_last_of_its_bytes(shared):
    detector = RaceDetector(2)
    tile = shared[0:4]
    detector.accessed(0, [], [tile], SourceLine("kernel.py", 7))
    detector.accessed(0, [], [shared[2:6]], SourceLine("kernel.py", 8))
    detector.meets((0, 1), [tile])
    for core in (0, 1):
        detector.accessed(core, [], [], None)
    detector.accessed(0, [], [tile], HERE)
    with pytest.raises(DataRace, match=r"kernel\.py:1:"):
        detector.accessed(1, [shared[2:4]], [], THERE)
