"""Moving without computing: transposes, concatenation, slices, gathers and scatters of rows."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any, Final

from trnsim.graph.fusion import Group
from trnsim.graph.ir import Node, Shape
from trnsim.graph.kernels import tiles
from trnsim.graph.kernels.space import dense
from trnsim.graph.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

_SOFTWARE_DGE: Final = 3  # nki-dge.rst, Mode Selection Summary: from NeuronCore-v3 on


def transpose(inputs: list[Tensor], group: Group) -> Tensor:
    """One copy where the last dimension stays; else blocks flip on the Tensor Engine."""
    (node,) = group.nodes
    out = tiles.output(node.result.shape, node.result.dtype)
    shape, steps = _axes(node)
    if steps[-1] == 1 or inputs[0].dtype.itemsize == 1:
        _copy(inputs[0], out, shape, steps)
    else:
        _flip(inputs[0], out, shape, steps)
    return out


def _axes(node: Node) -> tuple[list[int], list[int]]:
    """The result's dimensions and their steps in the operand, neighbours merged."""
    own = dense(node.values[0].shape)
    shape: list[int] = []
    steps: list[int] = []
    for dim in node.attribute("permutation"):
        length, step = node.values[0].shape[dim], own[dim]
        if length == 1:
            continue
        if steps and steps[-1] == step * length:
            shape[-1], steps[-1] = shape[-1] * length, step
        else:
            shape.append(length)
            steps.append(step)
    return shape or [1], steps or [1]


def _copy(source: Tensor, out: Tensor, shape: list[int], steps: list[int]) -> None:
    """HBM to HBM, in the pattern of the operand."""
    view = tiles.strided(source, list(zip(steps, shape, strict=True)))
    target = tiles.strided(out, list(zip(dense(tuple(shape)), shape, strict=True)))
    nisa.dma_copy(dst=target, src=view)


def _flip(source: Tensor, out: Tensor, shape: list[int], steps: list[int]) -> None:
    """Blocks of 128 of the operand's last dimension times 128 of the result's."""
    own = dense(tuple(shape))
    inner = steps.index(1)
    last = len(shape) - 1
    others = [dim for dim in range(len(shape)) if dim not in (inner, last)]
    for index in product(*(range(shape[dim]) for dim in others)):
        start = sum(i * steps[dim] for i, dim in zip(index, others, strict=True))
        goal = sum(i * own[dim] for i, dim in zip(index, others, strict=True))
        blocks = product(tiles.pieces(shape[last], P), tiles.pieces(shape[inner], P))
        for (row, rows), (column, columns) in blocks:
            view = [(steps[last], rows), (1, columns)]
            block = tiles.load(tiles.strided(source, view, start + row * steps[last] + column))
            target = [(own[inner], columns), (1, rows)]
            place = goal + column * own[inner] + row
            tiles.store(tiles.strided(out, target, place), transposed(block))


def concatenate(inputs: list[Tensor], group: Group) -> Tensor:
    """Each operand to its own place."""
    (node,) = group.nodes
    out = tiles.output(node.result.shape, node.result.dtype)
    dim, place = node.attribute("dim"), 0
    whole = prod(node.result.shape[dim:])
    given = dict(zip((v.number for v in group.inputs), inputs, strict=True))
    for value in node.values:
        rows, width = prod(value.shape[:dim]), prod(value.shape[dim:])
        target = tiles.strided(out, [(whole, rows), (1, width)], place)
        nisa.dma_copy(dst=target, src=tiles.flat(given[value.number], rows, width))
        place += width
    return out


def slice_(inputs: list[Tensor], group: Group) -> Tensor:
    """Every step-th element between start and limit of each dimension."""
    (node,) = group.nodes
    out = tiles.output(node.result.shape, node.result.dtype)
    own = dense(node.values[0].shape)
    starts, strides = node.attribute("starts"), node.attribute("strides")
    offset = sum(s * step for s, step in zip(starts, own, strict=True))
    pattern = [
        (step * stride, length)
        for step, stride, length in zip(own, strides, node.result.shape, strict=True)
    ]
    target = list(zip(dense(node.result.shape), node.result.shape, strict=True))
    nisa.dma_copy(
        dst=tiles.strided(out, target or [(1, 1)]),
        src=tiles.strided(inputs[0], pattern or [(1, 1)], offset),
    )
    return out


