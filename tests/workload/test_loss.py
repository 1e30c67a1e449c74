"""The loss of a training step, against numpy."""

import numpy as np
import pytest

from trnsim.graph.ops.collectives import AllReduce
from trnsim.workload.loss import add_loss
from trnsim.workload.rank_graph import RankGraph

ROWS, WORDS = 5, 7


def test_rows_without_a_label_count_for_nothing():
    rank_graph = RankGraph(bits=32)
    add_loss(rank_graph, rank_graph.input(ROWS, WORDS), 1)
    rank_graph.graph.outputs.append(rank_graph.named_outputs["loss"])
    scores = np.random.default_rng(0).standard_normal((ROWS, WORDS)).astype(np.float32)
    labels = np.array([3, -100, 0, 6, -100], np.int32)
    (loss,) = rank_graph.graph.reference([scores, labels])
    rows = labels >= 0
    logs = np.log(np.exp(scores[rows]).sum(1)) - scores[rows, labels[rows]]
    assert loss == pytest.approx(logs.mean(), rel=1e-5)


def test_ranks_exchange_a_largest_score_a_sum_and_a_label_score():
    rank_graph = RankGraph()
    add_loss(rank_graph, rank_graph.input(ROWS, WORDS), 4)
    sums = [node for node in rank_graph.graph.nodes if isinstance(node.operation, AllReduce)]
    assert [node.operation.op for node in sums] == ["maximum", "add", "add"]
    assert {node.result.shape for node in sums} == {(ROWS,)}
    assert {node.result.dtype for node in sums} == {"float32"}
