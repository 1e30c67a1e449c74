import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.lower import (
    evaluate,
    fusion_groups,
)


def softmax(g, x):
    largest = g.broadcast_in_dim(g.reduce("maximum", x, (1,)), x.shape, (0,))
    powers = g.elementwise("exponential", g.elementwise("subtract", x, largest))
    total = g.broadcast_in_dim(g.reduce("add", powers, (1,)), x.shape, (0,))
    return g.elementwise("divide", powers, total)


def test_a_softmax_is_one_kernel():
    g = Graph()
    g.outputs = [softmax(g, g.input((4, 8), "float32"))]
    (group,) = fusion_groups(g)
    assert group.name == "reduce+subtract+exponential+divide"
    assert (group.shape, group.column_dims) == ((4, 8), 1)


def test_a_product_stands_alone_and_what_follows_is_another_kernel():
    g = Graph()
    product = g.dot_general(g.input((4, 8), "float32"), g.input((8, 4), "float32"), (1, 0))
    g.outputs = [g.elementwise("tanh", g.elementwise("add", product, 1.0))]
    assert [group.name for group in fusion_groups(g)] == ["dot_general", "add+tanh"]


def test_what_reads_a_reshaped_result_comes_after_it():
    g = Graph()
    doubled = g.elementwise("multiply", g.input((4, 8), "float32"), 2.0)
    g.outputs = [g.elementwise("abs", g.reshape(doubled, (32,)))]
    assert [group.name for group in fusion_groups(g)] == ["multiply", "abs"]


def test_no_kernel_waits_for_a_later_one():
    g = Graph()
    x, w = g.input((8, 8), "float32"), g.input((8, 8), "float32")
    first = g.elementwise("tanh", x)
    product = g.dot_general(first, w, (1, 0))
    g.outputs = [g.elementwise("add", first, g.elementwise("abs", product))]
    done = {value.number for value in g.inputs}
    for group in fusion_groups(g):
        assert {value.number for value in group.inputs} <= done
        done |= {value.number for value in group.outputs}


def test_counts_are_made_where_they_are_read():
    g = Graph()
    x = g.input((4, 8), "float32")
    place = g.iota((4, 8), 1)
    g.outputs = [g.elementwise("add", x, place)]
    assert [group.name for group in fusion_groups(g)] == ["iota+add"]


def test_what_another_kernel_reads_is_made_before_it():
    g = Graph()
    g.outputs = [g.transpose(g.rng((4, 8)), (1, 0))]
    assert [group.name for group in fusion_groups(g)] == ["rng", "transpose"]


def test_slices_are_read_where_they_lie_by_the_kernel_that_wants_them():
    g = Graph()
    x = g.input((4, 9), "float32")
    parts = [g.slice(x, (0, at), (4, 3), (1, 3)) for at in range(3)]
    g.outputs = [g.elementwise("maximum", g.elementwise("maximum", *parts[:2]), parts[2])]
    (group,) = fusion_groups(g)
    assert (group.name, group.inputs) == ("maximum", [x])
    array = np.random.default_rng(0).standard_normal((4, 9)).astype(np.float32)
    np.testing.assert_array_equal(evaluate(g, [array])[0], array.reshape(4, 3, 3).max(2))


def test_a_slice_of_what_is_computed_waits_until_it_stands_in_hbm():
    g = Graph()
    doubled = g.elementwise("multiply", g.input((4, 8), "float32"), 2.0)
    g.outputs = [g.elementwise("add", *(g.slice(doubled, (0, at), (4, 4)) for at in (0, 4)))]
    assert [group.name for group in fusion_groups(g)] == ["multiply", "add"]
    array = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(evaluate(g, [array])[0], 2 * (array[:, :4] + array[:, 4:]))


def test_what_no_fused_kernel_reads_in_place_is_copied_first():
    g = Graph()
    x = g.input((4, 8), "float32")
    row = g.slice(x, (1, 0), (1, 8))
    g.outputs = [g.elementwise("add", x, g.broadcast_in_dim(row, (4, 8), (0, 1)))]
    assert [group.name for group in fusion_groups(g)] == ["slice", "add"]
    array = np.arange(32, dtype=np.float32).reshape(4, 8)
    np.testing.assert_array_equal(evaluate(g, [array])[0], array + array[1])


