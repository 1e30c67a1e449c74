"""The graph of one rank's part of a model under construction: products, norms, exchanges, caches.

Every operator that is added has an origin of its own, whose name says what it is: `summary` reads
these graphs by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from trnsim.graph import Graph, Value
from trnsim.graph.ops.collectives import AllGather, AllReduce, AllToAll, ReduceScatter
from trnsim.graph.ops.contraction import Attention
from trnsim.graph.origin import Origin
from trnsim.workload.operators import Axis

_ELEMENT_TYPES: Final = {8: "float8_e4m3", 16: "bfloat16", 32: "float32"}
EPSILON: Final = 1e-6


class Use(StrEnum):
    """How a part reads a weight."""

    WHOLE = "whole"
    """All of it."""
    LOOKED_UP = "looked up"
    """The rows that tokens name: what is read is counted as the operator's results."""
    ROUTED = "routed"
    """Of all experts' matrices those that tokens take."""


@dataclass(frozen=True)
class Weight:
    """A graph's input that is a parameter.

    Attributes:
        bits: of an element as the rank holds it, its share of scales among them.
        multiplied: bits of the elements that products with it multiply.
        use: how it is read.
        is_held: whether it lies with this part; else another part holds it.
    """

    bits: float
    multiplied: float = 16
    use: Use = Use.WHOLE
    is_held: bool = True


