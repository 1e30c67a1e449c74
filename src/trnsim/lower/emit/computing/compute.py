"""One operation on the tiles of a span: [partitions, blocks, columns], 1 where one is repeated."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from math import prod
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops import arithmetic, rounding
from trnsim.graph.ops.comparison import Select
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.types import BOOL, INTEGERS
from trnsim.isa import Engine
from trnsim.lower.emit.computing import balance
from trnsim.lower.kernels import elementwise
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.lower.rules import ON_TILES
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

Operand = Any
"""A tile of three dimensions, or a number."""

_ON_SCALAR: Final = (nl.multiply, nl.add)
"""Operators of tensor_scalar that the Scalar Engine has too (nki.isa.tensor_scalar)."""
_RECIPROCAL: Final = 8.0
"""Cycles an element of the Vector Engine's reciprocal (nki.api.shared.rst, engine selection)."""
_TWO_TENSORS: Final = 2.0
"""Cycles an element of scalar_tensor_tensor."""
_ON_THREE = (arithmetic.Divide, arithmetic.Reciprocal, arithmetic.Square)
"""Operations of several instructions that are written here for three dimensions."""


def compute(node: Node, operands: list[Operand], dst: Tensor | None = None) -> Tensor:
    """The tile of a node's result, in `dst` where that is given."""
    if _is_plain(node):
        return _plain(node, operands, dst)
    shape = shape_of(operands)
    flat = [_flat(one, shape) if not _is_number(one) else one for one in operands]
    found = elementwise.apply(node, flat)
    if found.shape[1] != prod(shape[1:]):
        found = found.broadcast(1, prod(shape[1:]))
        found = copied(found, found.dtype)
    made = found.reshape(shape)
    return made if dst is None else copied(made, dst.dtype, dst)


@dataclass(frozen=True, slots=True)
class Scaled:
    """``data <op> other``, where the other side is a number or one number to a partition."""

    data: Value
    op: Any
    other: Value | float
    is_reversed: bool
    is_shift: bool


def is_binary(node: Node) -> bool:
    """Whether one instruction of the Vector Engine computes it of two operands."""
    operation = node.operation
    is_alu = isinstance(operation, Elementwise) and bool(operation.alu) and not operation.activation
    return _is_plain(node) and is_alu and type(operation) not in _ON_THREE


def is_activation(node: Node) -> bool:
    """Whether the Scalar Engine computes it."""
    operation = node.operation
    return _is_plain(node) and isinstance(operation, Elementwise) and bool(operation.activation)


def sides(node: Node) -> Iterator[tuple[Value, Value | float, bool]]:
    """Each operand that is a tensor, the other one, and whether that comes first."""
    operation: Any = node.operation
    operands = [*node.operands, *([] if operation.number is None else [operation.number])]
    first, second = operands
    if isinstance(first, Value):
        yield first, second, False
    if isinstance(second, Value):
        yield second, first, True


def scaled(node: Node, is_column: Callable[[Value], bool]) -> Scaled | None:
    """A node as an operation with a number or a column, if it is one."""
    if not is_binary(node):
        return None
    operation: Any = node.operation
    for data, other, is_reversed in sides(node):
        if not isinstance(other, Value) or is_column(other):
            if is_column(data):
                continue
            op = getattr(nl, operation.alu)
            is_shift = isinstance(operation, arithmetic.Add) and isinstance(other, Value)
            return Scaled(data, op, other, is_reversed, is_shift)
    return None


Step = tuple[Any, Operand, bool]
"""An operator, its other operand, and whether that comes first."""


def compute_scaled(node: Node, data: Tensor, steps: list[Step], dst: Tensor | None) -> Tensor:
    """Two operations with numbers or columns, in one instruction."""
    if not suits([operand for _, operand, _ in steps]):
        for op, operand, is_reversed in steps[:-1]:
            data = _apart(data, op, operand, is_reversed)
        op, operand, is_reversed = steps[-1]
        made, data = _into(node, data, dst)
        left, right = (operand, data) if is_reversed else (data, operand)
        binary(made, op, left, right)
        return made
    made, data = _into(node, data, dst)
    (op0, one, first), (op1, other, second) = steps
    is_affine = (op0, op1) == (nl.multiply, nl.add)
    nisa.tensor_scalar(
        engine=_engine_with_number(made, data, is_on_scalar=is_affine),
        dst=made,
        data=data,
        op0=op0,
        operand0=_column(one),
        reverse0=first,
        op1=op1,
        operand1=_column(other),
        reverse1=second,
    )
    return made


