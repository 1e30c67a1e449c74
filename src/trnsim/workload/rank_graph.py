"""The graph of one rank's part of a model under construction: products, norms, exchanges, caches.

Every operator has an origin whose name identifies it; `summary` reads these graphs by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any, Final

from trnsim.graph import Graph, Value
from trnsim.graph.ops.collectives import AllGather, AllReduce, AllToAll, ReduceScatter
from trnsim.graph.ops.contraction import Attention
from trnsim.graph.origin import Origin
from trnsim.workload.architecture import Norm
from trnsim.workload.matrix_bits import MatrixBits
from trnsim.workload.operators import ACTIVATIONS, Axis

_ELEMENT_TYPES: Final = {8: "float8_e4m3", 16: "bfloat16", 32: "float32"}
_FLOAT_BITS: Final = 32
_PLAIN_NORM: Final = Norm()
_QUICK_GELU_FACTOR: Final = 1.702
"""Source: transformers 5.23, activations.py, QuickGELUActivation."""


class Use(StrEnum):
    """The way in which a part reads a weight."""

    WHOLE = "whole"
    """The whole weight."""
    LOOKED_UP = "looked up"
    """The rows of the tokens: bytes read count as the operator's results."""
    ROUTED = "routed"
    """The matrices of the experts that tokens take."""


@dataclass(frozen=True)
class Weight:
    """A graph's input that is a parameter.

    Attributes:
        bits: bits of an element as the rank holds it, its share of scales included.
        product_bits: bits of the operands of products with it.
        use: the way in which it is read.
        is_held: whether this part holds it; else another part does.
    """

    bits: float
    product_bits: float = 16
    use: Use = Use.WHOLE
    is_held: bool = True


