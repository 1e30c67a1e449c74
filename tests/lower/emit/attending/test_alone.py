"""Attention and its gradient alone, as eager calls have them: shapes, masks, wide heads."""

import numpy as np
import pytest

from trnsim.graph import (
    Graph,
)
from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.lower import (
    costs,
    evaluate,
)


def softmax(scores):
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return powers / powers.sum(-1, keepdims=True)


def expected(q, k, v, grad, bias, scale, is_causal):
    """The result, the logarithms, and the gradients of Q, K and V, in float64."""
    q, k, v, grad = (x.astype(np.float64) for x in (q, k, v, grad))
    scores = scale * q @ k.swapaxes(-1, -2) + (0 if bias is None else bias)
    if is_causal:
        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -1e38)
    p = softmax(scores)
    out = p @ v
    products = grad @ v.swapaxes(-1, -2)
    slope = p * (products - (grad * out).sum(-1, keepdims=True)) * scale
    logs = np.log(np.exp(scores - scores.max(-1, keepdims=True)).sum(-1)) + scores.max(-1)
    transposed = slope.swapaxes(-1, -2)
    return out, logs, slope @ k, transposed @ q, p.swapaxes(-1, -2) @ grad


SHAPES = {
    "one tile": (2, 20, 30, 8, 8),
    "many tiles": (1, 200, 700, 16, 16),
    "wide heads": (1, 130, 140, 160, 160),
    "another width of values": (1, 40, 50, 8, 24),
    "square": (2, 260, 260, 16, 16),
}


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize("how", ["plain", "causal", "biased"])
@pytest.mark.parametrize("target", ["trn1", "trn2"])
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_and_its_gradients(random, shape, how, target):
    if target == "trn1" and shape not in ("one tile", "square"):
        return
    B, L, S, E, V = SHAPES[shape]
    sizes = ((B, L, E), (B, S, E), (B, S, V), (B, L, V))
    q, k, v, grad = (random(size, seed=number) for number, size in enumerate(sizes))
    bias = random((B, L, S), seed=9) if how == "biased" else None
    options = {"scale": E**-0.5, "is_causal": how == "causal"}
    given = [q, k, v] + ([] if bias is None else [bias])
    g = Graph()
    values = [g.input(x.shape, "float32") for x in given]
    g.outputs = list(g.apply_to_all(Attention(**options), values))
    result = expected(q, k, v, grad, bias, **options)
    out, logs = evaluate(g, given, target)
    np.testing.assert_allclose(out, result[0], atol=2e-5)
    np.testing.assert_allclose(logs, result[1], atol=2e-5)
    g = Graph()
    given = [q, k, v, grad, out, logs] + ([] if bias is None else [bias])
    values = [g.input(x.shape, "float32") for x in given]
    g.outputs = list(g.apply_to_all(AttentionBackward(**options), values))
    for found, other in zip(evaluate(g, given, target), result[2:], strict=True):
        np.testing.assert_allclose(found, other, atol=1e-4)


def timed(is_causal, L=512):
    g = Graph()
    q, k, v = (g.input((1, L, 64), "bfloat16") for _ in range(3))
    g.outputs = list(g.apply_to_all(Attention(0.125, is_causal), (q, k, v)))
    (cost,) = costs(g)
    return cost


@pytest.mark.slow
def test_what_a_causal_mask_hides_costs_nothing():
    whole, half = timed(is_causal=False, L=2048), timed(is_causal=True, L=2048)
    assert half.flop == whole.flop * 2049 / 4096  # a query sees its own key too
    assert half.device_time_s < 0.8 * whole.device_time_s


def test_values_wider_than_a_bank_are_summed_in_parts():
    g, rng = Graph(), np.random.default_rng(0)
    shapes = (1, 5, 520), (1, 7, 520), (1, 7, 513)
    q, k, v = (g.input(shape, "float32") for shape in shapes)
    result, logs = g.apply_to_all(Attention(0.05), (q, k, v))
    slopes = g.apply_to_all(AttentionBackward(0.05), (q, k, v, result, result, logs))
    g.outputs = [result, logs, *slopes]
    given = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    for found, wanted in zip(evaluate(g, given), g.reference(given), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-3 * np.abs(wanted).max())