def compute_with(
    node: Node,
    data: Tensor,
    step: Step,
    other: Operand,
    dst: Tensor | None,
    *,
    is_reversed: bool = False,
) -> Tensor:
    """``(data <op0> column) <op1> other`` in one instruction."""
    op0, operand, first = step
    operation: Any = node.operation
    op1 = getattr(nl, operation.alu)
    is_one = suits([operand]) and not _is_number(other)
    both = is_one and data.buffer is nl.psum and other.buffer is nl.psum
    if not is_one or both or tuple(other.shape) != tuple(data.shape):
        data = _apart(data, op0, operand, first)
        made = new(shape_of([data, other]), dtype_of(node.result.dtype)) if dst is None else dst
        binary(made, op1, other if is_reversed else data, data if is_reversed else other)
        return made
    if _is_apart(op0, data, other):
        part = _apart(data, op0, operand, first)
        made = new(data.shape, dtype_of(node.result.dtype)) if dst is None else dst
        binary(made, op1, other if is_reversed else part, part if is_reversed else other)
        return made
    made, data = _into(node, data, dst)
    nisa.scalar_tensor_tensor(
        dst=made,
        data=data,
        op0=op0,
        operand0=_column(operand),
        reverse0=first,
        op1=op1,
        operand1=widened(other, tuple(made.shape)),
        reverse1=is_reversed,
    )
    return made


def _is_apart(op: Any, data: Tensor, other: Tensor) -> bool:
    """Whether engines are done sooner with two instructions than with one of the Vector Engine."""
    wide = new(data.shape)
    pairs = balance.with_tensor(wide, other)
    firsts = balance.with_number(data, wide) if op in _ON_SCALAR else {}
    fused = ((Engine.vector, balance.seconds(Engine.vector, data, _TWO_TENSORS)),)
    ways = [(one, two) for one in firsts.items() for two in pairs.items()]
    if balance.best(fused, *ways):
        return True
    balance.take(fused)
    return False


def compute_shifted(node: Node, data: Tensor, shift: Operand, dst: Tensor | None) -> Tensor:
    """``f(data + column)`` in one instruction of the Scalar Engine."""
    operation: Any = node.operation
    if not suits([shift]):
        data = _apart(data, nl.add, shift, False)
        return _plain(node, [data], dst)
    made, data = _into(node, data, dst)
    function = getattr(nl, operation.activation)
    balance.note(Engine.scalar, made)
    nisa.activation(dst=made, op=function, data=data, bias=_column(shift))
    return made


def compute_activated(
    node: Node, data: Tensor, scale: Operand, shift: Operand, dst: Tensor | None
) -> Tensor:
    """``f(data * scale + shift)`` in one instruction of the Scalar Engine."""
    operation: Any = node.operation
    made, data = _into(node, data, dst)
    function = nl.relu if isinstance(operation, arithmetic.Relu) else None
    bias = shift
    if _is_number(shift):
        bias = new((data.shape[0], 1))
        nisa.memset(dst=bias, value=shift)
    balance.note(Engine.scalar, made)
    nisa.activation(
        dst=made,
        op=function or getattr(nl, operation.activation),
        data=data,
        scale=_column(scale),
        bias=bias if _is_number(shift) else _column(shift),
    )
    return made


def _into(node: Node, data: Tensor, dst: Tensor | None) -> tuple[Tensor, Tensor]:
    """Where a result goes, and the data as wide as that."""
    made = new(data.shape, dtype_of(node.result.dtype)) if dst is None else dst
    return made, widened(data, tuple(made.shape))


def _apart(data: Tensor, op: Any, operand: Operand, is_reversed: bool) -> Tensor:
    made = new(shape_of([data, operand]))
    binary(made, op, operand if is_reversed else data, data if is_reversed else operand)
    return made


