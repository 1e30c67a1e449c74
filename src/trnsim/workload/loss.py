"""The loss of a training step: the cross entropy of the scores of words, or of classes."""

from __future__ import annotations

from trnsim.graph import Value
from trnsim.graph.ops.collectives import AllReduce
from trnsim.workload.rank_graph import RankGraph


def add_loss(rank_graph: RankGraph, scores: Value, ranks: int) -> None:
    """Add the mean of ``log(sum(exp(scores))) - scores[label]`` over rows that have a label.

    Scores are not gathered: tensor ranks, each of which has some columns, exchange each row's
    largest score, sum of exponentials and label's score, in float32.

    Source: Megatron-LM (arXiv:1909.08053), section 3.
    """
    rank_graph.operator("loss")
    graph, rows = rank_graph.graph, scores.shape[0]
    labels = rank_graph.input(rows, name="labels", dtype="int32")
    maxima = graph.reduce("maximum", rank_graph.cast(scores, 32), (1,))
    maxima = _over_ranks(rank_graph, maxima, "maximum", ranks)
    differences = graph.elementwise(
        "subtract", rank_graph.cast(scores, 32), graph.broadcast_in_dim(maxima, scores.shape, (0,))
    )
    total = graph.reduce("add", graph.elementwise("exponential", differences), (1,))
    total = _over_ranks(rank_graph, total, "add", ranks)
    columns = labels
    if ranks > 1:
        first_word = rank_graph.input(1, name="first word", dtype="int32")
        first_word = graph.broadcast_in_dim(graph.reshape(first_word, ()), (rows,), ())
        columns = graph.elementwise("subtract", labels, first_word)
    # Labels are compared, as a gather of single elements takes a transfer for each.
    label_columns = graph.broadcast_in_dim(columns, scores.shape, (0,))
    all_columns = graph.iota(scores.shape, 1)
    is_label = graph.elementwise(
        "compare", all_columns, label_columns, dtype="float32", direction="EQ"
    )
    label_scores = graph.reduce("add", graph.elementwise("multiply", differences, is_label), (1,))
    label_scores = _over_ranks(rank_graph, label_scores, "add", ranks)
    losses = graph.elementwise("subtract", graph.elementwise("log", total), label_scores)
    has_label = graph.elementwise("compare", labels, 0.0, dtype="float32", direction="GE")
    masked_losses = graph.elementwise("multiply", losses, has_label)
    sums = [graph.reduce("add", values, (0,)) for values in (masked_losses, has_label)]
    rank_graph.named_outputs["loss"] = graph.elementwise("divide", *sums)


def _over_ranks(rank_graph: RankGraph, value: Value, op: str, ranks: int) -> Value:
    """The sum or maximum of a value over the tensor ranks."""
    if ranks == 1:
        return value
    return rank_graph.graph.apply(AllReduce((tuple(range(ranks)),), op), value)
