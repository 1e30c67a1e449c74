"""Equal layers: found, shortened, and priced by a few of them."""

import pytest

from trnsim import arch
from trnsim.compiler.compilation import _by_layers, _figures
from trnsim.compiler.layers import Layers, layers_of, shortened
from trnsim.compiler.sharding import halved
from trnsim.graph import Graph


def stack(count, width=1024, rows=64, *, collects=False, skips=False):
    """Layers ``x = x + gelu(x @ W)`` with a weight each."""
    graph = Graph()
    weights = [graph.input((width, width), "bfloat16") for _ in range(count)]
    x = graph.elementwise("tanh", graph.input((rows, width), "bfloat16"))
    made = []
    for weight in weights:
        up = graph.elementwise("gelu", graph.dot_general(x, weight, (1, 1)))
        x = graph.elementwise("add", x, up)
        made.append(up)
    x = graph.elementwise("negate", x)
    if skips:
        x = graph.elementwise("add", x, made[0] if count < 2 else made[1])
    graph.outputs = [x, *(made if collects else [])]
    return graph, frozenset(value.number for value in weights)


def test_layers_are_the_operations_that_repeat():
    graph, _ = stack(5)
    assert layers_of(graph) == Layers(1, 3, 5)


def test_two_layers_are_too_few():
    assert layers_of(stack(2)[0]) is None
    assert layers_of(Graph()) is None


def test_a_shorter_graph_is_that_of_fewer_layers():
    graph, _ = stack(5)
    found = shortened(graph, layers_of(graph), 2)
    other, _ = stack(2)
    assert [node.operation for node in found.nodes] == [node.operation for node in other.nodes]
    assert [value.type for value in found.inputs] == [value.type for value in other.inputs]


def test_what_each_layer_returns_goes_with_it():
    graph, _ = stack(5, collects=True)
    found = shortened(graph, layers_of(graph), 2)
    assert len(found.outputs) == 3


def test_a_layer_that_is_read_after_all_layers_is_not_left_out():
    graph, _ = stack(6, skips=True)
    layers = layers_of(graph)
    assert shortened(graph, layers, 1) is None
    assert shortened(graph, layers, 3) is not None


@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("rows", [1, 64, 600])
def test_a_few_layers_give_the_time_of_all_within_a_hundredth(rows, cores):
    graph, weights = stack(10, rows=rows)
    if cores == 2:
        half = halved(graph, weights, arch.paired(arch.target("trn2")))
        graph, weights = half.graph, half.weights
    assert layers_of(graph).count >= 8  # the first and the last may be split otherwise
    whole = _figures(graph, weights, "trn2", cores)
    short = _by_layers(graph, weights, "trn2", layers_of(graph), cores)
    assert short.device_time_s == pytest.approx(whole.device_time_s, rel=0.01)
    assert short.instructions == pytest.approx(whole.instructions, rel=0.01)
