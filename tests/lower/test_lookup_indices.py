import numpy as np
import pytest

from trnsim.graph import Graph, TensorType
from trnsim.lower.lookup_indices import known_indices

TABLE = (7, 3)


def read(graph, indices, table=TABLE):
    """The places that a gather reads; None where nobody knows them."""
    graph.outputs = [graph.gather(graph.input(table, "float32"), indices)]
    found = known_indices(graph).get(indices.number)
    return None if found is None else found.tolist()


def test_places_that_follow_from_shapes_are_known():
    graph = Graph()
    twice = graph.elementwise("multiply", graph.iota((4,), 0), 2.0, dtype="int32")
    assert read(graph, twice) == [0, 2, 4, 6]
    graph = Graph()
    assert read(graph, graph.constant(5.0, TensorType((2,), "int32"))) == [5, 5]


def test_tokens_stand_for_all_by_counting_up():
    graph = Graph()
    assert read(graph, graph.input((2, 3), "int32")) == [[0, 1, 2], [3, 4, 5]]


def test_the_number_that_is_looked_for_stands_last():
    graph = Graph()
    words = graph.input((2, 3), "int32")
    is_end = graph.elementwise("compare", words, 99.0, dtype="bool", direction="EQ")
    places = graph.elementwise("select", is_end, graph.iota((2, 3), 1), 3.0, dtype="int32")
    assert read(graph, graph.reduce("minimum", places, (1,))) == [2, 2]


@pytest.mark.parametrize("way", ["product", "values", "long"])
def test_what_depends_on_more_is_not_known(way):
    graph = Graph()
    if way == "product":
        sides = (graph.iota((4, 4), dim) for dim in (0, 1))
        x, y = (graph.elementwise("convert", one, dtype="float32") for one in sides)
        chosen = graph.dot_general(x, y, (1, 0))
    elif way == "values":
        chosen = graph.input((4, 4), "float32")
    else:
        chosen = graph.iota((2, 1 << 20), 1)
    assert read(graph, graph.top_k(chosen, 1)) is None


def test_numbers_that_a_type_has_not_begin_anew():
    graph = Graph()
    small, flags = graph.input((300,), "int8"), graph.input((300,), "bool")
    chosen = graph.elementwise("select", flags, small, 0.0, dtype="int8")
    graph.outputs = [graph.gather(graph.input((200, 3), "float32"), chosen)]
    expected = np.arange(300) % 128
    assert (known_indices(graph)[chosen.number] == expected).all()


@pytest.mark.parametrize("number", [300.0, -1.0, float("inf"), float("nan")])
def test_a_number_that_the_type_has_not_is_no_token(number):
    graph = Graph()
    words = graph.input((2, 3), "uint8")
    is_end = graph.elementwise("compare", words, number, dtype="bool", direction="EQ")
    chosen = graph.elementwise("select", is_end, 9.0, words, dtype="uint8")
    assert read(graph, chosen) == [[0, 1, 2], [3, 4, 5]]
