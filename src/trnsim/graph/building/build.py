"""A graph under construction: operands that broadcast, mixed dtypes, reductions of any shape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from math import isfinite, prod
from typing import Any, Final, overload

import numpy as np

from trnsim.graph import OPERATIONS, Graph, TensorType, Value
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.types import BOOL, INTEGERS, ITEM_BYTES

Operand = Value | float
ReplicaGroups = tuple[tuple[int, ...], ...]
"""The members of each of several groups of equal size."""


class Build:
    """A graph under construction by an importer or a lowering.

    Attributes:
        graph: the graph so far.
        result_types: types of the results of the operator that is being built, in order.
        replica_groups: the ranks of each group of ranks, by the name that collectives use.
    """

    def __init__(self, replica_groups: Mapping[str, ReplicaGroups] | None = None) -> None:
        self.graph = Graph()
        self.result_types: list[TensorType] = []
        self.replica_groups = dict(replica_groups or {})

    def input(
        self, type_: TensorType, order: Sequence[int] = (), repeated: Sequence[int] = ()
    ) -> Value:
        """An input with the dimensions that the operator sees, from the layout in HBM.

        `order` lists the dimensions from the largest stride to the smallest, row-major by default;
        `repeated` those of stride 0.
        """
        lengths = tuple(1 if dim in repeated else n for dim, n in enumerate(type_.shape))
        layout = tuple(order) or tuple(range(len(lengths)))
        value = self.graph.input([lengths[dim] for dim in layout], type_.dtype)
        value = self.graph.transpose(value, [layout.index(dim) for dim in range(len(lengths))])
        return self.graph.broadcast_in_dim(value, type_.shape, range(len(lengths)))

    def broadcast_shape(self, values: Sequence[Value]) -> tuple[int, ...]:
        """The shape to which values broadcast."""
        return np.broadcast_shapes(*(value.shape for value in values))

    def broadcast(self, value: Value, shape: Sequence[int]) -> Value:
        """`value` broadcast to `shape` by PyTorch's rules."""
        first_dim = len(shape) - len(value.shape)
        return self.graph.broadcast_in_dim(value, shape, range(first_dim, len(shape)))

    def ew(self, name: str, *operands: Operand, dtype: str = "", **attributes: Any) -> Value:
        """An elementwise operation on operands of any shapes that broadcast.

        Integers and truth values are converted to float32 for operations on floating point alone.
        """
        legal = OPERATIONS[name].legal
        operands = tuple(
            self._legal_operand(operand, legal[min(place, len(legal) - 1)] if legal else ())
            for place, operand in enumerate(operands)
        )
        tensors = [operand for operand in operands if isinstance(operand, Value)]
        shape = self.broadcast_shape(tensors)
        shaped_operands = [
            self.broadcast(o, shape) if isinstance(o, Value) else o for o in operands
        ]
        result_dtype = dtype or _promoted_dtype(tensors, operands)
        if not dtype and _has_truth_result(name):
            result_dtype = ""
        return self.graph.elementwise(name, *shaped_operands, dtype=result_dtype, **attributes)

    def _legal_operand(self, operand: Operand, legal: tuple[str, ...]) -> Operand:
        """The operand, converted to float32 if the operation takes that and not its dtype."""
        if not isinstance(operand, Value) or operand.type.is_floating:
            return operand
        is_refused = "float32" in legal and operand.dtype not in legal
        return self.convert(operand, "float32") if is_refused else operand

    def total(self, terms: Sequence[Value], dtype: str = "") -> Value:
        """The sum of one or more values, one after the other."""
        return reduce(lambda total, term: self.ew("add", total, term, dtype=dtype), terms)

    def convert(self, value: Value, dtype: str) -> Value:
        """`value` in another dtype."""
        return value if value.dtype == dtype else self.ew("convert", value, dtype=dtype)

    def as_result(self, value: Value, place: int = 0) -> Value:
        """`value` broadcast and converted to the type of the operator's result number `place`."""
        type_ = self.result_types[place]
        return self.convert(self.broadcast(value, type_.shape), type_.dtype)

    def as_reshaped_result(self, value: Value, place: int = 0) -> Value:
        """`value` reshaped and converted to the type of the operator's result number `place`."""
        type_ = self.result_types[place]
        return self.convert(self.graph.reshape(value, type_.shape), type_.dtype)

    def sliced(self, value: Value, dim: int, start: int, count: int, step: int = 1) -> Value:
        """`count` elements of one dimension from `start`, every `step`-th one."""
        rank, shape = len(value.shape), list(value.shape)
        starts, steps = [0] * rank, [1] * rank
        shape[dim], starts[dim], steps[dim] = count, start, step
        return self.graph.slice(value, starts, shape, steps)

    def filled(self, number: float, type_: TensorType) -> Value:
        """A tensor filled with a number, converted to its element type."""
        return self.graph.constant(converted_number(number, type_.dtype), type_)

    def reduce(
        self, op: str, value: Value, dims: Sequence[int], *, keeps_dims: bool = False
    ) -> Value:
        """A reduction over any dimensions, from the last to the first, with sums in float32.

        With `keeps_dims` the reduced dimensions stay, with length 1.
        """
        rank = len(value.shape)
        reduced_dims = sorted({dim % rank for dim in dims}) if rank else []
        if not reduced_dims:
            return value
        total = value
        if len(reduced_dims) == rank:
            total = self._reduce_all(op, value)
        else:
            runs = _runs(reduced_dims)
            if len(runs) > 1 and "float" in value.dtype:
                total = self.convert(total, "float32")
            for first, last in reversed(runs):
                total = self._reduce_neighbours(op, total, first, last)
            total = self.convert(total, value.dtype)
        if keeps_dims:
            shape = [1 if dim in reduced_dims else n for dim, n in enumerate(value.shape)]
            total = self.graph.reshape(total, shape)
        return total

    def _reduce_neighbours(self, op: str, value: Value, first: int, last: int) -> Value:
        """A reduction over neighbouring dimensions, `first` to `last`."""
        shape, run = value.shape, range(first, last + 1)
        before, count, after = shape[:first], prod(shape[first : last + 1]), shape[last + 1 :]
        if after and 0 < count <= _MOST_SLICES:
            table = self.graph.reshape(value, (*before, count, *after))
            slices = [self.sliced(table, first, number, 1) for number in range(count)]
            wide = [self.convert(part, "float32") for part in slices]
            total = self.convert(reduce(partial(self.ew, op), wide), value.dtype)
            return self.graph.reshape(total, (*before, *after))
        # Rows may be too short for a transfer of their own.
        if after and before and prod(after) < _SHORT_ROW:
            outer = [dim for dim in range(len(shape)) if dim not in run]
            moved = self.graph.transpose(value, [*outer, *run])
            return self.graph.reduce(op, moved, range(len(outer), len(shape)))
        return self.graph.reduce(op, value, run)

    def _reduce_all(self, op: str, value: Value) -> Value:
        """A reduction of all elements: of rows on all partitions, then of the rows' results."""
        elements = value.type.elements
        columns = max(n for n in range(1, _ROW + 1) if not elements % n)
        if columns == 1 and elements > _ROW:  # no divisor fits in a row: full rows, and the rest
            flat = self.graph.reshape(value, (elements,))
            remainder = elements % _ROW
            full = self.graph.slice(flat, (0,), (elements - remainder,))
            ends = self.graph.slice(flat, (elements - remainder,), (remainder,))
            return self.ew(op, self._reduce_all(op, full), self._reduce_all(op, ends))
        rows = self.graph.reshape(value, (elements // columns, columns))
        parts = self.graph.reduce(op, self.convert(rows, "float32"), (1,))
        if parts.shape[0] > _ROW:
            return self._reduce_all(op, parts)
        line = self.graph.reshape(parts, (1, parts.shape[0]))
        return self.graph.reshape(self.graph.reduce(op, line, (1,)), ())

    def dot(self, lhs: Value, rhs: Value, dtype: str = "") -> Value:
        """``lhs @ rhs`` of [*B, M, K] and [*B, K, N]; transposes of either are folded in."""
        rank = len(lhs.shape)
        if not lhs.shape[-1]:  # K is 0, as for an expert that no token chose
            shape = (*lhs.shape[:-1], rhs.shape[-1])
            return self.filled(0, TensorType(shape, dtype or lhs.dtype))
        left, right = self._operand_of_transpose(lhs), self._operand_of_transpose(rhs)
        contracting = (
            rank - 1 if left is lhs else rank - 2,
            rank - 2 if right is rhs else rank - 1,
        )
        return self.product(left, right, contracting, dtype or lhs.dtype)

    def product(self, lhs: Value, rhs: Value, contracting: tuple[int, int], dtype: str) -> Value:
        """`dot_general`; integers are multiplied in float32, exact up to 2**24.

        Source: aws-neuron-sdk neuronx-cc reference, --implicit-integer-downcast (dot).
        """
        is_integer = dtype in INTEGERS
        left, right = (
            side if side.type.is_floating else self.convert(side, "float32") for side in (lhs, rhs)
        )
        product = self.graph.dot_general(
            left, right, contracting, "float32" if is_integer else dtype
        )
        return self.convert(product, dtype)

    def _operand_of_transpose(self, value: Value) -> Value:
        """The operand of a transpose of the last two dimensions; other values as they are."""
        order = list(range(len(value.shape)))
        order[-2:] = order[:-3:-1]
        source, permutation = self.graph.transpose_source(value)
        return source if permutation == tuple(order) else value


@overload
def converted_number(operand: Value, dtype: str) -> Value: ...
@overload
def converted_number(operand: float, dtype: str) -> float: ...
def converted_number(operand: Operand, dtype: str) -> Operand:
    """A Python number converted to an element type as by PyTorch; tensors stay as they are.

    For integers of 8 and 16 bits the low bytes stay. Integers of 32 bits may stand for 64 bits of
    the framework, so a number beyond their range becomes the nearest value in it.
    """
    if isinstance(operand, Value):
        return operand
    if dtype == BOOL:
        return float(bool(operand))
    if dtype not in INTEGERS or not isfinite(operand):
        return float(operand)
    limits, integer = np.iinfo(dtype), int(operand)
    if ITEM_BYTES[dtype] == _WORD_BYTES:
        return float(min(max(integer, int(limits.min)), int(limits.max)))
    return float((integer - int(limits.min)) % 2**limits.bits + int(limits.min))


_WORD_BYTES: Final = 4
_ROW: Final = 2048
"""Maximum number of elements of a row, and of rows at a time, in a reduction of all elements."""
_MOST_SLICES: Final = 16
"""Maximum number of slices of a tensor that one fused kernel adds up."""
_SHORT_ROW: Final = 64
"""Rows with fewer elements are transposed, which is faster than transfers of their pieces."""


def _runs(dims: Sequence[int]) -> list[tuple[int, int]]:
    """The first and last dimension of each run of neighbours among sorted dimensions."""
    starts = [dim for dim in dims if dim - 1 not in dims]
    ends = [dim for dim in dims if dim + 1 not in dims]
    return list(zip(starts, ends, strict=True))


def _has_truth_result(name: str) -> bool:
    """True if an elementwise operation has truth values as result."""
    declared = OPERATIONS.get(name)
    if declared is None or not issubclass(declared, Elementwise):
        return False
    return declared().result_dtype(*("float32",) * len(declared.operands)) == BOOL


def _promoted_dtype(tensors: list[Value], operands: Sequence[Operand]) -> str:
    """The element type to which PyTorch promotes operands: float32 for integers with a fraction."""
    floats = [tensor.dtype for tensor in tensors if "float" in tensor.dtype]
    if floats:
        return floats[0] if len(set(floats)) == 1 else "float32"
    if any(isinstance(o, float) and not o.is_integer() for o in operands):
        return "float32"
    kinds = {tensor.dtype for tensor in tensors}
    if len(kinds) > 1:
        kinds.discard(BOOL)
    return kinds.pop() if len(kinds) == 1 else "int32"
