"""Products of groups of rows, each with a matrix of its own, as in a layer of experts.

The ends of groups are a tensor, so rows are cut into blocks of 128 on the chip: each block belongs
to one group, whose matrix is gathered for it, and is padded with zeros. The number of blocks is
enough for any division of the rows into groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from trnsim.graph import TensorType, Value
from trnsim.graph.building.build import Build

_BLOCK_ROWS: Final = 128
"""Rows of a block: the partitions of a result of the Tensor Engine."""


@dataclass(frozen=True)
class _Blocks:
    """Blocks of rows.

    Attributes:
        size: rows of a block.
        groups: the group of each block, int32 [count].
        rows: the source row of each row of the blocks, int32 [count * size]; padding has the
            index after the last row.
    """

    count: int
    size: int
    groups: Value
    rows: Value


def _cut_into_blocks(b: Build, ends: Value, count: int) -> _Blocks:
    """Blocks of `count` rows whose groups end before the rows `ends`, int32 [groups]."""
    groups, size = ends.shape[0], max(min(_BLOCK_ROWS, count), 1)
    number = count // size + groups
    shape = (number, groups)
    end = b.convert(ends, "float32")
    begin = b.graph.pad(end, [1], [-1])
    lengths = b.ew("add", b.ew("subtract", end, begin), size - 0.5)
    blocks = b.ew("floor", b.ew("multiply", lengths, 1 / size))
    until = b.graph.reshape(b.graph.scan("add", b.graph.reshape(blocks, (1, groups))), (groups,))
    place = b.convert(b.graph.iota(shape, 0), "float32")
    # The number of earlier blocks of each group; a block belongs to one group only.
    before = b.ew("subtract", place, b.broadcast(b.ew("subtract", until, blocks), shape))
    begun = b.ew("compare", before, 0.0, dtype="float32", direction="GE")
    unended = b.ew("compare", place, b.broadcast(until, shape), dtype="float32", direction="LT")
    is_in_group = b.ew("multiply", begun, unended)
    first = b.ew("add", b.ew("multiply", before, float(size)), b.broadcast(begin, shape))
    number_of = b.convert(b.graph.iota(shape, 1), "float32")
    group, start, stop = (
        b.graph.reduce("add", b.ew("multiply", is_in_group, part), (1,))
        for part in (number_of, first, b.broadcast(end, shape))
    )
    wide = (number, size)
    row = b.ew(
        "add",
        b.convert(b.graph.iota(wide, 1), "float32"),
        b.graph.broadcast_in_dim(start, wide, (0,)),
    )
    is_row_of_group = b.ew(
        "compare", row, b.graph.broadcast_in_dim(stop, wide, (0,)), dtype="bool", direction="LT"
    )
    rows = b.ew("select", is_row_of_group, row, float(count), dtype="float32")
    flat = b.graph.reshape(b.convert(rows, "int32"), (number * size,))
    return _Blocks(number, size, b.convert(group, "int32"), flat)


def _gather_rows(b: Build, x: Value, blocks: _Blocks) -> Value:
    """The rows of x [T, D] in blocks: [number, size, D], zero where there is no row."""
    rows = b.graph.gather(b.graph.pad(x, [0, 0], [1, 0]), blocks.rows)
    return b.graph.reshape(rows, (blocks.count, blocks.size, x.shape[1]))


def _matrix_rows(b: Build, blocks: _Blocks, height: int) -> Value:
    """Row indices of each block's matrix in the table of all matrices: int32 [count * height]."""
    shape = (blocks.count, height)
    first = b.ew("multiply", blocks.groups, float(height), dtype="int32")
    first = b.graph.broadcast_in_dim(first, shape, (0,))
    rows = b.ew("add", first, b.graph.iota(shape, 1), dtype="int32")
    return b.graph.reshape(rows, (blocks.count * height,))


def multiply_row_groups(b: Build, x: Value, matrices: Value, ends: Value) -> Value:
    """The rows of x [T, K], each group of them times its matrix of [G, K, N]: [T, N].

    `ends` [G] has the index after the last row of each group.
    """
    blocks = _cut_into_blocks(b, ends, x.shape[0])
    source, order = b.graph.transpose_source(matrices)
    is_flipped = order == (0, 2, 1)
    table = source if is_flipped else matrices
    height, width = table.shape[1:]
    flat = b.graph.reshape(table, (table.shape[0] * height, width))
    chosen = b.graph.gather(flat, _matrix_rows(b, blocks, height))
    chosen = b.graph.reshape(chosen, (blocks.count, height, width))
    products = b.graph.dot_general(_gather_rows(b, x, blocks), chosen, (2, 2 if is_flipped else 1))
    columns = matrices.shape[2]
    rows = b.graph.reshape(products, (blocks.count * blocks.size, columns))
    type_ = TensorType((x.shape[0] + 1, columns), x.dtype)
    placed = b.graph.scatter(type_, blocks.rows, rows, "assign")
    return b.graph.slice(placed, (0, 0), (x.shape[0], columns))


def multiply_column_groups(b: Build, x: Value, y: Value, ends: Value) -> Value:
    """Each group of columns of x [M, T] times the same rows of y [T, N]: [G, M, N].

    `ends` [G] has the index after the last column of each group.
    """
    height, width, groups = x.shape[0], y.shape[1], ends.shape[0]
    blocks = _cut_into_blocks(b, ends, x.shape[1])
    left = _gather_rows(b, b.graph.transpose(x, (1, 0)), blocks)
    parts = b.graph.dot_general(left, _gather_rows(b, y, blocks), (1, 1), "float32")
    rows = b.graph.reshape(parts, (blocks.count * height, width))
    sums = TensorType((groups * height, width), "float32")
    products = b.graph.scatter(sums, _matrix_rows(b, blocks, height), rows)
    return b.graph.reshape(products, (groups, height, width))
