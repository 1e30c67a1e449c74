"""Products of parts of a result; whole graphs are beside an oracle in test_bound_oracle.py."""

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.lower.demand import whole_box
from trnsim.lower.needed_flop import needed_flop


def first(shape, **counts):
    """The box of the first places along dimensions: `d1=2` are two along the dimension 1."""
    lengths = [counts.get(f"d{dim}", length) for dim, length in enumerate(shape)]
    return tuple(np.arange(n) < some for n, some in zip(shape, lengths, strict=True))


def node(operation, *shapes):
    graph = Graph()
    graph.outputs = list(
        graph.apply_to_all(operation, [graph.input(shape, "float32") for shape in shapes])
    )
    return graph.nodes[0]


def flop(made, *boxes):
    pairs = zip(made.results, boxes, strict=True)
    return needed_flop(made, {value.number: box for value, box in pairs if box is not None})


HEADS, L, S, E, V = 2, 5, 7, 4, 3
SIDES = ((HEADS, L, E), (HEADS, S, E), (HEADS, S, V))


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_of_some_rows_and_columns(is_causal):
    made = node(Attention(0.5, is_causal), *SIDES)
    result, sums = (value.shape for value in made.results)
    seen = 1 + 2 + 3 if is_causal else 3 * S
    assert flop(made, first(result, d1=3, d2=2), None) == 2 * HEADS * seen * (E + 2)
    assert flop(made, first(result, d0=1, d1=3), None) == 2 * seen * (E + V)
    assert flop(made, None, first(sums, d1=3)) == 2 * HEADS * seen * E
    both = flop(made, first(result, d1=3), first(sums, d0=1))
    scores = max(HEADS * seen, 15 if is_causal else L * S)  # of either, whichever has more
    assert both == 2 * (scores * E + HEADS * seen * V)
    assert flop(made, None, None) == 0


MASKS = (
    {"is_causal": True, "window": 2},
    {"window": 3},
    {"is_causal": True, "first": 2},
    {"is_causal": True, "first": 1, "apart": 2, "window": 3},
)


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_pairs_that_a_mask_hides_need_no_flop(mask):
    scores = Attention(1.0, **mask).scores(np.zeros((L, E)), np.zeros((S, E)), ())
    pairs = 2 * HEADS * np.isfinite(scores).sum()
    result = whole_box((HEADS, L, V))
    assert flop(node(Attention(0.5, **mask), *SIDES), result, None) == pairs * (E + V)
    shapes = (*SIDES, (HEADS, L, V), (HEADS, L, V), (HEADS, L))
    backward = node(AttentionBackward(0.5, **mask), *shapes)
    boxes = (whole_box(value.shape) for value in backward.results)
    assert flop(backward, *boxes) == pairs * (3 * E + 2 * V)


@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_of_attention_one_by_one(is_causal):
    shapes = (*SIDES, (HEADS, L, V), (HEADS, L, V), (HEADS, L))
    made = node(AttentionBackward(0.5, is_causal), *shapes)
    q, k, v = (whole_box(value.shape) for value in made.results)
    pairs = 2 * HEADS * (15 if is_causal else L * S)
    assert flop(made, q, None, None) == pairs * (E + V + E)
    assert flop(made, None, k, None) == pairs * (E + V + E)
    assert flop(made, None, None, v) == pairs * (E + V)
    assert flop(made, q, k, v) == pairs * (3 * E + 2 * V)
    one = first(made.results[1].shape, d1=1)  # the first key is seen by each query
    assert flop(made, None, one, None) == 2 * HEADS * L * (E + V + E)
    last = tuple(mask[::-1] for mask in first(made.results[1].shape, d1=1))
    assert flop(made, None, last, None) == (0 if is_causal else 2 * HEADS * L * (E + V + E))


def test_a_product_by_its_share():
    graph = Graph()
    sides = graph.input((4, 3), "float32"), graph.input((3, 5), "float32")
    graph.outputs = [graph.dot_general(*sides, (1, 0))]
    assert flop(graph.nodes[0], first((4, 5), d0=2, d1=1)) == 2 * 2 * 3
    graph.outputs = [graph.elementwise("abs", sides[0])]
    assert flop(graph.nodes[1], whole_box((4, 3))) == 0
