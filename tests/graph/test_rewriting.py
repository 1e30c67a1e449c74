"""Rewriting of graphs by patterns."""

import pytest

from trnsim.errors import InternalError
from trnsim.graph import Graph, Origin
from trnsim.graph.ops.arithmetic import Negate
from trnsim.graph.ops.functions import Exponential
from trnsim.graph.patterns import Producers, TensorForm, form_of, number_of
from trnsim.graph.rewriting import (
    ANY,
    Pattern,
    match_node,
    observe_patterns,
    omitted_patterns,
    rewrite_graph,
)

DOUBLE = Pattern(
    "double negation",
    "-(-x) is x",
    before=form_of(Negate, form_of(Negate, TensorForm("x"))),
    after=lambda match: match["x"],
)
POWER = Pattern(
    "power",
    "e**x is 2**(x log2 e), more or less",
    before=form_of(Exponential, TensorForm("x")),
    after=lambda match: match.graph.elementwise("tanh", match["x"]),
)


def graph_of():
    """``tanh(exp(-(-x)))``, and the number of the exponential."""
    g = Graph()
    x = g.input((3,), "float32")
    g.current_origin = Origin("inner")
    twice = g.elementwise("negate", g.elementwise("negate", x))
    power = g.elementwise("exponential", twice)
    g.outputs = [g.elementwise("add", power, twice), power]
    return g


def names(graph):
    return [node.name for node in graph.nodes]


def test_what_a_pattern_gives_is_read_in_the_place_of_what_it_replaces():
    graph = graph_of()
    found = rewrite_graph(graph, [DOUBLE, POWER])
    (x,) = graph.inputs
    assert names(found) == ["negate", "tanh", "add"]
    assert found.inputs == graph.inputs
    assert found.nodes[1].values == (x,)
    assert found.nodes[2].values == (found.nodes[1].result, x)
    assert found.outputs == [found.nodes[2].result, found.nodes[1].result]
    assert names(graph) == ["negate", "negate", "exponential", "add"]


def test_what_takes_the_place_of_operations_comes_from_where_they_came():
    found = rewrite_graph(graph_of(), [POWER])
    assert {node.origin for node in found.nodes} == {Origin("inner")}


def test_a_graph_without_what_is_looked_for_is_itself():
    graph = graph_of()
    assert rewrite_graph(graph, []) is graph
    never = Pattern("never", "", before=ANY, after=DOUBLE.after, when=lambda _: False)
    assert rewrite_graph(graph, [never]) is graph


def test_the_first_pattern_that_suits_is_taken():
    other = Pattern("other", "", POWER.before, lambda match: match["x"])
    assert names(rewrite_graph(graph_of(), [other, POWER])) == ["negate", "negate", "add"]
    assert "tanh" in names(rewrite_graph(graph_of(), [POWER, other]))


def test_conditions_know_facts_and_numbers():
    g = Graph()
    g.outputs = [g.elementwise("multiply", g.input((2,), "float32"), n) for n in (2.0, 3.0)]
    seen = []

    def is_fact(match):
        seen.append(number_of(match.producers.nodes, match.node.operands[1]))
        return seen[-1] == match.facts

    halved = Pattern("halved", "", ANY, lambda match: match.node.values[0], is_fact)
    found = rewrite_graph(g, [halved], 3.0)
    assert seen == [2.0, 3.0]
    assert found.outputs[1] == g.inputs[1]


def test_an_earlier_operation_that_does_the_same_is_a_twin():
    g = Graph()
    x = g.input((3,), "float32")
    g.outputs = [g.elementwise("tanh", g.elementwise("abs", x)) for _ in range(2)]
    twice = Pattern(
        "twice",
        "",
        before=ANY,
        when=lambda match: match.twin() is not None,
        after=lambda match: match.twin(),
    )
    found = rewrite_graph(g, [twice])
    assert names(found) == ["abs", "tanh"]
    assert found.outputs[0] == found.outputs[1]


def test_other_types_and_what_is_no_graph_are_refused():
    wide = Pattern(
        "wide",
        "",
        POWER.before,
        lambda match: match.graph.elementwise("tanh", match["x"], dtype="bfloat16"),
    )
    with pytest.raises(InternalError, match="wide of exponential gives tensor<3xbfloat16>"):
        rewrite_graph(graph_of(), [wide])
    lost = Pattern("lost", "", POWER.before, lambda match: match.graph.fresh(match["x"].type))
    with pytest.raises(InternalError, match="which nothing made before"):
        rewrite_graph(graph_of(), [lost])


def test_patterns_are_counted_and_left_out_by_name():
    with observe_patterns() as taken:
        rewrite_graph(graph_of(), [DOUBLE, POWER])
        rewrite_graph(graph_of(), [POWER])
    assert taken == {"double negation": 1, "power": 2}
    with observe_patterns(["power"]) as outer, observe_patterns(["double negation"]):
        assert omitted_patterns() == {"power", "double negation"}
        graph = graph_of()
        assert rewrite_graph(graph, [DOUBLE, POWER]) is graph
    assert not outer
    assert not omitted_patterns()


def test_what_is_needed_is_not_left_out():
    needed = Pattern("needed", "", POWER.before, POWER.after, is_needed=True)
    with observe_patterns(["needed"]) as taken:
        assert "tanh" in names(rewrite_graph(graph_of(), [needed]))
    assert taken == {"needed": 1}


def test_operations_that_stay_are_recognized():
    graph = graph_of()
    producers = Producers.of_graph(graph)
    stays = Pattern("stays", "", DOUBLE.before, when=lambda match: match["x"] in graph.inputs)
    found = [match_node(stays, node, producers) for node in graph.nodes]
    assert [one is not None for one in found] == [False, True, False, False]
    assert found[1]["x"] == graph.inputs[0]
    with observe_patterns(["stays"]):
        assert match_node(stays, graph.nodes[1], producers) is None
    assert rewrite_graph(graph, [stays]) is graph
    other = Pattern("other", "", DOUBLE.before, when=lambda _: False)
    assert match_node(other, graph.nodes[1], producers) is None


def test_a_match_knows_the_operations_that_it_names():
    graph = graph_of()
    inner = Pattern("", "", form_of(Negate, form_of(Negate, name="inner")))
    found = match_node(inner, graph.nodes[1], Producers.of_graph(graph))
    assert found.operation("inner") is graph.nodes[0].operation
