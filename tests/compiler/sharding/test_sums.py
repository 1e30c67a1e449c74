"""How operations that bring elements together are split."""

import pytest

from trnsim.compiler.sharding import halve_graph  # noqa: F401  fills the table
from trnsim.compiler.sharding.halved import halve_by_rules
from trnsim.compiler.sharding.rules import split_rules
from trnsim.compiler.sharding.splits import SUM, WHOLE
from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, Convolution
from trnsim.graph.ops.reductions import Sort, TopK

ONES, NONE = (1, 1), (0, 0)


def ways(graph):
    return [(rule.operands, rule.results) for rule in split_rules(graph.nodes[-1])[1:]]


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("right", [1, 2])
def test_a_product_is_split_by_batch_rows_columns_and_what_is_summed(left, right):
    graph = Graph()
    lhs = graph.input((2, 4, 6) if left == 2 else (2, 6, 4), "float32")
    rhs = graph.input((2, 8, 6) if right == 2 else (2, 6, 8), "float32")
    graph.dot_general(lhs, rhs, (left, right))
    assert ways(graph) == [
        ((0, 0), (0,)),
        ((3 - left, WHOLE), (1,)),
        ((WHOLE, 3 - right), (2,)),
        ((left, right), (SUM,)),
    ]


@pytest.mark.parametrize(
    ("groups", "wanted"),
    [
        (1, [((0, WHOLE), (0,)), ((WHOLE, 0), (1,)), ((1, 1), (SUM,))]),
        (4, [((0, WHOLE), (0,)), ((1, 0), (1,))]),
    ],
)
def test_a_convolution_is_split_by_images_and_channels(groups, wanted):
    graph = Graph()
    image = graph.input((2, 8, 5, 5), "float32")
    kernels = graph.input((12, 8 // groups, 3, 3), "float32")
    graph.apply(Convolution(ONES, NONE, NONE, NONE, ONES, groups), image, kernels)
    assert ways(graph) == wanted


def test_half_of_the_groups_are_half_as_many():
    graph = Graph()
    image, kernels = graph.input((1, 8, 5, 5), "float32"), graph.input((12, 2, 3, 3), "float32")
    graph.outputs = [graph.apply(Convolution(ONES, NONE, NONE, NONE, ONES, 4), image, kernels)]
    half = halve_by_rules(graph, (), [split_rules(graph.nodes[0])[1]])
    assert half.graph.nodes[0].operation.groups == 2
    assert half.graph.outputs[0].shape == (1, 6, 3, 3)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_split_by_heads_and_by_queries_that_no_mask_counts(is_causal):
    graph = Graph()
    query, key = graph.input((2, 3, 4, 8), "float32"), graph.input((2, 3, 6, 8), "float32")
    bias = graph.input((2, 3, 4, 6), "float32")
    graph.apply_to_all(Attention(1.0, is_causal), [query, key, key, bias])
    queries = [((2, WHOLE, WHOLE, 2), (2, 2))]
    assert ways(graph) == [((0,) * 4, (0, 0)), *([] if is_causal else queries)]


def test_a_reduction_is_split_along_what_stays_and_a_sum_along_what_goes():
    graph = Graph()
    x = graph.input((2, 4, 6), "float32")
    graph.reduce("add", x, [1])
    assert ways(graph) == [((0,), (0,)), ((2,), (1,)), ((1,), (SUM,)), ((SUM,), (SUM,))]
    graph.reduce("maximum", x, [1])
    assert ways(graph) == [((0,), (0,)), ((2,), (1,))]


def test_what_depends_on_all_of_a_row_is_split_by_rows():
    graph = Graph()
    x = graph.input((2, 4), "float32")
    graph.top_k(x, 3)
    assert ways(graph) == [((0,), (0,))]
    graph.apply_to_all(Sort(0), [x])
    assert ways(graph) == [((1,), (1,))]
    graph.apply(TopK(1), graph.input((4,), "float32"))
    assert ways(graph) == []
