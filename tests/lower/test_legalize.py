import numpy as np
import pytest

from trnsim.errors import InternalError
from trnsim.graph import OPERATIONS, Graph, Kind, TensorType, verify
from trnsim.graph.ops.layout import DynamicSlice, Transpose
from trnsim.graph.ops.reductions import ReduceWindow, Sort
from trnsim.lower import costs, evaluate, memory_plan
from trnsim.lower.legalize import legalize
from trnsim.lower.rules import EMITTERS, LEGAL, legal

CUMULATIVE = ReduceWindow((1, 4), (1, 1), (0, 3), (0, 0), "add")
EXAMPLES = [
    pytest.param(example, id=f"{operation.name}-{number}")
    for operation in OPERATIONS.values()
    for number, example in enumerate(operation.examples())
    if operation in LEGAL
]


def graph_of(operation, *given):
    graph = Graph()
    inputs = [graph.input(one.shape, one.dtype) for one in given]
    graph.outputs = list(graph.apply_to_all(operation, inputs))
    return graph


def test_every_operation_has_a_kernel_or_a_legal_form_or_runs_graphs():
    for operation in OPERATIONS.values():
        if operation.kind in (Kind.KERNEL, Kind.CONTRACTION):
            assert operation in {*EMITTERS, *LEGAL, Transpose}, operation.name


@pytest.mark.parametrize("example", EXAMPLES)
def test_a_rebuilt_graph_is_one_of_operations_that_have_kernels(example):
    graph = graph_of(example.operation, *example.operands)
    rebuilt = legalize(graph)
    verify(rebuilt)
    assert [v.type for v in rebuilt.inputs] == [v.type for v in graph.inputs]
    assert [v.type for v in rebuilt.outputs] == [v.type for v in graph.outputs]
    assert legalize(rebuilt) is rebuilt


def test_a_graph_with_nothing_to_replace_is_itself():
    graph = Graph()
    x, places = graph.input((9, 4), "float32"), graph.input((5,), "int32")
    rows = graph.elementwise("exponential", graph.gather(x, places))
    graph.outputs = [graph.scatter(x, places, rows, "maximum")]
    assert legalize(graph) is graph


def test_what_stands_around_a_replaced_operation_stays():
    graph = Graph()
    unused, x, w = (graph.input((4, 4), kind) for kind in ("int8", "bfloat16", "bfloat16"))
    wide = graph.dot_general(x, w, (1, 0), "float32")
    sums = graph.apply(CUMULATIVE, graph.elementwise("add", wide, 0.5))
    graph.outputs = [sums, unused, wide]
    rebuilt = legalize(graph)
    names = [node.name for node in rebuilt.nodes]
    assert names == ["dot_general", "add", "pad", *["slice"] * 4, *["add"] * 3]
    assert [value.dtype for value in rebuilt.outputs] == ["float32", "int8", "float32"]
    ones = [np.ones((4, 4), value.type.numpy_dtype()) for value in graph.inputs]
    found, expected = evaluate(graph, ones), graph.reference(ones)
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert [cost.name for cost in costs(graph)][:2] == ["dot_general", "add"]


def test_a_legal_form_is_declared_for_each_operation_named():
    class Made(ReduceWindow, abstract=True):
        """No operation of graphs."""

    class MadeToo(ReduceWindow, abstract=True):
        """No operation of graphs."""

    def build():
        """Something else."""

    assert legal(Made, MadeToo)(build) is build
    forms = LEGAL.pop(Made), LEGAL.pop(MadeToo)
    assert [form.before.operations for form in forms] == [(Made,), (MadeToo,)]
    assert {form.meaning for form in forms} == {"something else"}
    assert all(form.is_needed for form in forms)


def test_inputs_keep_their_names_in_the_memory_plan():
    graph = Graph()
    first = graph.input((3, 40), "float32")
    other = graph.elementwise("abs", first)
    second = graph.input((), "int32")
    graph.outputs = [graph.apply(DynamicSlice((3, 2)), other, second, second)]
    plan = memory_plan(graph, {first.number: "x", second.number: "start"})
    assert [one.label for one in plan.lifetimes[:2]] == ["x", "start"]


def test_nothing_sorted_is_nothing():
    graph = graph_of(Sort(0), TensorType((0,), "float32"), TensorType((0,), "int32"))
    assert [node.name for node in legalize(graph).nodes] == ["constant", "constant"]


def test_a_legal_form_of_another_type_is_refused(monkeypatch):
    monkeypatch.setitem(LEGAL, ReduceWindow, LEGAL[ReduceWindow])
    legal(ReduceWindow)(lambda b, _, x: b.convert(x, "bfloat16"))
    graph = graph_of(CUMULATIVE, TensorType((4, 4), "float32"))
    message = "reduce_window of reduce_window gives tensor<4x4xbfloat16>"
    with pytest.raises(InternalError, match=message):
        legalize(graph)


def test_what_is_kept_stays_among_what_is_replaced():
    graph = Graph()
    x = graph.input((3, 8), "float32")
    graph.outputs = [graph.apply(CUMULATIVE, graph.apply(CUMULATIVE, x))]
    first = graph.nodes[0]
    rebuilt = legalize(graph, lambda node: node is first)
    names = [node.name for node in rebuilt.nodes]
    assert names.count("reduce_window") == 1
    assert len(names) > 2
    assert legalize(graph, lambda _: True) is graph
