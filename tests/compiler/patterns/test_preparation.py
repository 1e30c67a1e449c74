"""What a graph is before it is issued."""

import numpy as np
import pytest
from made_graphs import Made

from trnsim.compiler import Flags
from trnsim.compiler.patterns.preparation import prepare_graph
from trnsim.graph.ops.contraction import Attention, DotGeneral


def test_the_passes_meet_and_the_values_stay():
    made = Made(seed=1)
    q, k, v = (made.given(1, 2, 5, 16) for _ in "qkv")
    scores = made.of("multiply", made.graph.dot_general(q, k, (3, 3)), 0.25)
    spelled = made.graph.dot_general(made.softmax(scores), v, (3, 2))
    w = made.weight(16, 16)
    turned = made.graph.transpose(w, (1, 0))
    rows = made.graph.reshape(spelled, (10, 16))
    made.graph.outputs = [
        made.of("add", *(made.graph.dot_general(rows, turned, (1, 0)) for _ in range(2)))
    ]
    step = prepare_graph(made.graph, made.weights)
    kinds = [type(node.operation) for node in step.step.nodes]
    assert kinds.count(Attention) == 1
    assert kinds.count(DotGeneral) == 1  # the same product, twice
    assert [node.name for node in step.ahead.nodes] == ["transpose"]
    given = dict(zip((one.number for one in made.graph.inputs), made.arrays, strict=True))
    ahead = step.ahead.reference([given[one.number] for one in step.ahead.inputs])
    given |= dict(zip((one.number for one in step.ahead.outputs), ahead, strict=True))
    (found,) = step.step.reference([given[one.number] for one in step.step.inputs])
    (wanted,) = made.graph.reference(made.arrays)
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("cast", ["none", "matmult"])
def test_casts_are_those_of_the_flags(cast):
    made = Made()
    made.graph.outputs = [made.linear(made.given(4, 8), 8, has_bias=False)]
    step = prepare_graph(made.graph, made.weights, Flags(auto_cast=cast))
    (product,) = (node for node in step.step.nodes if isinstance(node.operation, DotGeneral))
    assert product.values[0].dtype == ("float32" if cast == "none" else "bfloat16")


def test_equal_products_in_parts_are_computed_once():
    made = Made("bfloat16")
    x, w = made.given(520, 9000), made.given(4, 9000)
    sides = [made.graph.dot_general(x, w, (1, 1)) for _ in range(2)]
    made.graph.outputs = [made.of("add", *sides)]
    step = prepare_graph(made.graph, made.weights).step
    products = [node for node in step.nodes if isinstance(node.operation, DotGeneral)]
    assert len(products) == 2  # the parts of one
