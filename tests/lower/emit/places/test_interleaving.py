"""Short dimensions that are transposed within a partition, from HBM to HBM."""

import numpy as np
import pytest
from made_graphs import CHIPS

from trnsim import compiler
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph

DTYPES = ["float32", "bfloat16", "float16", "float8_e4m3", "int32", "int8", "uint8"]
ORDERS = [
    ((3, 4099), (1, 0)),
    ((4099, 3), (1, 0)),
    ((2, 16, 1000), (0, 2, 1)),
    ((130, 2, 300), (0, 2, 1)),
    ((3, 1009, 5), (2, 0, 1)),
    ((3, 5, 4, 600), (1, 3, 0, 2)),
    ((2, 3, 7, 257), (2, 0, 3, 1)),
    ((1, 13, 1, 997), (0, 3, 2, 1)),
    ((5, 2, 2, 2, 2, 512), (0, 5, 4, 3, 2, 1)),
    ((8, 14, 14, 6, 6, 3), (0, 5, 1, 3, 2, 4)),  # images of patches: one axis between stays outside
    ((4, 3, 14, 8, 14, 8), (0, 2, 4, 1, 3, 5)),  # patches of images: rows have one axis at the end
]


def ordered(shape, order, dtype="float32"):
    """The graph of a transpose that is written to HBM in row-major order."""
    g = Graph()
    x = g.transpose(g.input(shape, dtype), order)
    g.outputs = [g.reshape(x, (x.type.elements,)), g.elementwise("maximum", x, x)]
    return g


def check(shape, order, dtype="float32", chip="trn2"):
    graph = ordered(shape, order, dtype)
    elements = int(np.prod(shape))
    x = (np.arange(elements) % 113).reshape(shape).astype(graph.inputs[0].type.numpy_dtype())
    flat, whole = evaluate_program(graph, [x], chip, frozenset())
    np.testing.assert_array_equal(flat, x.transpose(order).reshape(-1))
    np.testing.assert_array_equal(whole, x.transpose(order))


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(("shape", "order"), ORDERS)
def test_short_dimensions_change_places(shape, order):
    check(shape, order, chip=CHIPS[len(shape) % 4])


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("dtype", DTYPES)
def test_each_type_is_moved_exactly(dtype):
    check((3, 7, 2053), (0, 2, 1), dtype, CHIPS[len(dtype) % 4])


def test_special_numbers_are_moved():
    x = np.array([np.nan, np.inf, -np.inf, -0.0] * 2048, np.float32).reshape(8, 1024)
    (flat, _) = evaluate_program(ordered((8, 1024), (1, 0)), [x], "trn2", frozenset())
    np.testing.assert_array_equal(flat, x.T.reshape(-1))


@pytest.mark.parametrize("width", [2, 3, 16, 64])
@pytest.mark.parametrize("chip", ["trn1", "trn2"])
def test_a_short_last_dimension_takes_a_few_times_its_bytes(chip, width):
    g = Graph()
    x, y = g.input((8, width, 4096), "bfloat16"), g.input((8, 4096, width), "bfloat16")
    g.outputs = [g.elementwise("add", g.transpose(x, (0, 2, 1)), y)]
    program = compiler.compile(g, chip)
    assert program.device_time_s < 20e-6 + 5 * program.bound.seconds
