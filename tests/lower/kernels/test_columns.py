"""Reductions of columns: sums, extremes, short integers."""

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.lower import evaluate


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
