"""Routing: the choice of experts for each row, and its weights, from a router's scores.

If there are no more rows than experts, each row fetches its expert's matrices; else the rows of
each expert lie in padded blocks, and a block fetches its expert's matrices.

Source: transformers 5.23, the routers of modeling_mixtral.py and modeling_deepseek_v3.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import reduce
from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.groups import block_rows
from trnsim.workload.architecture import Experts
from trnsim.workload.rank_graph import RankGraph

_FLOAT_DTYPE: Final = "float32"
_WEIGHT_SUM_EPSILON: Final = 1e-20
"""Term added to the sum of weights before the division (DeepSeek-V3)."""


@dataclass(frozen=True)
class ExpertBlocks:
    """Blocks of rows, each of one expert.

    Attributes:
        size: rows of a block.
        experts: the expert of each block, int32 [blocks].
        tokens: the token of each row of the blocks, int32 [blocks * size]; padding has the first.
        places: the row of the blocks for each expert of each token, int32 [tokens, experts].
    """

    size: int
    experts: Value
    tokens: Value
    places: Value


class ExpertRows:
    """The rows that experts take, and their weights.

    Attributes:
        experts: the expert of each row, int32 [tokens * experts of a token].
        places: the experts of each token, int32 [tokens, experts of a token].
        weights: the weight of each expert of each token, float32; None for equal weights.
        blocks: the blocks in which the rows of each expert lie; None if they stay in the order of
            tokens.
    """

    def __init__(
        self,
        rank_graph: RankGraph,
        mlp: Experts,
        scores: Value,
        *,
        columns: int,
        is_wired: bool,
        is_whole: bool,
    ) -> None:
        self.rank_graph, self.mlp, self.graph = rank_graph, mlp, rank_graph.graph
        self.columns = columns
        self.tokens, self.per_token = scores.shape[0], mlp.per_token
        rank_graph.operator("routing")
        self.weights: Value | None = None
        if is_wired:
            places, self.weights = self._weighted_choice(rank_graph.cast(scores, 32))
        else:
            places = self.graph.top_k(scores, self.per_token)
        self.places = places
        count = self.tokens * self.per_token
        has_blocks = is_wired and is_whole and count > mlp.count
        self.blocks = self._expert_blocks(places) if has_blocks else None
        self.experts = self.graph.reshape(places, (count,))

    def _weighted_choice(self, scores: Value) -> tuple[Value, Value]:
        """Places of the chosen experts [T, k], int32, and their weights, float32."""
        graph, routing = self.graph, self.mlp.routing
        if routing.is_corrected:
            gates = self._function(scores, routing.function)
            places = graph.top_k(
                self._limited_scores(
                    self.rank_graph.row_operation(gates, "add", self._correction())
                ),
                self.per_token,
            )
            weights = graph.gather_in_rows(gates, places)
        else:
            if self.mlp.router_biases:
                bias = self.rank_graph.cast(
                    self.rank_graph.vector(self.mlp.count, "router bias"), 32
                )
                scores = self.rank_graph.row_operation(scores, "add", bias)
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
        shifted = self._by_row(scores, "subtract", graph.reduce("maximum", scores, (1,)))
        powers = graph.elementwise("exponential", shifted)
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
        is_best = self._is_expert(best_groups, routing.groups, _FLOAT_DTYPE)
        is_kept = graph.reduce("add", is_best, (1,))
        spread = graph.broadcast_in_dim(is_kept, (tokens, routing.groups, size), (0, 1))
        self.rank_graph.operator("routing")
        return graph.elementwise("multiply", scores, graph.reshape(spread, scores.shape))

    def _expert_blocks(self, choice: Value) -> ExpertBlocks:
        """The rows of each expert in blocks of their own.

        A row's place is the first of its expert's blocks, and the count of the expert's earlier
        rows.
        """
        graph, experts = self.graph, self.mlp.count
        self.rank_graph.operator("order of experts")
        size = block_rows(self.tokens * self.per_token, experts, self._rows_of_matrices())
        number = self.tokens * self.per_token // size + experts
        self.rank_graph.unpadded_rows[number * size] = self.tokens * self.per_token
        is_chosen = self._is_expert(choice, experts, _FLOAT_DTYPE)
        is_chosen = graph.transpose(graph.reduce("add", is_chosen, (1,)), (1, 0))
        rows_so_far = graph.scan("add", is_chosen)
        lengths = graph.reduce("add", is_chosen, (1,))
        # The half keeps the quotient of whole blocks above its integer.
        blocks = graph.elementwise("add", lengths, size - 0.5)
        blocks = graph.elementwise("floor", graph.elementwise("multiply", blocks, 1 / size))
        ends = graph.scan("add", graph.reshape(blocks, (1, experts)))
        ends = graph.reshape(ends, (experts,))
        first_rows = graph.elementwise("subtract", ends, blocks)
        first_rows = graph.elementwise("multiply", first_rows, float(size))
        before_first = graph.elementwise("subtract", first_rows, 1.0)
        rows = graph.elementwise(
            "add", rows_so_far, graph.broadcast_in_dim(before_first, is_chosen.shape, (0,))
        )
        places = graph.gather_in_rows(graph.transpose(rows, (1, 0)), choice)
        places = graph.elementwise("convert", places, dtype="int32")
        return ExpertBlocks(
            size,
            self._experts_of_blocks(ends, number),
            self._tokens(places, number * size),
            places,
        )

    def _rows_of_matrices(self) -> float:
        """Elements of this rank's matrices of an expert, in units of a row that they take."""
        return self.mlp.expert.matrices * self.columns / 2

    def _experts_of_blocks(self, ends: Value, number: int) -> Value:
        """The expert of each of `number` blocks: those of expert e end before block ``until[e]``.

        Blocks without rows have the last expert.
        """
        graph, shape = self.graph, (number, self.mlp.count)
        has_ended = graph.elementwise(
            "compare",
            graph.broadcast_in_dim(ends, shape, (1,)),
            graph.elementwise("convert", graph.iota(shape, 0), dtype=_FLOAT_DTYPE),
            dtype=_FLOAT_DTYPE,
            direction="LE",
        )
        experts = graph.reduce("add", has_ended, (1,))
        experts = graph.elementwise("minimum", experts, float(self.mlp.count - 1))
        return graph.elementwise("convert", experts, dtype="int32")

    def _tokens(self, places: Value, rows: int) -> Value:
        """The token of each row of the blocks; 0 in padding, whose results nothing reads."""
        tokens = self.graph.iota((self.tokens, self.per_token), 0)
        tokens, places = (
            self.graph.reshape(value, (self.tokens * self.per_token,)) for value in (tokens, places)
        )
        return self.graph.scatter(TensorType((rows,), "int32"), places, tokens, "assign")

    def expert_inputs(self, rows: Value) -> Value:
        """The row [hidden] of each token, once for each of its experts, or in blocks."""
        graph, (count, hidden) = self.graph, rows.shape
        if self.blocks is not None:
            return graph.gather(rows, self.blocks.tokens)
        spread = graph.broadcast_in_dim(rows, (count, self.per_token, hidden), (0, 2))
        return graph.reshape(spread, (count * self.per_token, hidden))

    def biases_of_rows(self, table: Value) -> Value:
        """For each row, the row of a table [E, N] that belongs to its expert.

        Blocks select rows by a product, which costs less than a gather for each of their rows.
        """
        graph = self.graph
        if self.blocks is None:
            return graph.gather(table, self.experts)
        shape = self.blocks.experts.shape[0], self.blocks.size
        experts = graph.broadcast_in_dim(self.blocks.experts, shape, (0,))
        is_expert = self._is_expert(experts, table.shape[0], table.dtype)
        flat = graph.reshape(is_expert, (math.prod(shape), table.shape[0]))
        return graph.dot_general(flat, table, (1, 0))

    def shares(self, count: int, factor: float) -> Value:
        """The weights of `count` experts for each token, 0 for those not chosen, times `factor`."""
        rank_graph, parts = self.rank_graph, list[Value]()
        rank_graph.operator("routing")
        for number in range(self.per_token):
            part = self._is_expert(self._column(self.places, number), count, _FLOAT_DTYPE)
            if self.weights is not None:
                part = self._by_row(part, "multiply", self._column(self.weights, number))
            parts.append(part)
        shares = rank_graph.scale("routing", reduce(self._sum, parts), factor)
        return rank_graph.cast(shares, rank_graph.bits)

    def _is_expert(self, numbers: Value, count: int, dtype: str) -> Value:
        """One-hot rows: 1 in the column of each number, of `count` columns, else 0."""
        graph, dims = self.graph, len(numbers.shape)
        shape = (*numbers.shape, count)
        spread = graph.broadcast_in_dim(numbers, shape, range(dims))
        return graph.elementwise(
            "compare", spread, graph.iota(shape, dims), dtype=dtype, direction="EQ"
        )

    def combine(self, outputs: Value, shape: tuple[int, ...]) -> Value:
        """The weighted sum of the outputs of a token's experts."""
        graph, (count, hidden) = self.graph, shape
        self.rank_graph.operator("routing")
        if self.blocks is not None:
            return self._sum_of_blocks(outputs, self.blocks)
        results = graph.slice(outputs, (0, 0), (count * self.per_token, hidden))
        if self.weights is not None:
            weights = graph.reshape(self.weights, (count * self.per_token,))
            spread = graph.broadcast_in_dim(weights, results.shape, (0,))
            results = graph.elementwise(
                "multiply", results, self.rank_graph.cast(spread, self.rank_graph.bits)
            )
        apart = graph.reshape(results, (count, self.per_token, hidden))
        return graph.reduce("add", apart, (1,))

    def _sum_of_blocks(self, outputs: Value, blocks: ExpertBlocks) -> Value:
        """The weighted sum of each token's rows of blocks, added up in float32."""
        parts = [self._weighted_rows(outputs, blocks, number) for number in range(self.per_token)]
        return self.rank_graph.cast(reduce(self._sum, parts), self.rank_graph.bits)

    def _sum(self, left: Value, right: Value) -> Value:
        return self.graph.elementwise("add", left, right)

    def _weighted_rows(self, outputs: Value, blocks: ExpertBlocks, number: int) -> Value:
        """The output of each token's expert `number` times its weight, float32."""
        graph = self.graph
        rows = graph.gather(outputs, self._column(blocks.places, number))
        rows = self.rank_graph.cast(rows, 32)
        if self.weights is None:
            return rows
        weights = self._column(self.weights, number)
        return graph.elementwise(
            "multiply", rows, graph.broadcast_in_dim(weights, rows.shape, (0,))
        )

    def _column(self, values: Value, number: int) -> Value:
        """The values [tokens] of each token's expert `number`."""
        column = self.graph.slice(values, (0, number), (self.tokens, 1))
        return self.graph.reshape(column, (self.tokens,))
