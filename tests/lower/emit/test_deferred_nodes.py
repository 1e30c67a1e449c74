"""What waits for its readers, and what is computed before them."""

from types import SimpleNamespace

import pytest
from made_graphs import Made

from trnsim.lower.emit.deferred_nodes import DeferredNodes
from trnsim.lower.emit.graph_facts import GraphFacts


def settled_of(graph, placed=()):
    """The values that are computed while all operations of a graph are left to their readers."""
    settled = []
    waiting = DeferredNodes(GraphFacts(graph), dict(placed), settled.append)
    for node in graph.nodes:
        if node.name != "dot_general":
            waiting.add(node)
    return settled


@pytest.mark.parametrize(
    ("operations", "computed"), [(63, 0), (64, 0), (65, 1), (129, 1), (130, 2)]
)
def test_a_chain_is_computed_in_parts_of_so_many_operations(operations, computed):
    made = Made()
    y = made.given(2, 32)
    chain = [y := made.of("tanh", y) for _ in range(operations)]
    found = settled_of(made.graph)
    assert found == [chain[65 * number - 1] for number in range(1, computed + 1)]


def test_what_lies_somewhere_is_waited_for_by_nobody():
    made = Made()
    y = made.given(2, 32)
    chain = [y := made.of("tanh", y) for _ in range(100)]
    on_chip = SimpleNamespace(is_pending=False, is_on_chip=True)
    assert settled_of(made.graph, {chain[50].number: [on_chip]}) == []


def sum_of_products(rows, width):
    made = Made("bfloat16")
    first, second = (made.linear(made.given(rows, width), 8, has_bias=False) for _ in range(2))
    views = [made.graph.reshape(one, (rows * 8,)) for one in (first, second)]
    made.of("add", *views)
    return made, views


# A panel is [128, width / 128, up to 512 columns] in bfloat16: two of 64 KiB have room together.
@pytest.mark.slow_cases("2000-8192-True")
@pytest.mark.parametrize(
    ("rows", "width", "together"),
    [(512, 1 << 13, True), (512, (1 << 13) + 1, False), (2000, 1 << 13, True), (1, 1 << 16, True)],
)
def test_products_whose_panels_have_no_room_together_are_computed_one_by_one(rows, width, together):
    made, views = sum_of_products(rows, width)
    assert settled_of(made.graph) == ([] if together else [views[0]])


def test_what_passes_from_where_it_lies_on_the_chip_needs_no_panel():
    made, _ = sum_of_products(512, 1 << 14)
    on_chip = SimpleNamespace(is_pending=False, is_on_chip=True)
    products = [node for node in made.graph.nodes if node.name == "dot_general"]
    placed = {products[0].values[0].number: [on_chip]}
    assert settled_of(made.graph, placed) == []


def test_a_reduction_is_left_to_its_readers_once():
    made = Made()
    made.graph.reduce("add", made.given(4, 6), [1])
    (node,) = made.graph.nodes
    waiting = DeferredNodes(GraphFacts(made.graph), {}, None)
    assert waiting.defer_reduction(node)
    assert waiting.reductions == {node.result.number: node}
    del waiting.reductions[node.result.number]
    assert not waiting.defer_reduction(node)
    assert waiting.reductions == {}
