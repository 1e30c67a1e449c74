"""Operations that are written twice."""

import numpy as np

from trnsim.compiler.patterns.merge import COMMON_SUBEXPRESSION
from trnsim.graph import Graph
from trnsim.graph.rewriting import rewrite_graph


def merged(graph):
    return rewrite_graph(graph, [COMMON_SUBEXPRESSION])


def test_the_second_reads_the_first_ones_result():
    g = Graph()
    x = g.input((4, 6), "float32")
    one, two = (g.elementwise("convert", x, dtype="bfloat16") for _ in "ab")
    g.outputs = [g.elementwise("add", one, two), two]
    found = merged(g)
    assert [node.name for node in found.nodes] == ["convert", "add"]
    assert found.nodes[1].values == (one, one)
    assert found.outputs[1] == one


def test_other_numbers_and_other_types_are_other_operations():
    g = Graph()
    x = g.input((4, 6), "float32")
    g.outputs = [
        g.elementwise("add", x, 1.0),
        g.elementwise("add", x, 2.0),
        g.elementwise("add", x, 1.0, dtype="bfloat16"),
    ]
    assert len(merged(g).nodes) == 3


def test_zeros_of_two_signs_are_two_numbers():
    g = Graph()
    x = g.input((4,), "float32")
    zeros = [g.constant(number, x.type) for number in (0.0, -0.0)]
    g.outputs = [*zeros, *(g.elementwise("multiply", x, number) for number in (0.0, -0.0))]
    g.outputs += [g.pad(x, (1,), (0,), number=number) for number in (0.0, -0.0)]
    arrays = merged(g).reference([np.ones(4, np.float32)])
    assert [bool(np.signbit(array[0])) for array in arrays] == [False, True] * 3


def test_random_numbers_are_drawn_each_time():
    g = Graph()
    g.outputs = [g.rng((3,)), g.rng((3,))]
    assert len(merged(g).nodes) == 2
