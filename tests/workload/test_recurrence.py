"""Recurrences in chunks and in steps, against states that numpy updates token by token."""

import numpy as np
import pytest

from trnsim.workload.mixer import Mixer
from trnsim.workload.rank_graph import RankGraph
from trnsim.workload.recurrence import HeadRows, Recurrence

HEADS, GROUPS, STATE, WIDTH = 4, 2, 5, 3


def token_by_token(arrays, state, *, is_delta=False):
    """Results [B, H, T, P] and the last state [B, H, N, P], in float64."""
    value, key, query, decay, strength = (array.astype(np.float64) for array in arrays)
    key, query = (np.repeat(rows, HEADS // GROUPS, axis=1) for rows in (key, query))
    results = []
    for token in range(value.shape[2]):
        state = state * np.exp(decay[..., token])[..., None, None]
        k, q, v = key[:, :, token], query[:, :, token], value[:, :, token]
        if is_delta:
            v = v - np.einsum("bhnp,bhn->bhp", state, k)
        state = state + np.einsum("bhn,bhp->bhnp", k, v * strength[..., token, None])
        results.append(np.einsum("bhnp,bhn->bhp", state, q))
    return np.stack(results, 2), state


def random_rows(batch, tokens):
    random = np.random.default_rng(tokens)
    normal = [
        random.standard_normal((batch, heads, tokens, width))
        for heads, width in ((HEADS, WIDTH), (GROUPS, STATE), (GROUPS, STATE))
    ]
    decay = -random.exponential(0.5, (batch, HEADS, tokens))
    strength = random.uniform(0, 0.4, (batch, HEADS, tokens))
    return [array.astype(np.float32) for array in (*normal, decay, strength)]


def computed(arrays, state, chunk, *, is_step=False, recurrence=Recurrence):
    """Results and the last state of a graph in float32."""
    rank_graph = RankGraph(bits=32)
    rows = HeadRows(*(rank_graph.input(*array.shape, dtype="float32") for array in arrays))
    initial = None if state is None else rank_graph.input(*state.shape, dtype="float32")
    mixer = Mixer(HEADS, GROUPS, STATE, WIDTH, taps=4, chunk=chunk)
    made = recurrence(rank_graph, mixer, rows, initial)
    rank_graph.graph.outputs += made.step() if is_step else made.chunks()
    return rank_graph.graph.reference([*arrays, *([] if state is None else [state])])


@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize(
    ("batch", "tokens", "chunk"),
    [(1, 1, 4), (2, 7, 1), (1, 8, 4), (2, 9, 4), (1, 3, 64), (1, 7, 3)],
)
def test_chunks_give_what_tokens_give_one_by_one(has_state, batch, tokens, chunk):
    arrays = random_rows(batch, tokens)
    state = np.random.default_rng(1).standard_normal((batch, HEADS, STATE, WIDTH))
    state = state.astype(np.float32) if has_state else None
    expected = token_by_token(arrays, np.zeros((1, 1, 1, 1)) if state is None else state)
    for found, wanted in zip(computed(arrays, state, chunk), expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_step_updates_the_state(batch):
    arrays = random_rows(batch, 1)
    state = np.random.default_rng(2).standard_normal((batch, HEADS, STATE, WIDTH)).astype("f4")
    expected = token_by_token(arrays, state)
    for found, wanted in zip(computed(arrays, state, 4, is_step=True), expected, strict=True):
        np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=1e-4, atol=1e-5)