def suits(operands: list[Operand]) -> bool:
    """Whether operands are numbers or columns of one block."""
    columns = [one for one in operands if not _is_number(one)]
    return all(tuple(one.shape[1:]) == (1, 1) for one in columns)


def _column(operand: Operand) -> Operand:
    """A number, or a column [partitions, 1] in float32."""
    if _is_number(operand):
        return operand
    column = operand if operand.dtype == nl.float32 else copied(operand, nl.float32)
    return column.reshape((column.shape[0], 1))


def copied(tile: Tensor, dtype: Any, dst: Tensor | None = None) -> Tensor:
    """A tile's elements in a tile of their own."""
    made = new(tile.shape, dtype) if dst is None else dst
    src = widened(tile, made.shape)
    engine = _engine_with_number(made, src, is_on_scalar=True)
    if engine is Engine.scalar:
        nisa.activation(dst=made, op=nl.copy, data=src)
    else:
        nisa.tensor_copy(dst=made, src=src, engine=engine)
    return made


OPERATORS: Final = {
    "add": nl.add,
    "multiply": nl.multiply,
    "maximum": nl.maximum,
    "minimum": nl.minimum,
}
"""Operators of reductions, by name."""


def reduced(tile: Tensor, op: str, dst: Tensor) -> None:
    """The reduction of each row and block of a tile, [partitions, blocks, 1]."""
    if tile.shape[2] == 1:
        nisa.tensor_copy(dst=dst, src=tile)
        return
    sums = (Engine.vector, balance.seconds(Engine.vector, tile, 1.0))
    copies = (Engine.scalar, balance.seconds(Engine.scalar, tile, 1.0))
    ways: list[balance.Way] = [(sums,)]
    if op == "add" and tile.shape[1] == 1:
        ways.append((copies,))
    way = ways[balance.best(*ways)]
    balance.take(way)
    partitions, blocks, _ = dst.shape
    if way[0][0] is Engine.scalar:
        _summed(nl.copy, tile, dst)
        return
    flat = dst.reshape((partitions, blocks))
    nisa.tensor_reduce(dst=flat, op=OPERATORS[op], data=tile, axis=2)


def squares_reduced(tile: Tensor, dst: Tensor) -> None:
    """The sum of the squares of each row of a tile of one block, by one instruction."""
    balance.note(Engine.scalar, tile)
    _summed(nl.square, tile, dst)


def _summed(op: Any, tile: Tensor, dst: Tensor) -> None:
    partitions, _, columns = tile.shape
    nisa.activation_reduce(
        dst=new((partitions, columns), tile.dtype),
        op=op,
        data=tile[:, 0],
        reduce_op=nl.add,
        reduce_res=dst.reshape((partitions, 1)),
    )


