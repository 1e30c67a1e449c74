"""Places of elements, beside numpy's."""

import numpy as np
import pytest

from trnsim.graph.building.build import Build
from trnsim.graph.building.indexing import flat_indices, gather_along_rows, linear_index, move_dim


def applied(function, *arrays):
    """The result of a graph of those arrays, and the names of its operations."""
    b = Build()
    b.graph.outputs = [function(b, *(b.graph.input(x.shape, x.dtype.name) for x in arrays))]
    return b.graph.reference(arrays)[0], [node.name for node in b.graph.nodes]


@pytest.mark.parametrize(("dim", "place"), [(0, -1), (-1, 0), (1, 1), (-2, 2)])
def test_a_dimension_is_moved(random, dim, place):
    x = random((2, 3, 4))
    found, _ = applied(lambda b, x: move_dim(b, x, dim, place), x)
    np.testing.assert_array_equal(found, np.moveaxis(x, dim, place))


def test_indices_into_several_dimensions_are_one():
    parts = [np.array(numbers, np.int32) for numbers in ([0, 1, 1], [2, 0, 3], [4, 1, 0])]
    found, _ = applied(lambda b, *parts: linear_index(b, parts, (2, 4, 5)), *parts)
    assert found.tolist() == np.ravel_multi_index(parts, (2, 4, 5)).tolist()


def test_places_in_a_row_are_places_in_the_whole():
    index = np.array([[[3, 0]], [[1, 2]]], np.int32)
    found, _ = applied(lambda b, i: flat_indices(b, i, (2, 1, 4)), index)
    assert found.tolist() == [[[3, 0]], [[5, 6]]]


@pytest.mark.parametrize(("length", "name"), [(16_384, "gather_in_rows"), (16_385, "gather")])
def test_elements_of_a_row_that_a_partition_holds_and_of_a_longer_one(random, length, name):
    x, places = random((2, length)), np.array([[0, length - 1, 7], [5, 5, 1]], np.int32)
    found, names = applied(gather_along_rows, x, places)
    np.testing.assert_array_equal(found, np.take_along_axis(x, places, -1))
    assert ("iota" in names) == (name == "gather")
