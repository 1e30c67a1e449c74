"""MLPs and experts of one rank: their operations in a layer's graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from trnsim.workload.architecture import GATED, Experts, Mlp
from trnsim.workload.operators import Axis, Split
from trnsim.workload.rank_graph import RankGraph, Use

if TYPE_CHECKING:
    from trnsim.graph import Value
    from trnsim.workload.architecture import Architecture


class Feeding:
    """One rank's part of an MLP or of experts.

    Attributes:
        rows: what goes through it: [rows, hidden].
    """

    def __init__(self, rank: RankGraph, model: Architecture, split: Split, rows: Value) -> None:
        self.rank, self.model, self.split, self.rows = rank, model, split, rows

    def result(self, mlp: Mlp | Experts) -> Value:
        """[rows, hidden], a sum of which each tensor rank has a part."""
        if isinstance(mlp, Experts):
            return self._experts(mlp)
        return self._matrices("", mlp, self.rows)

    def _weight(self, inputs: int, outputs: int, experts: int) -> Value:
        shape = (experts, inputs, outputs) if experts else (inputs, outputs)
        return self.rank.weight(
            shape,
            self.model.bits_of_mlp,
            multiplied=self.model.product_bits,
            use=Use.ROUTED if experts else Use.WHOLE,
        )

    def _matrices(
        self, prefix: str, mlp: Mlp, rows: Value, experts: int = 0, chosen: Value | None = None
    ) -> Value:
        """``down(act(gate) up)``, or without a gate; each row with the matrices of its expert."""
        rank, hidden = self.rank, self.rows.shape[1]
        columns = math.ceil(mlp.intermediate / self.split.tensor)
        ups = mlp.matrices - 1
        up = self._weight(hidden, ups * columns, experts)
        down = self._weight(columns, hidden, experts)
        self._biases(mlp, experts)
        made = self._product(f"{prefix}up", rows, up, chosen)
        parts = rank.columns(made, *[columns] * ups)
        rank.operator("activation")
        between = rank.graph.elementwise("silu", parts[0])
        if mlp.matrices == GATED:
            rank.operator("gating")
            between = rank.graph.elementwise("multiply", between, parts[1])
        return self._product(f"{prefix}down", between, down, chosen)

    def _product(self, name: str, rows: Value, weight: Value, chosen: Value | None) -> Value:
        """Rows times a matrix, or each times the matrix of the expert that was chosen for it."""
        rank = self.rank
        if chosen is None:
            return rank.product(name, rows, weight)
        rank.operator(name)
        own = rank.graph.gather(weight, chosen)
        apart = rank.graph.reshape(rows, (rows.shape[0], 1, rows.shape[1]))
        lhs = rank.cast(apart, rank.weights[weight.number].multiplied)
        found = rank.cast(rank.graph.dot_general(lhs, own, (2, 1)), rank.bits)
        return rank.graph.reshape(found, (rows.shape[0], weight.shape[2]))

    def _biases(self, mlp: Mlp, experts: int) -> None:
        """Biases, of which the tensor ranks share the columns."""
        elements = math.ceil(mlp.biases / self.split.tensor)
        if elements and experts:
            self.rank.weight((experts, elements), self.model.other_bits, use=Use.ROUTED)
        else:
            self.rank.others(elements, self.model.other_bits)

    def _experts(self, mlp: Experts) -> Value:
        """Experts that a router chooses; each expert rank has as many tokens as this one."""
        rank, split, hidden = self.rank, self.split, self.rows.shape[1]
        bits = self.model.other_bits
        router = rank.weight((hidden, mlp.count), bits)
        rank.others(mlp.router_biases, bits)
        rank.others(mlp.shared_gate, bits)
        scores = rank.product("router", self.rows, router)
        rank.operator("routing")
        count = self.rows.shape[0] * mlp.per_token
        chosen = rank.graph.reshape(rank.graph.top_k(scores, mlp.per_token), (count,))
        taken = self._taken(mlp.per_token)
        if split.expert > 1:
            taken = rank.exchange("all_to_all", taken, Axis.EXPERT, split.expert)
            taken = rank.fitted(taken, count, hidden)
        here = math.ceil(mlp.count / split.expert)
        found = self._matrices("expert ", mlp.expert, taken, here, chosen)
        if split.expert > 1:
            found = rank.exchange("all_to_all", found, Axis.EXPERT, split.expert)
        result = self._put_together(found, mlp.per_token)
        if mlp.shared:
            shared = self._matrices("shared ", mlp.shared, self.rows)
            rank.operator("sum")
            result = rank.graph.elementwise("add", result, shared)
        return result

    def _taken(self, per_token: int) -> Value:
        """Each token as often as it takes an expert: [rows x experts of a token, hidden]."""
        count, hidden = self.rows.shape
        wide = self.rank.graph.broadcast_in_dim(self.rows, (count, per_token, hidden), (0, 2))
        return self.rank.graph.reshape(wide, (count * per_token, hidden))

    def _put_together(self, found: Value, per_token: int) -> Value:
        """The sum of what a token's experts give."""
        count, hidden = self.rows.shape
        self.rank.operator("routing")
        short = self.rank.graph.slice(found, (0, 0), (count * per_token, hidden))
        apart = self.rank.graph.reshape(short, (count, per_token, hidden))
        return self.rank.graph.reduce("add", apart, (1,))
