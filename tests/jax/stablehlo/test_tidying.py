"""Views and moves that are written twice, and products that are turned."""

import jax
import numpy as np
from agreeing import BLOCK, agree, names

from trnsim.graph import Graph
from trnsim.jax.stablehlo.tidying import simplified_graph


def random(*shape):
    return np.random.default_rng(8).standard_normal(shape).astype(np.float32)


def turned(graph, value):
    """A transpose that the graph does not fold."""
    order = (*range(len(value.shape) - 2), len(value.shape) - 1, len(value.shape) - 2)
    return graph.transpose(value, order)


def test_the_same_move_is_made_once():
    graph = Graph()
    x = graph.input((3, 5), "float32")
    one, other = graph.transpose(x, (1, 0)), graph.transpose(x, (1, 0))
    graph.outputs = [graph.elementwise("add", one, other), other]
    given = random(3, 5)
    found = simplified_graph(graph)
    assert [node.name for node in found.nodes] == ["transpose", "add"]
    for ours, theirs in zip(found.reference([given]), graph.reference([given]), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_what_is_computed_twice_stays():
    graph = Graph()
    x, w = graph.input((3, 3), "float32"), graph.input((3, 3), "float32")
    parts = [graph.dot_general(x, w, (1, 0)) for _ in range(2)]
    parts += [graph.elementwise("exponential", x) for _ in range(2)]
    parts += [graph.rng((3, 3)) for _ in range(2)]
    graph.outputs = parts
    assert len(simplified_graph(graph).nodes) == 6


def test_a_product_that_is_turned_is_that_of_turned_sides():
    for shapes, over in (
        (((3, 4), (4, 5)), (1, 0)),
        (((4, 3), (4, 5)), (0, 0)),
        (((2, 3, 4), (2, 5, 4)), (2, 2)),
    ):
        graph = Graph()
        sides = [graph.input(shape, "float32") for shape in shapes]
        graph.outputs = [turned(graph, graph.dot_general(*sides, over))]
        found = simplified_graph(graph)
        assert [node.name for node in found.nodes] == ["dot_general"]
        given = [random(*shape) for shape in shapes]
        np.testing.assert_allclose(found.reference(given)[0], graph.reference(given)[0], rtol=1e-6)


def test_a_product_that_is_read_otherwise_is_turned_after():
    graph = Graph()
    x, w = graph.input((3, 4), "float32"), graph.input((4, 5), "float32")
    product = graph.dot_general(x, w, (1, 0))
    graph.outputs = [product, turned(graph, product)]
    assert [node.name for node in simplified_graph(graph).nodes] == ["dot_general", "transpose"]


def test_another_order_of_dimensions_stays():
    graph = Graph()
    x, w = graph.input((2, 3, 4), "float32"), graph.input((2, 4, 5), "float32")
    graph.outputs = [graph.transpose(graph.dot_general(x, w, (2, 1)), (1, 0, 2))]
    assert [node.name for node in simplified_graph(graph).nodes] == ["dot_general", "transpose"]


def test_the_gradient_of_a_weight_is_a_product_alone():
    def loss(w, x):
        return ((x @ w) ** 2).sum()

    found = agree(jax.grad(loss), random(4, 3), BLOCK[0], tolerance=1e-4)
    assert "transpose" not in names(found)
