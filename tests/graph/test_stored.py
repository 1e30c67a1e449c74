import json

import pytest

from trnsim.errors import BadInput, NotModelled
from trnsim.graph import OPERATIONS, Graph
from trnsim.graph.ops.calls import CustomCall
from trnsim.graph.ops.control_flow import While
from trnsim.graph.origin import Origin
from trnsim.graph.stored import graph_from_plain, plain_graph
from trnsim.graph.types import TensorType


def through_json(graph):
    return graph_from_plain(json.loads(json.dumps(plain_graph(graph))))


def small():
    graph = Graph()
    x, w = graph.input((4, 8), "float32"), graph.input((8, 2), "float32")
    graph.outputs = [graph.elementwise("tanh", graph.dot_general(x, w, (1, 0)))]
    return graph


@pytest.mark.parametrize("name", OPERATIONS)
def test_every_operation_is_read_back(name):
    for example in OPERATIONS[name].examples():
        graph = Graph()
        operands = [graph.input(each.shape, each.dtype) for each in example.operands]
        graph.outputs = list(graph.apply_to_all(example.operation, operands))
        assert through_json(graph) == graph


def test_a_graph_read_back_goes_on():
    graph = through_json(small())
    more = graph.elementwise("negate", graph.outputs[0])
    assert more.number not in {value.number for value in (*graph.inputs, *graph.outputs)}
    assert graph.producer(graph.outputs[0]).name == "tanh"


@pytest.mark.parametrize("number", [float("inf"), float("-inf"), 1e-45, -0.0])
def test_numbers_are_exact(number):
    graph = Graph()
    x = graph.input((3,), "float32")
    graph.outputs = [graph.elementwise("add", graph.constant(number, x.type), x)]
    assert repr(through_json(graph).nodes) == repr(graph.nodes)


def test_origins_have_places():
    graph, origins = Graph(), {}
    graph.current_origin = Origin("layer.0", "aten::tanh")
    graph.outputs = [graph.elementwise("tanh", graph.input((3,), "float32"))]
    stored = plain_graph(graph, lambda origin: origins.setdefault(origin, len(origins)))
    assert graph_from_plain(stored, list(origins)).nodes[0].origin == graph.current_origin
    assert graph_from_plain(stored).nodes[0].origin is None


def test_a_kernel_is_not_stored():
    graph = Graph()
    call = CustomCall("kernel", (TensorType((3,), "float32"),))
    graph.outputs = [graph.apply(call, graph.input((3,), "float32"))]
    with pytest.raises(NotModelled, match="a graph that calls a kernel of your own is not stored"):
        plain_graph(graph)


def broken(change):
    stored = json.loads(json.dumps(plain_graph(small())))
    change(stored)
    return stored


def node(place, at, value):
    def change(stored):
        stored["nodes"][place][at] = value

    return change


HARMFUL = {
    "no graph": lambda s: s.clear(),
    "an unknown operation": node(0, 0, "exec"),
    "a kernel": node(0, 0, "custom_call"),
    "an attribute more": node(0, 1, {"contracting": [1, 0], "x": 1}),
    "an attribute of another kind": node(0, 1, {"contracting": "10"}),
    "an attribute of truth": node(0, 1, {"contracting": [True, False]}),
    "an operand of the future": node(0, 2, [[3], [1]]),
    "an operand of text": node(1, 2, ["x"]),
    "a result of another type": node(1, 3, [[3, [4, 3], "float32"]]),
    "a number twice": node(1, 3, [[2, [4, 2], "float32"]]),
    "a number below zero": node(1, 3, [[-3, [4, 2], "float32"]]),
    "a type that no core has": lambda s: s["inputs"][0].__setitem__(2, "float128"),
    "a shape below zero": lambda s: s["inputs"][0].__setitem__(1, [-4, 8]),
    "a shape beyond any memory": lambda s: s["inputs"][0].__setitem__(1, [1 << 60, 8]),
    "a shape of a thousand sides": lambda s: s["inputs"][0].__setitem__(1, [1] * 1000),
    "an output that is not there": lambda s: s.__setitem__("outputs", [9]),
    "inputs of text": lambda s: s.__setitem__("inputs", "ab"),
}


@pytest.mark.parametrize("name", HARMFUL)
def test_values_that_are_no_graph_are_refused(name):
    with pytest.raises(BadInput, match=r"^the stored (values are no graph|graph is not legal)"):
        graph_from_plain(broken(HARMFUL[name]))


def test_graphs_within_graphs_are_checked():
    graph, body, condition = Graph(), Graph(), Graph()
    x = body.input((3,), "float32")
    body.outputs = [body.elementwise("negate", body.elementwise("square", x))]
    condition.input((3,), "float32")
    condition.outputs = [condition.constant(0.0, TensorType((), "bool"))]
    graph.outputs = [graph.apply(While(condition, body), graph.input((3,), "float32"))]
    stored = json.loads(json.dumps(plain_graph(graph)))
    assert graph_from_plain(stored) == graph
    stored["nodes"][0][1]["body"]["graph"]["nodes"][0][3][0][1] = [5]
    with pytest.raises(BadInput, match=r"^the stored graph is not legal: square .* gives"):
        graph_from_plain(stored)


def test_graphs_within_graphs_have_an_end():
    stored = {"inputs": [], "nodes": [], "outputs": []}
    for _ in range(40):
        branch = {"graph": stored}
        stored = {
            "inputs": [],
            "nodes": [["while", {"condition": branch, "body": None, "trips": 1}, [], [], -1]],
            "outputs": [],
        }
    with pytest.raises(BadInput, match="graphs of more than 16 levels"):
        graph_from_plain(stored)
