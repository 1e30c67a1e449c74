import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.profile.measures.intervals import union


def of(pairs):
    start, end = np.array(pairs, np.float64).reshape(-1, 2).T
    return union(start, end)


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([], []),
        ([(1, 1)], []),
        ([(0, 2), (1, 3)], [(0, 3)]),
        ([(3, 4), (0, 2)], [(0, 2), (3, 4)]),
        ([(0, 2), (2, 3)], [(0, 3)]),
        ([(0, 9), (1, 2), (3, 4)], [(0, 9)]),
    ],
)
def test_a_union_merges_what_touches(pairs, expected):
    found = of(pairs)
    assert list(zip(found.start_s.tolist(), found.end_s.tolist(), strict=True)) == expected


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 9)), max_size=30))
def test_the_length_of_a_union_is_the_number_of_moments_in_it(starts):
    pairs = [(start, start + length) for start, length in starts]
    moments = {moment for start, end in pairs for moment in range(start, end)}
    assert of(pairs).total_s == len(moments)
