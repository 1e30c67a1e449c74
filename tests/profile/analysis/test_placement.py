"""The map of a memory: no two tensors share an address at one time, the rest is the program's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.memory import Memory
from trnsim.profile.analysis import placement as placements
from trnsim.profile.analysis.placement import first_fit, placement

TENSORS = st.lists(
    st.tuples(st.integers(0, 20), st.integers(1, 10), st.integers(1, 8)), max_size=30
)


@given(TENSORS)
def test_no_two_tensors_share_bytes_at_one_time(tensors):
    ordered = sorted(tensors)
    begin, length, nbytes = (np.array([row[k] for row in ordered], float) for k in range(3))
    address = first_fit(begin, begin + length, nbytes.astype(np.int64))
    for i in range(len(ordered)):
        for j in range(i):
            is_at_once = begin[i] < begin[j] + length[j] and begin[j] < begin[i] + length[i]
            is_apart = address[i] + nbytes[i] <= address[j] or address[j] + nbytes[j] <= address[i]
            assert is_apart or not is_at_once
    # Each lies at 0 or directly above one that is there when it begins.
    for i in range(len(ordered)):
        ends = [address[j] + nbytes[j] for j in range(i) if begin[j] + length[j] > begin[i]]
        assert address[i] in {0, *ends}


def test_a_tensor_takes_the_room_of_one_that_has_ended():
    begin, end = np.array([0.0, 0.0, 1.0]), np.array([1.0, 2.0, 2.0])
    assert first_fit(begin, end, np.array([8, 8, 8])).tolist() == [0, 8, 0]
    assert first_fit(np.zeros(0), np.zeros(0), np.zeros(0, np.int64)).tolist() == []


@pytest.mark.parametrize("memory", [Memory.SBUF, Memory.PSUM])
def test_columns_are_of_the_tensors_of_the_program(memory, timeline):
    columns = placement(timeline, memory)
    lengths = {len(column) for column in columns.values() if isinstance(column, list)}
    assert lengths == {columns["tensors"]}
    assert columns["name"] == memory.value
    for at, first in enumerate(columns["first"]):
        assert columns["begin"][at] <= columns["end"][at]
        assert 0 <= first < len(timeline)
        assert 1 <= columns["partitions"][at] <= 128


def test_of_more_tensors_than_a_map_has_the_largest_are_kept(kernel, monkeypatch):
    for width in (8, 512, 8, 256):
        kernel.load(128, width)
    whole = placement(kernel.timeline(), Memory.SBUF)
    monkeypatch.setattr(placements, "MOST_TENSORS", 2)
    few = placement(kernel.timeline(), Memory.SBUF)
    assert few["tensors"] == whole["tensors"] == 4
    assert sorted(few["bytes"]) == sorted(whole["bytes"])[-2:]