def shape_of(operands: list[Operand]) -> tuple[int, ...]:
    """The shape of what tiles give together."""
    shapes = [one.shape for one in operands if not _is_number(one)]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def widened(tile: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A view of a tile that repeats its dimensions of length 1."""
    for dim in range(1, len(shape)):
        if tile.shape[dim] == 1 and shape[dim] > 1:
            tile = tile.broadcast(dim, shape[dim])
    return tile


def _is_number(one: Operand) -> bool:
    return isinstance(one, int | float)


def _is_plain(node: Node) -> bool:
    """Whether engines compute it of floating point in one instruction, or in few written here."""
    operation = node.operation
    dtypes = [value.dtype for value in (*node.values, node.result)]
    if any(one in INTEGERS or one == BOOL for one in dtypes):
        return False
    if isinstance(operation, (*_ON_THREE, rounding.Convert)):
        return True
    if type(operation) in ON_TILES or not isinstance(operation, Elementwise):
        return False
    return bool(operation.alu or operation.activation)


def _plain(node: Node, operands: list[Operand], dst: Tensor | None) -> Tensor:
    operation: Any = node.operation
    dtype = dtype_of(node.result.dtype)
    if isinstance(operation, rounding.Convert):
        (tile,) = operands
        # Between formats of floating point, it is rounded where it is written.
        return tile if dst is None else copied(tile, dst.dtype, dst)
    made = new(shape_of(operands), dtype) if dst is None else dst
    if isinstance(operation, arithmetic.Square) or operation.activation:
        balance.note(Engine.scalar, made)
    if isinstance(operation, arithmetic.Reciprocal):
        balance.note(Engine.vector, made, _RECIPROCAL)
        nisa.reciprocal(dst=made, data=widened(operands[0], tuple(made.shape)))
    elif isinstance(operation, arithmetic.Square):
        nisa.activation(dst=made, op=nl.square, data=widened(operands[0], tuple(made.shape)))
    elif isinstance(operation, arithmetic.Divide):
        _divide(made, *operands)
    elif operation.activation:
        data = widened(operands[0], tuple(made.shape))
        nisa.activation(dst=made, op=getattr(nl, operation.activation), data=data)
    else:
        other = operands[1] if operation.number is None else operation.number
        binary(made, getattr(nl, operation.alu), operands[0], other)
    return made


def binary(dst: Tensor, op: Any, left: Operand, right: Operand) -> None:
    """``left <op> right``; a number or a column on either side is repeated."""
    for data, other, is_reversed in ((left, right, False), (right, left, True)):
        if _is_number(data):
            continue
        if _is_number(other):
            whole = widened(data, tuple(dst.shape))
            engine = _engine_with_number(dst, whole, is_on_scalar=op in _ON_SCALAR)
            nisa.tensor_scalar(
                dst=dst, data=whole, op0=op, operand0=other, reverse0=is_reversed, engine=engine
            )
            return
        if tuple(data.shape) != tuple(dst.shape):
            continue
        if tuple(other.shape[1:]) == (1, 1) and dst.shape[2] > 1:
            nisa.tensor_scalar(
                dst=dst,
                data=data,
                op0=op,
                operand0=_column(other),
                reverse0=is_reversed,
                engine=_engine_with_number(dst, data, is_on_scalar=op in _ON_SCALAR),
            )
            return
    shape = tuple(dst.shape)
    if left.buffer is nl.psum and right.buffer is nl.psum:  # nki.isa.tensor_tensor: at most one
        right = copied(right, nl.float32)
    left, right = widened(left, shape), widened(right, shape)
    engine = balance.of_one(balance.with_tensor(dst, left, right))
    nisa.tensor_tensor(dst=dst, data1=left, data2=right, op=op, engine=engine)


def _engine_with_number(dst: Tensor, data: Tensor, *, is_on_scalar: bool) -> Engine:
    """The engine for a copy, or an operation with a number or a column."""
    costs = balance.with_number(dst, data)
    is_float = all("float" in one.dtype.name for one in (dst, data))
    if not is_on_scalar or not is_float:
        del costs[Engine.scalar]
    return balance.of_one(costs)


def _divide(dst: Tensor, left: Operand, right: Operand) -> None:
    """The product with the reciprocal, as no engine divides."""
    if _is_number(right):
        binary(dst, nl.multiply, left, 1.0 / right)
        return
    inverse = new(right.shape)
    balance.note(Engine.vector, inverse, _RECIPROCAL)
    nisa.reciprocal(dst=inverse, data=right)
    binary(dst, nl.multiply, left, inverse)


def _flat(tile: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A tile as [rows, columns], or [rows, 1] where one number to a row is repeated."""
    if tuple(tile.shape[1:]) == (1, 1):
        shape = tuple(tile.shape)
    whole = copied(widened(tile, shape), tile.dtype, new(shape, tile.dtype))
    return whole.reshape((shape[0], prod(shape[1:])))


def with_a_tile(node: Node, operands: list[Operand], partitions: int) -> list[Operand]:
    """The operands with a tile in the place of a number that instructions cannot take.

    One operand is a tile, and what a selection chooses by is.
    """
    is_choice = isinstance(node.operation, Select) and _is_number(operands[0])
    if is_choice or all(map(_is_number, operands)):
        return [filled_with(operands[0], node.values[0].dtype, partitions), *operands[1:]]
    return operands


def filled_with(number: float, dtype: str, partitions: int) -> Tensor:
    """A number on each of so many partitions, [partitions, 1, 1]."""
    tile = new((partitions, 1, 1), dtype_of(dtype))
    nisa.memset(dst=tile, value=number if "float" in dtype else int(number))
    return tile
