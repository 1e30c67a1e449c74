"""Routing: the choice of experts for each row, and its weights, from a router's scores.

If there are no more rows than experts, each row fetches its experts' matrices; else rows are sorted
by expert, and blocks of them share a matrix.

Source: transformers 5.23, the routers of modeling_mixtral.py and modeling_deepseek_v3.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.workload.architecture import Experts
from trnsim.workload.rank_graph import RankGraph

_FLOAT_DTYPE: Final = "float32"
_WEIGHT_SUM_EPSILON: Final = 1e-20
"""Term added to the sum of weights before the division (DeepSeek-V3)."""


@dataclass(frozen=True)
class ExpertChoice:
    """The expert of each row.

    Attributes:
        experts: the expert of each row, int32 [rows].
        ends: end of the rows of each expert, int32 [experts], if rows are sorted.
        order: index of each sorted row in the order of tokens, int32 [rows], if rows are sorted.
    """

    experts: Value
    ends: Value | None = None
    order: Value | None = None


class ExpertRows:
    """The rows that experts take, and their weights."""

    def __init__(
        self, rank_graph: RankGraph, mlp: Experts, scores: Value, *, is_wired: bool, is_whole: bool
    ) -> None:
        self.rank_graph, self.mlp, self.graph = rank_graph, mlp, rank_graph.graph
        self.tokens, self.per_token = scores.shape[0], mlp.per_token
        rank_graph.operator("routing")
        self.weights: Value | None = None
        if is_wired:
            places, self.weights = self._weighted_choice(rank_graph.cast(scores, 32))
        else:
            places = self.graph.top_k(scores, self.per_token)
        count = self.tokens * self.per_token
        flat = self.graph.reshape(places, (count,))
        is_ordered = is_wired and is_whole and count > mlp.count
        self.choice = self._sorted_choice(flat) if is_ordered else ExpertChoice(flat)

    def _weighted_choice(self, scores: Value) -> tuple[Value, Value]:
        """Places of the chosen experts [T, k], int32, and their weights, float32."""
        graph, routing = self.graph, self.mlp.routing
        if routing.is_corrected:
            gates = self._function(scores, routing.function)
            places = graph.top_k(
                self._limited_scores(self.rank_graph.along(gates, "add", self._correction())),
                self.per_token,
            )
            weights = graph.gather_in_rows(gates, places)
        else:
            if self.mlp.router_biases:
                bias = self.rank_graph.cast(
                    self.rank_graph.vector(self.mlp.count, "router bias"), 32
                )
                scores = self.rank_graph.along(scores, "add", bias)
            is_late = routing.function == "chosen"
            gates = scores if is_late else self._function(scores, routing.function)
            places = graph.top_k(self._limited_scores(gates), self.per_token)
            weights = graph.gather_in_rows(gates, places)
            weights = self._function(weights, "softmax") if is_late else weights
        if routing.is_normed:
            total = graph.reduce("add", weights, (1,))
            total = graph.elementwise("add", total, _WEIGHT_SUM_EPSILON)
            weights = self._by_row(weights, "divide", total)
        return places, self.rank_graph.scale("routing", weights, routing.factor)

    def _correction(self) -> Value:
        """The correction of each expert's score; no parameter if training sets it by a rule."""
        if self.mlp.router_biases:
            return self.rank_graph.cast(self.rank_graph.vector(self.mlp.count, "router bias"), 32)
        return self.rank_graph.table(self.mlp.count, "router bias")

    def _function(self, scores: Value, name: str) -> Value:
        """A softmax of each row, or the logistic function."""
        graph = self.graph
        if name == "logistic":
            return graph.elementwise("logistic", scores)
        apart = self._by_row(scores, "subtract", graph.reduce("maximum", scores, (1,)))
        powers = graph.elementwise("exponential", apart)
        return self._by_row(powers, "divide", graph.reduce("add", powers, (1,)))

    def _by_row(self, rows: Value, operation: str, column: Value) -> Value:
        spread = self.graph.broadcast_in_dim(column, rows.shape, (0,))
        return self.graph.elementwise(operation, rows, spread)

    def _limited_scores(self, scores: Value) -> Value:
        """Scores of the experts in a token's best groups; 0 for the others."""
        graph, routing, (tokens, count) = self.graph, self.mlp.routing, scores.shape
        if routing.groups == routing.groups_per_token:
            return scores
        self.rank_graph.operator("groups of experts")
        size = count // routing.groups
        apart = graph.reshape(scores, (tokens * routing.groups, size))
        best = graph.gather_in_rows(apart, graph.top_k(apart, routing.scores_per_group))
        sums = graph.reshape(graph.reduce("add", best, (1,)), (tokens, routing.groups))
        best_groups = graph.top_k(sums, routing.groups_per_token)
        shape = tokens, routing.groups_per_token, routing.groups
        numbers = graph.broadcast_in_dim(best_groups, shape, (0, 1))
        same = graph.elementwise(
            "compare", numbers, graph.iota(shape, 2), dtype=_FLOAT_DTYPE, direction="EQ"
        )
        is_kept = graph.reduce("add", same, (1,))
        spread = graph.broadcast_in_dim(is_kept, (tokens, routing.groups, size), (0, 1))
        self.rank_graph.operator("routing")
        return graph.elementwise("multiply", scores, graph.reshape(spread, scores.shape))

    def _sorted_choice(self, experts: Value) -> ExpertChoice:
        """The choice with rows sorted by expert.

        A row's place is the count of rows of earlier experts and of earlier rows of its own.
        """
        graph, (count,) = self.graph, experts.shape
        self.rank_graph.operator("order of experts")
        shape = self.mlp.count, count
        is_chosen = graph.elementwise(
            "compare",
            graph.broadcast_in_dim(experts, shape, (1,)),
            graph.iota(shape, 0),
            dtype=_FLOAT_DTYPE,
            direction="EQ",
        )
        rows_so_far = graph.scan("add", is_chosen)
        lengths = graph.reduce("add", is_chosen, (1,))
        ends = graph.scan("add", graph.reshape(lengths, (1, self.mlp.count)))
        ends = graph.reshape(ends, (self.mlp.count,))
        starts = graph.elementwise("subtract", ends, lengths)
        before_first = graph.elementwise("subtract", starts, 1.0)
        places = graph.elementwise(
            "add", rows_so_far, graph.broadcast_in_dim(before_first, shape, (0,))
        )
        places = graph.reduce("add", graph.elementwise("multiply", is_chosen, places), (0,))
        places, int_ends = (
            graph.elementwise("convert", value, dtype="int32") for value in (places, ends)
        )
        order = graph.scatter(
            TensorType((count,), "int32"), places, graph.iota((count,), 0), "assign"
        )
        return ExpertChoice(graph.gather(experts, order), int_ends, order)

    def repeat_rows(self, rows: Value) -> Value:
        """Each token repeated for each of its experts: [rows x experts of a token, hidden]."""
        graph, (count, hidden) = self.graph, rows.shape
        if self.choice.order is not None:
            numbers = graph.elementwise("convert", self.choice.order, dtype=_FLOAT_DTYPE)
            middle = graph.elementwise("add", numbers, 0.5)
            tokens = graph.elementwise("multiply", middle, 1 / self.per_token)
            tokens = graph.elementwise("floor", tokens)
            return graph.gather(rows, graph.elementwise("convert", tokens, dtype="int32"))
        spread = graph.broadcast_in_dim(rows, (count, self.per_token, hidden), (0, 2))
        return graph.reshape(spread, (count * self.per_token, hidden))

    def combine(self, outputs: Value, shape: tuple[int, ...]) -> Value:
        """The weighted sum of the outputs of a token's experts."""
        graph, (count, hidden) = self.graph, shape
        self.rank_graph.operator("routing")
        short = graph.slice(outputs, (0, 0), (count * self.per_token, hidden))
        if self.choice.order is not None:
            back = TensorType(short.shape, short.dtype)
            short = graph.scatter(back, self.choice.order, short, "assign")
        if self.weights is not None:
            weights = graph.reshape(self.weights, (count * self.per_token,))
            spread = graph.broadcast_in_dim(weights, short.shape, (0,))
            short = graph.elementwise(
                "multiply", short, self.rank_graph.cast(spread, self.rank_graph.bits)
            )
        apart = graph.reshape(short, (count, self.per_token, hidden))
        return graph.reduce("add", apart, (1,))
