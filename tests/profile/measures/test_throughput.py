import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.profile.measures.throughput import throughput


def of(*rows):
    start, end, nbytes = np.array(rows, np.float64).reshape(-1, 3).T
    return throughput(start, end, nbytes.astype(np.int64))


def test_what_overlaps_adds_up():
    found = of((0, 2, 20), (1, 3, 20))
    assert found.time_s.tolist() == [0, 1, 2, 3]
    assert found.bytes_per_s.tolist() == [10, 20, 10, 0]
    assert found.total_bytes.tolist() == [0, 10, 30, 40]


def test_what_moves_nothing_or_takes_no_time_does_not_show():
    assert of((0, 0, 5), (1, 2, 0)).time_s.tolist() == []


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 9), st.integers(1, 10**6))))
def test_all_bytes_have_moved_at_the_end(rows):
    found = of(*[(start * 1e-7, (start + length) * 1e-7, n) for start, length, n in rows])
    if rows:
        assert found.total_bytes[-1] == pytest.approx(sum(n for *_, n in rows))
        assert found.bytes_per_s[-1] == 0
    assert (found.bytes_per_s >= 0).all()
