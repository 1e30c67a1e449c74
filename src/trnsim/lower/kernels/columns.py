"""Reductions over dimensions before the last: sums are products with ones, extremes transposes."""

from __future__ import annotations

from math import prod
from typing import Any

from trnsim.graph import Node
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl


def column_reduce(op: Reduce, node: Node, source: Tensor) -> Tensor:
    """Reduce over dimensions before the last: sums by products with ones, extremes transposed."""
    shape, dims = node.values[0].shape, op.dims
    before, columns = prod(shape[: dims[0]]), prod(shape[dims[-1] + 1 :])
    rows = prod(shape[dims[0] : dims[-1] + 1])
    out = tiles.output(node.result.shape, node.result.dtype)
    reduce = _sum_columns if op.op == "add" else _reduce_columns
    width = BANK if reduce is _sum_columns else P
    for number in range(before):
        for start, length in tiles.pieces(columns, width):
            first_element = number * rows * columns + start
            result = reduce(source, rows, columns, first_element, length, op.op)
            place = number * columns + start
            result = integers.wrap(result, node.result.dtype)
            tiles.store(tiles.strided(out, [(0, 1), (1, length)], place), result)
    return out


def _sum_columns(
    x: Tensor, rows: int, columns: int, first_element: int, length: int, op: str
) -> Tensor:
    """[1, length]: ones.T @ x of the columns from `first_element` on, accumulated in PSUM."""
    del op
    sums = new((1, length), nl.float32, nl.psum)
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first_element)
        block = tiles.load(view, None if "float" in x.dtype.name else nl.float32)
        ones = new((count, 1), block.dtype)
        nisa.memset(dst=ones, value=1.0)
        nisa.nc_matmul(dst=sums, stationary=ones, moving=block)
    return sums


def _reduce_columns(
    x: Tensor, rows: int, columns: int, first_element: int, length: int, op: str
) -> Tensor:
    """[1, length]: columns from `first_element` on become rows, and each row is reduced."""
    alu = getattr(nl, op)
    best: Any = None
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first_element)
        block = tiles.load(view, nl.float32)
        part = new((length, 1))
        nisa.tensor_reduce(dst=part, op=alu, data=transposed(block), axis=1)
        if best is not None:
            nisa.tensor_tensor(dst=part, data1=best, data2=part, op=alu)
        best = part
    return transposed(best)
