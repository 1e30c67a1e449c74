"""Operations that read what has no elements, beside their references."""

import numpy as np
import pytest

from trnsim.graph import Graph, TensorType
from trnsim.graph.ops.contraction import AttentionBackward, Convolution
from trnsim.graph.ops.control_flow import While
from trnsim.graph.ops.layout import Concatenate, DynamicUpdateSlice, Pad
from trnsim.graph.ops.leaves import RngBitGenerator
from trnsim.graph.ops.lookup import Scatter
from trnsim.graph.ops.reductions import BODIES, Reduce, SelectAndScatter
from trnsim.lower import costs, evaluate, memory_plan
from trnsim.lower.legalize import legalize

ROW = np.arange(12, dtype=np.float32).reshape(4, 3)
NONE = np.zeros((0, 3), np.float32)
PARTS = [NONE, ROW, NONE, 2 * ROW]
FIRST = np.int32(1)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "int8"])
@pytest.mark.parametrize("op", BODIES)
def test_a_reduction_over_nothing_is_its_neutral_element(op, dtype):
    graph = Graph()
    x = graph.input((3, 0, 2), dtype)
    graph.outputs = [graph.apply(Reduce(op, (1,)), x)]
    arrays = [np.zeros(x.shape, x.type.numpy_dtype())]
    (found,), (wanted,) = evaluate(graph, arrays), graph.reference(arrays)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(
    ("operation", "arrays"),
    [
        (Concatenate(0), [NONE, ROW, NONE]),
        (Pad((2, 1), (1, 0), (0, 0), 7.0), [NONE]),
        (DynamicUpdateSlice(), [ROW, NONE, FIRST, FIRST]),
        (Scatter.rows((4, 3), (0,), "assign", None), [NONE, np.zeros(0, np.int32), ROW]),
        (
            Scatter.rows((4, 3), (0,), "add", TensorType((4, 3), "float32")),
            [NONE, np.zeros(0, np.int32)],
        ),
        (SelectAndScatter((5, 1), (1, 1), (0, 0), (0, 0)), [ROW, NONE]),
        (
            Convolution((1,), (1,), (1,), (0,), (1,), 1),
            [np.zeros((2, 0, 5), np.float32), np.zeros((3, 0, 3), np.float32)],
        ),
    ],
)
def test_what_reads_nothing_gives_what_is_left(values, operation, arrays):
    (found,), (wanted,) = values(operation, *arrays)
    assert found.shape == wanted.shape
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize(("L", "S", "V"), [(0, 6, 3), (5, 0, 3), (5, 6, 0)])
def test_gradients_of_attention_of_no_queries_keys_or_widths_are_zero(values, L, S, V):
    random = np.random.default_rng(0)
    shapes = (2, L, 4), (2, S, 4), (2, S, V), (2, L, V), (2, L, V), (2, L)
    arrays = [random.normal(size=shape).astype(np.float32) for shape in shapes]
    found, wanted = values(AttentionBackward(0.5), *arrays)
    for one, other, operand in zip(found, wanted, arrays, strict=False):
        assert one.shape == other.shape == operand.shape
        assert not np.any(one)
        assert not np.any(other)


@pytest.mark.parametrize("lengths", [(4, 0, 5), (1, 0, 1)])
def test_a_product_over_nothing_is_zero(lengths):
    rows, inner, columns = lengths
    graph = Graph()
    x, y = graph.input((rows, inner), "float32"), graph.input((inner, columns), "float32")
    graph.outputs = [graph.elementwise("add", graph.dot_general(x, y, (1, 0)), 3.0)]
    arrays = [np.zeros(value.shape, np.float32) for value in graph.inputs]
    np.testing.assert_array_equal(evaluate(graph, arrays)[0], np.full((rows, columns), 3.0))


