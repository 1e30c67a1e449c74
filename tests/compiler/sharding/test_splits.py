import pytest

from trnsim.compiler.sharding.splits import (
    WHOLE,
    half_shape,
    half_type,
    matching_dims,
    splittable_dims,
)
from trnsim.graph.types import TensorType


def test_only_even_dimensions_have_halves():
    assert list(splittable_dims((1, 2, 3, 4, 0))) == [1, 3]
    assert list(splittable_dims(())) == []


def test_a_core_has_half_of_the_dimension_that_is_split():
    assert half_shape((6, 4), 0) == (3, 4)
    assert half_shape((6, 4), WHOLE) == (6, 4)
    assert half_type(TensorType((6, 4), "int8"), 1) == TensorType((6, 2), "int8")


@pytest.mark.parametrize(
    ("before", "after", "pairs"),
    [
        ((4, 6), (24,), [(0, 0)]),
        ((24,), (4, 6), [(0, 0)]),
        ((2, 128, 12), (256, 12), [(0, 0), (2, 1)]),
        ((1, 8, 64), (8, 8, 8), [(1, 0), (2, 1)]),
        ((3, 8), (24,), []),  # the first half of 24 is no half of 8
        ((3, 2, 4), (3, 8), [(1, 1)]),
        ((4, 1), (1, 4), [(0, 1)]),
    ],
)
def test_a_reshape_carries_halves_that_are_the_same_elements(before, after, pairs):
    assert list(matching_dims(before, after)) == pairs
