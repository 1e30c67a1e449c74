"""The graph: operations on tensors, with StableHLO's names and semantics.

A graph is built operation by operation; each method of `Graph` that adds one infers its result. An
operation whose name is not StableHLO's is either CHLO's (erf) or one that the Scalar Engine has as
a whole (gelu, silu ...). Names leave the dialect out: `add` is `stablehlo.add`.

Not here: control flow, dynamic shapes, quantized types.

Source: StableHLO Specification, Ops; nki.api.shared.rst, Supported Activation Functions.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

import ml_dtypes
import numpy as np

from trnsim.errors import BadInput, InternalError

Shape = tuple[int, ...]

ITEM_BYTES: Final = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3": 1,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
    "int32": 4,
    "uint32": 4,
    "int16": 2,
    "int8": 1,
    "uint8": 1,
}
"""The element types that a NeuronCore stores. Booleans are uint8."""

ELEMENTWISE: Final = frozenset(
    [
        "add",
        "subtract",
        "multiply",
        "divide",
        "maximum",
        "minimum",
        "power",
        "remainder",
        "floor_remainder",
        "negate",
        "abs",
        "exponential",
        "log",
        "sqrt",
        "rsqrt",
        "tanh",
        "logistic",
        "sine",
        "cosine",
        "tan",
        "floor",
        "ceil",
        "trunc",
        "round_nearest_even",
        "sign",
        "exponential_minus_one",
        "log_plus_one",
        "compare",
        "select",
        "and",
        "or",
        "xor",
        "not",
        "convert",
        "erf",
        "gelu",
        "gelu_tanh",
        "gelu_dx",
        "silu",
        "silu_dx",
        "softplus",
        "mish",
        "relu",
        "reciprocal",
        "square",
        "atan",
    ]
)
"""Operations that compute each element of the result from the elements at the same place."""

CUSTOM_CALL: Final = "custom_call"
"""A kernel of the user's own; its attribute `call` knows what it takes."""

TUPLE_ELEMENT: Final = "get_tuple_element"
"""One of the further results of such a kernel."""


