import numpy as np
import pytest

from trnsim.errors import NotModelled, Unspecified
from trnsim.graph import Graph
from trnsim.lower import costs, evaluate

RUNNING = {
    "add": np.cumsum,
    "multiply": np.cumprod,
    "maximum": np.maximum.accumulate,
    "minimum": np.minimum.accumulate,
}


@pytest.mark.parametrize("op", RUNNING)
@pytest.mark.parametrize("shape", [(140, 9), (2, 5000), (3001, 3), (130, 2), (5000, 1)])
def test_running_results_go_along_each_row(random, op, shape):
    x = random(shape) if op != "multiply" else 1 + random(shape) / 1000
    g = Graph()
    g.outputs = [g.scan(op, g.input(shape, "float32"))]
    np.testing.assert_allclose(
        evaluate(g, [x])[0], RUNNING[op](x.astype(np.float64), 1), rtol=1e-4, atol=1e-3
    )


@pytest.mark.parametrize(
    ("shape", "k"),
    [
        ((130, 40), 40),
        ((3, 5), 2),
        ((2, 40_000), 10),
        ((1, 4099), 9),
        ((1, 4096), 1),
        ((7, 1009), 8),
        ((64, 1024), 17),
        ((131, 640), 3),
    ],
)
def test_the_places_of_the_largest_come_in_order_and_of_equal_ones_the_first(shape, k):
    x = np.random.default_rng(0).integers(-40, 40, shape).astype(np.float32)
    x[0, :3] = -np.inf
    g = Graph()
    g.outputs = [g.top_k(g.input(shape, "float32"), k)]
    expected = np.argsort(-x, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected)


@pytest.mark.slow
def test_indices_that_float32_would_round_are_exact():
    shape = (1, 2**24 + 40)
    x = np.zeros(shape, np.float32)
    places = [2**24 + 17, 2**24 + 1, 5, 2**24 - 1]
    x[0, places] = [4, 3, 2, 1]
    g = Graph()
    g.outputs = [g.top_k(g.input(shape, "float32"), 4)]
    np.testing.assert_array_equal(evaluate(g, [x])[0], [places])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_few_rows_are_searched_in_parts_on_all_partitions(dtype):
    g = Graph()
    g.outputs = [g.top_k(g.input((8, 32_000), dtype), 50)]
    few = sum(cost.device_time_s for cost in costs(g))
    g = Graph()
    g.outputs = [g.top_k(g.input((128, 32_000), dtype), 50)]
    assert 5 * few < sum(cost.device_time_s for cost in costs(g))


def test_more_than_a_search_can_read_together_is_refused():
    g = Graph()
    g.outputs = [g.top_k(g.input((2, 300_000), "float32"), 9_000)]
    with pytest.raises(NotModelled, match="the 9000 largest of 300000 elements; a search reads"):
        evaluate(g, [np.zeros((2, 300_000), np.float32)])


@pytest.mark.parametrize(("op", "number"), [("maximum", -np.inf), ("minimum", np.inf)])
def test_an_extreme_of_infinities_is_an_infinity(op, number):
    x = np.full((3, 2050), number, np.float32)
    x[1, 5:] = 7
    g = Graph()
    g.outputs = [g.scan(op, g.input(x.shape, "float32"))]
    np.testing.assert_array_equal(evaluate(g, [x])[0], RUNNING[op](x, 1))


@pytest.mark.parametrize("dtype", ["int8", "int16", "uint8"])
@pytest.mark.parametrize("op", ["add", "multiply"])
def test_running_results_of_short_integers_wrap_around(op, dtype):
    x = np.full((2, 300), 120 if op == "add" else 1, dtype)
    x[:, :6] = 13  # 13 ** 6 < 2 ** 24
    g = Graph()
    g.outputs = [g.scan(op, g.input(x.shape, dtype))]
    expected = RUNNING[op](x.astype(np.int64), 1).astype(dtype)
    assert (expected.astype(np.int64) != RUNNING[op](x.astype(np.int64), 1)).any()
    np.testing.assert_array_equal(evaluate(g, [x])[0], expected)


MOST = np.finfo(np.float32).max
ORDERS = {"a search": 40, "parts": 20_000, "merged parts": 1500, "a network": 17_001}


def row_with(length, **numbers):
    """A row of numbers of which many are equal, with zeros of both signs."""
    row = np.random.default_rng(length).integers(-9, 9, length).astype(np.float32)
    row[[1, 6]] = -0.0
    for places, number in numbers.values():
        row[places] = number
    return row[None]


def places_in_order(row, k):
    g = Graph()
    g.outputs = [g.top_k(g.input(row.shape, "float32"), k)]
    return evaluate(g, [row])[0]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("low", [-np.inf, -MOST])
@pytest.mark.parametrize("high", [np.inf, MOST])
def test_the_ends_of_float32_come_first_and_last_each_in_its_order(order, low, high):
    length = ORDERS[order]
    k = length if order != "parts" else 9
    row = row_with(length, low=([3, 9, length - 1], low), high=([5, 17, length - 2], high))
    expected = np.argsort(-row, axis=1, kind="stable")[:, :k]
    np.testing.assert_array_equal(places_in_order(row, k), expected)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((np.nan, 1), "holds NaN"),
        ((-np.inf, -MOST), "holds both -inf and -3.40"),
        ((np.inf, MOST), "holds both inf and 3.40"),
    ],
)
def test_values_that_a_kernel_cannot_put_in_order_are_refused(order, numbers, words):
    length = ORDERS[order]
    k = length if order != "parts" else 9
    row = row_with(length, one=(7, numbers[0]), other=(2, numbers[1]))
    if numbers[0] == np.inf and order != "a network":
        expected = np.argsort(-row, axis=1, kind="stable")[:, :k]
        np.testing.assert_array_equal(places_in_order(row, k), expected)
    else:
        with pytest.raises(Unspecified, match=words):
            places_in_order(row, k)
