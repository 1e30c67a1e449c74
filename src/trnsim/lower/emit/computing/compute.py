"""Instructions for one operation on the tiles of a span, [partitions, blocks, columns]."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from trnsim.graph import Node, Value
from trnsim.graph.ops import arithmetic, rounding
from trnsim.graph.ops.comparison import Select
from trnsim.graph.ops.elementwise import Elementwise
from trnsim.graph.types import INTEGERS
from trnsim.isa import Engine
from trnsim.lower.kernels import balance, integers
from trnsim.lower.kernels.elementwise import apply
from trnsim.lower.kernels.instructions import (
    SCALAR_ENGINE_OPERATORS,
    Operand,
    binary,
    column,
    is_number,
    shape_of,
    unary_engine,
    widened,
)
from trnsim.lower.kernels.tiles import Tensor, dtype_of, new
from trnsim.lower.rules import TILE_RULES
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_CYCLES_OF_TWO_TENSORS: Final = 2.0
"""Cycles for each element of scalar_tensor_tensor."""
_ON_THREE_DIMS = (arithmetic.Divide, arithmetic.Reciprocal, arithmetic.Square)
_PLAIN = (*_ON_THREE_DIMS, rounding.Convert)
"""Operations of several instructions that take tiles [partitions, blocks, columns] as they are."""


@dataclass(frozen=True, slots=True)
class ScaledOperation:
    """``data <op> other``, where `other` is a number or has one number for each partition.

    Attributes:
        op: the operator of `nki.language`.
        other: the number, or the value with a number for each partition.
        is_reversed: True for ``other <op> data``.
        is_column_addition: True for ``data + column``, whose column an activation takes as bias.
    """

    data: Value
    op: Any
    other: Value | float
    is_reversed: bool
    is_column_addition: bool


def is_binary(node: Node) -> bool:
    """True if one operator of the Vector Engine computes a node, in one instruction."""
    operation = node.operation
    is_alu = isinstance(operation, Elementwise) and bool(operation.alu) and not operation.activation
    return _is_plain(node) and is_alu and type(operation) not in _ON_THREE_DIMS


def is_activation(node: Node) -> bool:
    """True if the Scalar Engine computes a node."""
    operation = node.operation
    return _is_plain(node) and isinstance(operation, Elementwise) and bool(operation.activation)


def tensor_operands(node: Node) -> Iterator[tuple[Value, Value | float, bool]]:
    """Yield each tensor operand, the other operand, and True if the other comes first."""
    operation: Any = node.operation
    operands = [*node.operands, *([] if operation.number is None else [operation.number])]
    first, second = operands
    if isinstance(first, Value):
        yield first, second, False
    if isinstance(second, Value):
        yield second, first, True


def as_scaled(node: Node, is_column: Callable[[Value], bool]) -> ScaledOperation | None:
    """A node as an operation with a number or with a value that `is_column` accepts; else None."""
    if not is_binary(node):
        return None
    operation: Any = node.operation
    for data, other, is_reversed in tensor_operands(node):
        if not isinstance(other, Value) or is_column(other):
            if is_column(data):
                continue
            op = getattr(nl, operation.alu)
            is_column_addition = isinstance(operation, arithmetic.Add) and isinstance(other, Value)
            return ScaledOperation(data, op, other, is_reversed, is_column_addition)
    return None


Step = tuple[Any, Operand, bool]
"""An operator, its second operand, and whether the operand comes first."""


def compute_scaled(node: Node, data: Tensor, steps: list[Step], dst: Tensor | None) -> Tensor:
    """The tile of `node`: two operations with numbers or columns on `data`, one after the other.

    One instruction computes both, unless a column has several blocks.
    """
    if not are_single_block([operand for _, operand, _ in steps]):
        for op, operand, is_reversed in steps[:-1]:
            data = _compute_first_step(data, op, operand, is_reversed)
        op, operand, is_reversed = steps[-1]
        result, data = _result_and_data(node, data, dst)
        left, right = (operand, data) if is_reversed else (data, operand)
        binary(result, op, left, right)
        return result
    result, data = _result_and_data(node, data, dst)
    (op0, operand0, is_reversed0), (op1, operand1, is_reversed1) = steps
    is_affine = (op0, op1) == (nl.multiply, nl.add)
    nisa.tensor_scalar(
        engine=unary_engine(result, data, is_on_scalar=is_affine),
        dst=result,
        data=data,
        op0=op0,
        operand0=column(operand0),
        reverse0=is_reversed0,
        op1=op1,
        operand1=column(operand1),
        reverse1=is_reversed1,
    )
    return result


def compute_scaled_with_tensor(
    node: Node,
    data: Tensor,
    step: Step,
    second: Operand,
    dst: Tensor | None,
    *,
    is_reversed: bool = False,
) -> Tensor:
    """``(data <op0> column) <op1> second`` by one instruction, or by two if faster or necessary.

    `step` has op0 and the column, `node` has op1; `is_reversed` swaps the sides of op1.
    """
    op0, operand, is_reversed0 = step
    operation: Any = node.operation
    op1 = getattr(nl, operation.alu)
    has_tensors = are_single_block([operand]) and not is_number(second)
    are_in_psum = has_tensors and data.buffer is nl.psum and second.buffer is nl.psum
    is_fusible = has_tensors and not are_in_psum and tuple(second.shape) == tuple(data.shape)
    if not is_fusible or _are_two_instructions_faster(op0, data, second):
        data = _compute_first_step(data, op0, operand, is_reversed0)
        result = new(shape_of([data, second]), dtype_of(node.result.dtype)) if dst is None else dst
        binary(result, op1, second if is_reversed else data, data if is_reversed else second)
        return result
    result, data = _result_and_data(node, data, dst)
    nisa.scalar_tensor_tensor(
        dst=result,
        data=data,
        op0=op0,
        operand0=column(operand),
        reverse0=is_reversed0,
        op1=op1,
        operand1=widened(second, tuple(result.shape)),
        reverse1=is_reversed,
    )
    return result


def _are_two_instructions_faster(op: Any, data: Tensor, other: Tensor) -> bool:
    """True if two instructions on several engines end sooner than one on the Vector Engine.

    The first has `op` and a column, the second the tensor `other`. If one instruction is at least
    as fast, its time is added to the load of the Vector Engine.
    """
    intermediate = new(data.shape)
    second_times_s = balance.tensor_operand_times_s(intermediate, other)
    first_times_s = (
        balance.scalar_operand_times_s(data, intermediate) if op in SCALAR_ENGINE_OPERATORS else {}
    )
    fused = ((Engine.vector, balance.seconds(Engine.vector, data, _CYCLES_OF_TWO_TENSORS)),)
    alternatives = [
        (first, second) for first in first_times_s.items() for second in second_times_s.items()
    ]
    if balance.lightest_alternative(fused, *alternatives):
        return True
    balance.record_alternative(fused)
    return False


def compute_shifted(node: Node, data: Tensor, shift: Operand, dst: Tensor | None) -> Tensor:
    """``f(data + column)`` in one instruction of the Scalar Engine; in two for several blocks."""
    operation: Any = node.operation
    if not are_single_block([shift]):
        data = _compute_first_step(data, nl.add, shift, False)
        return apply(node, [data], dst)
    result, data = _result_and_data(node, data, dst)
    function = getattr(nl, operation.activation)
    balance.record(Engine.scalar, result)
    nisa.activation(dst=result, op=function, data=data, bias=column(shift))
    return result


def compute_activated(
    node: Node, data: Tensor, scale: Operand, shift: Operand, dst: Tensor | None
) -> Tensor:
    """``f(data * scale + shift)`` in one instruction of the Scalar Engine."""
    operation: Any = node.operation
    result, data = _result_and_data(node, data, dst)
    function = nl.relu if isinstance(operation, arithmetic.Relu) else None
    bias = shift
    if is_number(shift):
        bias = new((data.shape[0], 1))
        nisa.memset(dst=bias, value=shift)
    balance.record(Engine.scalar, result)
    nisa.activation(
        dst=result,
        op=function or getattr(nl, operation.activation),
        data=data,
        scale=column(scale),
        bias=bias if is_number(shift) else column(shift),
    )
    return result


def _result_and_data(node: Node, data: Tensor, dst: Tensor | None) -> tuple[Tensor, Tensor]:
    """The tile of a result, and the data broadcast to its shape."""
    result = new(data.shape, dtype_of(node.result.dtype)) if dst is None else dst
    return result, widened(data, tuple(result.shape))


def _compute_first_step(data: Tensor, op: Any, operand: Operand, is_reversed: bool) -> Tensor:
    """``data <op> operand``, or with its sides swapped, by an instruction of its own."""
    result = new(shape_of([data, operand]))
    binary(result, op, operand if is_reversed else data, data if is_reversed else operand)
    return result


def are_single_block(operands: list[Operand]) -> bool:
    """True if operands are numbers or columns of one block."""
    tensors = [operand for operand in operands if not is_number(operand)]
    return all(tuple(tensor.shape[1:]) == (1, 1) for tensor in tensors)


def reduce_rows(tile: Tensor, op: str, dst: Tensor) -> None:
    """Write the reduction of each row and block of a tile, [partitions, blocks, 1]."""
    if tile.shape[2] == 1:
        nisa.tensor_copy(dst=dst, src=tile)
        return
    on_vector = (Engine.vector, balance.seconds(Engine.vector, tile, 1.0))
    # The Scalar Engine copies each row, and sums it as it does.
    on_scalar = (Engine.scalar, balance.seconds(Engine.scalar, tile, 1.0))
    alternatives: list[balance.Alternative] = [(on_vector,)]
    if op == "add" and tile.shape[1] == 1:
        alternatives.append((on_scalar,))
    alternative = alternatives[balance.lightest_alternative(*alternatives)]
    balance.record_alternative(alternative)
    partitions, blocks, _ = dst.shape
    if alternative[0][0] is Engine.scalar:
        _sum_rows(nl.copy, tile, dst)
        return
    flat = dst.reshape((partitions, blocks))
    nisa.tensor_reduce(dst=flat, op=getattr(nl, op), data=tile, axis=2)


def reduce_squares(tile: Tensor, dst: Tensor) -> None:
    """Write the sum of the squares of each row of a tile of one block, by one instruction."""
    balance.record(Engine.scalar, tile)
    _sum_rows(nl.square, tile, dst)


def _sum_rows(op: Any, tile: Tensor, dst: Tensor) -> None:
    """Write the sum of ``op(element)`` over each row of a one-block tile, by the Scalar Engine."""
    partitions, _, columns = tile.shape
    nisa.activation_reduce(
        dst=new((partitions, columns), tile.dtype),
        op=op,
        data=tile[:, 0],
        reduce_op=nl.add,
        reduce_res=dst.reshape((partitions, 1)),
    )


def _is_plain(node: Node) -> bool:
    """True if all values are floats, and an operator, a function or `_PLAIN` has the operation.

    False for operations that have a rule for tiles of their own.
    """
    operation = node.operation
    if not all(value.type.is_floating for value in (node.result, *node.values)):
        return False
    if isinstance(operation, _PLAIN):
        return True
    if type(operation) in TILE_RULES or not isinstance(operation, Elementwise):
        return False
    return bool(operation.alu or operation.activation)


def with_tile_operand(node: Node, operands: list[Operand], partitions: int) -> list[Operand]:
    """The operands, with a tile in place of the first if instructions cannot take it as a number.

    At least one operand must be a tile, and so must the predicate of a selection.
    """
    is_number_predicate = isinstance(node.operation, Select) and is_number(operands[0])
    if is_number_predicate or all(map(is_number, operands)):
        return [constant_tile(operands[0], node.values[0].dtype, partitions), *operands[1:]]
    return operands


def constant_tile(number: float, dtype: str, partitions: int) -> Tensor:
    """A tile [partitions, 1, 1] with the number on each partition."""
    shape = (partitions, 1, 1)
    if dtype in INTEGERS:
        return integers.filled(int(number), shape, nl.uint32 if dtype == "uint32" else nl.int32)
    tile = new(shape, dtype_of(dtype))
    nisa.memset(dst=tile, value=number if "float" in dtype else int(number))
    return tile
