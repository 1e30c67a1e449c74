"""Many short rows share partitions: values beside numpy's, and times beside the bytes."""

import ml_dtypes
import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.compiler import compile  # noqa: A004  the compilers' name
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph
from trnsim.lower import bound, costs, evaluate

DTYPES = {"bfloat16": ml_dtypes.bfloat16}
NEAR = {"float32": 1e-4, "float16": 4e-3, "bfloat16": 3e-2}
TRANSFERS_S = 9e-6
"""Two transfers, of 2 us each, and instructions between them that wait for one another."""


def along_rows(g, value, like):
    return g.broadcast_in_dim(value, like.shape, tuple(range(len(value.shape))))


def reduced(op):
    return lambda g, x: g.reduce(op, x, (len(x.shape) - 1,))


def less_largest(g, x):
    return g.elementwise("subtract", x, along_rows(g, reduced("maximum")(g, x), x))


def softmax(g, x):
    powers = g.elementwise("exponential", less_largest(g, x))
    return g.elementwise("divide", powers, along_rows(g, reduced("add")(g, powers), x))


def by_norm(g, x):
    squares = reduced("add")(g, g.elementwise("square", x))
    return g.elementwise("divide", x, along_rows(g, g.elementwise("sqrt", squares), x))


def by_a_row(g, x):
    row = g.input(x.shape[-1:], x.dtype)
    return g.elementwise("multiply", x, g.broadcast_in_dim(row, x.shape, (len(x.shape) - 1,)))


def numpy_softmax(x):
    powers = np.exp(x - x.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


OPERATORS = {
    "sum": (reduced("add"), lambda x: x.sum(-1)),
    "minimum": (reduced("minimum"), lambda x: x.min(-1)),
    "product": (reduced("multiply"), lambda x: x.prod(-1)),
    "less the largest": (less_largest, lambda x: x - x.max(-1, keepdims=True)),
    "softmax": (softmax, numpy_softmax),
    "by the norm": (by_norm, lambda x: x / np.sqrt((x**2).sum(-1, keepdims=True))),
    "cumsum": (lambda g, x: g.scan("add", x), lambda x: x.cumsum(-1)),
}


def graph_of(make, shape, dtype):
    g = Graph()
    g.outputs = [make(g, g.input(shape, dtype))]
    return g


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize(
    "shape",
    [(1, 3), (129, 1), (130, 2), (2003, 3), (9, 257, 5), (1500, 16), (1, 40, 30, 7), (1100, 64)],
)
def test_rows_of_any_number_and_length_equal_numpys(shape, operator, dtype):
    make, oracle = OPERATORS[operator]
    x = np.random.default_rng(0).uniform(0.5, 1.5, shape).astype(DTYPES.get(dtype, dtype))
    chip = CHIPS[(sum(shape) + len(operator)) % 4]
    (found,) = evaluate(graph_of(make, shape, dtype), [x], chip)
    expected = oracle(x.astype(np.float64))
    scale = max(np.abs(expected).max(), 1.0)
    np.testing.assert_allclose(
        found.astype(np.float64) / scale, expected / scale, atol=NEAR[dtype], rtol=0
    )


@pytest.mark.parametrize("chip", CHIPS)
def test_sums_of_short_rows_of_integers_wrap_around(chip):
    x = np.random.default_rng(0).integers(-128, 128, (1500, 3)).astype(np.int8)
    (found,) = evaluate(graph_of(reduced("add"), x.shape, "int8"), [x], chip)
    np.testing.assert_array_equal(found, np.add.reduce(x.astype(np.int64), 1).astype(np.int8))


@pytest.mark.parametrize("operator", ["sum", "softmax", "cumsum"])
def test_a_row_with_nan_or_infinity_leaves_its_neighbours(operator):
    make, oracle = OPERATORS[operator]
    x = np.random.default_rng(0).standard_normal((3000, 3)).astype(np.float32)
    x[17, 1], x[18, 0], x[2999, 2] = np.nan, np.inf, -np.inf
    (found,) = evaluate(graph_of(make, x.shape, "float32"), [x], "trn2")
    with np.errstate(invalid="ignore"):
        expected = oracle(x.astype(np.float64))
    finite = np.isfinite(x).all(1)
    np.testing.assert_allclose(found[finite], expected[finite], rtol=1e-4, atol=1e-5)
    assert np.isnan(found[17]).any()


def test_values_that_others_read_and_operands_in_other_orders():
    made = Made()
    x, y = made.given(1300, 2, 3), made.given(2, 1300, 3)
    z = made.of("add", x, made.graph.transpose(y, (1, 0, 2)))
    scores = made.softmax(z)
    bias = made.given(3)
    made.check(
        made.of("add", scores, made.row(bias, scores)),
        made.graph.reduce("add", scores, (1, 2)),
        made.of("multiply", x, made.repeated(made.given(1300, 2), x, (0, 1))),
        made.layer_norm(made.graph.slice(x, (0, 0, 0), (1300, 2, 2))),
    )


def test_rows_that_a_product_reads():
    made = Made("bfloat16")
    made.check(made.linear(made.rms_norm(made.given(3000, 8)), 64), near=0.1)


@pytest.mark.parametrize("chip", ["trn1", "trn2"])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("operator", OPERATORS)
@pytest.mark.parametrize("shape", [(1000, 600, 3), (100_003, 3), (65_536, 8), (3, 1000, 16)])
def test_short_rows_take_some_times_their_bytes(shape, operator, dtype, chip):
    """Beside the bytes of float32, in which engines compute."""
    make, _ = OPERATORS[operator]
    device_s = sum(cost.device_time_s for cost in costs(graph_of(make, shape, dtype), chip))
    bound_s = bound(graph_of(make, shape, "float32"), chip).seconds
    assert device_s < 4 * bound_s + TRANSFERS_S


@pytest.mark.parametrize("lnc", [1, 2])
@pytest.mark.parametrize("make", [*(one for one, _ in OPERATORS.values()), by_a_row])
def test_compiled_programs_take_some_times_their_bytes(make, lnc):
    graph = graph_of(make, (100_003 if lnc == 1 else 100_006, 3), "float32")
    program = compile(graph, "trn2", lnc=lnc)
    assert program.device_time_s < 3.5 * program.bound.seconds + TRANSFERS_S


@pytest.mark.parametrize(
    "shape", [(8, 40, 10), (40, 64, 8), (131, 3, 7), (2, 700, 33), (64, 40, 10)]
)
@pytest.mark.parametrize("dims", [(1, 2), (0, 2), (2,)], ids=str)
def test_short_rows_times_what_some_of_them_share(shape, dims):
    """The outer dimensions are not one, as the shared operand repeats along one of them."""
    graph, (*_, width) = Graph(), shape
    x = graph.input(shape, "float32")
    shared = graph.input(tuple(shape[dim] for dim in dims), "float32")
    products = graph.elementwise("multiply", x, graph.broadcast_in_dim(shared, shape, dims))
    graph.outputs = [graph.reduce("add", products, (2,))]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(value.shape, np.float32) for value in graph.inputs)
    lengths = tuple(n if dim in dims else 1 for dim, n in enumerate(shape))
    expected = (a.astype(np.float64) * b.reshape(lengths)).sum(2)
    (found,) = evaluate_program(graph, [a, b])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5 * width)
    assert compile(graph).device_time_s > 0