@pytest.mark.parametrize(
    ("length", "sizes"), [(47, [47]), (48, [48]), (49, [48, 1]), (97, [48, 48, 1])]
)
def test_a_kernel_has_at_most_48_operations(length, sizes):
    g = Graph()
    value = g.input((4, 8), "float32")
    for _ in range(length):
        value = g.elementwise("abs", value)
    g.outputs = [value]
    assert [len(group.nodes) for group in fusion_groups(g)] == sizes


def reduced_and_spread(shape, reduced, dims):
    """A tensor minus what a reduction of it leaves, spread over it by `dims`."""
    g = Graph()
    x = g.input(shape, "float32")
    largest = g.reduce("maximum", x, reduced)
    g.outputs = [g.elementwise("subtract", x, g.broadcast_in_dim(largest, shape, dims))]
    return g


@pytest.mark.parametrize(
    ("shape", "reduced", "dims", "is_one"),
    [
        ((8, 8), (1,), (0,), True),
        ((8, 8), (1,), (1,), False),  # a row's number, spread over a column
        ((3, 5, 5), (2,), (0, 1), True),
        ((3, 5, 5), (2,), (0, 2), False),
        ((5, 5, 5), (2,), (1, 2), False),
        ((4, 4, 4), (1, 2), (0,), True),
        ((4, 4, 4), (1, 2), (2,), False),
        ((1, 5, 5), (2,), (0, 1), True),
        ((1, 5, 5), (2,), (0, 2), False),
        ((1, 1), (1,), (0,), True),
    ],
)
def test_a_broadcast_joins_the_reduction_whose_rows_it_fills(shape, reduced, dims, is_one):
    g = reduced_and_spread(shape, reduced, dims)
    names = [group.name for group in fusion_groups(g)]
    assert (len(names) == 1) is is_one, names
    array = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    largest = array.max(reduced)
    spread = largest.reshape([n if dim in dims else 1 for dim, n in enumerate(shape)])
    np.testing.assert_array_equal(evaluate(g, [array])[0], array - spread)


def test_a_broadcast_leaves_an_older_kernel_with_its_rows_alone():
    g = Graph()
    x, w = g.input((4, 8), "float32"), g.input((8, 8), "float32")
    total = g.reduce("add", x, (1,))
    product = g.dot_general(x, w, (1, 0))
    wide = g.broadcast_in_dim(total, (4, 8), (0,))
    g.outputs = [g.elementwise("multiply", product, wide)]
    first, _, last = fusion_groups(g)
    assert [value.shape for value in first.outputs] == [(4,)]
    assert [node.name for node in last.nodes] == ["broadcast_in_dim", "multiply"]


def test_counts_that_a_broadcast_repeats_are_made_before_it():
    g = Graph()
    places, drawn = g.iota((3, 5), 0), g.rng((4,))
    g.outputs = [
        g.broadcast_in_dim(places, (2, 3, 5), (1, 2)),
        g.broadcast_in_dim(drawn, (3, 4), (1,)),
    ]
    counted, numbers = evaluate(g, [])
    np.testing.assert_array_equal(counted, np.broadcast_to(np.arange(3)[:, None], (2, 3, 5)))
    assert (numbers == numbers[0]).all()
    assert len(set(numbers[0].tolist())) == 4


def test_what_a_kernel_of_its_own_reads_twice_is_made_once():
    g = Graph()
    x = g.input((4, 8), "float32")
    row = g.slice(x, (1, 0), (1, 8))
    places = g.iota((2, 8), 1)
    g.outputs = [g.concatenate([row, row, row], 0), g.concatenate([places, places], 0)]
    assert [group.name for group in fusion_groups(g)] == [
        "slice",
        "concatenate",
        "iota",
        "concatenate",
    ]
    array = np.arange(32, dtype=np.float32).reshape(4, 8)
    rows, counted = evaluate(g, [array])
    np.testing.assert_array_equal(rows, np.repeat(array[1:2], 3, 0))
    np.testing.assert_array_equal(counted, np.repeat(np.arange(8)[None], 4, 0))
