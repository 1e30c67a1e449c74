import numpy as np
import pytest

from trnsim.errors import BadInput, InternalError
from trnsim.graph import Graph, TensorType, rounding_with
from trnsim.graph.ops.control_flow import If


def test_results_follow_from_operands():
    g = Graph()
    x, w = g.input((2, 3, 4), "float32"), g.input((2, 4, 5), "float32")
    assert g.dot_general(x, w, (2, 1)).shape == (2, 3, 5)
    assert g.transpose(x, (2, 0, 1)).shape == (4, 2, 3)
    assert g.reduce("add", x, (0, 2)).shape == (3,)
    assert g.elementwise("compare", x, 0.0, direction="GT").dtype == "bool"


def test_what_changes_nothing_adds_nothing():
    g = Graph()
    x = g.input((2, 3), "float32")
    assert g.reshape(x, (2, 3)) is g.transpose(x, (0, 1)) is g.broadcast_in_dim(x, (2, 3), (0, 1))
    assert not g.nodes


def test_transposes_of_transposes_are_one():
    g = Graph()
    x = g.input((2, 3, 4), "float32")
    once = g.transpose(x, (1, 2, 0))
    assert g.transpose(once, (2, 0, 1)) is x
    assert g.transpose_source(g.transpose(once, (1, 0, 2))) == (x, (2, 1, 0))


def test_what_no_output_needs_is_pruned():
    g = Graph()
    x = g.input((2,), "float32")
    g.elementwise("negate", x)
    g.outputs = [g.elementwise("abs", x)]
    g.prune()
    assert [node.name for node in g.nodes] == ["abs"]


def test_a_graph_begun_anew_keeps_numbers_and_takes_operations_that_have_theirs():
    graph = Graph()
    x = graph.input((2, 3), "float32")
    graph.outputs = [graph.transpose(graph.elementwise("exponential", x), (1, 0))]
    made = graph.without_nodes()
    assert (made.inputs, made.nodes) == (graph.inputs, [])
    other = made.fresh(x.type)
    assert other.number > max(value.number for node in graph.nodes for value in node.results)
    for node in graph.nodes:
        made.add(node.operation, node.operands, node.results)
    made.outputs = list(graph.outputs)
    assert made == graph
    assert made.transpose_source(made.outputs[0]) == graph.transpose_source(graph.outputs[0])
    assert made.inputs is not graph.inputs


def test_a_graph_reads_as_text():
    g = Graph()
    g.outputs = [g.elementwise("add", g.input((2,), "float32"), 1.0)]
    assert str(g).splitlines()[1:] == ["%1 = add(%0, 1.0)  : tensor<2xfloat32>", "return %1"]


def test_the_chip_has_no_float64():
    with pytest.raises(BadInput, match="a tensor of float64"):
        Graph().input((2,), "float64")


def test_elementwise_operands_have_one_shape():
    g = Graph()
    with pytest.raises(BadInput, match="add of tensor<2xfloat32>, tensor<3xfloat32>"):
        g.elementwise("add", g.input((2,), "float32"), g.input((3,), "float32"))


def test_a_type_knows_its_bytes():
    assert TensorType((2, 3), "bfloat16").nbytes == 12


def test_a_transpose_of_dimensions_of_one_element_moves_nothing():
    g = Graph()
    x = g.input((5, 1, 7, 1), "float32")
    y = g.transpose(x, (1, 0, 3, 2))
    assert (y.shape, [node.name for node in g.nodes]) == ((1, 5, 1, 7), ["reshape"])
    assert g.transpose(x, (2, 1, 0, 3)).shape == (7, 1, 5, 1)
    assert g.nodes[-1].name == "transpose"


def of_a_number(name, array, number, dtype="", *, is_first=False, **attributes):
    """What the reference says of a tensor and a number."""
    g = Graph()
    x = g.input(array.shape, array.dtype.name)
    operands = (number, x) if is_first else (x, number)
    g.outputs = [g.elementwise(name, *operands, dtype=dtype, **attributes)]
    (found,) = g.reference([array])
    return found


