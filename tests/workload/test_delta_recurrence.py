"""The gated delta rule in chunks and in steps, against numpy token by token."""

import numpy as np
import pytest
from test_recurrence import GROUPS, HEADS, STATE, WIDTH, computed, random_rows, token_by_token

from trnsim.graph.ops.contraction import DotGeneral
from trnsim.workload.delta_recurrence import DeltaRecurrence
from trnsim.workload.mixer import Mixer
from trnsim.workload.rank_graph import RankGraph
from trnsim.workload.recurrence import HeadRows


def random_state(batch):
    random = np.random.default_rng(batch)
    return random.standard_normal((batch, HEADS, STATE, WIDTH)).astype(np.float32)


@pytest.mark.parametrize("has_state", [False, True])
@pytest.mark.parametrize(
    ("batch", "tokens", "chunk"),
    [(1, 1, 4), (2, 7, 1), (1, 8, 4), (2, 9, 4), (1, 3, 64), (1, 7, 3), (1, 70, 64)],
)
def test_chunks_give_what_tokens_give_one_by_one(has_state, batch, tokens, chunk):
    arrays = random_rows(batch, tokens)
    state = random_state(batch) if has_state else None
    initial = np.zeros((1, 1, 1, 1)) if state is None else state
    expected = token_by_token(arrays, initial, is_delta=True)
    results = computed(arrays, state, chunk, recurrence=DeltaRecurrence)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("batch", [1, 3])
def test_a_step_replaces_what_its_key_recalls(batch):
    arrays, state = random_rows(batch, 1), random_state(batch)
    expected = token_by_token(arrays, state, is_delta=True)
    results = computed(arrays, state, 4, is_step=True, recurrence=DeltaRecurrence)
    for found, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(found, wanted.reshape(found.shape), rtol=1e-4, atol=1e-5)


def multiplications(*, is_in_turn):
    rank_graph = RankGraph(bits=32)
    arrays = random_rows(2, 13)
    rows = HeadRows(*(rank_graph.input(*array.shape, dtype="float32") for array in arrays))
    mixer = Mixer(HEADS, GROUPS, STATE, WIDTH, taps=4, chunk=4, is_delta=True)
    DeltaRecurrence(rank_graph, mixer, rows, None, is_in_turn=is_in_turn).chunks()
    nodes = (n for n in rank_graph.graph.nodes if isinstance(n.operation, DotGeneral))
    return sum(node.operation.flop(*node.operand_types) for node in nodes)


def test_chunks_at_once_have_the_products_of_chunks_in_turn():
    assert multiplications(is_in_turn=False) == multiplications(is_in_turn=True)