@dataclass(frozen=True, slots=True)
class TensorType:
    """A shape and an element type."""

    shape: Shape
    dtype: str

    @property
    def elements(self) -> int:
        """How many elements it has."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Its bytes in HBM."""
        return self.elements * ITEM_BYTES[self.dtype]

    def numpy_dtype(self) -> np.dtype[Any]:
        """The dtype of arrays that hold it."""
        own = getattr(ml_dtypes, self.dtype, None)
        return np.dtype(self.dtype if own is None else own)

    def __str__(self) -> str:
        return f"tensor<{'x'.join([*map(str, self.shape), self.dtype])}>"


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a graph: an input, or what an operation gives."""

    number: int
    type: TensorType

    @property
    def shape(self) -> Shape:
        """Its shape."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """Its element type."""
        return self.type.dtype


Operand = Value | float
"""An operand of an elementwise operation: a tensor, or a number for a constant."""


@dataclass(frozen=True, slots=True)
class Node:
    """One operation."""

    name: str
    operands: tuple[Operand, ...]
    result: Value
    attributes: tuple[tuple[str, Hashable], ...] = ()
    more: tuple[Value, ...] = ()

    @property
    def results(self) -> tuple[Value, ...]:
        """All that it gives; most operations give one tensor."""
        return (self.result, *self.more)

    def attribute(self, name: str) -> Any:
        """The attribute of that name."""
        return dict(self.attributes)[name]

    @property
    def values(self) -> tuple[Value, ...]:
        """The operands that are tensors."""
        return tuple(operand for operand in self.operands if isinstance(operand, Value))


@dataclass
class Graph:
    """Operations in an order in which each comes after its operands."""

    inputs: list[Value] = field(default_factory=list[Value])
    nodes: list[Node] = field(default_factory=list[Node])
    outputs: list[Value] = field(default_factory=list[Value])
    _count: int = 0

    def key(self) -> Hashable:
        """What two graphs that do the same share."""
        return (tuple(self.inputs), tuple(self.nodes), tuple(self.outputs))

    def input(self, shape: Sequence[int], dtype: str) -> Value:
        """A tensor that is given.

        Raises:
            BadInput: for an element type that a NeuronCore does not have.
        """
        if dtype not in ITEM_BYTES:
            raise BadInput(
                f"a tensor of {dtype}; a NeuronCore stores {', '.join(ITEM_BYTES)}",
                fix="cast it first, for example to float32",
                source="nki.api.shared.rst, Supported Data Types",
            )
        value = self._value(tuple(shape), dtype)
        self.inputs.append(value)
        return value

    def elementwise(
        self, name: str, *operands: Operand, dtype: str = "", **attributes: Any
    ) -> Value:
        """One result element from the operands' elements at the same place.

        The operands that are tensors have one shape. `dtype` is that of the first one unless given.
        """
        tensors = [operand for operand in operands if isinstance(operand, Value)]
        if name not in ELEMENTWISE or not tensors:
            raise InternalError(f"{name} of {len(tensors)} tensors is not an elementwise operation")
        if len({tensor.shape for tensor in tensors}) > 1:
            raise InternalError(f"{name} of {', '.join(str(tensor.type) for tensor in tensors)}")
        return self.add(
            name, operands, TensorType(tensors[0].shape, dtype or tensors[0].dtype), **attributes
        )

    def iota(self, shape: Sequence[int], dim: int) -> Value:
        """Each element's place along `dim`, int32."""
        return self.add("iota", (), TensorType(tuple(shape), "int32"), dim=dim)

    def constant(self, number: float, wanted: TensorType) -> Value:
        """A tensor of one number."""
        return self.add("constant", (), wanted, number=number)

    def rng(self, shape: Sequence[int]) -> Value:
        """Uniform random numbers in [0, 1), float32, of the chip's own generator."""
        return self.add("rng", (), TensorType(tuple(shape), "float32"), number=self._count)

    def broadcast_in_dim(self, value: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """`value` with its dimension i as dimension ``dims[i]``, repeated along the others."""
        wanted = tuple(shape)
        if value.shape == wanted:
            return value
        return self.add(
            "broadcast_in_dim", (value,), TensorType(wanted, value.dtype), dims=tuple(dims)
        )

    def reduce(self, op: str, value: Value, dims: Sequence[int]) -> Value:
        """The sum (add), maximum, minimum or product (multiply) over `dims`, which go away."""
        gone = tuple(sorted(dims))
        shape = tuple(n for dim, n in enumerate(value.shape) if dim not in gone)
        return self.add("reduce", (value,), TensorType(shape, value.dtype), op=op, dims=gone)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order; nothing moves."""
        wanted = tuple(shape)
        if value.shape == wanted:
            return value
        return self.add("reshape", (value,), TensorType(wanted, value.dtype))

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Dimension i of the result is dimension ``permutation[i]``.

        Where only dimensions of length 1 change places nothing moves.
        """
        value, before = self.origin(value)
        order = tuple(before[dim] for dim in permutation)
        shape = tuple(value.shape[dim] for dim in order)
        long = [dim for dim in order if value.shape[dim] > 1]
        if long == sorted(long):
            return self.reshape(value, shape)
        return self.add("transpose", (value,), TensorType(shape, value.dtype), permutation=order)

    def slice(
        self, value: Value, starts: Sequence[int], shape: Sequence[int], strides: Sequence[int] = ()
    ) -> Value:
        """``shape[d]`` elements of dimension d from ``starts[d]``, every ``strides[d]``-th one."""
        wanted, steps = tuple(shape), tuple(strides) or (1,) * len(value.shape)
        if value.shape == wanted:
            return value
        return self.add(
            "slice", (value,), TensorType(wanted, value.dtype), starts=tuple(starts), strides=steps
        )

    def pad(
        self,
        value: Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] = (),
        number: float = 0.0,
    ) -> Value:
        """`value` with a number before, after and between its elements; below 0 takes away."""
        between = tuple(interior) or (0,) * len(value.shape)
        shape = tuple(
            before + n + max(n - 1, 0) * gap + after
            for n, before, after, gap in zip(value.shape, low, high, between, strict=True)
        )
        if not any((*low, *high, *between)):
            return value
        return self.add(
            "pad",
            (value,),
            TensorType(shape, value.dtype),
            low=tuple(low),
            interior=between,
            number=float(number),
        )

    def gather(self, table: Value, indices: Value) -> Value:
        """Rows of a table [V, *D] by indices [*I]: [*I, *D]."""
        wanted = TensorType((*indices.shape, *table.shape[1:]), table.dtype)
        return self.add("gather", (table, indices), wanted)

    def gather_in_rows(self, rows: Value, indices: Value) -> Value:
        """``rows[*, indices[*, i]]`` of [*R, N] and [*R, I]: StableHLO's gather with batches."""
        return self.add("gather_in_rows", (rows, indices), TensorType(indices.shape, rows.dtype))

    def scatter(
        self, table: Value | TensorType, indices: Value, updates: Value, op: str = "add"
    ) -> Value:
        """A table [V, *D], or zeros of that type, with updates [*I, *D] in the rows of [*I].

        `op` says what becomes of a row: add, multiply, maximum, minimum, or assign, where the last
        of several updates of a row stays.
        """
        if isinstance(table, Value):
            return self.add("scatter", (updates, indices, table), table.type, op=op)
        return self.add("scatter", (updates, indices), table, op=op)

    def top_k(self, value: Value, k: int) -> Value:
        """Places of the k largest elements of each last dimension, the largest first, int32.

        Of equal elements the first comes first. What CHLO's top_k gives as values are these places
        gathered.
        """
        return self.add("top_k", (value,), TensorType((*value.shape[:-1], k), "int32"))

    def scan(self, op: str, value: Value) -> Value:
        """Running sums (add), products, maxima or minima along the last dimension (CHLO's scan)."""
        return self.add("scan", (value,), value.type, op=op)

    def origin(self, value: Value) -> tuple[Value, Shape]:
        """What `value` is the transpose of, and the permutation; itself, in order, if none."""
        for node in reversed(self.nodes):
            if node.result.number == value.number and node.name == "transpose":
                return node.values[0], node.attribute("permutation")
        return value, tuple(range(len(value.shape)))

    def dot_general(
        self, lhs: Value, rhs: Value, contracting: tuple[int, int], dtype: str = ""
    ) -> Value:
        """The product over one dimension of each side; all dimensions before the last two match.

        ``[*B, M, K] x [*B, K, N] -> [*B, M, N]``, with K last or last but one on either side.
        """
        batch = lhs.shape[:-2]
        left, right = (
            side.shape[len(batch) :][1 - (dim - len(batch))]
            for side, dim in zip((lhs, rhs), contracting, strict=True)
        )
        return self.add(
            "dot_general",
            (lhs, rhs),
            TensorType((*batch, left, right), dtype or lhs.dtype),
            contracting=contracting,
        )

    def add(
        self, name: str, operands: Sequence[Operand], result: TensorType, **attributes: Any
    ) -> Value:
        """Any operation, its result as given."""
        value = self._value(result.shape, result.dtype)
        self.nodes.append(Node(name, tuple(operands), value, tuple(sorted(attributes.items()))))
        return value

    def add_several(
        self, name: str, operands: Sequence[Value], results: Sequence[TensorType], **attributes: Any
    ) -> tuple[Value, ...]:
        """An operation that gives several tensors."""
        first, *more = (self._value(wanted.shape, wanted.dtype) for wanted in results)
        options = tuple(sorted(attributes.items()))
        self.nodes.append(Node(name, tuple(operands), first, options, tuple(more)))
        return (first, *more)

    def prune(self) -> None:
        """Take away what no output depends on."""
        needed = {value.number for value in self.outputs}
        kept: list[Node] = []
        for node in reversed(self.nodes):
            if any(value.number in needed for value in node.results):
                kept.append(node)
                needed.update(value.number for value in node.values)
        self.nodes = kept[::-1]

    def _value(self, shape: Shape, dtype: str) -> Value:
        self._count += 1
        return Value(self._count - 1, TensorType(shape, dtype))

    def __str__(self) -> str:
        lines = [f"%{value.number} = input : {value.type}" for value in self.inputs]
        for node in self.nodes:
            operands = ", ".join(
                f"%{operand.number}" if isinstance(operand, Value) else repr(operand)
                for operand in node.operands
            )
            options = " ".join(f"{name}={value}" for name, value in node.attributes)
            lines.append(
                f"%{node.result.number} = {node.name}({operands}) {options} : {node.result.type}"
            )
        outputs = ", ".join(f"%{value.number}" for value in self.outputs)
        return "\n".join([*lines, f"return {outputs}"])