@dataclass
class RankGraph:
    """A graph, and which of its inputs and outputs are weights, keys and values.

    Attributes:
        bits: of an activation.
        graph: the operations so far.
        weights: by the number of an input.
        cached: bits of an element of keys and values of earlier tokens, by the number of an input.
        kept: the same of new tokens, by the number of a result.
        statistics: logarithms of the sums of exponentials of the last attention: [B, H, L].
    """

    bits: float = 16
    graph: Graph = field(default_factory=Graph)
    weights: dict[int, Weight] = field(default_factory=dict[int, Weight])
    cached: dict[int, float] = field(default_factory=dict[int, float])
    kept: dict[int, float] = field(default_factory=dict[int, float])
    statistics: Value | None = None

    def operator(self, name: str) -> None:
        """Let operations that are added from now on be one operator of this name."""
        self.graph.came_from = Origin("", name)

    def input(self, *shape: float) -> Value:
        """Activations that another part or another rank gives."""
        return self.graph.input([math.ceil(side) for side in shape], element_type(self.bits))

    def weight(
        self,
        shape: Sequence[float],
        bits: float,
        *,
        use: Use = Use.WHOLE,
        is_held: bool = True,
        multiplied: float = 0,
    ) -> Value:
        """A parameter, of whole sides; `multiplied` are the bits in which it is multiplied."""
        sides = [math.ceil(side) for side in shape]
        multiplied = multiplied or self.bits
        value = self.graph.input(sides, element_type(multiplied))
        self.weights[value.number] = Weight(bits, multiplied, use, is_held)
        return value

    def others(self, elements: float, bits: float) -> None:
        """Parameters that are added or multiplied on the way of an operator."""
        if elements:
            self.weight((elements,), bits)

    def product(self, name: str, rows: Value, weight: Value) -> Value:
        """``rows @ weight`` of [*B, M, K] and [*B, K, N]."""
        self.operator(name)
        lhs = self.cast(rows, self.weights[weight.number].multiplied)
        contracting = len(rows.shape) - 1, len(rows.shape) - 2
        return self.graph.dot_general(lhs, weight, contracting, element_type(self.bits))

    def cast(self, value: Value, bits: float) -> Value:
        """`value` in elements of `bits`."""
        kind = element_type(bits)
        if value.dtype == kind:
            return value
        return self.graph.elementwise("convert", value, dtype=kind)

    def norm(self, x: Value) -> Value:
        """``x / sqrt(mean(x^2) + epsilon)`` over the last dimension."""
        self.operator("norm")
        graph, last = self.graph, len(x.shape) - 1
        wide = self.cast(x, 32)
        total = graph.reduce("add", graph.elementwise("square", wide), (last,))
        mean = graph.elementwise("multiply", total, 1 / x.shape[last])
        factor = graph.elementwise("rsqrt", graph.elementwise("add", mean, EPSILON))
        spread = graph.broadcast_in_dim(factor, x.shape, range(last))
        return self.cast(graph.elementwise("multiply", wide, spread), self.bits)

    def added(self, name: str, x: Value, y: Value) -> Value:
        """``x + y``."""
        self.operator(name)
        return self.graph.elementwise("add", x, y)

    def attended(self, query: Value, key: Value, value: Value, mask: Attention) -> Value:
        """Attention of [B, H, L, E] to keys [B, G, S, E], each of which H / G heads share."""
        self.operator("attention")
        heads = query.shape[1]
        repeated = [self._repeated(one, heads) for one in (key, value)]
        results = self.graph.apply_to_all(mask, (self.cast(query, self.bits), *repeated))
        self.statistics = results[1]
        return results[0]

    def _repeated(self, value: Value, heads: int) -> Value:
        """Keys or values [B, G, S, E] for each query head; unused heads are left out."""
        batch, groups, length, width = value.shape
        value = self.cast(value, self.bits)
        if groups == heads:
            return value
        share = math.ceil(heads / groups)
        wide = (batch, groups, share, length, width)
        spread = self.graph.broadcast_in_dim(value, wide, (0, 1, 3, 4))
        flat = self.graph.reshape(spread, (batch, groups * share, length, width))
        return self.graph.slice(flat, (0, 0, 0, 0), (batch, heads, length, width))

    def heads(self, rows: Value, batch: int, heads: int) -> Value:
        """Rows [B T, H D] as heads [B, H, T, D]."""
        tokens, width = rows.shape[0] // batch, rows.shape[1] // heads
        apart = self.graph.reshape(rows, (batch, tokens, heads, width))
        return self.graph.transpose(apart, (0, 2, 1, 3))

    def joined(self, heads: Value) -> Value:
        """Heads [B, H, T, D] as rows [B T, H D]."""
        batch, count, tokens, width = heads.shape
        moved = self.graph.transpose(heads, (0, 2, 1, 3))
        return self.graph.reshape(moved, (batch * tokens, count * width))

    def columns(self, rows: Value, *widths: int) -> list[Value]:
        """Neighbouring columns of rows."""
        found, start = [], 0
        for width in widths:
            found.append(self.graph.slice(rows, (0, start), (rows.shape[0], width)))
            start += width
        return found

    def fitted(self, rows: Value, count: float, width: float) -> Value:
        """The first of these rows; activations that another part gives where they do not fit."""
        count, width = math.ceil(count), math.ceil(width)
        if rows.shape == (count, width):
            return rows
        self.operator("rows")
        if rows.shape[1] == width and rows.shape[0] > count:
            return self.graph.slice(rows, (0, 0), (count, width))
        if rows.type.elements == count * width:
            return self.graph.reshape(rows, (count, width))
        return self.input(count, width)

    def exchange(self, kind: str, x: Value, axis: Axis, ranks: int) -> Value:
        """What an exchange with the ranks of an axis gives, along the first dimension."""
        self.operator(axis)
        groups = (tuple(range(ranks)),)
        if kind in ("reduce_scatter", "all_to_all") and x.shape[0] % ranks:
            more = -x.shape[0] % ranks
            x = self.graph.pad(x, (0,) * len(x.shape), (more, *(0 for _ in x.shape[1:])))
        return self.graph.apply(_EXCHANGES[kind](groups), x)

    def earlier(self, shape: Sequence[float], bits: float) -> Value:
        """Keys or values of earlier tokens, read from the cache."""
        value = self.graph.input([math.ceil(side) for side in shape], element_type(self.bits))
        self.cached[value.number] = bits
        return value

    def keep(self, value: Value, bits: float) -> None:
        """Write keys or values of new tokens to the cache."""
        self.graph.outputs.append(value)
        self.kept[value.number] = bits


_EXCHANGES: Final[dict[str, Any]] = {
    "all_reduce": AllReduce,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "all_to_all": AllToAll,
}


def element_type(bits: float) -> str:
    """The shortest type of floating point that has at least `bits`."""
    return next(kind for size, kind in _ELEMENT_TYPES.items() if bits <= size)
