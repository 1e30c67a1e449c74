"""How operations that move elements are split."""

import pytest
from two_cores import halves_of

from trnsim.compiler.sharding import halve_graph  # noqa: F401  fills the table
from trnsim.compiler.sharding.rules import split_rules
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.graph import Graph
from trnsim.graph.ops.collectives import AllGather, AllReduce, ReduceScatter
from trnsim.graph.ops.layout import Reverse, Transpose
from trnsim.graph.ops.leaves import Iota
from trnsim.graph.ops.lookup import Gather

RANKS = ((0, 1, 2, 3),)


def ways(build, *shapes, dtype="float32"):
    """(takes, gives) of all ways but the whole one."""
    graph = Graph()
    build(graph, *(graph.input(shape, dtype) for shape in shapes))
    node = graph.nodes[-1]
    return [(rule.operands, rule.results) for rule in split_rules(node)[1:]]


@pytest.mark.parametrize(
    ("build", "shapes", "wanted"),
    [
        (lambda g, x: g.reshape(x, (8, 3)), [(2, 4, 3)], [((0,), (0,)), ((SUM,), (SUM,))]),
        (
            lambda g, x: g.apply(Transpose((1, 0)), x),
            [(2, 4)],
            [((1,), (0,)), ((0,), (1,)), ((SUM,), (SUM,))],
        ),
        (
            lambda g, x: g.broadcast_in_dim(x, (2, 4), (1,)),
            [(4,)],
            [((WHOLE,), (0,)), ((0,), (1,)), ((SUM,), (SUM,))],
        ),
        (
            lambda g, x: g.slice(x, (0, 1), (4, 2)),
            [(4, 6)],
            [((0,), (0,)), ((SUM,), (SUM,))],
        ),
        (lambda g, x, y: g.concatenate([x, y], 1), [(2, 4), (2, 6)], [((0, 0), (0,))]),
        (lambda g, x: g.pad(x, (0, 1), (0, 1)), [(4, 6)], [((0,), (0,))]),
        (lambda g, x: g.apply(Reverse((1,)), x), [(4, 6)], [((0,), (0,))]),
        (lambda g: g.apply(Iota((4, 6), "int32", 1)), [], [((), (0,))]),
    ],
)
def test_what_moves_is_split_where_halves_stay_halves(build, shapes, wanted):
    assert ways(build, *shapes) == wanted


def test_rows_of_a_table_are_split_by_indices_or_by_columns():
    graph = Graph()
    table, indices = graph.input((10, 6), "float32"), graph.input((4, 3), "int32")
    graph.gather(table, indices)
    found = [(rule.operands, rule.results) for rule in split_rules(graph.nodes[0])[1:]]
    assert found == [((WHOLE, 0), (0,)), ((1, WHOLE), (2,))]


def test_a_batch_of_rows_is_split_with_its_indices():
    graph = Graph()
    rows, indices = graph.input((4, 7), "float32"), graph.input((4, 2), "int32")
    graph.apply(Gather.in_rows((4, 7)), rows, indices)
    found = [(rule.operands, rule.results) for rule in split_rules(graph.nodes[0])[1:]]
    assert found == [((0, 0), (0,)), ((WHOLE, 1), (1,))]


def test_updates_that_are_added_to_nothing_are_sums():
    graph = Graph()
    updates, indices = graph.input((4, 6), "float32"), graph.input((4,), "int32")
    kind = graph.input((10, 6), "float32").type
    graph.scatter(kind, indices, updates)
    found = [(rule.operands, rule.results) for rule in split_rules(graph.nodes[0])[1:]]
    assert found == [((1, WHOLE), (1,)), ((0, 0), (SUM,))]


def test_ranks_exchange_halves_and_sums():
    reduced = ways(lambda g, x: g.apply(AllReduce(RANKS, "add"), x), (4, 6))
    assert reduced == [((0,), (0,)), ((1,), (1,)), ((SUM,), (SUM,))]
    largest = ways(lambda g, x: g.apply(AllReduce(RANKS, "maximum"), x), (4, 6))
    assert ((SUM,), (SUM,)) not in largest
    gathered = ways(lambda g, x: g.apply(AllGather(RANKS, 0), x), (4, 6))
    assert gathered == [((1,), (1,))]
    scattered = ways(lambda g, x: g.apply(ReduceScatter(RANKS, "add", 1), x), (4, 8))
    assert scattered == [((0,), (0,)), ((SUM,), (SUM,))]


def test_the_cores_differ_in_where_slices_begin_alone():
    graph = Graph()
    x = graph.input((4, 6), "float32")
    moved = graph.elementwise("exponential", x)
    graph.outputs = [graph.elementwise("negate", moved)]
    whole, half = split_rules(graph.nodes[0])[0], split_rules(graph.nodes[1])[2]
    first, second = (one.graph.nodes[1].operation for one in halves_of(graph, [whole, half]))
    assert (first.starts, second.starts) == ((0, 0), (0, 3))
    assert first.shape == second.shape == (4, 3)
