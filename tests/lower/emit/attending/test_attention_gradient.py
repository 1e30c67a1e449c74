"""Gradients of attention on the chip beside the reference: sizes, masks, biases and formats."""

import numpy as np
import pytest
from made_graphs import CHIPS, Made

from trnsim.graph.ops.contraction import Attention, AttentionBackward
from trnsim.lower.program import trace


def gradients(made, query, key, value, *bias, is_causal=False, scale=0.0):
    """The result of attention and the gradients of its operands by a gradient of its own."""
    scale = scale or query.shape[-1] ** -0.5
    result, logs = made.graph.apply_to_all(Attention(scale, is_causal), [query, key, value, *bias])
    slope = made.given(*result.shape)
    operands = [query, key, value, slope, result, logs, *bias]
    return result, *made.graph.apply_to_all(AttentionBackward(scale, is_causal), operands)


def whole(made, outputs, chip="trn2"):
    """The names of the operations that instructions belong to, and how many move data."""
    made.graph.outputs = list(outputs)
    found = trace(made.graph, made.arrays, chip, frozenset(made.weights), numerics=False)
    moved = [span for span in found.run.timeline.spans() if span.opcode == "dma_copy"]
    return {one.name for one in found.names}, len(moved)


SIZES = [(1, 1), (5, 7), (127, 128), (129, 127), (128, 513), (513, 40), (130, 1030)]


@pytest.mark.slow_but_every(3)
@pytest.mark.parametrize(("queries", "keys"), SIZES)
@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_any_number_of_queries_and_keys(queries, keys, is_causal, dtype):
    made = Made(dtype)
    query = made.given(1, 2, queries, 32)
    key, value = made.given(1, 2, keys, 32), made.given(1, 2, keys, 40)
    found = gradients(made, query, key, value, is_causal=is_causal)
    made.check(*found, chip=CHIPS[(queries + keys) % 4])


ANY = [
    *(("float32", width) for width in (1, 48, 80, 128, 256)),
    *(("bfloat16", width) for width in (16, 64, 96, 128, 130)),
]


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("float32-1", "float32-256", "bfloat16-130")
@pytest.mark.parametrize(("dtype", "width"), ANY)
def test_heads_of_projections_of_any_width(dtype, width):
    made = Made(dtype)
    x = made.given(2, 20, 64)
    query, key, value = (made.heads(made.linear(x, 3 * width), 3) for _ in range(3))
    result, *found = gradients(made, query, key, value, is_causal=width % 3 == 1)
    joined = [made.linear(made.joined(one), 33) for one in found]
    made.check(made.joined(result), *joined, chip=CHIPS[width % 4])


@pytest.mark.slow_cases("140")
@pytest.mark.parametrize("tokens", [1, 43, 128, 140])
def test_heads_that_share_keys_have_gradients_each(tokens):
    made = Made("float32")
    query = made.given(2, 2, 3, tokens, 32)
    key, value = (
        made.graph.broadcast_in_dim(
            made.given(2, 2, tokens, 32), (2, 2, 3, tokens, 32), (0, 1, 3, 4)
        )
        for _ in range(2)
    )
    result, *found = gradients(made, query, key, value, is_causal=True)
    shared = [made.graph.reduce("add", one, [2]) for one in found[1:]]
    made.check(result, found[0], *shared, chip="trn1")


