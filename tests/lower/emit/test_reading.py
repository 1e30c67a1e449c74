"""Who reads what of a graph."""

from made_graphs import Made

from trnsim.lower.emit.reading import contracted, uses


def test_views_are_no_readers_and_outputs_are():
    made = Made()
    x = made.given(4, 6)
    y = made.of("negate", x)
    made.graph.outputs = [made.of("add", made.graph.reshape(y, (24,)), 1.0), y]
    found = uses(made.graph)
    assert found[x.number] == 1
    assert found[y.number] == 2


def test_features_are_what_a_product_sums_over_and_what_that_is_computed_of():
    made = Made()
    x, other = made.given(4, 6), made.given(4, 6)
    y = made.of("tanh", x)
    made.graph.outputs = [made.graph.dot_general(y, made.given(3, 6), (1, 1)), other]
    found = contracted(made.graph)
    assert {x.number, y.number} <= found
    assert other.number not in found
