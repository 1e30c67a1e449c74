"""Attention under windows, of several types, and by scales that are not positive."""

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.lower import evaluate
from trnsim.lower.legalize import legalize

MASKS = [
    Attention(0.5, is_causal=True, first=3),
    Attention(0.5, is_causal=True, first=1, apart=2),
    Attention(0.5, window=3),
    Attention(0.5, is_causal=True, first=2, apart=3, window=4),
]


def attended(mask, keys=9):
    graph = Graph()
    given = [graph.input((2, n, 4), "float32") for n in (3, keys, keys)]
    graph.outputs.append(graph.apply(mask, *given))
    return graph


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_a_mask_is_a_bias(mask):
    graph = attended(mask)
    legal = legalize(graph)
    attentions = [node for node in legal.nodes if isinstance(node.operation, Attention)]
    assert [(node.operation, len(node.operands)) for node in attentions] == [(Attention(0.5), 4)]
    rng = np.random.default_rng(0)
    given = [rng.normal(size=value.shape) for value in graph.inputs]
    (wanted,), (found,) = graph.reference(given), legal.reference(given)
    assert np.allclose(found, wanted, atol=1e-6)


@pytest.mark.parametrize("mask", [*MASKS, Attention(0.5, is_causal=True, window=2)], ids=str)
def test_seen_scores_are_those_that_a_mask_leaves(mask):
    """Within the keys, as a bidirectional window counts queries with keys on both sides."""
    scores = mask.scores(np.zeros((40, 4)), np.zeros((200, 4)), ())
    if mask.is_causal:
        assert mask.visible_pairs(40, 200) == np.isfinite(scores).sum()
    else:
        assert mask.visible_pairs(40, 200) >= np.isfinite(scores).sum()


@pytest.mark.parametrize(
    "mask",
    [
        Attention(0.5),
        Attention(0.5, is_causal=True),
        Attention(1.0, is_causal=True, window=2),
    ],
    ids=str,
)
def test_a_plain_mask_stays(mask):
    graph = attended(mask)
    assert legalize(graph) is graph


@pytest.mark.parametrize(
    ("mask", "keys"),
    [
        (Attention(1.01, is_causal=True, window=2), 9),
        (Attention(0.5, is_causal=True, window=2), 2),
        (AttentionBackward(0.5, is_causal=True, window=2), 9),
    ],
    ids=str,
)
def test_a_window_is_a_bias_where_its_scores_could_be_infinite_or_a_query_has_no_key(mask, keys):
    graph = Graph()
    given = [graph.input((2, n, 4), "float32") for n in (3, keys, keys)]
    if isinstance(mask, AttentionBackward):
        given += [given[0], given[0], graph.input((2, 3), "float32")]
    graph.outputs = list(graph.apply_to_all(mask, given))
    legal = legalize(graph)
    (found,) = (node for node in legal.nodes if type(node.operation) is type(mask))
    assert found.operation.window == 0
    assert len(found.operands) == len(given) + 1


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("scale", [0.25, 0.0, -0.25])
@pytest.mark.parametrize("other", ["float32", "bfloat16"])
@pytest.mark.parametrize("is_biased", [False, True])
@pytest.mark.parametrize(
    "mask", [{}, {"window": 3}, {"is_causal": True, "first": 1, "window": 3}], ids=str
)
def test_attention_and_its_gradients_give_what_the_reference_says(
    random, scale, other, is_biased, mask
):
    g = Graph()
    wanted = [((2, 5, 16), "float32"), ((2, 7, 16), other), ((2, 7, 8), other)]
    wanted += [((2, 5, 7), "float32")] * is_biased
    q, k, v, *bias = (g.input(shape, dtype) for shape, dtype in wanted)
    result, logs = g.apply_to_all(Attention(scale, **mask), (q, k, v, *bias))
    back = AttentionBackward(scale, **mask)
    slopes = g.apply_to_all(back, (q, k, v, result, result, logs, *bias))
    g.outputs = [result, logs, *slopes]
    given = [
        random(one.shape, seed=number).astype(one.type.numpy_dtype())
        for number, one in enumerate(g.inputs)
    ]
    for ours, theirs in zip(evaluate(g, given), g.reference(given), strict=True):
        assert ours.dtype == theirs.dtype
        near = 1e-2 if ours.dtype != np.float32 else 1e-4
        wide = theirs.astype(np.float64)
        assert np.abs(ours.astype(np.float64) - wide).max() <= near * max(np.abs(wide).max(), 0.05)