@pytest.mark.parametrize("rows", [1, 9])
@pytest.mark.parametrize("keys", [9, 300])
def test_a_bias_and_keys_that_it_hides(rows, keys):
    made = Made("float32")
    query = made.given(2, 3, 9, 16)
    key, value = made.given(2, 3, keys, 16), made.given(2, 3, keys, 16)
    numbers = made.random.standard_normal((2, 1, rows, keys))
    numbers[..., keys // 2 :] = -np.inf
    bias = made.repeated(made.given(2, 1, rows, keys, array=numbers), _like(9, keys), (0, 1, 2, 3))
    made.check(*gradients(made, query, key, value, bias))


class _like:  # noqa: N801  a shape alone
    def __init__(self, queries, keys):
        self.shape = (2, 3, queries, keys)


@pytest.mark.parametrize("scale", [1.0, 0.125, 3.0])
def test_any_scale(scale):
    made = Made("float32")
    parts = [made.given(2, 2, 12, 24, scale=0.5) for _ in range(3)]
    made.check(*gradients(made, *parts, scale=scale))


def test_any_result_and_logarithms_are_taken_as_they_are_given():
    made = Made("float32")
    parts = [made.given(2, 2, 140, 24, scale=0.3) for _ in range(5)]
    operands = [*parts, made.given(2, 2, 140)]
    made.check(*made.graph.apply_to_all(AttentionBackward(0.2, is_causal=True), operands))


@pytest.mark.slow_cases("trn2")
@pytest.mark.parametrize("chip", CHIPS)
def test_nothing_but_operands_and_results_goes_to_hbm(chip):
    made = Made("bfloat16")
    x = made.given(4, 128, 128)
    query, key, value = (made.heads(made.linear(x, 256), 4) for _ in range(3))
    result, *found = gradients(made, query, key, value)
    names, moved = whole(made, [made.linear(made.joined(one), 64) for one in found], chip)
    assert {"attention", "attention_backward"} <= names
    assert moved < 100
    del result


@pytest.mark.slow_but_every(3)
@pytest.mark.slow_cases("False-128-128")
@pytest.mark.parametrize(("queries", "keys"), [(128, 128), (5, 128), (128, 3), (40, 70), (1, 1)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_gradients_that_are_only_returned_go_out_as_rows(queries, keys, is_causal):
    made = Made()
    query, slope = made.given(2, 3, queries, 32), made.given(2, 3, queries, 48)
    key, value = made.given(2, 3, keys, 32), made.given(2, 3, keys, 48)
    given = [query, key, value]
    result, logs = made.graph.apply_to_all(Attention(0.3, is_causal), given)
    operation = AttentionBackward(0.3, is_causal)
    gradients = made.graph.apply_to_all(operation, [*given, slope, result, logs])
    made.check(*gradients, chip=CHIPS[keys % 4])
    spans = made.run(*gradients).timeline.spans()
    written = [span for span in spans if "dst=HBM" in span.operands]
    assert len(written) <= 3 * -(-6 // made_beside(queries, keys))


def made_beside(queries, keys):
    """Heads whose gradients stand side by side in a bank of 512 numbers."""
    return 512 // max(queries, keys, 48)


@pytest.mark.slow_but_every(4)
@pytest.mark.parametrize("across", ["query", "key", "value", "slope"])
@pytest.mark.parametrize(("heads", "queries", "keys"), [(4, 40, 50), (1, 5, 300), (2, 300, 130)])
def test_gradients_of_heads_that_lie_transposed(heads, queries, keys, across):
    made, width = Made(), 32
    rows = {"query": queries, "key": keys, "value": keys, "slope": queries}
    query, key, value, slope = (
        made.graph.transpose(made.given(2, heads, width, count), (0, 1, 3, 2))
        if name == across
        else made.given(2, heads, count, width)
        for name, count in rows.items()
    )
    result, logs = made.graph.apply_to_all(Attention(0.125), [query, key, value])
    operands = [query, key, value, slope, result, logs]
    made.check(*made.graph.apply_to_all(AttentionBackward(0.125), operands))


@pytest.mark.parametrize("repeated", ["query", "key", "value"])
def test_gradients_of_one_number_for_each_row(repeated):
    made, shape = Made(), (2, 3, 40, 32)
    query, key, value = (
        made.graph.broadcast_in_dim(made.given(*shape[:3]), shape, range(3))
        if name == repeated
        else made.given(*shape)
        for name in ("query", "key", "value")
    )
    result, logs = made.graph.apply_to_all(Attention(0.125), [query, key, value])
    operands = [query, key, value, made.given(*shape), result, logs]
    made.check(*made.graph.apply_to_all(AttentionBackward(0.125), operands))
