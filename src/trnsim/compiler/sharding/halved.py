"""A graph for one of the two cores of a logical core: its half of the work, and the exchanges.

Both cores have the same operations; slices of what is whole begin elsewhere on the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from trnsim.arch import NeuronCore
from trnsim.compiler.sharding import moves, sums
from trnsim.compiler.sharding.between import BOTH, CoreGather, CoreReduce
from trnsim.compiler.sharding.choice import Choice
from trnsim.compiler.sharding.rules import Rule
from trnsim.compiler.sharding.splits import CORES, SUM, WHOLE, Split, local, local_shape
from trnsim.compiler.sharding.work import work_of
from trnsim.errors import InternalError
from trnsim.graph import Graph, Node, Operation, Value
from trnsim.graph.ops.contraction import Convolution
from trnsim.graph.ops.layout import BroadcastInDim, DynamicSlice, Reshape, Slice
from trnsim.graph.ops.leaves import Constant, Iota
from trnsim.graph.ops.lookup import Gather, Scatter

_RULES = (moves, sums)
"""Importing them fills the table of ways."""
_TOLD = 0.01
"""The part of a core's time from which on it is told what both cores do."""
_SHAPED = (Reshape, BroadcastInDim, Slice, DynamicSlice, Constant, Iota)


@dataclass(frozen=True, slots=True)
class Halved:
    """One core's graph.

    Attributes:
        graph: its operations.
        weights: its inputs that do not change from call to call, by number.
        inputs: for each input, the number of the whole graph's and how it is split.
        outputs: how each output is split.
        alike: operations that take time and that both cores do all of, the longest first.
    """

    graph: Graph
    weights: frozenset[int]
    inputs: tuple[tuple[int, Split], ...]
    outputs: tuple[Split, ...]
    alike: tuple[str, ...] = ()

    @property
    def is_split(self) -> bool:
        """Whether the cores do different things at all."""
        return any(split != WHOLE for _, split in self.inputs) or any(
            split != WHOLE for split in self.outputs
        )


def halved(
    graph: Graph,
    weights: Collection[int],
    core: NeuronCore,
    rank: int = 0,
    *,
    may_exchange: bool = True,
) -> Halved:
    """The graph of core `rank` of two.

    Args:
        graph: the whole.
        weights: its inputs that do not change from call to call, by number.
        core: one of the two.
        rank: which one.
        may_exchange: whether the cores may exchange values.
    """
    work = work_of(graph, core, may_exchange=may_exchange)
    rules = Choice(graph, work).rules
    whole: dict[str, float] = {}
    total_s = 0.0
    for node, rule in zip(graph.nodes, rules, strict=True):
        time_s = work.node_s(node, rule)
        total_s += time_s
        if time_s and set(rule.takes) | set(rule.gives) == {WHOLE}:
            whole[node.name] = whole.get(node.name, 0.0) + time_s
    alike = [name for name, time_s in whole.items() if time_s > _TOLD * total_s]
    found = by_rules(graph, weights, rules, rank)
    return replace(found, alike=tuple(sorted(alike, key=lambda name: -whole[name])))


def by_rules(
    graph: Graph, weights: Collection[int], rules: Sequence[Rule], rank: int = 0
) -> Halved:
    """The graph of core `rank` of two, each operation split by a rule of its own."""
    return _Halving(rank).of(graph, frozenset(weights), rules)


class _Halving:
    """A core's graph in the making."""

    def __init__(self, rank: int) -> None:
        self._rank = rank
        self._graph = Graph()
        self._made: dict[int, tuple[Split, Value]] = {}
        self._as: dict[tuple[int, Split], Value] = {}
        self._inputs: dict[int, tuple[int, Split]] = {}

    def of(self, graph: Graph, weights: frozenset[int], rules: Sequence[Rule]) -> Halved:
        for node, rule in zip(graph.nodes, rules, strict=True):
            self._node(node, rule)
        outputs = [self._output(value) for value in graph.outputs]
        self._graph.outputs = [value for _, value in outputs]
        own = {number for number, (whole, _) in self._inputs.items() if whole in weights}
        return Halved(
            self._graph,
            frozenset(own),
            tuple(self._inputs.values()),
            tuple(split for split, _ in outputs),
        )

    def _output(self, value: Value) -> tuple[Split, Value]:
        made = self._made.get(value.number)
        split = WHOLE if made is None or made[0] == SUM else made[0]
        return split, self._wanted(value, split)

    def _node(self, node: Node, rule: Rule) -> None:
        self._graph.came_from = node.origin
        takes = iter(rule.takes)
        operands = [
            self._wanted(one, next(takes)) if isinstance(one, Value) else one
            for one in node.operands
        ]
        operation = _local(node, rule)
        results = self._graph.apply_to_all(operation, operands, node.result.dtype)
        for value, split, made in zip(node.results, rule.gives, results, strict=True):
            if made.type != local(value.type, split):
                raise InternalError(f"half of {node.name} is {made.type}, of {value.type}")
            self._made[value.number] = split, made
            self._as[value.number, split] = made

    def _wanted(self, value: Value, need: Split) -> Value:
        """A value as it is needed: an input, as it was made, or by an exchange."""
        key = value.number, need
        if key not in self._as:
            self._as[key] = self._new(value, need)
        return self._as[key]

    def _new(self, value: Value, need: Split) -> Value:
        graph = self._graph
        if need == SUM:
            raise InternalError(f"%{value.number} is wanted as a sum, as which nothing made it")
        if value.number not in self._made:
            own = local(value.type, need)
            found = graph.input(own.shape, own.dtype)
            self._inputs[found.number] = value.number, need
            return found
        split, made = self._made[value.number]
        if split == WHOLE:
            return self._part(made, need)
        if need != WHOLE:
            return self._part(self._wanted(value, WHOLE), need)
        if split == SUM:
            return graph.apply(CoreReduce(BOTH, "add"), made)
        return graph.apply(CoreGather(BOTH, split), made)

    def _part(self, whole: Value, dim: Split) -> Value:
        """This core's half of what both have."""
        shape = local_shape(whole.shape, dim)
        starts = [self._rank * shape[dim] if at == dim else 0 for at in range(len(shape))]
        return self._graph.slice(whole, starts, shape)


def _local(node: Node, rule: Rule) -> Operation:
    """A node's operation on what one core has."""
    operation: Any = node.operation
    gives = rule.gives[0]
    if isinstance(operation, _SHAPED):
        return replace(operation, shape=local_shape(node.result.shape, gives))
    if isinstance(operation, Gather) and rule.takes[0] >= 0:
        table = node.values[0].shape
        own = local_shape(table, rule.takes[0])
        sizes = tuple(map(min, operation.slice_sizes, own))
        return replace(operation, slice_sizes=sizes)
    if isinstance(operation, Scatter) and operation.type is not None:
        return replace(operation, type=local(operation.type, gives))
    if isinstance(operation, Convolution) and rule.takes == (1, 0):
        return replace(operation, groups=operation.groups // CORES)
    return node.operation


__all__ = ["Halved", "by_rules", "halved"]
