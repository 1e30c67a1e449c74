"""Equal layers: found, shorten_graph, and timed by a few of them."""

import pytest

from trnsim import arch
from trnsim.compiler.layers import LayerRun, Stack, Tie, shorten_graph, stacks_of
from trnsim.compiler.program_times import (
    ProgramFigures,
    TimedGraph,
    _time_by_layers,
    program_figures,
    time_graph,
)
from trnsim.compiler.schedules import CompileOptions
from trnsim.compiler.sharding import halve_graph
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
    assert stacks_of(graph) == [Stack((LayerRun(1, 3, 5),))]


def test_two_layers_are_too_few():
    assert stacks_of(stack(2)[0]) == []
    assert stacks_of(Graph()) == []


def test_a_shorter_graph_is_that_of_fewer_layers():
    graph, _ = stack(5)
    found = shorten_graph(graph, [(one, 2) for one in stacks_of(graph)])
    other, _ = stack(2)
    assert [node.operation for node in found.nodes] == [node.operation for node in other.nodes]
    assert [value.type for value in found.inputs] == [value.type for value in other.inputs]


def test_what_each_layer_returns_goes_with_it():
    graph, _ = stack(5, collects=True)
    found = shorten_graph(graph, [(one, 2) for one in stacks_of(graph)])
    assert len(found.outputs) == 3


def test_a_layer_that_is_read_after_all_layers_is_not_left_out():
    graph, _ = stack(6, skips=True)
    (layers,) = stacks_of(graph)
    assert shorten_graph(graph, [(layers, 1)]) is None
    assert shorten_graph(graph, [(layers, 3)]) is not None


@pytest.mark.slow
@pytest.mark.parametrize("cores", [1, 2])
@pytest.mark.parametrize("rows", [1, 64, 600])
def test_a_few_layers_give_the_time_of_all_within_a_hundredth(rows, cores):
    graph, weights = stack(10, rows=rows)
    if cores == 2:
        half = halve_graph(graph, weights, arch.paired(arch.target("trn2")))
        graph, weights = half.graph, half.weights
    asked = CompileOptions("trn2", cores)
    stacks = tuple(stacks_of(graph))
    assert stacks[0].count >= 8  # the first and the last may be split otherwise
    whole = program_figures(graph, weights, asked)
    short = _time_by_layers(
        TimedGraph(graph, weights, ProgramFigures(), stacks, cores), asked
    ).figures
    assert short.device_time_s == pytest.approx(whole.device_time_s, rel=0.01)
    assert short.instructions == pytest.approx(whole.instructions, rel=0.01)


def trained(count, width=512, rows=128, *, updates=False):
    """The layers of `stack` forward and backward; with updates, each weight less its gradient."""
    graph = Graph()
    weights = [graph.input((width, width), "bfloat16") for _ in range(count)]
    x = graph.elementwise("tanh", graph.input((rows, width), "bfloat16"))
    kept = []
    for weight in weights:
        before = graph.dot_general(x, weight, (1, 1))
        kept.append((x, before))
        x = graph.elementwise("add", x, graph.elementwise("gelu", before))
    slope = graph.elementwise("negate", x)
    found = []
    for weight, (x, before) in reversed(list(zip(weights, kept, strict=True))):
        inner = graph.elementwise("multiply", slope, graph.elementwise("gelu_dx", before))
        found.append(graph.dot_general(inner, x, (0, 0)))
        slope = graph.elementwise("add", slope, graph.dot_general(inner, weight, (1, 0)))
    if updates:
        pairs = zip(weights, found[::-1], strict=True)
        found = [graph.elementwise("subtract", one, gradient) for one, gradient in pairs]
    graph.outputs = [*found, slope]
    return graph, frozenset()


def drawn(graph):
    """What a graph computes: each operation with the places of what it reads."""
    places = {value.number: ("input", value.type) for value in graph.inputs}
    found = []
    for at, node in enumerate(graph.nodes):
        found.append((node.operation, [places[value.number] for value in node.values]))
        places |= {value.number: (at, number) for number, value in enumerate(node.results)}
    return found, sorted(str(places[value.number]) for value in graph.outputs)


def test_layers_of_a_backward_pass_belong_to_those_whose_values_they_read():
    graph, _ = trained(6)
    assert stacks_of(graph) == [
        Stack((LayerRun(1, 3, 6), LayerRun(20, 5, 6)), (Tie(1, 0), Tie(-1, 5)))
    ]


@pytest.mark.parametrize("count", [2, 3, 8])
@pytest.mark.parametrize("updates", [False, True])
def test_forward_and_backward_layers_go_together(count, updates):
    graph, _ = trained(9, updates=updates)
    found = shorten_graph(graph, [(one, count) for one in stacks_of(graph)])
    assert drawn(found) == drawn(trained(count, updates=updates)[0])


def test_a_sum_of_many_values_is_no_stack_of_layers():
    graph = Graph()
    parts = [graph.pad(graph.input((4, 8), "float32"), (0, 1), (0, 0)) for _ in range(12)]
    total = parts[0]
    for part in parts[1:]:
        total = graph.elementwise("add", total, part)
    graph.outputs = [total]
    assert not any(run.start >= 12 for layers in stacks_of(graph) for run in layers.runs)


def test_runs_that_do_not_read_each_other_are_shortened_apart():
    graph, _ = stack(5)
    x = graph.outputs[0]
    weights = [graph.input((1024, 1024), "bfloat16") for _ in range(7)]
    for weight in weights:
        x = graph.elementwise("tanh", graph.dot_general(x, weight, (1, 1)))
    graph.outputs = [x]
    stacks = stacks_of(graph)
    assert [one.count for one in stacks] == [5, 7]
    found = shorten_graph(graph, list(zip(stacks, (2, 3), strict=True)))
    assert len(found.nodes) == len(graph.nodes) - 3 * 3 - 4 * 2


@pytest.mark.slow
@pytest.mark.parametrize(("rows", "near"), [(1, 0.02), (128, 0.035), (600, 0.01)])
def test_a_few_layers_forward_and_backward_give_the_time_of_all(rows, near):
    """The first layers find room in SBUF that nobody has had, and wait less than others."""
    graph, weights = trained(9, rows=rows)
    whole = program_figures(graph, weights, CompileOptions("trn2"))
    all_of_it = TimedGraph(graph, weights, ProgramFigures(), tuple(stacks_of(graph)))
    short = _time_by_layers(all_of_it, CompileOptions("trn2")).figures
    assert short.device_time_s == pytest.approx(whole.device_time_s, rel=near)
    assert short.instructions == pytest.approx(whole.instructions, rel=0.01)


def test_a_stack_whose_layers_are_all_read_hinders_no_other():
    graph, weights = stack(24)
    x, made = graph.outputs[0], []
    for _ in range(7):
        x = graph.elementwise("multiply", graph.elementwise("tanh", x), 0.5)
        made.append(x)
    graph.outputs = [graph.concatenate(made, 0)]
    assert len(stacks_of(graph)) == 2
    assert time_graph(graph, weights, CompileOptions("trn2")).layers == 24
