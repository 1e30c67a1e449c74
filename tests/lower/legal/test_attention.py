"""The values of windows and of queries further on are those of the operation's examples."""

import numpy as np
import pytest

from trnsim.graph import Graph
from trnsim.graph.ops.contraction import Attention
from trnsim.lower.legalize import legalize

MASKS = [
    Attention(0.5, is_causal=True, first=3),
    Attention(0.5, is_causal=True, first=1, apart=2),
    Attention(0.5, is_causal=True, window=2),
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


@pytest.mark.parametrize("mask", MASKS, ids=str)
def test_seen_scores_are_those_that_a_mask_leaves(mask):
    """Within the keys, as a bidirectional window counts queries with keys on both sides."""
    scores = mask.scores(np.zeros((40, 4)), np.zeros((200, 4)), ())
    if mask.is_causal:
        assert mask.seen(40, 200) == np.isfinite(scores).sum()
    else:
        assert mask.seen(40, 200) >= np.isfinite(scores).sum()


@pytest.mark.parametrize("is_causal", [False, True])
def test_a_plain_mask_stays(is_causal):
    graph = attended(Attention(0.5, is_causal=is_causal))
    assert legalize(graph) is graph
