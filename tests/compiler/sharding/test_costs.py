"""Rough costs: only their order decides."""

from itertools import pairwise

from trnsim import arch
from trnsim.compiler.sharding import halve_graph  # noqa: F401  fills the table
from trnsim.compiler.sharding.costs import split_costs
from trnsim.compiler.sharding.rules import split_rules
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.graph import Graph

CORE = arch.paired(arch.target("trn2"))


def product(rows, inner, columns):
    graph = Graph()
    x, w = graph.input((rows, inner), "bfloat16"), graph.input((columns, inner), "bfloat16")
    made = graph.elementwise("exponential", x)
    graph.outputs = [graph.dot_general(made, w, (1, 1))]
    return graph


def costs(graph):
    """Of the product, by the split of its result."""
    work, node = split_costs(graph, CORE), graph.nodes[-1]
    return {rule.results[0]: work.node_s(node, rule) for rule in split_rules(node)}


def test_few_rows_are_not_worth_splitting_as_all_weights_are_read():
    found = costs(product(2, 1024, 1024))
    assert found[1] < 0.6 * found[WHOLE]
    assert found[SUM] < 0.6 * found[WHOLE]
    assert found[0] > 0.9 * found[WHOLE]


def test_many_rows_are():
    found = costs(product(4096, 1024, 1024))
    assert found[0] < 0.6 * found[WHOLE]


def test_an_exchange_has_a_fixed_cost_and_grows_with_its_bytes():
    graph = product(8, 128, 128)
    work = split_costs(graph, CORE)
    large = product(4096, 128, 4096).outputs[0].type
    small = graph.outputs[0].type
    ways = ((WHOLE, 1), (SUM, WHOLE), (0, WHOLE))
    assert work.move_s(small, 0, 0) == 0
    assert work.move_s(small, WHOLE, SUM) == work.move_s(small, 0, SUM) == float("inf")
    costs = [work.move_s(small, *way) for way in ways]
    assert all(a < b for a, b in pairwise(costs))
    assert 1e-6 < costs[1] < 10e-6
    assert work.move_s(large, SUM, WHOLE) > 10 * costs[1]


def test_views_cost_nothing_and_inputs_lie_in_hbm():
    graph = Graph()
    x = graph.input((4096, 1024), "bfloat16")
    turned = graph.reshape(x, (1024, 4096))
    far = graph.elementwise("exponential", turned)
    graph.elementwise("exponential", far)
    work = split_costs(graph, CORE)
    view, first, second = (work.node_s(node, split_rules(node)[0]) for node in graph.nodes)
    assert view == 0
    assert first > 2 * second


def test_equal_operations_share_their_costs_and_others_do_not():
    graph = Graph()
    x, row = graph.input((64, 128), "float32"), graph.input((64, 128), "bfloat16")
    first = graph.elementwise("multiply", x, 2.0)
    second = graph.elementwise("multiply", first, 2.0)
    third = graph.elementwise("multiply", second, 2.0)
    graph.elementwise("multiply", third, 3.0)
    graph.elementwise("multiply", row, 2.0)
    graph.elementwise("multiply", third, third)
    work = split_costs(graph, CORE)
    for node in graph.nodes:
        assert work.rule_s(node) == {rule: work.node_s(node, rule) for rule in split_rules(node)}
    from_hbm, on_chip, after, *others = (work.rule_s(node) for node in graph.nodes)
    assert on_chip is after
    assert from_hbm is not on_chip
    assert all(other is not after for other in others)