def test_a_whole_number_beside_integers_is_one_of_them():
    small, large = np.array([127, -128, 7], np.int8), np.array([2**32 - 1, 3], np.uint32)
    assert of_a_number("add", small, 1.0).tolist() == [-128, -127, 8]
    assert of_a_number("divide", small, 2.0).tolist() == [63, -64, 3]
    assert of_a_number("divide", small, 0.0).tolist() == [-1, -1, -1]
    assert of_a_number("divide", small, 100.0, is_first=True).tolist() == [0, 0, 14]
    assert of_a_number("and", small, 6.0).tolist() == [6, 0, 6]
    assert of_a_number("power", large, 41.0).tolist() == [2**32 - 1, 3**41 % 2**32]
    assert of_a_number("compare", large, 2.0**32 - 1, direction="EQ").tolist() == [True, False]


def test_a_fraction_beside_integers_stays_one():
    numbers = np.array([0, 1, 2], np.int32)
    assert of_a_number("compare", numbers, 0.5, direction="GT").tolist() == [False, True, True]
    assert of_a_number("multiply", numbers, 0.5, dtype="float32").tolist() == [0, 0.5, 1]
    assert of_a_number("maximum", numbers, float("inf"), dtype="float32").tolist() == [np.inf] * 3


def test_integers_whose_result_is_floating_point_are_computed_in_it():
    numbers = np.array([7, -7, 0], np.int32)
    assert of_a_number("divide", numbers, 2.0, dtype="float32").tolist() == [3.5, -3.5, 0]
    g = Graph()
    x, y = g.input((3,), "int32"), g.input((3,), "int32")
    g.outputs = [g.elementwise("divide", x, y, dtype="float32"), g.elementwise("divide", x, y)]
    real, whole = g.reference([numbers, np.array([2, 2, -4], np.int32)])
    assert real.tolist() == [3.5, -3.5, 0]
    assert whole.tolist() == [3, -3, 0]


def test_an_infinity_beside_integers_gives_a_float_or_a_truth_value():
    g = Graph()
    x = g.input((2,), "int32")
    assert g.elementwise("minimum", x, float("inf"), dtype="float32").dtype == "float32"
    assert g.elementwise("compare", x, float("inf"), direction="LT").dtype == "bool"
    with pytest.raises(InternalError, match=r"^minimum beside nan gives tensor<2xint32>"):
        g.elementwise("minimum", x, float("nan"))
    assert len(g.nodes) == 2


def test_over_sides_of_one_nothing_is_reduced():
    g = Graph()
    x = g.input((3, 1, 4, 1), "float32")
    assert g.reduce("add", x, (1, 3)).shape == (3, 4)
    assert g.reduce("maximum", x, ()) is x
    assert [node.name for node in g.nodes] == ["reshape"]
    assert g.reduce("add", x, (0, 1)).shape == (4, 1)
    assert g.nodes[-1].name == "reduce"


def test_references_round_as_they_are_told():
    body = Graph()
    x = body.input((2,), "bfloat16")
    body.outputs = [body.elementwise("add", x, 2.0**-9)]
    outer = Graph()
    y = outer.input((2,), "bfloat16")
    flag = outer.input((), "bool")
    outer.outputs = list(outer.apply_to_all(If((body, body)), [flag, y]))
    given = [np.ones(2, TensorType((), "bfloat16").numpy_dtype()), np.array(True)]
    told = []

    def down(values, dtype):
        told.append((values.tolist(), dtype))
        return np.zeros(2)

    assert (outer.reference(given)[0] == 1).all()
    with rounding_with(down):
        assert (outer.reference(given)[0] == 0).all()
    assert told[0] == ([1 + 2.0**-9] * 2, "bfloat16")
    assert (outer.reference(given)[0] == 1).all()
