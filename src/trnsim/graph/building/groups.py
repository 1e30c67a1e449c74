"""Products of groups of rows, each with a matrix of its own, as in a layer of experts.

The ends of groups are a tensor, so rows are cut into blocks on the chip: each block belongs to one
group, whose matrix is gathered for it, and is padded with zeros. The number of blocks is enough for
any division of the rows into groups.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2, sqrt
from typing import Final

from trnsim.graph import Graph, TensorType, Value
from trnsim.graph.building.build import Build

_LEAST_BLOCK_ROWS: Final = 16
_MOST_BLOCK_ROWS: Final = 128
"""Maximum rows of a block: the partitions of a result of the Tensor Engine."""


@dataclass(frozen=True)
class _Blocks:
    """Blocks of rows.

    Attributes:
        size: rows of a block.
        groups: the group of each block, int32 [count].
        rows: the source row of each row of the blocks, int32 [count * size]; padding has the
            index after the last row.
        places: the row of the blocks that each source row has, int32.
    """

    count: int
    size: int
    groups: Value
    rows: Value
    places: Value


def block_rows(count: int, groups: int, rows_of_matrix: float) -> int:
    """Rows of a block for which the bytes of all blocks are about the least: a power of two.

    Blocks of s rows are ``count / s + groups``, and each reads s rows and a matrix of as many bytes
    as `rows_of_matrix` rows: least bytes at ``s = sqrt(count * rows_of_matrix / groups)``.
    """
    rows = sqrt(count * rows_of_matrix / groups) if groups else 0.0
    rows = 2 ** ceil(log2(rows)) if rows > 1.0 else 1
    return max(min(max(rows, _LEAST_BLOCK_ROWS), _MOST_BLOCK_ROWS, count), 1)


def _cut_into_blocks(b: Build, ends: Value, count: int, size: int) -> _Blocks:
    """Blocks of `size` of the `count` rows, whose groups end before the rows `ends` [groups]."""
    groups = ends.shape[0]
    number = count // size + groups
    shape = (number, groups)
    end = b.convert(ends, "float32")
    starts = b.graph.pad(end, [1], [-1])
    lengths = b.ew("add", b.ew("subtract", end, starts), size - 0.5)
    blocks = b.ew("floor", b.ew("multiply", lengths, 1 / size))
    ends_of_blocks = b.graph.reshape(
        b.graph.scan("add", b.graph.reshape(blocks, (1, groups))), (groups,)
    )
    place = b.convert(b.graph.iota(shape, 0), "float32")
    # The number of earlier blocks of each group; a block belongs to one group only.
    before = b.ew("subtract", place, b.broadcast(b.ew("subtract", ends_of_blocks, blocks), shape))
    is_begun = b.ew("compare", before, 0.0, dtype="float32", direction="GE")
    is_unended = b.ew(
        "compare", place, b.broadcast(ends_of_blocks, shape), dtype="float32", direction="LT"
    )
    is_in_group = b.ew("multiply", is_begun, is_unended)
    first = b.ew("add", b.ew("multiply", before, float(size)), b.broadcast(starts, shape))
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
    first_rows = b.ew("multiply", b.ew("subtract", ends_of_blocks, blocks), float(size))
    places = _rows_in_blocks(b, starts, end, b.ew("subtract", first_rows, starts), count)
    return _Blocks(number, size, b.convert(group, "int32"), flat, places)


def _rows_in_blocks(b: Build, starts: Value, end: Value, shifts: Value, count: int) -> Value:
    """The row of the blocks that each of `count` rows has: its index plus its group's shift."""
    shape = count, starts.shape[0]
    row = b.convert(b.graph.iota(shape, 0), "float32")
    has_begun = b.ew("compare", row, b.broadcast(starts, shape), dtype="float32", direction="GE")
    is_before_end = b.ew("compare", row, b.broadcast(end, shape), dtype="float32", direction="LT")
    is_in_group = b.ew("multiply", has_begun, is_before_end)
    shift = b.graph.reduce("add", b.ew("multiply", is_in_group, b.broadcast(shifts, shape)), (1,))
    place = b.ew("add", shift, b.convert(b.graph.iota((count,), 0), "float32"))
    return b.convert(place, "int32")


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


def multiply_blocks(graph: Graph, blocks: Value, matrices: Value, groups: Value) -> Value:
    """Each block of [B, S, K] times the matrix of its group, of [G, K, N]: [B, S, N].

    `groups` [B] has the index of each block's group.
    """
    source, order = graph.transpose_source(matrices)
    is_flipped = order == (0, 2, 1)
    group_matrices = graph.gather(source if is_flipped else matrices, groups)
    return graph.dot_general(blocks, group_matrices, (2, 2 if is_flipped else 1))


def multiply_row_groups(b: Build, x: Value, matrices: Value, ends: Value) -> Value:
    """The rows of x [T, K], each group of them times its matrix of [G, K, N]: [T, N].

    `ends` [G] has the index after the last row of each group. Rows after all groups give zeros.
    """
    groups, height, columns = matrices.shape
    rows_of_matrix = height * columns / (height + columns)
    size = block_rows(x.shape[0], groups, rows_of_matrix)
    blocks = _cut_into_blocks(b, ends, x.shape[0], size)
    products = multiply_blocks(b.graph, _gather_rows(b, x, blocks), matrices, blocks.groups)
    rows = b.graph.reshape(products, (blocks.count * blocks.size, columns))
    results = b.graph.gather(rows, blocks.places)
    last_end = b.graph.slice(ends, (groups - 1,), (1,))
    row = b.graph.iota((x.shape[0],), 0)
    is_grouped = b.ew(
        "compare",
        row,
        b.graph.broadcast_in_dim(last_end, row.shape, (0,)),
        dtype="bool",
        direction="LT",
    )
    is_grouped = b.graph.broadcast_in_dim(is_grouped, results.shape, (0,))
    return b.ew("select", is_grouped, results, 0.0, dtype=results.dtype)


def multiply_column_groups(b: Build, x: Value, y: Value, ends: Value) -> Value:
    """Each group of columns of x [M, T] times the same rows of y [T, N]: [G, M, N].

    `ends` [G] has the index after the last column of each group.
    """
    height, width, groups = x.shape[0], y.shape[1], ends.shape[0]
    size = max(min(_MOST_BLOCK_ROWS, x.shape[1]), 1)
    blocks = _cut_into_blocks(b, ends, x.shape[1], size)
    lhs = _gather_rows(b, b.graph.transpose(x, (1, 0)), blocks)
    parts = b.graph.dot_general(lhs, _gather_rows(b, y, blocks), (1, 1), "float32")
    rows = b.graph.reshape(parts, (blocks.count * height, width))
    sums = TensorType((groups * height, width), "float32")
    products = b.graph.scatter(sums, _matrix_rows(b, blocks, height), rows)
    return b.graph.reshape(products, (groups, height, width))
