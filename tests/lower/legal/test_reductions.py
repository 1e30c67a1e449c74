import numpy as np
import pytest
from ml_dtypes import bfloat16

from trnsim.graph import Graph
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower import bound, costs, evaluate

DIMS = [(), (0, 2), (1, 3), (0, 3), (0, 1, 3), (0, 2, 3)]


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("dims", DIMS)
@pytest.mark.parametrize("op", ["add", "multiply", "maximum", "minimum"])
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.int8, np.uint8])
def test_dimensions_that_are_not_neighbours(agree, op, dims, dtype):
    x = np.random.default_rng(0).integers(0, 4, (2, 3, 1, 4)).astype(dtype)
    agree(Reduce(op, dims), x)


def test_sums_of_short_types_are_rounded_once(agree):
    x = np.random.default_rng(0).uniform(-1, 1, (5, 3, 7)).astype(bfloat16)
    agree(Reduce("add", (0, 2)), x)


def test_a_mean_of_integers_may_be_a_fraction(agree):
    x = np.full((2, 3, 2), 2**24 // 4, np.int32)
    agree(Reduce("add", (0, 2)), x, dtype="float32")


FUNCTIONS = {"add": np.sum, "maximum": np.max, "minimum": np.min}


def reduction(op, shape, dims, dtype):
    graph = Graph()
    graph.outputs = [graph.reduce(op, graph.input(shape, dtype), dims)]
    return graph


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [
        ((40000,), (0,)),
        ((1, 32771), (1,)),  # a prime: no parts
        ((3, 33000), (1,)),
        ((8, 32768), (1,)),
        ((200, 7, 33), (0, 1, 2)),
        ((2, 3, 80, 10, 17), (2, 3, 4)),
        ((5, 1, 130, 256), (1, 2, 3)),
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, bfloat16])
def test_few_long_rows(op, shape, dims, dtype):
    x = np.random.default_rng(0).uniform(0.5, 1, shape).astype(dtype)
    graph = reduction(op, shape, dims, x.dtype.name)
    (values,) = evaluate(graph, [x])
    expected = FUNCTIONS[op](x.astype(np.float64), axis=dims).astype(dtype)
    assert (values.shape, values.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(
        values.astype(np.float64), expected.astype(np.float64), rtol=1e-5 if op == "add" else 0
    )


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize(
    ("shape", "dims", "most_bounds"),
    [((2048, 2048), (0, 1), 2), ((1, 1 << 20), (1,), 5), ((4, 3, 224, 224), (1, 2, 3), 4)],
)
def test_few_long_rows_take_some_times_their_bytes(op, shape, dims, most_bounds):
    graph = reduction(op, shape, dims, "float32")
    device_s = sum(cost.device_time_s for cost in costs(graph, "trn2"))
    assert device_s < most_bounds * bound(graph, "trn2").seconds


def test_nan_and_infinity_of_a_long_row_are_its_own():
    x = np.ones((3, 33000), np.float32)
    x[0, 32999], x[1, 5] = np.nan, np.inf
    (values,) = evaluate(reduction("add", x.shape, (1,), "float32"), [x])
    np.testing.assert_array_equal(values, [np.nan, np.inf, 33000])
