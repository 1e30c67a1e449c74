"""Reductions of columns: sums, extremes, short integers; on partitions and by pieces."""

import ml_dtypes
import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.lower import bound, costs, evaluate

DTYPES = {"bfloat16": ml_dtypes.bfloat16}
FUNCTIONS = {"add": np.sum, "maximum": np.max, "minimum": np.min, "multiply": np.prod}


def reduction(shape, dtype, op, dims, *, is_computed=False):
    graph = Graph()
    x = graph.input(shape, dtype)
    graph.outputs = [graph.reduce(op, graph.elementwise("negate", x) if is_computed else x, dims)]
    return graph


@pytest.mark.parametrize("chip", ["trn1", "trn3"])
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize(
    ("shape", "dtype", "dims"),
    [
        ((129, 7, 33), "float32", (1,)),
        ((5, 26, 3, 5, 2), "bfloat16", (2, 3)),
        ((64, 17, 1), "float32", (1,)),
        ((200, 2, 3, 65), "float16", (1,)),
        ((130, 600, 3), "float32", (1,)),
        ((128, 520, 20), "float32", (1,)),  # a partition does not hold runs of 16 elements
        ((1, 130, 600), "float32", (1,)),
    ],
)
def test_reductions_before_the_last_dimension_equal_numpys(chip, op, shape, dtype, dims):
    random = np.random.default_rng(0)
    x = 1 + 0.05 * random.standard_normal(shape)
    x = x.astype(DTYPES.get(dtype, dtype))
    for is_computed in (False, True):
        graph = reduction(shape, dtype, op, dims, is_computed=is_computed)
        (values,) = evaluate(graph, [x], chip)
        wide = x.astype(np.float64) * (-1 if is_computed else 1)
        expected = FUNCTIONS[op](wide, axis=dims).astype(x.dtype).astype(np.float64)
        tolerance = {"float32": 1e-4, "bfloat16": 1e-2, "float16": 2e-3}[dtype]
        np.testing.assert_allclose(values.astype(np.float64), expected, rtol=tolerance)


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize(
    ("shape", "most_bounds"), [((2048, 8, 512), 4), ((2048, 2, 2048), 3), ((1000, 600, 3), 5)]
)
def test_many_short_reductions_take_some_times_their_bytes(op, shape, most_bounds):
    graph = reduction(shape, "bfloat16", op, (1,))
    device_s = sum(cost.device_time_s for cost in costs(graph, "trn2"))
    assert device_s < most_bounds * bound(graph, "trn2").seconds


@pytest.mark.parametrize("op", ["add", "maximum"])
@pytest.mark.parametrize(
    "shape", [(2, 1 << 18), (3, 1000, 700), (7, 1000, 33), (4, 2048, 2048), (24, 128, 512)]
)
def test_few_long_rows_take_some_times_their_bytes(op, shape):
    graph = reduction(shape, "float32", op, (0,))
    device_s = sum(cost.device_time_s for cost in costs(graph, "trn2"))
    assert device_s < 3 * bound(graph, "trn2").seconds + 6e-6


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("op", FUNCTIONS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(
    "shape", [(2, 2047, 1), (2, 2049, 1), (3, 128, 16), (2, 5, 4099), (1, 24, 4000), (25, 999, 5)]
)
def test_few_long_rows_equal_numpys(chip, op, dtype, shape):
    x = np.random.default_rng(0).uniform(0.9, 1.1, shape).astype(DTYPES.get(dtype, dtype))
    dim = int(shape[0] == 1)
    (values,) = evaluate(reduction(shape, dtype, op, (dim,)), [x], chip)
    expected = FUNCTIONS[op](x.astype(np.float64), axis=dim)
    tolerance = {"float32": 1e-5, "bfloat16": 2e-2}[dtype]
    np.testing.assert_allclose(values.astype(np.float64), expected, rtol=tolerance)


def test_sums_of_few_long_rows_of_integers_wrap_around():
    x = np.random.default_rng(0).integers(-128, 128, (5, 3001, 2)).astype(np.int8)
    (values,) = evaluate(reduction(x.shape, "int8", "add", (0,)), [x], "trn2")
    np.testing.assert_array_equal(values, np.add.reduce(x.astype(np.int64), 0).astype(np.int8))


def test_a_partition_with_nan_leaves_the_others():
    x = np.ones((130, 3, 40), np.float32)
    x[129, 2, 7] = np.nan
    (values,) = evaluate(reduction(x.shape, "float32", "add", (1,)), [x], "trn2")
    assert np.argwhere(np.isnan(values)).tolist() == [[129, 7]]


@pytest.mark.parametrize("op", ["add", "maximum", "minimum"])
@pytest.mark.parametrize(
    ("shape", "dims"),
    [((300, 600), (0,)), ((3, 140, 80), (1,)), ((2, 5, 30, 40), (1, 2)), ((2, 3, 20, 4, 5), (2,))],
)
def test_reductions_over_dimensions_before_the_last(random, op, shape, dims):
    x = random(shape)
    g = Graph()
    g.outputs = [g.reduce(op, g.input(x.shape, "float32"), dims)]
    reduced = {"add": np.sum, "maximum": np.max, "minimum": np.min}[op]
    expected = reduced(x, axis=dims)
    np.testing.assert_allclose(evaluate(g, [x])[0], expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16"])
def test_sums_of_columns_of_short_integers_wrap_around(dtype):
    x = np.full((5, 7), np.iinfo(dtype).max, dtype)
    g = Graph()
    g.outputs = [g.reduce("add", g.input((5, 7), dtype), (0,))]
    expected = np.add.reduce(x.astype(np.int64), 0).astype(dtype)
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected)
