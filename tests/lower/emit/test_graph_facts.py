"""What a graph says of its values."""

from made_graphs import Made

from trnsim.graph import Graph
from trnsim.lower.emit.graph_facts import GraphFacts, contracted_values, use_counts


def test_views_are_no_readers_and_outputs_are():
    made = Made()
    x = made.given(4, 6)
    y = made.of("negate", x)
    made.graph.outputs = [made.of("add", made.graph.reshape(y, (24,)), 1.0), y]
    found = use_counts(made.graph)
    assert found[x.number] == 1
    assert found[y.number] == 2


def test_features_are_what_a_product_sums_over_and_what_that_is_computed_of():
    made = Made()
    x, other = made.given(4, 6), made.given(4, 6)
    y = made.of("tanh", x)
    made.graph.outputs = [made.graph.dot_general(y, made.given(3, 6), (1, 1)), other]
    found = contracted_values(made.graph)
    assert {x.number, y.number} <= found
    assert other.number not in found


def test_readers_are_counted_through_views():
    graph = Graph()
    x = graph.input((4, 6), "float32")
    y = graph.elementwise("tanh", x)
    turned = graph.transpose(y, (1, 0))
    graph.outputs = [graph.elementwise("exponential", turned), graph.elementwise("abs", turned), y]
    found = use_counts(graph)
    assert (found[x.number], found[y.number], found[turned.number]) == (1, 3, 2)


def test_values_of_attention_stand_with_their_rows_along_partitions():
    made = Made()
    x = made.given(2, 20, 64)
    value = made.linear(x, 64)
    heads = [made.heads(one, 2) for one in (made.linear(x, 64), made.linear(x, 64), value)]
    made.graph.outputs = [made.attention(*heads)]
    products = [n.result.number for n in made.graph.nodes if n.name == "dot_general"]
    found = GraphFacts(made.graph).row_partition_products
    assert len(found) == 1
    assert found < set(products)


def test_the_caller_alone_reads_an_output_without_readers():
    made = Made()
    x = made.given(4, 6)
    y = made.of("negate", x)
    z = made.of("tanh", y)
    made.graph.outputs = [y, z]
    facts = GraphFacts(made.graph)
    assert [facts.is_output(value) for value in (x, y, z)] == [False, True, True]
    assert [facts.is_output_only(value) for value in (x, y, z)] == [False, False, True]
    assert [len(facts.readers(value)) for value in (x, y, z)] == [1, 1, 0]
    assert facts.order[y.number] < facts.order[z.number]


def test_a_view_of_another_value_is_one_of_its_own():
    made = Made()
    x, other = made.given(4, 6), made.given(4, 6)
    turned = made.graph.transpose(x, (1, 0))
    facts = GraphFacts(made.graph)
    path = (facts.producers[turned.number],)
    assert facts.follow_path(x, path) == turned
    seen = facts.follow_path(other, path)
    assert seen.shape == (6, 4)
    assert facts.producers[seen.number].values == (other,)
    assert facts.follow_path(other, path).number != seen.number


def test_a_program_is_narrow_unless_float32_goes_in_or_out():
    for dtype, is_narrow in (("bfloat16", True), ("float32", False)):
        made = Made(dtype)
        made.graph.outputs = [made.of("negate", made.given(4))]
        assert GraphFacts(made.graph).is_narrow == is_narrow
