"""A graph: tensors, and the operations that compute them.

It is built operation by operation. Each method that adds an operation returns its result, of the
type that the operation's class infers; illegal operands are refused where they are added.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Final

import numpy as np

from trnsim.context_values import context_value
from trnsim.errors import BadInput, InternalError
from trnsim.graph.operation import OPERATIONS, Kind, Operation
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.layout import BroadcastInDim, Concatenate, Pad, Reshape, Slice, Transpose
from trnsim.graph.ops.leaves import Constant, Iota, Rng
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import Reduce, Scan, TopK
from trnsim.graph.origin import Origin
from trnsim.graph.types import (
    ELEMENT_TYPES,
    INTEGERS,
    Array,
    Shape,
    TensorType,
    round_to_dtype,
    widen,
)


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor of a graph: an input, or a result of an operation."""

    number: int
    type: TensorType

    @property
    def shape(self) -> Shape:
        """The tensor's shape."""
        return self.type.shape

    @property
    def dtype(self) -> str:
        """The tensor's element type."""
        return self.type.dtype


Operand = Value | float
"""An operand of an elementwise operation: a tensor, or a number for a constant."""


@dataclass(frozen=True, slots=True)
class Node:
    """An operation in a graph, with its operands and results.

    Equality ignores the origin.
    """

    operation: Operation
    operands: tuple[Operand, ...]
    results: tuple[Value, ...]
    origin: Origin | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The operation's name."""
        return self.operation.name

    @property
    def kind(self) -> Kind:
        """The operation's kind."""
        return self.operation.kind

    @property
    def result(self) -> Value:
        """The first result; most operations have one."""
        return self.results[0]

    @property
    def values(self) -> tuple[Value, ...]:
        """The operands that are tensors."""
        # A list, as a compile asks some 50,000 times and a generator takes a third longer.
        return tuple([operand for operand in self.operands if isinstance(operand, Value)])

    @property
    def operand_types(self) -> tuple[TensorType, ...]:
        """The types of the operands that are tensors."""
        return tuple(value.type for value in self.values)


