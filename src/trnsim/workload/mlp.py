"""MLPs and experts of one rank: their operations in a layer's graph."""

from __future__ import annotations

import math

from trnsim.graph import Value
from trnsim.graph.building.groups import multiply_blocks
from trnsim.workload.architecture import GATED_MATRICES, Architecture, Experts, Mlp
from trnsim.workload.expert_rules import ClampedGate
from trnsim.workload.operators import Axis, Split
from trnsim.workload.rank_graph import RankGraph, Use
from trnsim.workload.routing import ExpertRows


class RankMlp:
    """One rank's share of an MLP or of experts.

    Attributes:
        rows: its input [rows, hidden].
    """

    def __init__(
        self,
        rank_graph: RankGraph,
        model: Architecture,
        split: Split,
        rows: Value,
        *,
        is_wired: bool = False,
    ) -> None:
        self.rank_graph, self.model, self.split, self.rows = rank_graph, model, split, rows
        self.is_wired = is_wired

    def result(self, mlp: Mlp | Experts) -> Value:
        """Output [rows, hidden]: each tensor rank has one summand."""
        before = self.rank_graph.vector_elements
        if isinstance(mlp, Experts):
            output = self._experts(mlp)
            self.rank_graph.add_parameters(mlp.router_biases + mlp.shared_gate, before)
            return output
        return self._matrices("", mlp, self.rows)

    def _weight(self, name: str, inputs: int, outputs: int, experts: int) -> Value:
        shape = (experts, inputs, outputs) if experts else (inputs, outputs)
        return self.rank_graph.weight(
            shape,
            self.model.bits_of_mlp,
            product_bits=self.model.product_bits,
            use=Use.ROUTED if experts else Use.WHOLE,
            name=name,
        )

    def _matrices(
        self,
        prefix: str,
        mlp: Mlp,
        rows: Value,
        experts: int = 0,
        routed: ExpertRows | None = None,
    ) -> Value:
        """``down(act(gate) up)`` or ``down(act(up))``; each row with its expert's matrices."""
        rank_graph, hidden = self.rank_graph, self.rows.shape[1]
        columns = self._columns(mlp)
        names = self._ups(prefix, mlp, experts)
        ups = mlp.matrices - 1
        outputs = ups * columns // len(names)
        weights = [self._weight(name, hidden, outputs, experts) for name in names]
        down_weight = self._weight(f"{prefix}down", columns, hidden, experts)
        is_biased, before = self.is_wired and mlp.biases > 0, rank_graph.vector_elements
        parts = [
            self._product(name, rows, weight, routed, is_biased=is_biased)
            for name, weight in zip(names, weights, strict=True)
        ]
        if len(parts) < ups:
            parts = rank_graph.columns(parts[0], *[columns] * ups)
        down_input = self._down_input(mlp, parts)
        has_summed_bias = self.split.tensor == 1 if routed is None else routed.blocks is None
        output = self._product(
            f"{prefix}down",
            down_input,
            down_weight,
            routed,
            is_biased=is_biased and has_summed_bias,
            part=1 / self.split.tensor,
        )
        if not (self.is_wired and experts):
            self._biases(mlp, experts, before)
        return output

    def _down_input(self, mlp: Mlp, parts: list[Value]) -> Value:
        """The input of the last matrix, from results of the matrices before it."""
        rank_graph, graph = self.rank_graph, self.rank_graph.graph
        rank_graph.operator("activation")
        if self.is_wired and mlp.clamped_gate is not None:
            return self._clamped(mlp.clamped_gate, *parts)
        down_input = rank_graph.activation(parts[0], mlp.activation if self.is_wired else "silu")
        if mlp.matrices == GATED_MATRICES:
            rank_graph.operator("gating")
            down_input = graph.elementwise("multiply", down_input, parts[1])
        return down_input

    def _clamped(self, form: ClampedGate, gate: Value, up: Value) -> Value:
        """``(up + 1) gate logistic(alpha gate)``, both within bounds."""
        elementwise, limit = self.rank_graph.graph.elementwise, form.limit
        gate = elementwise("minimum", gate, limit)
        factor = elementwise("logistic", elementwise("multiply", gate, form.alpha))
        gate = elementwise("multiply", gate, factor)
        self.rank_graph.operator("gating")
        up = elementwise("minimum", elementwise("maximum", up, -limit), limit)
        return elementwise("multiply", elementwise("add", up, 1.0), gate)

    def _columns(self, mlp: Mlp) -> int:
        """This rank's columns of a matrix before the activation."""
        return math.ceil(mlp.intermediate / self.split.tensor)

    def _ups(self, prefix: str, mlp: Mlp, experts: int) -> list[str]:
        """Names of the matrices before the activation: gate and up are two in a wired graph.

        A product with both as one matrix, as plans and experts have it, is read by columns: where
        it does not fit in SBUF it crosses HBM, and its gradients are joined there.
        """
        is_apart = self.is_wired and not experts and mlp.matrices == GATED_MATRICES
        return [f"{prefix}gate", f"{prefix}up"] if is_apart else [f"{prefix}up"]

    def _product(
        self,
        name: str,
        rows: Value,
        weight: Value,
        routed: ExpertRows | None,
        *,
        is_biased: bool,
        part: float = 1.0,
    ) -> Value:
        """Rows times a matrix, or each row times the matrix of its expert, and a bias.

        Of an expert's bias a part is added, where tensor ranks sum the results.
        """
        rank_graph = self.rank_graph
        if routed is None:
            return rank_graph.product(name, rows, weight, is_biased=is_biased)
        rank_graph.operator(name)
        lhs = rank_graph.cast(rows, rank_graph.weights[weight.number].product_bits)
        size, experts = 1, routed.experts
        if routed.blocks is not None:
            size, experts = routed.blocks.size, routed.blocks.experts
        blocks = rank_graph.graph.reshape(lhs, (rows.shape[0] // size, size, rows.shape[1]))
        results = multiply_blocks(rank_graph.graph, blocks, weight, experts)
        results = rank_graph.cast(results, rank_graph.bits)
        results = rank_graph.graph.reshape(results, (rows.shape[0], weight.shape[2]))
        if not is_biased:
            return results
        table = self._expert_biases(name, weight.shape[0], weight.shape[2])
        bias = routed.biases_of_rows(table)
        if part != 1:
            bias = rank_graph.graph.elementwise("multiply", bias, part)
        return rank_graph.graph.elementwise("add", results, bias)

    def _expert_biases(self, name: str, experts: int, columns: int) -> Value:
        """The biases [E, N] of experts."""
        self.rank_graph.operator(f"{name} bias")
        shape, bits = (experts, columns), self.rank_graph.bits
        return self.rank_graph.weight(shape, bits, use=Use.ROUTED, name=f"{name} bias")

    def _biases(self, mlp: Mlp, experts: int, before: float) -> None:
        """Add parameters of biases, whose columns the tensor ranks share.

        Not among them is the bias that a wired graph adds after the sum over tensor ranks.
        """
        is_apart = self.is_wired and self.split.tensor > 1 and mlp.biases > 0 and not experts
        product_biases = mlp.biases - self.rows.shape[1] * is_apart
        elements = math.ceil(product_biases / self.split.tensor)
        if elements and experts:
            self.rank_graph.weight((experts, elements), self.model.other_bits, use=Use.ROUTED)
        else:
            self.rank_graph.add_parameters(elements, before)

    def _experts(self, mlp: Experts) -> Value:
        """Output of the experts; each expert rank is assumed to have as many tokens as this one."""
        rank_graph, split, hidden = self.rank_graph, self.split, self.rows.shape[1]
        bits = self.model.other_bits
        router = rank_graph.weight((hidden, mlp.count), bits, name="router")
        scores = rank_graph.product("router", self.rows, router)
        routed = ExpertRows(
            rank_graph,
            mlp,
            scores,
            columns=self._columns(mlp.expert),
            is_wired=self.is_wired,
            is_whole=split.expert == 1,
        )
        rows = routed.expert_inputs(self.rows)
        count = rows.shape[0]
        if split.expert > 1:
            rows = rank_graph.exchange("all_to_all", rows, Axis.EXPERT, split.expert)
            rows = rank_graph.first_rows(rows, count, hidden)
        local_experts = math.ceil(mlp.count / split.expert)
        outputs = self._matrices("expert ", mlp.expert, rows, local_experts, routed)
        if split.expert > 1:
            outputs = rank_graph.exchange("all_to_all", outputs, Axis.EXPERT, split.expert)
        result = routed.combine(outputs, self.rows.shape)
        if self.is_wired and mlp.expert.biases and routed.blocks is not None:
            shares = routed.shares(local_experts, 1 / split.tensor)
            bias = rank_graph.graph.dot_general(
                shares, self._expert_biases("expert down", local_experts, hidden), (1, 0)
            )
            result = rank_graph.graph.elementwise("add", result, bias)
        if mlp.shared:
            shared = self._gated(mlp, self._matrices("shared ", mlp.shared, self.rows))
            rank_graph.operator("sum")
            result = rank_graph.graph.elementwise("add", result, shared)
        return result

    def _gated(self, mlp: Experts, shared: Value) -> Value:
        """Output of the shared experts, scaled by a gate for each token if there is one."""
        if not (self.is_wired and mlp.shared_gate):
            return shared
        rank_graph = self.rank_graph
        rank_graph.operator("gate of the shared part")
        gate_weights = rank_graph.vector(mlp.shared_gate, "gate of the shared part")
        part = rank_graph.graph.reduce(
            "add", rank_graph.row_operation(self.rows, "multiply", gate_weights), (1,)
        )
        gate = rank_graph.graph.elementwise("logistic", part)
        spread = rank_graph.graph.broadcast_in_dim(gate, shared.shape, (0,))
        return rank_graph.graph.elementwise("multiply", shared, spread)