@dataclass
class RankGraph:
    """A graph, with the roles of its inputs and outputs: weights, keys and values.

    Attributes:
        bits: bits of an activation.
        graph: the operations so far.
        weights: weights by the number of an input.
        cache_inputs: bits of an element of earlier tokens' keys and values, by number of input.
        cache_outputs: bits of an element of new tokens' keys and values, by number of result.
        states: numbers of the cache's inputs whose place outputs take.
        statistics: log-sum-exps of the scores of the last attention, [B, H, L].
        names: the names of the inputs that are weights, by number.
        named_inputs: inputs from another part, by name: "hidden", "cosine".
        named_outputs: results that other parts read, by name.
        replicated: numbers of values that all tensor ranks have, and whose gradients they sum.
        vector_elements: elements of the parameters that operators have added or multiplied by.
        use: the way in which the parameters of `vector_elements` are read.
        uncomputed_norm_elements: elements of norms that summaries count and the graph lacks.
        unpadded_rows: by the number of rows in blocks of experts, how many are no padding.
        half: the half of a layer that is being built: "attention", "mlp".
        short_dtype: the floating-point type of 16 bits.
        own_bits: by a weight's name, its bits in place of those passed to `weight`.
        factors: by a product's name, the factor of its result.
    """

    bits: float = 16
    graph: Graph = field(default_factory=Graph)
    weights: dict[int, Weight] = field(default_factory=dict[int, Weight])
    cache_inputs: dict[int, float] = field(default_factory=dict[int, float])
    cache_outputs: dict[int, float] = field(default_factory=dict[int, float])
    states: set[int] = field(default_factory=set[int])
    statistics: Value | None = None
    names: dict[int, str] = field(default_factory=dict[int, str])
    named_inputs: dict[str, Value] = field(default_factory=dict[str, Value])
    named_outputs: dict[str, Value] = field(default_factory=dict[str, Value])
    replicated: set[int] = field(default_factory=set[int])
    vector_elements: float = 0.0
    use: Use = Use.WHOLE
    uncomputed_norm_elements: float = 0.0
    unpadded_rows: dict[int, int] = field(default_factory=dict[int, int])
    half: str = ""
    short_dtype: str = "bfloat16"
    own_bits: dict[str, MatrixBits] = field(default_factory=dict[str, MatrixBits])
    factors: dict[str, float] = field(default_factory=dict[str, float])

    def operator(self, name: str) -> None:
        """Start an operator of this name: operations that follow belong to it."""
        self.graph.current_origin = Origin(self.half, name)

    def dtype_of(self, bits: float) -> str:
        """The type of elements of `bits`."""
        kind = element_type(bits)
        return self.short_dtype if kind == _ELEMENT_TYPES[16] else kind

    def input(self, *shape: float, name: str = "", dtype: str = "") -> Value:
        """Activations from another part or rank; the same value for the same name."""
        if name in self.named_inputs:
            return self.named_inputs[name]
        value = self.graph.input(
            [math.ceil(side) for side in shape], dtype or self.dtype_of(self.bits)
        )
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
        product_bits: float = 0,
        name: str = "",
    ) -> Value:
        """A parameter, with sides rounded up; `product_bits` are the bits of its products."""
        sides = [math.ceil(side) for side in shape]
        path = f"{self.half}.{name}" if self.half else name
        matrix_bits = self.own_bits.get(path)
        if matrix_bits is not None:
            bits, product_bits = matrix_bits.weight_bits, matrix_bits.product_bits
        product_bits = product_bits or self.bits
        value = self.graph.input(sides, self.dtype_of(product_bits))
        self.weights[value.number] = Weight(bits, product_bits, use, is_held)
        if name:
            self.names[value.number] = path
        return value

    def vector(self, elements: float, name: str, *shape: int) -> Value:
        """A parameter that an operator adds or multiplies by."""
        self.vector_elements += elements
        return self.weight(shape or (elements,), self.bits, use=self.use, name=name)

    def table(self, elements: int, name: str) -> Value:
        """Constants in float32 that are no parameters."""
        value = self.graph.input((elements,), self.dtype_of(_FLOAT_BITS))
        self.names[value.number] = f"{self.half}.{name}" if self.half else name
        return value

    def add_parameters(self, elements: float, before: float = math.inf) -> None:
        """Add parameters whose operations are unknown.

        Their number is `elements`, less the growth of `vector_elements` since it was `before`.
        """
        counted = max(self.vector_elements - before, 0.0)
        self.vector_elements -= counted
        if elements > counted:
            self.weight((elements - counted,), self.bits, use=self.use)

    def product(
        self,
        name: str,
        rows: Value,
        weight: Value,
        *,
        is_biased: bool = False,
        is_transposed: bool = False,
    ) -> Value:
        """``rows @ weight``: [*B, M, K] by [*B, K, N], or transposed [*B, N, K], and a bias [N]."""
        self.operator(name)
        lhs = self.cast(rows, self.weights[weight.number].product_bits)
        contracting = len(rows.shape) - 1, len(rows.shape) - 2 + is_transposed
        kind = self.dtype_of(_FLOAT_BITS if is_biased else self.bits)
        product = self.graph.dot_general(lhs, weight, contracting, kind)
        if is_biased:
            self.operator("bias")
            bias = self.vector(product.shape[-1], f"{name} bias")
            product = self.cast(self.row_operation(product, "add", bias), self.bits)
        return self.factored(name, product)

    def factored(self, name: str, x: Value) -> Value:
        """``x`` times the factor of this name in the half of a layer that is being built."""
        return self.scale("scale", x, self.factors.get(f"{self.half}.{name}", 1.0))

    def row_operation(self, x: Value, operation: str, vector: Value) -> Value:
        """``x + vector``, or another operation of each row of x and the vector."""
        first = len(x.shape) - len(vector.shape)
        spread = self.graph.broadcast_in_dim(vector, x.shape, range(first, len(x.shape)))
        return self.graph.elementwise(operation, x, spread, dtype=x.dtype)

    def cast(self, value: Value, bits: float) -> Value:
        """`value` in elements of `bits`."""
        kind = self.dtype_of(bits)
        if value.dtype == kind:
            return value
        return self.graph.elementwise("convert", value, dtype=kind)

    def norm(self, x: Value, norm: Norm = _PLAIN_NORM, name: str = "norm", heads: int = 0) -> Value:
        """A norm over the last dimension; with `heads`, each of [*, H, T, D] has own weights."""
        self.operator(name)
        graph, last = self.graph, len(x.shape) - 1
        in_float32 = self.cast(x, _FLOAT_BITS)
        if norm.is_centered:
            mean = graph.elementwise(
                "multiply", graph.reduce("add", in_float32, (last,)), 1 / x.shape[-1]
            )
            spread = graph.broadcast_in_dim(mean, x.shape, range(last))
            in_float32 = graph.elementwise("subtract", in_float32, spread)
        total = graph.reduce("add", graph.elementwise("square", in_float32), (last,))
        mean = graph.elementwise("multiply", total, 1 / x.shape[last])
        factor = graph.elementwise("rsqrt", graph.elementwise("add", mean, norm.epsilon))
        spread = graph.broadcast_in_dim(factor, x.shape, range(last))
        return self._with_weights(
            graph.elementwise("multiply", in_float32, spread), norm, name, heads
        )

    def _with_weights(self, x: Value, norm: Norm, name: str, heads: int) -> Value:
        """A normed x with the norm's weights applied: in float32 if it has a mean or an offset."""
        if not norm.is_centered and not norm.offset:
            x = self.cast(x, self.bits)
        for part, operation in (("weight", "multiply"), ("bias", "add"))[: norm.parts]:
            width = x.shape[-1]
            shape = (heads, 1, width) if heads else (width,)
            vector = self.vector(math.prod(shape), f"{name} {part}", *shape)
            if norm.offset and part == "weight":
                in_float32 = self.cast(vector, _FLOAT_BITS)
                vector = self.graph.elementwise("add", in_float32, norm.offset)
            x = (
                self._by_head(x, operation, vector)
                if heads
                else self.row_operation(x, operation, vector)
            )
        return self.cast(x, self.bits)

    def _by_head(self, x: Value, operation: str, vector: Value) -> Value:
        """An operation of heads [B, H, T, D] with a vector for each [H, 1, D]."""
        spread = self.graph.broadcast_in_dim(vector, (vector.shape[0], *x.shape[2:]), (0, 1, 2))
        return self.row_operation(x, operation, spread)

    def activation(self, x: Value, name: str) -> Value:
        """An activation of each element, by its name in transformers."""
        for operation in ACTIVATIONS[name]:
            if operation == "quick_gelu":
                scaled = self.graph.elementwise("multiply", x, _QUICK_GELU_FACTOR)
                x = self.graph.elementwise(
                    "multiply", x, self.graph.elementwise("logistic", scaled)
                )
            else:
                x = self.graph.elementwise(operation, x)
        return x

    def scale(self, name: str, x: Value, factor: float) -> Value:
        """``factor x``."""
        if factor == 1:
            return x
        self.operator(name)
        return self.graph.elementwise("multiply", x, factor)

    def soft_capped(self, name: str, x: Value, cap: float) -> Value:
        """``cap tanh(x / cap)``."""
        if not cap:
            return x
        self.operator(name)
        bounded = self.graph.elementwise("tanh", self.graph.elementwise("multiply", x, 1 / cap))
        return self.graph.elementwise("multiply", bounded, cap)

    def add(self, name: str, x: Value, y: Value) -> Value:
        """``x + y``."""
        self.operator(name)
        return self.graph.elementwise("add", x, y)

    def attention(
        self, query: Value, key: Value, value: Value, mask: Attention, bias: Value | None = None
    ) -> Value:
        """Attention of queries [B, H, L, E] to keys [B, G, S, E], each shared by H / G heads.

        In a decode step of one token the queries of a group's heads are rows of one matrix.
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
        shape = (batch, groups, share, length, width)
        spread = self.graph.broadcast_in_dim(value, shape, (0, 1, 3, 4))
        flat = self.graph.reshape(spread, (batch, groups * share, length, width))
        return self.graph.slice(flat, (0, 0, 0, 0), (batch, heads, length, width))

    def heads(self, rows: Value, batch: int, heads: int) -> Value:
        """Rows [B T, H D] as heads [B, H, T, D]."""
        tokens, width = rows.shape[0] // batch, rows.shape[1] // heads
        apart = self.graph.reshape(rows, (batch, tokens, heads, width))
        return self.graph.transpose(apart, (0, 2, 1, 3))

    def heads_to_rows(self, heads: Value) -> Value:
        """Heads [B, H, T, D] as rows [B T, H D]."""
        batch, count, tokens, width = heads.shape
        moved = self.graph.transpose(heads, (0, 2, 1, 3))
        return self.graph.reshape(moved, (batch * tokens, count * width))

    def columns(self, rows: Value, *widths: int) -> list[Value]:
        """Rows cut into neighbouring columns of these widths."""
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

    def first_rows(self, rows: Value, count: float, width: float) -> Value:
        """The first `count` of these rows; new activations if the shapes do not fit."""
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
        """The columns of all tensor ranks."""
        self.operator(Axis.TENSOR)
        return self.graph.apply(AllGather((tuple(range(ranks)),), 1), x)

    def exchange(self, kind: str, x: Value, axis: Axis, ranks: int) -> Value:
        """Result of an exchange between the ranks of an axis, along the first dimension."""
        self.operator(axis)
        groups = (tuple(range(ranks)),)
        if kind in ("reduce_scatter", "all_to_all") and x.shape[0] % ranks:
            padding = -x.shape[0] % ranks
            x = self.graph.pad(x, (0,) * len(x.shape), (padding, *(0 for _ in x.shape[1:])))
        return self.graph.apply(_EXCHANGES[kind](groups), x)

    def cached_input(self, shape: Sequence[int], bits: float) -> Value:
        """Keys or values of earlier tokens, read from the cache."""
        value = self.graph.input(shape, self.dtype_of(self.bits))
        self.cache_inputs[value.number] = bits
        return value

    def state_input(self, shape: Sequence[int], bits: float) -> Value:
        """A state of earlier tokens, whose place `write_cache` of the next one takes."""
        value = self.graph.input(shape, self.dtype_of(bits))
        self.cache_inputs[value.number] = bits
        self.states.add(value.number)
        return value

    def write_cache(self, value: Value, bits: float) -> None:
        """Write keys or values of new tokens, or a state, to the cache."""
        self.graph.outputs.append(value)
        self.cache_outputs[value.number] = bits


_EXCHANGES: Final[dict[str, Any]] = {
    "all_reduce": AllReduce,
    "all_gather": AllGather,
    "reduce_scatter": ReduceScatter,
    "all_to_all": AllToAll,
}


@cache
def element_type(bits: float) -> str:
    """The shortest floating-point type of at least `bits`."""
    return next(kind for size, kind in _ELEMENT_TYPES.items() if bits <= size)
