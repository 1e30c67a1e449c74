"""Few elements of computed tensors, and sums of rows of one element, by their operations."""

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.leaves import Iota
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.rewriting import rewrite_graph
from trnsim.lower.patterns.selection import GATHERED_FIRST, SUM_OF_ONE

ROWS, COLUMNS = 5, 40


def rewritten(graph, value, pattern):
    """The graph rewritten and pruned; the graph itself if the pattern does not match."""
    graph.outputs = [value]
    result = rewrite_graph(graph, [pattern])
    if result is not graph:
        result.prune()
    return result


def assert_same(graph, other, inputs):
    with np.errstate(all="ignore"):
        pairs = zip(graph.reference(inputs), other.reference(inputs), strict=True)
    for before, after in pairs:
        np.testing.assert_array_equal(before, after)


def logarithms(graph, x):
    """``x - max(x)`` of each row, less a logarithm, in float32."""
    wide = graph.elementwise("convert", x, dtype="float32")
    most = graph.reduce("maximum", wide, (1,))
    centred = graph.elementwise("subtract", wide, graph.broadcast_in_dim(most, x.shape, (0,)))
    total = graph.reduce("add", graph.elementwise("exponential", centred), (1,))
    spread = graph.broadcast_in_dim(total, x.shape, (0,))
    return graph.elementwise("subtract", centred, graph.elementwise("log", spread))


def test_few_logarithms_are_computed_from_gathered_elements(random):
    g = Graph()
    x, places = g.input((ROWS, COLUMNS), "bfloat16"), g.input((ROWS, 2), "int32")
    found = rewritten(g, g.gather_in_rows(logarithms(g, x), places), GATHERED_FIRST)
    (gather,) = [node for node in found.nodes if isinstance(node.operation, Gather)]
    assert gather.values == (x, places)
    index = np.array([[0, 39], [3, 3], [38, 1], [7, 0], [20, 21]], np.int32)
    assert_same(g, found, [random((ROWS, COLUMNS)).astype(x.type.numpy_dtype()), index])


def test_numbers_and_repeated_scalars_are_no_operands_to_gather(random):
    g = Graph()
    x, scalar = g.input((2, ROWS, COLUMNS), "float32"), g.input((), "float32")
    places = g.input((2, ROWS, 1), "int32")
    product = g.elementwise("multiply", x, g.broadcast_in_dim(scalar, x.shape, ()))
    found = rewritten(
        g, g.gather_in_rows(g.elementwise("add", product, product), places), GATHERED_FIRST
    )
    assert found is not g
    index = np.arange(2 * ROWS, dtype=np.int32).reshape(places.shape)
    assert_same(g, found, [random(x.shape), np.float32(3), index])


def many(g, x, _):
    return g.gather_in_rows(g.elementwise("negate", x), g.input((ROWS, COLUMNS // 4), "int32"))


def of_two(g, x, y):
    return g.gather_in_rows(g.elementwise("add", x, y), g.input((ROWS, 1), "int32"))


def of_an_input(g, x, _):
    return g.gather_in_rows(x, g.input((ROWS, 1), "int32"))


def of_rows(g, x, _):
    return g.gather(g.elementwise("negate", x), g.input((1,), "int32"))


def of_repeated_columns(g, x, _):
    row = g.broadcast_in_dim(g.input((COLUMNS,), "float32"), x.shape, (1,))
    return g.gather_in_rows(g.elementwise("add", x, row), g.input((ROWS, 1), "int32"))


@pytest.mark.parametrize("make", [many, of_two, of_an_input, of_rows, of_repeated_columns])
def test_other_gathers_stay(make):
    g = Graph()
    x, y = (g.input((ROWS, COLUMNS), "float32") for _ in range(2))
    assert rewritten(g, make(g, x, y), GATHERED_FIRST) is g


def one_of_each(g, index, *, dim=1, direction="EQ", is_float=True, dtype="float32", length=139):
    """The sum along `dim` of elements at the places of indices, and the rest."""
    shape = (ROWS, length) if dim else (length, ROWS)
    elements = g.input((ROWS,), dtype)
    if is_float and index.dtype == "int32":
        index = g.elementwise("convert", index, dtype="float32")
    counts = g.apply(Iota(shape, "float32" if is_float else "int32", dim))
    spread, numbers = (g.broadcast_in_dim(v, shape, (1 - dim,)) for v in (index, elements))
    is_there = g.elementwise("compare", counts, spread, dtype=dtype, direction=direction)
    return g.elementwise("multiply", is_there, numbers)


EDGES = np.array([1.5, -0.0, np.inf, np.nan, -3], np.float32)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("is_float", [False, True])
@pytest.mark.parametrize(
    "index", [[0, 138, 3, 7, 139], [-1, 5, 2**24 + 1, -(2**31), 2**31 - 1], [-100] * 5]
)
def test_the_sum_of_one_element_is_that_element(dim, is_float, index):
    g = Graph()
    rows = one_of_each(g, g.input((ROWS,), "int32"), dim=dim, is_float=is_float)
    found = rewritten(g, g.reduce("add", rows, (dim,)), SUM_OF_ONE)
    assert not any(isinstance(node.operation, Reduce) for node in found.nodes)
    assert_same(g, found, [np.array(index, np.int32), EDGES])


def test_the_sum_may_be_wider_than_the_element():
    g = Graph()
    rows = one_of_each(g, g.input((ROWS,), "int32"), dtype="bfloat16")
    total = g.reduce("add", g.elementwise("convert", rows, dtype="float32"), (1,))
    found = rewritten(g, total, SUM_OF_ONE)
    assert found is not g
    kind = g.inputs[1].type.numpy_dtype()
    assert_same(g, found, [np.arange(136, 141, dtype=np.int32), EDGES.astype(kind)])


@pytest.mark.parametrize(
    ("options", "op", "dims"),
    [
        ({}, "add", (0,)),
        ({}, "add", (0, 1)),
        ({}, "maximum", (1,)),
        ({"direction": "LE"}, "add", (1,)),
        ({"length": 128}, "add", (1,)),
    ],
)
def test_other_sums_stay(options, op, dims):
    g = Graph()
    rows = one_of_each(g, g.input((ROWS,), "int32"), **options)
    assert rewritten(g, g.reduce(op, rows, dims), SUM_OF_ONE) is g


def test_an_index_that_may_be_between_two_places_stays():
    g = Graph()
    rows = one_of_each(g, g.input((ROWS,), "float32"))
    assert rewritten(g, g.reduce("add", rows, (1,)), SUM_OF_ONE) is g


def test_a_computation_of_many_operations_is_computed_from_gathered_elements(random):
    graph = Graph()
    x, indices = graph.input((ROWS, COLUMNS), "float32"), graph.input((ROWS, 1), "int32")
    value = x
    for _ in range(2000):
        value = graph.elementwise("add", value, 1.0)
    gathered = rewritten(graph, graph.gather_in_rows(value, indices), GATHERED_FIRST)
    assert [node.name for node in gathered.nodes[:2]] == ["gather", "add"]
    places = np.full((ROWS, 1), COLUMNS - 1, np.int32)
    (found,) = gathered.reference([random((ROWS, COLUMNS)), places])
    np.testing.assert_allclose(found, random((ROWS, COLUMNS))[:, -1:] + 2000, rtol=1e-4)
