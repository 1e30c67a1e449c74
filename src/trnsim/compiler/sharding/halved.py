"""A graph for one of the two cores of a logical core: its half of the work, and the exchanges.

Both cores have the same operations; only the starts of slices of whole values differ.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trnsim.arch import NeuronCore
from trnsim.compiler.sharding import moves, sums
from trnsim.compiler.sharding.choice import SplitChoice
from trnsim.compiler.sharding.core_exchanges import BOTH, CoreGather, CoreReduce
from trnsim.compiler.sharding.costs import split_costs
from trnsim.compiler.sharding.rules import SplitRule
from trnsim.compiler.sharding.splits import CORES, SUM, WHOLE, Split, half_shape, half_type
from trnsim.errors import InternalError
from trnsim.graph import Graph, Node, Operation, Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.layout import BroadcastInDim, DynamicSlice, Reshape, Slice
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.rounding import Convert

_RULES = (moves, sums)
"""Modules whose import fills the table of split rules."""
_REPORTED_SHARE = 0.01
"""Share of a core's time above which an operation that both cores repeat is reported."""
_WITH_RESULT_SHAPE = (Reshape, BroadcastInDim, Slice, DynamicSlice, Constant, Iota)
"""Operations whose attribute `shape` is that of their result."""


@dataclass(frozen=True, slots=True)
class HalvedGraph:
    """One core's graph.

    Attributes:
        graph: the core's operations.
        weights: numbers of its inputs that do not change from call to call.
        inputs: for each input, the number of the whole graph's input and its split.
        repeated: names of operations that take time and that both cores repeat, the longest first.
    """

    graph: Graph
    weights: frozenset[int]
    inputs: tuple[tuple[int, Split], ...]
    outputs: tuple[Split, ...]
    repeated: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """True if any input or output is split."""
        return any(split != WHOLE for _, split in self.inputs) or any(
            split != WHOLE for split in self.outputs
        )


def halve_graph(
    graph: Graph,
    weights: Collection[int],
    core: NeuronCore,
    rank: int = 0,
    *,
    may_exchange: bool = True,
) -> HalvedGraph:
    """The graph of core `rank` of two.

    Args:
        graph: the whole graph.
        weights: numbers of its inputs that do not change from call to call.
        core: the hardware of one of the two.
        rank: the core's number, 0 or 1.
        may_exchange: whether the cores may exchange values.
    """
    costs = split_costs(graph, core, may_exchange=may_exchange)
    rules = SplitChoice(graph, costs).rules
    repeated_s: dict[str, float] = {}
    total_s = 0.0
    for node, rule in zip(graph.nodes, rules, strict=True):
        time_s = costs.rule_s(node)[rule]
        total_s += time_s
        if time_s and set(rule.operands) | set(rule.results) == {WHOLE}:
            repeated_s[node.name] = repeated_s.get(node.name, 0.0) + time_s
    repeated = [name for name, time_s in repeated_s.items() if time_s > _REPORTED_SHARE * total_s]
    half = halve_by_rules(graph, weights, rules, rank)
    return replace(half, repeated=tuple(sorted(repeated, key=lambda name: -repeated_s[name])))


def halve_by_rules(
    graph: Graph, weights: Collection[int], rules: Sequence[SplitRule], rank: int = 0
) -> HalvedGraph:
    """The graph of core `rank` of two, with a rule for each operation."""
    return _GraphHalving(rank).halve(graph, frozenset(weights), rules)


