"""Graphs that are malformed, built by hand."""

import pytest

from trnsim.errors import InternalError
from trnsim.graph import Graph, Node, TensorType, Value, verify
from trnsim.graph.ops.arithmetic import Add, Negate
from trnsim.graph.ops.comparison import Compare
from trnsim.graph.ops.layout import Transpose
from trnsim.lower import costs, evaluate

ROW, OTHER = TensorType((2, 3), "float32"), TensorType((3, 2), "float32")
HALF, WHOLE = TensorType((2, 3), "bfloat16"), TensorType((2, 3), "int32")


def graph_of(*nodes, outputs=(), inputs=()):
    return Graph(list(inputs) or [Value(0, ROW)], list(nodes), list(outputs))


def refused(graph, words):
    with pytest.raises(InternalError, match=words):
        verify(graph)


def test_a_graph_is_verified():
    g = Graph()
    x = g.input((2, 3), "float32")
    g.outputs = [g.elementwise("add", x, 1.0), x]
    verify(g)
    verify(Graph())


def test_an_operand_that_nothing_made():
    node = Node(Negate(), (Value(7, ROW),), (Value(1, ROW),))
    refused(graph_of(node), r"^negate at %1 reads %7 : tensor<2x3xfloat32>, which nothing made")


def test_an_operand_that_is_made_later():
    early = Node(Negate(), (Value(2, ROW),), (Value(1, ROW),))
    late = Node(Negate(), (Value(0, ROW),), (Value(2, ROW),))
    refused(graph_of(early, late), "negate at %1 reads %2")
    verify(graph_of(late, early))


def test_an_operand_of_another_type_than_it_was_made():
    node = Node(Negate(), (Value(0, HALF),), (Value(1, HALF),))
    refused(graph_of(node), "negate at %1 reads %0 : tensor<2x3xbfloat16>, which nothing made")


def test_a_value_that_is_made_twice():
    node = Node(Negate(), (Value(0, ROW),), (Value(1, ROW),))
    refused(graph_of(node, node), "^negate makes %1 a second time")
    over = Node(Negate(), (Value(0, ROW),), (Value(0, ROW),))
    refused(graph_of(over), "^negate makes %0 a second time")
    refused(graph_of(inputs=(Value(0, ROW), Value(0, ROW))), "^an input makes %0 a second time")


def test_a_result_of_another_shape():
    node = Node(Negate(), (Value(0, ROW),), (Value(1, OTHER),))
    refused(graph_of(node), "negate at %1 gives tensor<3x2xfloat32>; it is tensor<2x3xfloat32>")


def test_a_result_of_another_element_type_where_no_graph_may_name_it():
    node = Node(Transpose((1, 0)), (Value(0, ROW),), (Value(1, TensorType((3, 2), "float16")),))
    refused(graph_of(node), "transpose at %1 gives tensor<3x2xfloat16>; it is tensor<3x2xfloat32>")


def test_a_result_of_another_element_type_where_a_graph_may_name_it():
    verify(graph_of(Node(Negate(), (Value(0, ROW),), (Value(1, HALF),))))


def test_results_of_another_number():
    node = Node(Negate(), (Value(0, ROW),), (Value(1, ROW), Value(2, ROW)))
    refused(graph_of(node), "gives tensor<2x3xfloat32>, tensor<2x3xfloat32>; it is tensor<2x3xf")


def test_operands_on_which_the_operation_is_not_defined():
    node = Node(Add(), (Value(0, ROW), Value(1, OTHER)), (Value(2, ROW),))
    inputs = Value(0, ROW), Value(1, OTHER)
    refused(graph_of(node, inputs=inputs), "add at %2 add of tensor<2x3xfloat32>, tensor<3x2xfl")
    node = Node(Add(), (Value(0, ROW),), (Value(1, ROW),))
    refused(graph_of(node), "add at %1 add takes lhs, rhs; given 1")
    node = Node(Compare("UP"), (Value(0, ROW), Value(0, ROW)), (Value(1, ROW),))
    refused(graph_of(node), "compare at %1 compare by UP; legal: EQ, NE")
    node = Node(Add(), (1.0, 2.0), (Value(1, ROW),))
    refused(graph_of(node), "a number is an operand of elementwise operations alone")


def test_an_output_that_nothing_made():
    refused(graph_of(outputs=[Value(4, ROW)]), "returns %4 : tensor<2x3xfloat32>, which nothing")
    refused(graph_of(outputs=[Value(0, WHOLE)]), "returns %0 : tensor<2x3xint32>, which nothing")


def test_a_malformed_graph_is_neither_run_nor_timed():
    bad = graph_of(Node(Negate(), (Value(0, ROW),), (Value(1, OTHER),)), outputs=[Value(1, OTHER)])
    with pytest.raises(InternalError, match="negate at %1 gives"):
        evaluate(bad, [])
    with pytest.raises(InternalError, match="negate at %1 gives"):
        costs(bad)


def test_no_integer_comes_of_an_infinity():
    number = Value(0, WHOLE)
    node = Node(Add(), (number, float("inf")), (Value(1, WHOLE),))
    refused(graph_of(node, inputs=[number]), r"^add beside inf gives tensor<2x3xint32>")
    verify(graph_of(Node(Add(), (number, float("inf")), (Value(1, ROW),)), inputs=[number]))