def test_parts_without_elements_leave_a_concatenation_of_the_others():
    graph = Graph()
    graph.outputs = [graph.concatenate([graph.input(one.shape, "float32") for one in PARTS], 0)]
    np.testing.assert_array_equal(evaluate(graph, PARTS)[0], np.concatenate(PARTS))
    assert [len(node.values) for node in legalize(graph).nodes] == [2]


def test_what_stands_between_nothing_and_a_concatenation_goes_with_it():
    graph = Graph()
    x, y = graph.input((0, 3), "float32"), graph.input((4, 3), "float32")
    graph.outputs = [graph.concatenate([graph.elementwise("exponential", x), y], 0)]
    np.testing.assert_array_equal(evaluate(graph, [NONE, ROW])[0], ROW)
    assert [node.name for node in legalize(graph).nodes] == ["constant"]


def test_a_scatter_at_the_only_place_is_one_though_its_indices_have_no_elements():
    graph = Graph()
    update, indices, table = (
        graph.input((4, 3), "float32"),
        graph.input((0,), "int32"),
        graph.input((4, 3), "float32"),
    )
    scatter = Scatter(None, "assign", (0, 1), (), (), (), (), 0)
    graph.outputs = [graph.apply(scatter, update, indices, table)]
    arrays = [ROW, np.zeros(0, np.int32), 2 * ROW]
    np.testing.assert_array_equal(graph.reference(arrays)[0], ROW)
    np.testing.assert_array_equal(evaluate(graph, arrays)[0], ROW)


def test_outputs_without_elements_take_no_kernel():
    graph = Graph()
    x, y = graph.input((3, 0), "bfloat16"), graph.input((2, 4), "float32")
    nothing = graph.elementwise("add", x, x)
    graph.outputs = [nothing, graph.elementwise("negate", y), x]
    arrays = [np.zeros(x.shape, x.type.numpy_dtype()), np.ones(y.shape, np.float32)]
    found, wanted = evaluate(graph, arrays), graph.reference(arrays)
    assert [one.dtype for one in found] == [one.dtype for one in wanted]
    assert [one.shape for one in found] == [(3, 0), (2, 4), (3, 0)]
    np.testing.assert_array_equal(found[1], wanted[1])
    assert [cost.name for cost in costs(graph)] == ["negate"]


def test_an_output_without_elements_needs_no_kernel():
    graph = Graph()
    x, row = graph.input((3, 0), "int8"), graph.input((4, 3), "float32")
    empty = graph.elementwise("add", x, 1.0)
    words = graph.input((4,), "uint32")
    state, bits = graph.apply_to_all(RngBitGenerator((0, 2)), [words])
    graph.outputs = [empty, graph.elementwise("negate", row), bits, state, x]
    arrays = [np.zeros((3, 0), np.int8), ROW, np.arange(4, dtype=np.uint32)]
    for found, wanted in zip(evaluate(graph, arrays), graph.reference(arrays), strict=True):
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(found, wanted)
    assert [cost.name for cost in costs(graph)].count("negate") == 1
    assert all(life.type.elements for life in memory_plan(graph).lifetimes if life.first >= 0)


def test_a_loop_carries_a_tensor_without_elements():
    condition, body, graph = Graph(), Graph(), Graph()
    count, empty = (condition.input((), "int32"), condition.input((0, 3), "float32"))
    condition.outputs = [condition.elementwise("compare", count, 3.0, direction="LT")]
    count, empty = (body.input((), "int32"), body.input((0, 3), "float32"))
    body.outputs = [body.elementwise("add", count, 1.0), body.elementwise("add", empty, 1.0)]
    inputs = graph.input((), "int32"), graph.input((0, 3), "float32")
    graph.outputs = list(graph.apply_to_all(While(condition, body, 3), inputs))
    arrays = [np.int32(0), NONE]
    for found, wanted in zip(evaluate(graph, arrays), graph.reference(arrays), strict=True):
        np.testing.assert_array_equal(found, wanted)
