"""Instructions on tiles, each issued to the engine that has least to do.

Tiles are [partitions, ...] with any number of free dimensions; dimensions of length 1 are repeated.
"""

from __future__ import annotations

from math import prod
from typing import Any, Final

from trnsim.isa import Engine
from trnsim.lower.kernels import balance
from trnsim.lower.kernels.tiles import Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

Operand = Any
"""A tile, or a number."""

SCALAR_ENGINE_OPERATORS: Final = (nl.multiply, nl.add)
"""Operators of tensor_scalar that the Scalar Engine has too (nki.isa.tensor_scalar)."""


def binary(dst: Tensor, op: Any, left: Operand, right: Operand) -> None:
    """Issue ``left <op> right``; a number or a column on either side is repeated."""
    for data, operand, is_reversed in ((left, right, False), (right, left, True)):
        if is_number(data):
            continue
        if is_number(operand):
            data_view = widened(data, tuple(dst.shape))
            engine = unary_engine(dst, data_view, is_on_scalar=op in SCALAR_ENGINE_OPERATORS)
            nisa.tensor_scalar(
                dst=dst,
                data=data_view,
                op0=op,
                operand0=operand,
                reverse0=is_reversed,
                engine=engine,
            )
            return
        if tuple(data.shape) != tuple(dst.shape):
            continue
        if prod(operand.shape[1:]) == 1 < prod(dst.shape[1:]):
            nisa.tensor_scalar(
                dst=dst,
                data=data,
                op0=op,
                operand0=column(operand),
                reverse0=is_reversed,
                engine=unary_engine(dst, data, is_on_scalar=op in SCALAR_ENGINE_OPERATORS),
            )
            return
    shape = tuple(dst.shape)
    # nki.isa.tensor_tensor: at most one operand in PSUM
    if left.buffer is nl.psum and right.buffer is nl.psum:
        right = copied(right, nl.float32)
    left, right = widened(left, shape), widened(right, shape)
    engine = Engine.unknown  # nki.isa.tensor_tensor: GpSimd alone has powers
    if op is not nl.power:
        engine = balance.choose_engine(balance.tensor_operand_times_s(dst, left, right))
    nisa.tensor_tensor(dst=dst, data1=left, data2=right, op=op, engine=engine)


def unary_engine(dst: Tensor, data: Tensor, *, is_on_scalar: bool) -> Engine:
    """The engine for a copy, or for an operation with a number or a column.

    `is_on_scalar`: whether the Scalar Engine has the operation.
    """
    costs = balance.scalar_operand_times_s(dst, data)
    is_float = all("float" in tile.dtype.name for tile in (dst, data))
    if not is_on_scalar or not is_float:
        del costs[Engine.scalar]
    return balance.choose_engine(costs)


def column(operand: Operand) -> Operand:
    """A number as it is; a tile with one element for each partition as float32 [partitions, 1]."""
    if is_number(operand):
        return operand
    tile = operand if operand.dtype == nl.float32 else copied(operand, nl.float32)
    return tile.reshape((tile.shape[0], 1))


def copied(tile: Tensor, dtype: Any, dst: Tensor | None = None) -> Tensor:
    """A copy of a tile, in another format or in `dst`."""
    target = new(tile.shape, dtype) if dst is None else dst
    src = widened(tile, target.shape)
    engine = unary_engine(target, src, is_on_scalar=True)
    if engine is Engine.scalar:
        nisa.activation(dst=target, op=nl.copy, data=src)
    else:
        nisa.tensor_copy(dst=target, src=src, engine=engine)
    return target


def keep_groups(tile: Tensor, size: int, first_row: int = 0) -> None:
    """Keep ``tile[row, group]`` where a row is among its group's `size` rows; make the others 0.

    Args:
        tile: [rows, groups, columns], overwritten.
        size: rows of a group.
        first_row: number of row 0 among the rows of all groups.
    """
    groups, columns = tile.shape[1:]
    for direction, offset in ((1, first_row), (-1, size - 1 - first_row)):
        nisa.affine_select(
            dst=tile,
            pattern=[[-direction * size, groups], [0, columns]],
            offset=offset,
            channel_multiplier=direction,
            on_true_tile=tile,
            on_false_value=0.0,
            cmp_op=nl.greater_equal,
        )


def shape_of(operands: list[Operand]) -> tuple[int, ...]:
    """The shape of a result whose operands repeat their dimensions of length 1."""
    shapes = [operand.shape for operand in operands if not is_number(operand)]
    return tuple(max(sizes) for sizes in zip(*shapes, strict=True))


def widened(tile: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A view of a tile that repeats its dimensions of length 1."""
    for dim in range(1, len(shape)):
        if tile.shape[dim] == 1 and shape[dim] > 1:
            tile = tile.broadcast(dim, shape[dim])
    return tile


def is_number(operand: Operand) -> bool:
    """True if an operand is a number and not a tile."""
    return isinstance(operand, int | float)
