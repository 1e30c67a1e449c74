"""Attention that a graph spells out: products, a softmax and products become one operation.

A model without its framework's fused attention computes all scores, their maxima, exponentials and
sums one after another. As one operation, scores stay on the chip.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

from trnsim.graph import Graph, Node, Value, verify
from trnsim.graph.graph import Operand
from trnsim.graph.ops.arithmetic import Add, Divide, Multiply, Subtract
from trnsim.graph.ops.contraction import Attention, DotGeneral
from trnsim.graph.ops.functions import Exponential
from trnsim.graph.ops.layout import BroadcastInDim, Reshape
from trnsim.graph.ops.leaves import Constant
from trnsim.graph.ops.reductions import Reduce
from trnsim.graph.ops.rounding import Convert

_PAIR: Final = 2
"""Tensors that an operation of two has, neither a number."""


def attended(graph: Graph) -> Graph:
    """The graph with the attention that it spells out as operations; itself if it has none."""
    finder = _Finder(graph)
    found = {id(node): one for node in graph.nodes if (one := finder.found(node)) is not None}
    if not found:
        return graph
    made = graph.begun()
    for node in graph.nodes:
        made.came_from = node.origin
        if id(node) in found:
            found[id(node)].emit(made, node)
        else:
            made.add(node.operation, node.operands, node.results)
    made.outputs = list(graph.outputs)
    made.prune()
    verify(made)
    return made


@dataclass(frozen=True, slots=True)
class _Scores:
    """Scores: products of queries and keys, scaled, and what is added to them after that."""

    products: Node
    scale: float = 1.0
    bias: Value | None = None

    def scaled(self, number: float) -> _Scores | None:
        """The scores times a number; None where that would scale a bias as well."""
        return None if self.bias is not None else replace(self, scale=self.scale * number)


@dataclass(frozen=True, slots=True)
class _Attention:
    """Operands of an attention: queries, keys (across if not in rows), values, scale and bias."""

    query: Value
    key: Value
    is_across: bool
    value: Value
    scale: float
    bias: Value | None

    def emit(self, graph: Graph, node: Node) -> None:
        """Add the operation, whose result is the node's."""
        key = self.key
        if self.is_across:
            rank = len(key.shape)
            key = graph.transpose(key, (*range(rank - 2), rank - 1, rank - 2))
        shape = (*self.query.shape[:-1], key.shape[-2])
        value = graph.reshape(self.value, (*key.shape[:-1], self.value.shape[-1]))
        bias = [] if self.bias is None else [graph.reshape(self.bias, shape)]
        made, _ = graph.apply_to_all(Attention(self.scale), [self.query, key, value, *bias])
        made = graph.reshape(made, node.result.shape)
        graph.add(Convert(to=node.result.dtype), (made,), node.results)


class _Finder:
    """What a graph spells out."""

    def __init__(self, graph: Graph) -> None:
        self.maker = {v.number: node for node in graph.nodes for v in node.results}
        self.uses = Counter(v.number for node in graph.nodes for v in node.values)
        self.uses.update(v.number for v in graph.outputs)

    def found(self, node: Node) -> _Attention | None:
        """The attention whose last products a node is."""
        operation = node.operation
        rank = len(node.result.shape)
        if not isinstance(operation, DotGeneral) or operation.contracting != (rank - 1, rank - 2):
            return None
        weights, value = node.values
        scores = self._softmax(weights)
        return None if scores is None else self._attention(scores, value)

    def _attention(self, scores: Value, value: Value) -> _Attention | None:
        """The attention of scores, if they are products."""
        found = self._scores(scores)
        if found is None or found.scale <= 0:
            return None
        query, key = found.products.values
        operation, rank = found.products.operation, len(query.shape)
        if not isinstance(operation, DotGeneral) or operation.contracting[0] != rank - 1:
            return None
        is_across = operation.contracting[1] == rank - 2
        keys = key.shape[-1] if is_across else key.shape[-2]
        is_whole = value.type.elements == key.type.elements // query.shape[-1] * value.shape[-1]
        is_one = len({query.dtype, key.dtype, value.dtype}) == 1 and query.type.is_floating
        if not is_whole or not is_one or value.shape[-2] != keys:
            return None
        return _Attention(query, key, is_across, value, found.scale, found.bias)

    def _softmax(self, value: Value) -> Value | None:
        """The scores whose softmax over the last dimension a value is."""
        node = self._below(value, 1)
        if node is None or not isinstance(node.operation, Divide) or len(node.values) != _PAIR:
            return None
        powers, total = node.values
        exponential = self._below(powers, 2)
        if exponential is None or not isinstance(exponential.operation, Exponential):
            return None
        if self._reduced(total, "add") != exponential.result:
            return None
        less = self._below(exponential.values[0], 1)
        if less is None or not isinstance(less.operation, Subtract) or len(less.values) != _PAIR:
            return None
        scores, largest = less.values
        return scores if self._reduced(largest, "maximum") == scores else None

    def _reduced(self, value: Value, op: str) -> Value | None:
        """What a value is the reduction of over the last dimension, repeated along it."""
        node = self.maker.get(value.number)
        while node is not None and isinstance(node.operation, BroadcastInDim | Reshape):
            rows = node.values[0].shape
            is_kept = isinstance(node.operation, Reshape) or tuple(node.operation.dims) == tuple(
                range(len(rows))
            )
            if not is_kept or self.uses[node.result.number] > 1:
                return None
            node = self.maker.get(node.values[0].number)
        if node is None or not isinstance(node.operation, Reduce) or node.operation.op != op:
            return None
        given = node.values[0]
        is_last = tuple(node.operation.dims) == (len(given.shape) - 1,)
        is_rows = value.shape == given.shape
        return given if is_last and is_rows and self.uses[node.result.number] <= 1 else None

    def _scores(self, value: Value, readers: int = 2) -> _Scores | None:
        """What scores are made of; None where they are no scaled and biased products."""
        node = self._below(value, readers)
        if node is None:
            return None
        if isinstance(node.operation, DotGeneral):
            return _Scores(node)
        if isinstance(node.operation, Multiply | Divide):
            number = self._number(node.operands[1])
            found = None if number is None else self._scores(node.values[0], 1)
            if found is None or number is None or not number:
                return None
            is_product = isinstance(node.operation, Multiply)
            return found.scaled(number if is_product else 1 / number)
        if isinstance(node.operation, Add) and len(node.values) == _PAIR:
            for one, bias in (node.values, node.values[::-1]):
                found = self._scores(one, 1)
                if found is not None and found.bias is None and bias.dtype == one.dtype:
                    return replace(found, bias=bias)
        return None

    def _number(self, operand: Operand) -> float | None:
        """The number that an operand is, or repeats."""
        while isinstance(operand, Value):
            node = self.maker.get(operand.number)
            if node is not None and isinstance(node.operation, Constant):
                return float(node.operation.number)
            if node is None or not isinstance(node.operation, BroadcastInDim | Reshape):
                return None
            operand = node.values[0]
        return float(operand)

    def _below(self, value: Value, readers: int) -> Node | None:
        """What makes a value for so many readers, past what leaves rows as they are."""
        while self.uses[value.number] <= readers:
            node = self.maker.get(value.number)
            if node is None:
                return None
            given = node.values[0] if node.values else value
            is_same = given.shape[-2:] == node.result.shape[-2:] and given.type.is_floating
            if not isinstance(node.operation, Convert | Reshape) or not is_same:
                return node
            value, readers = given, 1
        return None
