"""Operands of a computation: where they lie decides how their tiles come."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph import Graph
from trnsim.lower import evaluate
from trnsim.lower.emit.computing.leaves import varies_along
from trnsim.lower.emit.places.tensor_place import TensorPlace


def test_a_leaf_moves_along_dimensions_whose_elements_differ():
    placed = TensorPlace(None, (4, 1, 5), ((0,), (7,), (1,)), (0,))
    assert not varies_along(placed, (0, 1))
    assert varies_along(placed, (0, 2))


@pytest.mark.parametrize("dims", [(0,), (1,), (2,), (0, 2), ()])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_operands_that_repeat_along_any_dimensions(dims, dtype):
    made = Made(dtype)
    x = made.given(3, 130, 65)
    other = made.given(*(x.shape[dim] for dim in dims))
    made.check(made.of("multiply", x, made.repeated(other, x, dims)), chip=CHIPS[len(dims)])


def test_what_lies_across_is_turned_once():
    made = Made("float32")
    x = made.given(130, 260)
    across = made.graph.transpose(made.given(260, 130), (1, 0))
    made.check(made.of("add", x, across), made.of("multiply", across, x))


def test_a_view_of_many_short_runs_is_written_from_its_only_place():
    x = np.random.default_rng(0).standard_normal((1000, 600, 3)).astype(np.float32)
    graph = Graph()
    value = graph.input(x.shape, "float32")
    largest = graph.broadcast_in_dim(graph.reduce("maximum", value, (1,)), x.shape, (0, 2))
    graph.outputs = [graph.elementwise("subtract", value, largest)]
    np.testing.assert_array_equal(evaluate(graph, [x])[0], x - x.max(1, keepdims=True))


@pytest.mark.parametrize("width", [3, 8, 12])
def test_long_columns_on_few_partitions_are_rows_that_are_transposed(width):
    made = Made("bfloat16")
    rows = made.rms_norm(made.given(3000, width))
    made.check(made.graph.dot_general(rows, made.weight(64, width), (1, 1)))
