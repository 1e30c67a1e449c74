"""Every way of every operation gives what the whole operation gives."""

import numpy as np
import pytest
from test_registry import EXAMPLES, arrays_of, graph_of
from two_cores import EXCHANGES, follows, halves_of, values_of

from trnsim.compiler.sharding import halve_graph  # noqa: F401  fills the table
from trnsim.compiler.sharding.rules import SplitRule, split_rules
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.graph import Graph, Kind
from trnsim.graph.ops.leaves import Rng

APART = (Kind.CONTROL, Kind.CALL, Kind.COLLECTIVE)


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("example", EXAMPLES)
def test_each_way_of_an_operation_gives_what_it_gives_whole(example):
    if isinstance(example.operation, Rng) or example.operation.kind in APART:
        pytest.skip("its values are not promised, or not one core's to say")
    graph, arrays = graph_of(example), arrays_of(example)
    with np.errstate(all="ignore"):
        wanted = graph.reference(arrays)
        for rule in split_rules(graph.nodes[0]):
            if follows(graph.nodes[0], rule, {}):
                for ours, theirs in zip(values_of(graph, arrays, [rule]), wanted, strict=True):
                    assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
                    assert_equal(ours, theirs, is_sum=SUM in rule.results)


def assert_equal(ours, theirs, *, is_sum):
    if theirs.dtype.kind not in "biu":  # numpy knows no NaN of the short formats
        ours, theirs = ours.astype(np.float64), theirs.astype(np.float64)
    if not is_sum:
        np.testing.assert_array_equal(ours, theirs)
        return
    largest = np.abs(theirs[np.isfinite(theirs)]).max(initial=1.0)
    np.testing.assert_allclose(ours, theirs, rtol=2**-6, atol=2**-7 * largest)


def test_the_first_way_is_that_both_cores_do_all():
    graph = Graph()
    x = graph.input((4, 3), "float32")
    graph.outputs = [graph.elementwise("add", x, x)]
    (node,) = graph.nodes
    whole, first, summed = split_rules(node)
    assert whole == SplitRule((WHOLE, WHOLE), (WHOLE,))
    assert first == SplitRule((0, 0), (0,))  # three columns have no halves
    assert summed == SplitRule((SUM, SUM), (SUM,))


@pytest.mark.parametrize(
    ("name", "operands", "is_linear"),
    [
        ("subtract", (None, None), True),
        ("add", (None, 1.0), False),  # the number would be added twice
        ("multiply", (None, 0.5), True),
        ("multiply", (None, None), False),
        ("divide", (None, 3.0), True),
        ("divide", (3.0, None), False),
        ("negate", (None,), True),
        ("exponential", (None,), False),
        ("maximum", (None, None), False),
    ],
)
def test_a_sum_goes_through_what_is_linear_alone(name, operands, is_linear):
    graph = Graph()
    x = graph.input((2, 2), "float32")
    graph.elementwise(name, *(x if one is None else one for one in operands))
    assert any(SUM in rule.results for rule in split_rules(graph.nodes[0])) == is_linear


def test_a_sum_is_not_rounded_before_it_is_whole():
    graph = Graph()
    wide, short = graph.input((2, 2), "float32"), graph.input((2, 2), "bfloat16")
    graph.elementwise("convert", wide, dtype="bfloat16")
    graph.elementwise("convert", short, dtype="float32")
    narrowing, widening = ([rule.results for rule in split_rules(node)] for node in graph.nodes)
    assert (SUM,) not in narrowing
    assert (SUM,) in widening


def test_a_sum_is_exchanged_once_and_a_half_is_gathered():
    graph = Graph()
    x, y = graph.input((4, 6), "float32"), graph.input((6, 8), "float32")
    graph.outputs = [graph.elementwise("exponential", graph.dot_general(x, y, (1, 0)))]
    whole = split_rules(graph.nodes[1])[0]
    product = {rule.results[0]: rule for rule in split_rules(graph.nodes[0])}
    names = {
        split: [
            node.name
            for node in halves_of(graph, [rule, whole])[0].graph.nodes
            if isinstance(node.operation, EXCHANGES)
        ]
        for split, rule in product.items()
    }
    gather = "all_gather between cores"
    assert names == {WHOLE: [], 0: [gather], 1: [gather], SUM: ["all_reduce between cores"]}
