import numpy as np
import pytest

from trnsim.graph import verify
from trnsim.graph.ops.contraction import Attention
from trnsim.workload.operators import Axis
from trnsim.workload.rank_graph import RankGraph, Use, Weight, element_type


@pytest.mark.parametrize(
    ("bits", "kind"),
    [(4, "float8_e4m3"), (8, "float8_e4m3"), (8.5, "bfloat16"), (16, "bfloat16"), (32, "float32")],
)
def test_activations_have_the_shortest_type_that_holds_them(bits, kind):
    assert element_type(bits) == kind


def test_a_weight_says_how_long_it_is_kept_and_multiplied():
    rank_graph = RankGraph()
    value = rank_graph.weight((3.2, 5), 4.25, product_bits=8, use=Use.ROUTED, is_held=False)
    assert (value.shape, value.dtype) == ((4, 5), "float8_e4m3")
    assert rank_graph.weights[value.number] == Weight(4.25, 8, Use.ROUTED, is_held=False)
    rank_graph.add_parameters(0)
    assert len(rank_graph.weights) == 1


def test_a_norm_divides_by_the_root_of_the_mean_square():
    rank_graph = RankGraph(bits=32)
    rank_graph.graph.outputs.append(rank_graph.norm(rank_graph.input(2, 5)))
    x = np.arange(10, dtype=np.float32).reshape(2, 5)
    (found,) = rank_graph.graph.reference([x])
    wanted = x / np.sqrt((x * x).mean(1, keepdims=True) + 1e-6)
    assert np.allclose(found, wanted, rtol=1e-6)


@pytest.mark.parametrize(("heads", "groups"), [(4, 4), (4, 2), (4, 1), (3, 2)])
def test_heads_share_keys_and_values(heads, groups):
    rank_graph, rng = RankGraph(bits=32), np.random.default_rng(0)
    shapes = (1, heads, 3, 4), (1, groups, 5, 4), (1, groups, 5, 6)
    query, key, value = (rank_graph.input(*shape) for shape in shapes)
    rank_graph.graph.outputs.append(rank_graph.attention(query, key, value, Attention(0.5)))
    q, k, v = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    (found,) = rank_graph.graph.reference([q, k, v])
    share = -(-heads // groups)
    for head in range(heads):
        scores = 0.5 * q[0, head] @ k[0, head // share].T
        weights = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
        assert np.allclose(found[0, head], weights @ v[0, head // share], atol=1e-5)


@pytest.mark.parametrize(
    ("kind", "rows"),
    [("all_reduce", 5), ("all_gather", 15), ("reduce_scatter", 2), ("all_to_all", 6)],
)
def test_an_exchange_fills_up_rows_that_ranks_do_not_divide(kind, rows):
    rank_graph = RankGraph()
    found = rank_graph.exchange(kind, rank_graph.input(5, 4), Axis.TENSOR, 3)
    assert found.shape == (rows, 4)
    verify(rank_graph.graph)


def test_rows_that_fit_are_taken_and_others_are_given():
    rank_graph = RankGraph()
    rows = rank_graph.input(6, 4)
    assert rank_graph.first_rows(rows, 6, 4) is rows
    assert rank_graph.first_rows(rows, 2, 4).shape == (2, 4)
    assert rank_graph.first_rows(rows, 3, 8).shape == (3, 8)
    assert rank_graph.graph.inputs == [rows]
    assert rank_graph.first_rows(rows, 7, 4) == rank_graph.graph.inputs[-1]


@pytest.mark.parametrize(
    ("shape", "count", "width", "expected", "operation"),
    [
        ((5, 4), 5, 4, (5, 4), None),
        ((5, 4), 2.5, 4, (3, 4), "Slice"),  # a share of the rows that no rank holds less than
        ((5, 4), 4.5, 3.2, (5, 4), None),
        ((6, 4), 3, 8, (3, 8), "Reshape"),
        ((2, 4), 2.1, 4, (3, 4), None),  # new activations
    ],
)
def test_first_rows_are_whole_numbers_of_them(shape, count, width, expected, operation):
    rank_graph = RankGraph()
    rows = rank_graph.first_rows(rank_graph.input(*shape), count, width)
    assert rows.shape == expected
    names = [type(node.operation).__name__ for node in rank_graph.graph.nodes]
    assert names == ([operation] if operation else [])
    verify(rank_graph.graph)
