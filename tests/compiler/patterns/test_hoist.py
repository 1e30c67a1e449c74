"""What is done to weights once."""

import numpy as np

from trnsim.compiler.patterns.hoist import hoist_weights
from trnsim.compiler.program import evaluate_program
from trnsim.graph import Graph


def graph_of():
    g = Graph()
    x, w, s = g.input((4, 8), "bfloat16"), g.input((6, 8), "float32"), g.input((6,), "float32")
    narrow = g.elementwise("convert", g.transpose(w, (1, 0)), dtype="bfloat16")
    wide = g.broadcast_in_dim(s, (4, 6), (1,))
    g.outputs = [g.elementwise("add", g.dot_general(x, narrow, (1, 0)), wide)]
    return g, frozenset({w.number, s.number})


def test_casts_and_transposes_of_weights_are_done_ahead():
    graph, weights = graph_of()
    found = hoist_weights(graph, weights)
    assert [node.name for node in found.ahead.nodes] == ["transpose", "convert"]
    assert [node.name for node in found.step.nodes] == ["broadcast_in_dim", "dot_general", "add"]
    assert [value.type.shape for value in found.step.inputs] == [(4, 8), (6,), (8, 6)]
    assert len(found.weights) == 2


def test_what_is_larger_than_the_weights_stays():
    graph, weights = graph_of()
    assert "broadcast_in_dim" in [node.name for node in hoist_weights(graph, weights).step.nodes]


def test_without_weights_nothing_is_done_ahead():
    graph, _ = graph_of()
    found = hoist_weights(graph, frozenset())
    assert not found.ahead.nodes
    assert found.step.nodes == graph.nodes


def test_values_are_those_of_the_whole_graph():
    graph, weights = graph_of()
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(v.shape).astype(v.type.numpy_dtype()) for v in graph.inputs]
    (got,) = evaluate_program(graph, arrays, "trn2", weights)
    (want,) = graph.reference(arrays)
    assert np.abs(got.astype(float) - want.astype(float)).max() <= 0.05


def normed():
    """A kernel that is normed, as weight_norm has it, beside a scale that is wide."""
    g = Graph()
    v, s, x = g.input((6, 8), "float32"), g.input((6,), "float32"), g.input((4, 8), "float32")
    norm = g.elementwise("rsqrt", g.reduce("add", g.elementwise("square", v), [1]))
    scale = g.broadcast_in_dim(g.elementwise("multiply", s, norm), (6, 8), (0,))
    kernel = g.elementwise("multiply", v, scale)
    wide = g.broadcast_in_dim(g.elementwise("abs", s), (4, 6), (1,))
    wider = g.reshape(g.elementwise("tanh", wide), (24,))
    wider = g.reshape(wider, (4, 6))
    g.outputs = [g.elementwise("add", g.dot_general(x, kernel, (1, 1)), wider), norm]
    return g, frozenset({v.number, s.number})


def test_a_kernel_is_normed_ahead_by_way_of_a_scale_as_wide_as_it():
    graph, weights = normed()
    found = hoist_weights(graph, weights)
    names = [node.name for node in found.step.nodes]
    assert names == ["broadcast_in_dim", "tanh", "reshape", "reshape", "dot_general", "add"]
    assert [value.shape for value in found.step.inputs] == [(4, 8), (6,), (6, 8), (6,)]
    assert "multiply" in [node.name for node in found.ahead.nodes]


def test_values_of_a_kernel_that_is_normed():
    graph, weights = normed()
    random = np.random.default_rng(0)
    arrays = [random.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
    for chosen in (weights, frozenset()):
        for ours, theirs in zip(
            evaluate_program(graph, arrays, "trn2", chosen), graph.reference(arrays), strict=True
        ):
            assert np.abs(ours - theirs).max() <= 1e-4


def test_what_is_made_of_nothing_is_no_weight():
    g = Graph()
    x, w = g.input((4, 8), "float32"), g.input((4, 8), "float32")
    places = g.iota((4, 8), 1)
    g.outputs = [g.elementwise("add", x, g.elementwise("convert", places, dtype="float32"))]
    assert not hoist_weights(g, frozenset({w.number})).ahead.nodes
