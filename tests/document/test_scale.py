import pytest
from hypothesis import given
from hypothesis import strategies as st

from trnsim.document.scale import Scale, spanning

NUMBERS = st.floats(1e-3, 1e9)


def test_ends_are_places_and_what_lies_beyond_is_put_there():
    scale = Scale(0.0, 10.0, 100.0, 200.0)
    assert [scale(at) for at in (-5, 0, 5, 10, 20)] == [100, 100, 150, 200, 200]


def test_a_logarithmic_scale_has_equal_distances_for_equal_ratios():
    scale = Scale(1.0, 100.0, 0.0, 2.0, is_log=True)
    assert [scale(at) for at in (1, 10, 100)] == pytest.approx([0, 1, 2])
    assert scale(0.0) == 0.0
    assert scale.marks() == pytest.approx([1, 10, 100])


def test_one_value_lies_in_the_middle():
    scale = spanning([7.0], 0.0, 10.0)
    assert scale(7.0) == pytest.approx(5.0)
    assert Scale(3.0, 3.0, 0.0, 10.0)(3.0) == 5.0
    assert Scale(3.0, 3.0, 0.0, 10.0).marks() == [3.0]


def test_only_values_that_lie_apart_have_a_logarithmic_scale():
    assert not spanning([1.0, 19.9], 0, 1).is_log
    assert spanning([1.0, 20.0], 0, 1).is_log
    assert not spanning([0.0, 1e6], 0, 1).is_log


@given(st.lists(NUMBERS, min_size=1, max_size=9))
def test_marks_are_few_and_within_and_values_keep_their_order(values):
    scale = spanning(values, 0.0, 100.0)
    marks = scale.marks()
    assert len(marks) <= 7
    assert all(scale.low * 0.999 <= mark <= scale.high * 1.001 for mark in marks)
    places = [scale(one) for one in sorted(values)]
    assert places == sorted(places)
    assert all(0 <= place <= 100 for place in places)
