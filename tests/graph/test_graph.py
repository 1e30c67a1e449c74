import pytest

from trnsim.errors import BadInput
from trnsim.graph import Graph, TensorType


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
    assert g.origin(g.transpose(once, (1, 0, 2))) == (x, (2, 1, 0))


def test_what_no_output_needs_is_pruned():
    g = Graph()
    x = g.input((2,), "float32")
    g.elementwise("negate", x)
    g.outputs = [g.elementwise("abs", x)]
    g.prune()
    assert [node.name for node in g.nodes] == ["abs"]


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
