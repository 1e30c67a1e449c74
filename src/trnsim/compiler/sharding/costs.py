"""The rough cost of a split: the work of one core, and exchanges between two.

It serves to choose between splits only: a program's time is estimated from its instructions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any, Final

from trnsim.arch import NeuronCore
from trnsim.arch.peaks import peak_flop_per_s
from trnsim.compiler.sharding.rules import SplitRule, split_rules
from trnsim.compiler.sharding.splits import CORES, SUM, WHOLE, Split, half_type
from trnsim.graph import Graph, Kind, Node, Value
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import Transpose
from trnsim.graph.ops.lookup import Gather
from trnsim.graph.types import TensorType

_FEWEST_MOVING_COLUMNS: Final = 64
"""Fewest moving columns that a product is charged for (trainium_inferentia2_arch.rst: MM)."""

_CONCURRENT_OPERATIONS: Final = 4
"""Elementwise operations that run at the same time: two in each instruction, on two engines."""
_SLICE_S: Final = 1e-9
"""Time to slice a whole value: about nothing, but enough to decide between equal costs."""


@dataclass(frozen=True)
class SplitCosts:
    """Rough times on one of two cores.

    Attributes:
        core: the hardware of one of the two.
        hbm_values: numbers of values that lie in HBM: inputs and views of them.
        may_exchange: whether the cores may exchange values at all.
    """

    core: NeuronCore
    hbm_values: frozenset[int]
    may_exchange: bool = True
    _rule_s: dict[Hashable, dict[SplitRule, float]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def rule_s(self, node: Node) -> Mapping[SplitRule, float]:
        """Time of one core's part of an operation, by each rule of `split_rules`.

        Equal operations on equal types share the times, as an optimizer has the same operations for
        each tensor.
        """
        key = (
            node.operation,
            tuple((v.type, v.number in self.hbm_values) for v in node.values),
            tuple(None if isinstance(operand, Value) else operand for operand in node.operands),
            tuple(v.type for v in node.results),
        )
        if key not in self._rule_s:
            self._rule_s[key] = {rule: self.node_s(node, rule) for rule in split_rules(node)}
        return self._rule_s[key]

    def node_s(self, node: Node, rule: SplitRule) -> float:
        """Time of one core's part of an operation."""
        if is_view(node):
            return 0.0
        operands = [
            half_type(v.type, split) for v, split in zip(node.values, rule.operands, strict=True)
        ]
        results = [
            half_type(v.type, split) for v, split in zip(node.results, rule.results, strict=True)
        ]
        pairs = zip(node.values, operands, strict=True)
        hbm_bytes = sum(
            operand.nbytes for value, operand in pairs if value.number in self.hbm_values
        )
        if isinstance(node.operation, Gather):
            hbm_bytes = results[0].nbytes
        elif node.kind is Kind.KERNEL:
            hbm_bytes = sum(tensor.nbytes for tensor in (*operands, *results))
        elements = max(tensor.elements for tensor in (*results, *operands))
        if node.kind is Kind.CONTRACTION:
            elements = results[0].elements
        lanes_s = elements / (
            self.core.partitions * self.core.vector_clock_hz * _CONCURRENT_OPERATIONS
        )
        return max(self._products_s(node, rule, operands), self._dma_s(hbm_bytes)) + lanes_s

    def move_s(self, tensor: TensorType, before: Split, after: Split) -> float:
        """Time to bring a value from the split `before` to the split `after`."""
        if before == after:
            return 0.0
        if before == WHOLE and after != SUM:
            return _SLICE_S
        if after == SUM or not self.may_exchange:
            return float("inf")
        core = self.core
        exchange_start_s = sum(
            (
                *(core.dma_issue_s, core.dma_start_s, core.dma_stagger_s, core.dma_end_s),
                *(core.core_barrier_s, core.engine_semaphore_s, core.engine_semaphore_s),
            )
        )
        if before == SUM:
            sum_s = tensor.elements / (core.partitions * core.vector_clock_hz)
            return exchange_start_s + self._dma_s(tensor.nbytes) + sum_s
        return 2 * exchange_start_s + self._dma_s(tensor.nbytes * (1 + 1 / CORES))

    def _dma_s(self, nbytes: float) -> float:
        return nbytes / self.core.dma_bytes_per_s

    def _products_s(self, node: Node, rule: SplitRule, operands: list[TensorType]) -> float:
        """Time on the Tensor Engine, whose array is used by whole blocks."""
        peak = peak_flop_per_s(self.core)
        if not isinstance(node.operation, DotGeneral):
            is_split = any(split != WHOLE for split in (*rule.operands, *rule.results))
            return node.operation.flop(*node.operand_types) / peak / (CORES if is_split else 1)
        left, right = node.operation.contracting
        (lhs, rhs), rank = operands, len(operands[0].shape)
        side = int(self.core.pe_rows)
        depth = _whole_blocks(lhs.shape[left], side)
        rows, columns = lhs.shape[2 * rank - 3 - left], rhs.shape[2 * rank - 3 - right]
        area = min(
            max(rows, _FEWEST_MOVING_COLUMNS) * _whole_blocks(columns, side),
            max(columns, _FEWEST_MOVING_COLUMNS) * _whole_blocks(rows, side),
        )
        slow = self.core.fp32_passes if {lhs.dtype, rhs.dtype} == {"float32"} else 1
        return 2.0 * slow * prod(lhs.shape[:-2]) * depth * area / peak


def _whole_blocks(length: int, side: int) -> int:
    """`length`, rounded up to a multiple of `side`."""
    return ceil(length / side) * side


def is_view(node: Node) -> bool:
    """True if a node is taken to cost no time: a view, alias, leaf or transpose."""
    return node.kind in (Kind.VIEW, Kind.ALIAS, Kind.LEAF) or isinstance(node.operation, Transpose)


def split_costs(graph: Graph, core: NeuronCore, *, may_exchange: bool = True) -> SplitCosts:
    """The rough times of a graph's operations."""
    hbm_values: set[Any] = {value.number for value in graph.inputs}
    for node in graph.nodes:
        if is_view(node) and node.values and node.values[0].number in hbm_values:
            hbm_values.add(node.result.number)
    return SplitCosts(core, frozenset(hbm_values), may_exchange)
