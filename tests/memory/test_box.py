"""Boxes against sets of (row, byte) pairs."""

from itertools import product

from hypothesis import given
from hypothesis import strategies as st

from trnsim.memory import Box

corner = st.tuples(st.integers(0, 3), st.integers(0, 3)).map(sorted)
boxes = st.tuples(corner, corner).map(lambda pair: Box(*pair[0], *pair[1]))


def cells(box):
    rows = range(box.first_row, box.last_row + 1)
    return set(product(rows, range(box.first_byte, box.last_byte + 1)))


@given(boxes)
def test_a_box_has_as_many_bytes_as_cells(box):
    assert box.nbytes == len(cells(box))


@given(boxes, boxes)
def test_boxes_overlap_and_contain_as_sets_do(first, second):
    assert first.overlaps(second) == bool(cells(first) & cells(second))
    assert first.contains(second) == (cells(first) >= cells(second))


@given(boxes, boxes)
def test_what_two_boxes_share_is_a_box(first, second):
    if first.overlaps(second):
        assert cells(first.intersection(second)) == cells(first) & cells(second)


@given(boxes, boxes)
def test_what_remains_of_a_box_is_the_difference_in_disjoint_pieces(first, second):
    rest = [cells(box) for box in first.difference(second)]
    assert set().union(*rest) == cells(first) - cells(second)
    assert sum(map(len, rest)) == len(cells(first) - cells(second))
    assert len(rest) <= 4


@given(boxes, st.lists(boxes, max_size=6))
def test_what_remains_outside_many_is_the_difference_in_disjoint_pieces(whole, candidates):
    others = []
    for box in candidates:
        if whole.contains(box) and not any(box.overlaps(other) for other in others):
            others.append(box)
    rest = [cells(box) for box in whole.difference_all(others)]
    expected = cells(whole).difference(*map(cells, others))
    assert set().union(*rest) == expected
    assert sum(map(len, rest)) == len(expected)


def test_rows_that_lack_the_same_bytes_are_one_piece():
    whole = Box(0, 9, 0, 9)
    assert whole.difference_all([]) == [whole]
    assert whole.difference_all([Box(0, 4, 0, 3), Box(5, 9, 0, 3)]) == [Box(0, 9, 4, 9)]
    assert whole.difference_all([whole]) == []
