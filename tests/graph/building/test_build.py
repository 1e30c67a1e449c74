import ml_dtypes
import numpy as np
import pytest

from trnsim.graph import TensorType
from trnsim.graph.building.build import Build, converted_number
from trnsim.lower.fusion import fusion_groups
from trnsim.lower.lowering import evaluate

F32 = "float32"


def test_a_tensor_enters_as_it_lies_in_memory():
    b = Build()
    b.input(TensorType((3, 2), F32), order=(1, 0))
    assert [value.shape for value in b.graph.inputs] == [(2, 3)]
    assert [node.name for node in b.graph.nodes] == ["transpose"]


def test_a_product_reads_a_transposed_side_as_it_lies():
    b = Build()
    x, y = b.input(TensorType((2, 3), F32)), b.input(TensorType((3, 4), F32), order=(1, 0))
    b.graph.outputs = [b.dot(x, y)]
    b.graph.prune()
    (node,) = b.graph.nodes
    assert (node.name, node.operation.contracting) == ("dot_general", (1, 1))


@pytest.mark.parametrize("inner", [0, 3])
def test_a_product_has_its_left_sides_type_or_the_one_asked_for(inner):
    b = Build()
    x, y = (b.graph.input(shape, "bfloat16") for shape in ((2, inner), (inner, 4)))
    assert b.dot(x, y).type == TensorType((2, 4), "bfloat16")
    assert b.dot(x, y, F32).type == TensorType((2, 4), F32)


def test_mixed_operands_are_promoted():
    b = Build()
    half, whole = (b.graph.input((2,), dtype) for dtype in ("bfloat16", "int32"))
    assert b.ew("add", half, whole).dtype == "bfloat16"
    assert b.ew("multiply", whole, 2.0).dtype == "int32"
    assert b.ew("multiply", whole, 0.5).dtype == "float32"


@pytest.mark.parametrize(
    ("shape", "dims", "kernels"),
    [
        ((2, 4, 200, 200), (1,), ["add"]),  # a few slices are added
        ((8, 4096), (0,), ["add"]),
        ((32, 128, 768), (1,), ["reduce"]),  # products with ones, a batch after the other
        ((16, 64, 28, 28), (0, 2, 3), ["reduce", "add"]),  # the last dimensions first
        ((64, 100, 3), (1,), ["transpose", "reduce"]),  # rows of three elements are no transfers
        ((4, 6, 8), (0, 1), ["reduce"]),
        ((4, 6, 8), (1, 2), ["reduce"]),
    ],
)
@pytest.mark.parametrize("op", ["add", "maximum"])
def test_a_reduction_reads_its_operand_as_it_lies_where_rows_are_long(op, shape, dims, kernels):
    b = Build()
    b.graph.outputs = [b.reduce(op, b.graph.input(shape, F32), dims)]
    found = [group.name for group in fusion_groups(b.graph)]
    assert found == [name.replace("add", op) for name in kernels]


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize(("shape", "dims"), [((3, 4, 5, 6), (0, 2)), ((3, 20, 70), (1,))])
def test_a_reduction_rounds_once(dtype, shape, dims, random):
    b = Build()
    x = random(shape).astype(dtype)
    value = b.graph.input(shape, np.dtype(dtype).name)
    b.graph.outputs = [b.reduce("add", value, dims, keeps_dims=True)]
    (found,) = evaluate(b.graph, [x])
    exact = x.astype(np.float64).sum(dims, keepdims=True)
    assert found.shape == exact.shape
    found, exact = (side.astype(dtype).astype(np.float32) for side in (found, exact))
    np.testing.assert_allclose(found, exact, rtol=1e-5, atol=1e-5)


def test_everything_is_reduced_by_rows_first():
    b = Build()
    b.reduce("add", b.graph.input((3000, 3000), F32), (0, 1))
    assert [node.name for node in b.graph.nodes if node.name == "reduce"] == ["reduce"] * 3


def test_a_prime_number_of_elements_is_full_rows_and_the_rest():
    b = Build()
    b.graph.outputs = [b.reduce("add", b.graph.input((104729,), F32), (0,))]
    starts = [node.result.shape for node in b.graph.nodes if node.name == "slice"]
    assert starts == [(104729 - 104729 % 2048,), (104729 % 2048,)]


@pytest.mark.parametrize(
    ("number", "dtype", "kept"),
    [
        *((-1, "uint8", 255), (300, "int8", 44), (128, "int8", -128), (-40000, "int16", 25536)),
        *((2.9, "int8", 2), (-2.9, "int32", -2), (2**31, "int32", 2**31 - 1), (3e9, "uint32", 3e9)),
        *((-(2**63), "int32", -(2**31)), (-1, "uint32", 0), (2, "bool", 1), (0.0, "bool", 0)),
        *((float("inf"), "bool", 1), (2.9, "bfloat16", 2.9), (True, "float32", 1)),
    ],
)
def test_a_number_is_one_of_the_type(number, dtype, kept):
    found = converted_number(number, dtype)
    assert (type(found), found) == (float, kept)


def test_what_is_filled_holds_numbers_of_its_type():
    b = Build()
    wanted = TensorType((3,), "uint8"), TensorType((2,), "bool")
    b.graph.outputs = [b.filled(-1, wanted[0]), b.filled(-0.5, wanted[1])]
    assert [array.tolist() for array in evaluate(b.graph, [])] == [[255] * 3, [True] * 2]


@pytest.mark.parametrize(("op", "number"), [("add", 0.0), ("multiply", 1.0), ("maximum", -np.inf)])
@pytest.mark.parametrize(("shape", "dims"), [((3, 0, 4), [1]), ((0, 3), [0]), ((2, 0, 3, 0), [1])])
def test_over_no_elements_a_reduction_is_the_neutral_element(shape, dims, op, number):
    b = Build()
    b.graph.outputs = [b.reduce(op, b.graph.input(shape, F32), dims)]
    expected = np.full([n for dim, n in enumerate(shape) if dim not in dims], number, np.float32)
    np.testing.assert_array_equal(b.graph.reference([np.zeros(shape, np.float32)])[0], expected)