class _GraphHalving:
    """A core's graph under construction.

    `_local` has the split and the core's part of each result, by the number of the whole graph's
    value; `_by_split` has the core's parts in all splits that were needed.
    """

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._graph = Graph()
        self._local: dict[int, tuple[Split, Value]] = {}
        self._by_split: dict[tuple[int, Split], Value] = {}
        self._inputs: dict[int, tuple[int, Split]] = {}

    def halve(
        self, graph: Graph, weights: frozenset[int], rules: Sequence[SplitRule]
    ) -> HalvedGraph:
        """The core's graph, with all operations of `graph` by their rules."""
        for node, rule in zip(graph.nodes, rules, strict=True):
            self._add_node(node, rule)
        outputs = [self._output(value) for value in graph.outputs]
        self._graph.outputs = [value for _, value in outputs]
        own_weights = {number for number, (whole, _) in self._inputs.items() if whole in weights}
        return HalvedGraph(
            self._graph,
            frozenset(own_weights),
            tuple(self._inputs.values()),
            tuple(split for split, _ in outputs),
        )

    def _output(self, value: Value) -> tuple[Split, Value]:
        local_value = self._local.get(value.number)
        split = WHOLE if local_value is None or local_value[0] == SUM else local_value[0]
        return split, self._to_split(value, split)

    def _add_node(self, node: Node, rule: SplitRule) -> None:
        self._graph.current_origin = node.origin
        splits = iter(rule.operands)
        operands = [
            self._to_split(operand, next(splits)) if isinstance(operand, Value) else operand
            for operand in node.operands
        ]
        operation = _local_operation(node, rule)
        results = self._graph.apply_to_all(operation, operands, node.result.dtype)
        for value, split, local_result in zip(node.results, rule.results, results, strict=True):
            if local_result.type != half_type(value.type, split):
                raise InternalError(f"half of {node.name} is {local_result.type}, of {value.type}")
            self._local[value.number] = split, local_result
            self._by_split[value.number, split] = local_result

    def _to_split(self, value: Value, need: Split) -> Value:
        """A value in the split `need`: an input, its operation's result, or an exchange of it."""
        key = value.number, need
        if key not in self._by_split:
            self._by_split[key] = self._add_in_split(value, need)
        return self._by_split[key]

    def _add_in_split(self, value: Value, need: Split) -> Value:
        graph = self._graph
        if need == SUM:
            raise InternalError(f"%{value.number} is needed as partial sums, which nothing gives")
        if value.number not in self._local:
            local_type = half_type(value.type, need)
            local_input = graph.input(local_type.shape, local_type.dtype)
            self._inputs[local_input.number] = value.number, need
            return local_input
        split, local_value = self._local[value.number]
        if split == WHOLE:
            return self._slice_half(local_value, need)
        if need != WHOLE:
            return self._slice_half(self._to_split(value, WHOLE), need)
        if split == SUM:
            return graph.apply(CoreReduce(BOTH, "add"), local_value)
        return graph.apply(CoreGather(BOTH, split), local_value)

    def _slice_half(self, value: Value, dim: Split) -> Value:
        """This core's half of a value that both cores have.

        Half of a conversion to a wider format is the conversion of half of its operand, so that the
        other half is not widened.
        """
        node = self._graph.producer(value)
        if node is not None and isinstance(node.operation, Convert):
            (source,) = node.values
            if source.type.nbytes < value.type.nbytes:
                return self._graph.apply(node.operation, self._slice_half(source, dim))
        shape = half_shape(value.shape, dim)
        starts = [self._rank * shape[dim] if axis == dim else 0 for axis in range(len(shape))]
        return self._graph.slice(value, starts, shape)


def _local_operation(node: Node, rule: SplitRule) -> Operation:
    """A node's operation on one core's part of its operands."""
    operation: Any = node.operation
    result_split = rule.results[0]
    if isinstance(operation, _WITH_RESULT_SHAPE):
        return replace(operation, shape=half_shape(node.result.shape, result_split))
    if isinstance(operation, Gather) and rule.operands[0] >= 0:
        table = node.values[0].shape
        local_table = half_shape(table, rule.operands[0])
        sizes = tuple(map(min, operation.slice_sizes, local_table))
        return replace(operation, slice_sizes=sizes)
    if isinstance(operation, Scatter) and operation.type is not None:
        return replace(operation, type=half_type(operation.type, result_split))
    if isinstance(operation, Convolution) and rule.operands == (1, 0):
        return replace(operation, groups=operation.groups // CORES)
    return node.operation
