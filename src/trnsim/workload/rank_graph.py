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
from trnsim.workload.architecture import Norm
from trnsim.workload.operators import ACTIVATIONS, Axis

_ELEMENT_TYPES: Final = {8: "float8_e4m3", 16: "bfloat16", 32: "float32"}
_WIDE: Final = 32
_PLAIN: Final = Norm()
_QUICK: Final = 1.702
"""Source: transformers 5.23, activations.py, QuickGELUActivation."""


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
        names: of the inputs that are weights, by number.
        given: inputs that another part makes, by what they are: "hidden", "cosine".
        made: results that other parts read, likewise.
        shared: numbers of values that all tensor ranks have, of which each computes another part.
        small: elements of weights that are added or multiplied on the way of an operator.
        use: how these are read.
        passed: elements of norms that are counted here, and computed elsewhere.
        half: of a layer: "attention", "mlp"; what comes now is part of it.
        short: the type of floating point of 16 bits.
    """

    bits: float = 16
    graph: Graph = field(default_factory=Graph)
    weights: dict[int, Weight] = field(default_factory=dict[int, Weight])
    cached: dict[int, float] = field(default_factory=dict[int, float])
    kept: dict[int, float] = field(default_factory=dict[int, float])
    statistics: Value | None = None
    names: dict[int, str] = field(default_factory=dict[int, str])
    named_inputs: dict[str, Value] = field(default_factory=dict[str, Value])
    named_outputs: dict[str, Value] = field(default_factory=dict[str, Value])
    shared: set[int] = field(default_factory=set[int])
    small: float = 0.0
    use: Use = Use.WHOLE
    passed: float = 0.0
    half: str = ""
    short: str = "bfloat16"

    def operator(self, name: str) -> None:
        """Let operations that are added from now on be one operator of this name."""
        self.graph.came_from = Origin(self.half, name)

    def kind(self, bits: float) -> str:
        """The type of elements of `bits`."""
        kind = element_type(bits)
        return self.short if kind == _ELEMENT_TYPES[16] else kind

    def input(self, *shape: float, name: str = "", dtype: str = "") -> Value:
        """Activations that another part or another rank gives; of a name, the same each time."""
        if name in self.named_inputs:
            return self.named_inputs[name]
        value = self.graph.input([math.ceil(side) for side in shape], dtype or self.kind(self.bits))
        if name:
            self.named_inputs[name] = value
        return value

    def weight(
        self,
        shape: Sequence[float],
        bits: float,
        *,
        use: Use = Use.WHOLE,
        is_held: bool = True,
        multiplied: float = 0,
        name: str = "",
    ) -> Value:
        """A parameter, of whole sides; `multiplied` are the bits in which it is multiplied."""
        sides = [math.ceil(side) for side in shape]
        multiplied = multiplied or self.bits
        value = self.graph.input(sides, self.kind(multiplied))
        self.weights[value.number] = Weight(bits, multiplied, use, is_held)
        if name:
            self.names[value.number] = f"{self.half}.{name}" if self.half else name
        return value

    def vector(self, elements: float, name: str, *shape: int) -> Value:
        """A parameter that is added or multiplied on the way of an operator."""
        self.small += elements
        return self.weight(shape or (elements,), self.bits, use=self.use, name=name)

    def table(self, elements: int, name: str) -> Value:
        """Numbers in float32 that are the same at every step, and no parameters."""
        value = self.graph.input((elements,), self.kind(_WIDE))
        self.names[value.number] = f"{self.half}.{name}" if self.half else name
        return value

    def others(self, elements: float, before: float = math.inf) -> None:
        """Parameters of which it is not known what is computed with them.

        They are so many, less those that operators have got since `small` was what it was `before`.
        """
        counted = max(self.small - before, 0.0)
        self.small -= counted
        if elements > counted:
            self.weight((elements - counted,), self.bits, use=self.use)

    def product(
        self,
        name: str,
        rows: Value,
        weight: Value,
        *,
        is_biased: bool = False,
        is_turned: bool = False,
    ) -> Value:
        """``rows @ weight`` of [*B, M, K] and [*B, K, N], turned [*B, N, K], and a bias [N]."""
        self.operator(name)
        lhs = self.cast(rows, self.weights[weight.number].multiplied)
        contracting = len(rows.shape) - 1, len(rows.shape) - 2 + is_turned
        kind = self.kind(_WIDE if is_biased else self.bits)
        product = self.graph.dot_general(lhs, weight, contracting, kind)
        if not is_biased:
            return product
        self.operator("bias")
        bias = self.vector(product.shape[-1], f"{name} bias")
        return self.cast(self.along(product, "add", bias), self.bits)

    def along(self, x: Value, operation: str, vector: Value) -> Value:
        """``x + vector`` or another operation of each row of x."""
        first = len(x.shape) - len(vector.shape)
        wide = self.graph.broadcast_in_dim(vector, x.shape, range(first, len(x.shape)))
        return self.graph.elementwise(operation, x, wide, dtype=x.dtype)

    def cast(self, value: Value, bits: float) -> Value:
        """`value` in elements of `bits`."""
        kind = self.kind(bits)
        if value.dtype == kind:
            return value
        return self.graph.elementwise("convert", value, dtype=kind)

    def norm(self, x: Value, norm: Norm = _PLAIN, name: str = "norm", heads: int = 0) -> Value:
        """A norm over the last dimension; of heads [*, H, T, D] where each has own weights."""
        self.operator(name)
        graph, last = self.graph, len(x.shape) - 1
        wide = self.cast(x, _WIDE)
        if norm.is_centered:
            mean = graph.elementwise(
                "multiply", graph.reduce("add", wide, (last,)), 1 / x.shape[-1]
            )
            spread = graph.broadcast_in_dim(mean, x.shape, range(last))
            wide = graph.elementwise("subtract", wide, spread)
        total = graph.reduce("add", graph.elementwise("square", wide), (last,))
        mean = graph.elementwise("multiply", total, 1 / x.shape[last])
        factor = graph.elementwise("rsqrt", graph.elementwise("add", mean, norm.epsilon))
        spread = graph.broadcast_in_dim(factor, x.shape, range(last))
        return self._weighed(graph.elementwise("multiply", wide, spread), norm, name, heads)

    def _weighed(self, x: Value, norm: Norm, name: str, heads: int) -> Value:
        """What a norm gives by its weights: in float32 where it has a mean or an offset."""
        if not norm.is_centered and not norm.offset:
            x = self.cast(x, self.bits)
        for part, operation in (("weight", "multiply"), ("bias", "add"))[: norm.parts]:
            width = x.shape[-1]
            shape = (heads, 1, width) if heads else (width,)
            vector = self.vector(math.prod(shape), f"{name} {part}", *shape)
            if norm.offset and part == "weight":
                wide = self.cast(vector, _WIDE)
                vector = self.graph.elementwise("add", wide, norm.offset)
            x = self._by_head(x, operation, vector) if heads else self.along(x, operation, vector)
        return self.cast(x, self.bits)

    def _by_head(self, x: Value, operation: str, vector: Value) -> Value:
        """An operation of heads [B, H, T, D] with a vector of each [H, 1, D]."""
        wide = self.graph.broadcast_in_dim(vector, (vector.shape[0], *x.shape[2:]), (0, 1, 2))
        return self.along(x, operation, wide)

    def activation(self, x: Value, name: str) -> Value:
        """A function of each element, by transformers' name."""
        for operation in ACTIVATIONS[name]:
            if operation == "quick_gelu":
                turned = self.graph.elementwise("multiply", x, _QUICK)
                x = self.graph.elementwise(
                    "multiply", x, self.graph.elementwise("logistic", turned)
                )
            else:
                x = self.graph.elementwise(operation, x)
        return x

    def times(self, name: str, x: Value, factor: float) -> Value:
        """``factor x``."""
        if factor == 1:
            return x
        self.operator(name)
        return self.graph.elementwise("multiply", x, factor)

    def capped(self, name: str, x: Value, cap: float) -> Value:
        """``cap tanh(x / cap)``."""
        if not cap:
            return x
        self.operator(name)
        bent = self.graph.elementwise("tanh", self.graph.elementwise("multiply", x, 1 / cap))
        return self.graph.elementwise("multiply", bent, cap)

    def added(self, name: str, x: Value, y: Value) -> Value:
        """``x + y``."""
        self.operator(name)
        return self.graph.elementwise("add", x, y)

    def attended(
        self, query: Value, key: Value, value: Value, mask: Attention, bias: Value | None = None
    ) -> Value:
        """Attention of [B, H, L, E] to keys [B, G, S, E], each of which H / G heads share.

        The queries of a group's heads are rows of one matrix where there is one of each.
        """
        self.operator("attention")
        batch, heads, tokens, width = query.shape
        groups, keys = key.shape[1:3]
        query, key, value = (self.cast(operand, self.bits) for operand in (query, key, value))
        if mask.visible_pairs(tokens, keys) == tokens * keys:
            mask = Attention(mask.scale, cap=mask.cap)
        if (
            bias is None
            and tokens == 1
            and heads % groups == 0
            and mask.visible_pairs(1, keys) == keys
        ):
            query = self.graph.reshape(query, (batch, groups, heads // groups, width))
        else:
            key, value = (self._repeated(operand, heads) for operand in (key, value))
        biases = () if bias is None else (bias,)
        results, self.statistics = self.graph.apply_to_all(mask, (query, key, value, *biases))
        return self.graph.reshape(results, (batch, heads, tokens, value.shape[3]))

    def _repeated(self, value: Value, heads: int) -> Value:
        """Keys or values [B, G, S, E] for each query head; unused heads are left out."""
        batch, groups, length, width = value.shape
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
        parts, start = [], 0
        for width in widths:
            parts.append(self.graph.slice(rows, (0, start), (rows.shape[0], width)))
            start += width
        return parts

    def token(self, rows: Value, batch: int, place: int) -> Value:
        """One token of each sequence of [B T, C]: [B, C]."""
        self.operator("rows")
        tokens, width = rows.shape[0] // batch, rows.shape[1]
        apart = self.graph.reshape(rows, (batch, tokens, width))
        row = self.graph.slice(apart, (0, place % tokens, 0), (batch, 1, width))
        return self.graph.reshape(row, (batch, width))

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

    def gathered_columns(self, x: Value, ranks: int) -> Value:
        """All tensor ranks' columns of rows."""
        self.operator(Axis.TENSOR)
        return self.graph.apply(AllGather((tuple(range(ranks)),), 1), x)

    def exchange(self, kind: str, x: Value, axis: Axis, ranks: int) -> Value:
        """What an exchange with the ranks of an axis gives, along the first dimension."""
        self.operator(axis)
        groups = (tuple(range(ranks)),)
        if kind in ("reduce_scatter", "all_to_all") and x.shape[0] % ranks:
            more = -x.shape[0] % ranks
            x = self.graph.pad(x, (0,) * len(x.shape), (more, *(0 for _ in x.shape[1:])))
        return self.graph.apply(_EXCHANGES[kind](groups), x)

    def earlier(self, shape: Sequence[int], bits: float) -> Value:
        """Keys or values of earlier tokens, read from the cache."""
        value = self.graph.input(shape, self.kind(self.bits))
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