@dataclass(eq=False)
class Graph:
    """Operations in an order in which each comes after its operands.

    Two graphs are equal if they have the same inputs, nodes and outputs; a graph that is an
    attribute or a key must not change. `current_origin` is the origin given to nodes as they are
    added.
    """

    inputs: list[Value] = field(default_factory=list[Value])
    nodes: list[Node] = field(default_factory=list[Node])
    outputs: list[Value] = field(default_factory=list[Value])
    current_origin: Origin | None = field(default=None, repr=False)
    _count: int = field(default=0, repr=False)
    _producers: dict[int, Node] = field(default_factory=dict[int, Node], repr=False)

    def key(self) -> Hashable:
        """Structural key: equal for graphs with the same inputs, operations and outputs."""
        return (tuple(self.inputs), tuple(self.nodes), tuple(self.outputs))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Graph) and self.key() == other.key()

    def __hash__(self) -> int:
        return hash(self.key())

    def input(self, shape: Sequence[int], dtype: str) -> Value:
        """Add an input.

        Raises:
            BadInput: for an element type that a NeuronCore does not have.
        """
        if dtype not in ELEMENT_TYPES:
            raise BadInput(
                f"a tensor of {dtype}; a NeuronCore stores {', '.join(ELEMENT_TYPES)}",
                fix="cast it first, for example to float32",
                source="nki.api.shared.rst, Supported Data Types",
            )
        value = self.fresh(TensorType(tuple(shape), dtype))
        self.inputs.append(value)
        return value

    def apply(self, operation: Operation, *operands: Operand, dtype: str = "") -> Value:
        """The result of an operation, or the first of several.

        `dtype` names the result's element type, if the operation's class permits that.

        Raises:
            BadInput: the operation is not defined on the operands.
        """
        return self.apply_to_all(operation, operands, dtype)[0]

    def apply_to_all(
        self, operation: Operation, operands: Sequence[Operand], dtype: str = ""
    ) -> tuple[Value, ...]:
        """All results of an operation."""
        types = result_types(operation, operands)
        if dtype and dtype != types[0].dtype:
            if not operation.names_dtype:
                raise InternalError(f"{operation.name} of {types[0]} cannot be {dtype}")
            types = (TensorType(types[0].shape, dtype), *types[1:])
        check_numbers(operation, operands, types)
        results = tuple(self.fresh(type_) for type_ in types)
        self.append(Node(operation, tuple(operands), results, self.current_origin))
        return results

    def without_nodes(self) -> Graph:
        """A graph of the same inputs without operations, whose new values have new numbers."""
        results = [value for node in self.nodes for value in node.results]
        last = max((value.number for value in (*self.inputs, *results)), default=-1)
        return Graph(list(self.inputs), _count=max(self._count, last + 1))

    def add(
        self, operation: Operation, operands: Sequence[Operand], results: Sequence[Value]
    ) -> None:
        """Add an operation whose results are values that have numbers already."""
        self.append(Node(operation, tuple(operands), tuple(results), self.current_origin))

    def append(self, node: Node) -> None:
        """Add a node as it is."""
        self.nodes.append(node)
        self._producers.update({value.number: node for value in node.results})

    def elementwise(
        self, name: str, *operands: Operand, dtype: str = "", **attributes: Any
    ) -> Value:
        """Add an elementwise operation by its name."""
        declared = OPERATIONS.get(name)
        if declared is None or declared.kind is not Kind.ELEMENTWISE:
            raise InternalError(f"{name} is not an elementwise operation")
        if name == "convert":
            attributes = {"to": dtype or next(o.dtype for o in operands if isinstance(o, Value))}
        return self.apply(declared(**attributes), *operands, dtype=dtype)

    def iota(self, shape: Sequence[int], dim: int) -> Value:
        """The index of each element along `dim`, int32."""
        return self.apply(Iota(tuple(shape), "int32", dim))

    def constant(self, number: float, type_: TensorType) -> Value:
        """A tensor filled with a number."""
        return self.apply(Constant(type_.shape, type_.dtype, number))

    def rng(self, shape: Sequence[int]) -> Value:
        """Uniform random numbers in [0, 1), float32, of the chip's own generator."""
        return self.apply(Rng(tuple(shape)))

    def broadcast_in_dim(self, value: Value, shape: Sequence[int], dims: Sequence[int]) -> Value:
        """`value` with its dimension i as dimension ``dims[i]``, repeated along the others."""
        if value.shape == tuple(shape):
            return value
        return self.apply(BroadcastInDim(tuple(shape), tuple(dims)), value)

    def reduce(self, op: str, value: Value, dims: Sequence[int]) -> Value:
        """The sum (add), maximum, minimum or product (multiply) over `dims`, which go away.

        Nothing is computed if all these dimensions have length 1.
        """
        if all(value.shape[dim] == 1 for dim in dims):
            lengths = [side for dim, side in enumerate(value.shape) if dim not in dims]
            return self.reshape(value, lengths)
        return self.apply(Reduce(op, tuple(sorted(dims))), value)

    def reshape(self, value: Value, shape: Sequence[int]) -> Value:
        """The same elements in row-major order; nothing moves."""
        return value if value.shape == tuple(shape) else self.apply(Reshape(tuple(shape)), value)

    def transpose(self, value: Value, permutation: Sequence[int]) -> Value:
        """Dimension i of the result is dimension ``permutation[i]``.

        Nothing moves if only dimensions of length 1 change places.
        """
        value, before = self.transpose_source(value)
        order = tuple(before[dim] for dim in permutation)
        long_dims = [dim for dim in order if value.shape[dim] > 1]
        if long_dims == sorted(long_dims):
            return self.reshape(value, [value.shape[dim] for dim in order])
        return self.apply(Transpose(order), value)

    def slice(
        self, value: Value, starts: Sequence[int], shape: Sequence[int], strides: Sequence[int] = ()
    ) -> Value:
        """``shape[d]`` elements of dimension d from ``starts[d]``, every ``strides[d]``-th one."""
        if value.shape == tuple(shape):
            return value
        steps = tuple(strides) or (1,) * len(value.shape)
        return self.apply(Slice(tuple(shape), tuple(starts), steps), value)

    def pad(
        self,
        value: Value,
        low: Sequence[int],
        high: Sequence[int],
        interior: Sequence[int] = (),
        number: float = 0.0,
    ) -> Value:
        """`value` with `number` before, after and between its elements.

        `low`, `high` and `interior` are counts for each dimension; a negative `low` or `high`
        removes elements.
        """
        gaps = tuple(interior) or (0,) * len(value.shape)
        if not any((*low, *high, *gaps)):
            return value
        return self.apply(Pad(tuple(low), tuple(high), gaps, float(number)), value)

    def concatenate(self, parts: Sequence[Value], dim: int) -> Value:
        """Tensors one after the other along `dim`."""
        return parts[0] if len(parts) == 1 else self.apply(Concatenate(dim), *parts)

    def gather(self, table: Value, indices: Value) -> Value:
        """Rows of a table [V, *D] by indices [*I]: [*I, *D]."""
        return self.apply(Gather.rows(table.shape, indices.shape), table, indices)

    def gather_in_rows(self, rows: Value, indices: Value) -> Value:
        """``rows[*, indices[*, i]]`` of [*R, N] and [*R, I]."""
        return self.apply(Gather.in_rows(rows.shape), rows, indices)

    def scatter(
        self, table: Value | TensorType, indices: Value, updates: Value, op: str = "add"
    ) -> Value:
        """A table [V, *D] with updates [*I, *D] in the rows that indices [*I] name.

        A type as `table` stands for a table of zeros. `op` combines a row with its updates: add,
        multiply, maximum, minimum, or assign, by which the last of several updates stays.
        """
        if isinstance(table, Value):
            scatter = Scatter.rows(table.shape, indices.shape, op, None)
            return self.apply(scatter, updates, indices, table)
        return self.apply(Scatter.rows(table.shape, indices.shape, op, table), updates, indices)

    def top_k(self, value: Value, k: int) -> Value:
        """Indices of the k largest elements of each last dimension, the largest first, int32."""
        return self.apply(TopK(k), value)

    def scan(self, op: str, value: Value) -> Value:
        """Running sums (add), products, maxima or minima along the last dimension."""
        return self.apply(Scan(op), value)

    def producer(self, value: Value) -> Node | None:
        """The operation that made a value; None for an input."""
        return self._producers.get(value.number)

    def transpose_source(self, value: Value) -> tuple[Value, Shape]:
        """The operand and the permutation of the transpose that makes a value.

        Any other value is its own operand, with its dimensions in order.
        """
        producer = self._producers.get(value.number)
        if producer is not None and isinstance(producer.operation, Transpose):
            return producer.values[0], producer.operation.permutation
        return value, tuple(range(len(value.shape)))

    def dot_general(
        self, lhs: Value, rhs: Value, contracting: tuple[int, int], dtype: str = ""
    ) -> Value:
        """The product over one dimension of each side; all dimensions before the last two match.

        ``[*B, M, K] x [*B, K, N] -> [*B, M, N]``, with K last or last but one on either side.
        """
        return self.apply(DotGeneral(contracting), lhs, rhs, dtype=dtype)

    def prune(self) -> None:
        """Remove the nodes that no output depends on."""
        live_numbers = {value.number for value in self.outputs}
        live_nodes: list[Node] = []
        for node in reversed(self.nodes):
            if any(value.number in live_numbers for value in node.results):
                live_nodes.append(node)
                live_numbers.update(value.number for value in node.values)
        self.nodes = live_nodes[::-1]

    def truncate(self, first: int) -> None:
        """Remove the nodes from index `first` on."""
        del self.nodes[first:]

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed in numpy: each operation in 64 bits, its result rounded once."""
        arrays = {v.number: array for v, array in zip(self.inputs, inputs, strict=True)}
        for node in self.nodes:
            results = reference_of(
                node, [arrays[o.number] if isinstance(o, Value) else o for o in node.operands]
            )
            arrays.update(zip((value.number for value in node.results), results, strict=True))
        return [arrays[value.number] for value in self.outputs]

    def fresh(self, type_: TensorType) -> Value:
        """A value with a new number, for an operation that is added later."""
        self._count += 1
        return Value(self._count - 1, type_)

    def __str__(self) -> str:
        lines = [f"%{value.number} = input : {value.type}" for value in self.inputs]
        for node in self.nodes:
            operands = ", ".join(
                f"%{operand.number}" if isinstance(operand, Value) else repr(operand)
                for operand in node.operands
            )
            options = " ".join(f"{name}={value}" for name, value in vars(node.operation).items())
            results = ", ".join(f"%{value.number}" for value in node.results)
            types = ", ".join(str(value.type) for value in node.results)
            lines.append(f"{results} = {node.name}({operands}) {options} : {types}")
        outputs = ", ".join(f"%{value.number}" for value in self.outputs)
        return "\n".join([*lines, f"return {outputs}"])


def result_types(operation: Operation, operands: Sequence[Operand]) -> tuple[TensorType, ...]:
    """The types of an operation's results; a number counts as a tensor like the first operand.

    Raises:
        BadInput: where the operation is not defined on the operands.
    """
    tensors = [operand for operand in operands if isinstance(operand, Value)]
    if len(tensors) < len(operands) and (operation.kind is not Kind.ELEMENTWISE or not tensors):
        raise InternalError(
            f"{operation.name} of {operands}: a number is an operand of elementwise operations "
            "alone, which need one tensor"
        )
    types = tuple(
        operand.type if isinstance(operand, Value) else tensors[0].type for operand in operands
    )
    operation.check(types)
    results = operation.types(*types)
    if any(result.shape and min(result.shape) < 0 for result in results):
        operation.refuse(f"gives {', '.join(map(str, results))}; legal: lengths from 0")
    return results


def check_numbers(
    operation: Operation, operands: Sequence[Operand], results: Sequence[TensorType]
) -> None:
    """Check that numbers among the operands are finite if the results are integers.

    Raises:
        InternalError: a number is an infinity or NaN.
    """
    if results and results[0].dtype not in INTEGERS:
        return
    for operand in operands:
        if not isinstance(operand, Value) and not isfinite(operand):
            raise InternalError(f"{operation.name} beside {operand} gives {results[0]}")


def reference_of(node: Node, operands: Sequence[Any]) -> tuple[Array, ...]:
    """A node's results by its reference, rounded as tensors store them.

    Operands are taken in full precision, or in their stored dtype (`Operation.reads_stored`).
    """
    operation = node.operation
    if not operation.reads_stored:
        is_real = node.kind is Kind.ELEMENTWISE and node.result.type.is_floating
        operands = [_widened_operand(operand, is_real=is_real) for operand in operands]
    result = operation.reference(*operands)
    several = result if isinstance(result, tuple | list) else (result,)
    round_result = _rounding.get()
    return tuple(
        round_result(array, value.dtype) for array, value in zip(several, node.results, strict=True)
    )


_rounding: ContextVar[Callable[[Array, str], Array]] = ContextVar(
    "rounding", default=round_to_dtype
)


def rounding_with(round_to: Callable[[Array, str], Array]) -> AbstractContextManager[None]:
    """Context in which `reference_of` rounds results to their dtype by `round_to`."""
    return context_value(_rounding, round_to)


def _widened_operand(operand: Array | float, *, is_real: bool) -> Array:
    """An operand in the precision of a reference: float64, int64 or bool.

    If the operation's result is floating point (`is_real`), integers become float64, as engines
    compute. Otherwise a number without a fraction becomes an integer, like the tensor operands.
    """
    array = widen(np.asarray(operand))
    if is_real:
        return array.astype(np.float64) if array.dtype == np.int64 else array
    if (
        isinstance(operand, int | float)
        and float(operand).is_integer()
        and abs(operand) < _INT64_END
    ):
        return array.astype(np.int64)
    return array


_INT64_END: Final = 2.0**63
"""All 64-bit integers are below this magnitude, but for the smallest."""