def gather(inputs: list[Tensor], group: Group) -> Tensor:
    """Rows of a table [V, *D] by indices: ``[*I, *D]``."""
    (node,) = group.nodes
    out = tiles.output(node.result.shape, node.result.dtype)
    table, indices = inputs
    count, width = node.values[1].type.elements, _row(node.values[0].shape)
    rows_of_table = tiles.flat(table, node.values[0].shape[0], width)
    for start, rows in tiles.pieces(count, P):
        index = tiles.load(tiles.strided(indices, [(1, rows), (1, 1)], start))
        tile = _rows_at(rows_of_table, index, rows, width)
        tiles.store(tiles.strided(out, [(width, rows), (1, width)], start * width), tile)
    return out


def scatter(inputs: list[Tensor], group: Group) -> Tensor:
    """A table of zeros [V, *D] to whose rows updates are added, by indices that may repeat.

    Within 128 updates those of one row are summed first, by a product with the matrix that says
    which indices are equal; then all of them write the same sum.
    """
    (node,) = group.nodes
    updates, indices = inputs
    shape = node.result.shape
    width, count = _row(shape), node.values[1].type.elements
    # float32 until the end: a row may be added to many times.
    table = nl.ndarray((shape[0], width), dtype=nl.float32, buffer=nl.shared_hbm)
    _clear(table, shape[0], width)
    for start, rows in tiles.pieces(count, P):
        index = tiles.load(tiles.strided(indices, [(1, rows), (1, 1)], start))
        view = tiles.strided(updates, [(width, rows), (1, width)], start * width)
        total = _summed_by_row(index, tiles.load(view, nl.float32), rows, width)
        before = _rows_at(table, index, rows, width)
        nisa.tensor_tensor(dst=total, data1=total, data2=before, op=nl.add)
        _write_rows(table, index, total, rows)
    if node.result.dtype == "float32":
        return table.reshape(shape)
    out = tiles.output(shape, node.result.dtype)
    for start, rows in tiles.pieces(shape[0], P):
        target = tiles.strided(out, [(width, rows), (1, width)], start * width)
        tiles.store(target, tiles.load(table[start : start + rows]))
    return out


def _row(shape: Shape) -> int:
    return prod(shape[1:])


def _clear(table: Tensor, rows: int, width: int) -> None:
    zeros = new((P, width))
    nisa.memset(dst=zeros, value=0.0)
    for start, count in tiles.pieces(rows, P):
        nisa.dma_copy(dst=table[start : start + count], src=zeros[:count])


def _summed_by_row(index: Tensor, updates: Tensor, rows: int, width: int) -> Tensor:
    """Row i: the sum of all updates whose index is that of row i."""
    mine = new((rows, 1))
    nisa.tensor_copy(dst=mine, src=index)
    wide = new((rows, rows))
    nisa.tensor_copy(dst=wide, src=mine.broadcast(1, rows))
    equal = new((rows, rows))
    nisa.tensor_scalar(dst=equal, data=transposed(wide), op0=nl.equal, operand0=mine)
    total = new((rows, width))
    for start, length in tiles.pieces(width, BANK):
        sums = new((rows, length), nl.float32, nl.psum)
        nisa.nc_matmul(dst=sums, stationary=equal, moving=updates[:, start : start + length])
        nisa.tensor_copy(dst=total[:, start : start + length], src=sums)
    return total


def _rows_at(table: Tensor, index: Tensor, rows: int, width: int) -> Tensor:
    """Rows of `table` by index; one by one where no descriptors are made on the chip."""
    tile = new((rows, width), table.dtype)
    if current_core().core.generation >= _SOFTWARE_DGE:
        nisa.dma_copy(dst=tile, src=table.vector_select(0, index))
        return tile
    for row in range(rows):
        nisa.dma_copy(dst=tile[row : row + 1], src=_row_at(table, index, row))
    return tile


def _write_rows(table: Tensor, index: Tensor, tile: Tensor, rows: int) -> None:
    if current_core().core.generation >= _SOFTWARE_DGE:
        nisa.dma_copy(dst=table.vector_select(0, index), src=tile)
        return
    for row in range(rows):
        nisa.dma_copy(dst=_row_at(table, index, row), src=tile[row : row + 1])


def _row_at(table: Tensor, index: Tensor, row: int) -> Any:
    """One row whose number stands in SBUF, by way of a register."""
    register = nisa.register_alloc()
    nisa.register_load(dst=register, src=index[row : row + 1])
    return table[nl.ds(register, 1)]
