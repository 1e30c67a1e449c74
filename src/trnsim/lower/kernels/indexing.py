"""Gather and scatter: rows of a table read or written by index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any, Final

import numpy as np

from trnsim.errors import NotModelled
from trnsim.graph import Node
from trnsim.graph.ops.lookup import Gather, Scatter
from trnsim.graph.ops.reductions import neutral
from trnsim.graph.types import BOOL, INTEGERS, Shape
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.row_sums import RowSums, are_products_faster
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.lower.rules import kernel
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core


@kernel(Gather)
def gather(op: Gather, node: Node, operand: Tensor, indices: Tensor) -> Tensor:
    """Rows of a table, or elements within rows; other forms raise NotModelled."""
    table, index_shape = (value.shape for value in node.values)
    if op == Gather.rows(table, index_shape):
        return _gather_rows(node, operand, indices)
    if op == Gather.in_rows(table):
        return _gather_in_rows(node, operand, indices)
    raise NotModelled(
        f"a gather of {node.values[0].type} by {op}: there are kernels for rows of a table and for "
        "elements within rows",
        fix="gather rows of a reshaped tensor",
    )


def _gather_rows(node: Node, table: Tensor, indices: Tensor) -> Tensor:
    """Rows of a table [V, *D] by indices [*I]: ``[*I, *D]``."""
    out = tiles.output(node.result.shape, node.result.dtype)
    count, width = node.values[1].type.elements, _row_elements(node.values[0].shape)
    rows_of_table = tiles.flat(table, node.values[0].shape[0], width)
    rows_of_result = tiles.flat(out, count, width)
    for start, index in _index_tiles(indices, count):
        rows = index.shape[0] * index.shape[1]
        rows_at(rows_of_table, index, rows_of_result[start : start + rows])
    return out


def _index_tiles(indices: Tensor, count: int) -> Iterator[tuple[int, Tensor]]:
    """Tiles of indices, column after column, each with the position of its first index.

    A transfer by index takes the rows of all columns. Indices are loaded as rows and transposed, as
    the elements of a column lie apart in HBM.
    """
    max_columns = _MOST_INDEX_COLUMNS if current_core().core.features.indirect_dma else 1
    start = 0
    while start < count:
        columns = min((count - start) // P, max_columns)
        if columns <= 1:
            rows = min(count - start, P)
            yield start, tiles.load(tiles.strided(indices, [(1, rows), (1, 1)], start))
            start += rows
        else:
            yield (
                start,
                transposed(tiles.load(tiles.strided(indices, [(P, columns), (1, P)], start))),
            )
            start += columns * P


_MOST_INDEX_COLUMNS: Final = 32
"""Maximum number of columns of indices of one transfer, each of 128 rows."""


def _row_parts(width: int, item_bytes: int, accessed_bytes: int) -> Iterator[tuple[int, int]]:
    """Start and length of each part of a row; one part if one instruction can access all of it.

    Args:
        width: elements of the row.
        item_bytes: bytes of an element.
        accessed_bytes: bytes of a partition that one instruction accesses for the whole row,
            without its index.
    """
    most_bytes = int(current_core().core.sbuf_partition_bytes)
    is_whole = accessed_bytes + nl.uint32.itemsize <= most_bytes
    return tiles.pieces(width, width if is_whole else most_bytes // (_TILES_OF_A_ROW * item_bytes))


_TILES_OF_A_ROW: Final = 4
"""Tiles of a partition that a scatter needs at once: updates, their total, old and new rows."""
_TILES_OF_A_SUM: Final = 3
"""How many of the `_TILES_OF_A_ROW` one instruction accesses."""


def _gather_in_rows(node: Node, data: Tensor, indices: Tensor) -> Tensor:
    """Elements of each row by indices of its own, by the GpSimd Engine within its partition."""
    out = tiles.output(node.result.shape, node.result.dtype)
    length, result_length = node.values[0].shape[-1], node.result.shape[-1]
    index_bytes, item_bytes = nl.uint32.itemsize, data.dtype.itemsize
    count = node.result.type.elements // result_length
    longest = max(length * item_bytes, result_length * index_bytes)
    rows_together = min(_GATHERED_BYTES // longest, count // P // _FEWEST_TILES)
    if rows_together > 1:
        _gather_in_short_rows((data, indices, out), (count, length, result_length), rows_together)
        return out
    accessed_bytes = length * item_bytes + result_length * (index_bytes + item_bytes)
    for start, rows in tiles.pieces(count, P):
        view = tiles.strided(data, [(length, rows), (1, length)], start * length)
        row = tiles.load(view)
        for column, columns in _row_parts(result_length, index_bytes, accessed_bytes):
            pattern, place = [(result_length, rows), (1, columns)], start * result_length + column
            indices_tile = tiles.load(tiles.strided(indices, pattern, place), nl.uint32)
            elements = new((rows, columns), data.dtype)
            nisa.nc_n_gather(dst=elements, data=row, indices=indices_tile)
            nisa.dma_copy(dst=tiles.strided(out, pattern, place), src=elements)
    return out


_GATHERED_BYTES: Final = 8192
"""Maximum bytes of a partition of several rows from which elements are gathered at once."""
_FEWEST_TILES: Final = 4
"""Fewest tiles, so that one is loaded while elements of another are gathered."""


def _gather_in_short_rows(
    tensors: tuple[Tensor, Tensor, Tensor], sizes: tuple[int, int, int], together: int
) -> None:
    """Gather elements within rows, with several neighbouring rows on each partition.

    Args:
        tensors: the rows, the indices, and the result, in HBM.
        sizes: number of rows, elements of a row, and elements of a row of the result.
        together: rows of a partition.
    """
    (data, indices, out), (count, length, result_length) = tensors, sizes
    offsets = new((P, together, result_length), nl.int32)
    nisa.iota(dst=offsets, pattern=[[length, together], [0, result_length]])
    flat_offsets = offsets.reshape((P, together * result_length)).view(nl.uint32)
    for start, partitions, rows in tiles.spread(count, together):
        pattern = [(rows * length, partitions), (1, rows * length)]
        lines = tiles.load(tiles.strided(data, pattern, start * length))
        columns, place = rows * result_length, start * result_length
        pattern = [(columns, partitions), (1, columns)]
        places = tiles.load(tiles.strided(indices, pattern, place), nl.uint32)
        nisa.tensor_tensor(
            dst=places, data1=places, data2=flat_offsets[:partitions, :columns], op=nl.add
        )
        elements = new((partitions, columns), data.dtype)
        nisa.nc_n_gather(dst=elements, data=lines, indices=places)
        nisa.dma_copy(dst=tiles.strided(out, pattern, place), src=elements)


@kernel(Scatter)
def scatter(
    operation: Scatter, node: Node, updates: Tensor, indices: Tensor, *operands: Tensor
) -> Tensor:
    """A table [V, *D], of zeros or a given one, with updates added to or assigned to its rows.

    Updates are taken 128 at a time. Those with the same index are combined first, by the matrix
    that marks equal indices, so that each of them writes the same total. Assigned rows are written
    in order instead, from HBM to HBM. Sums of floating-point rows are matrix products (`row_sums`)
    where these take less time.
    """
    shape, dtype, op = node.result.shape, node.result.dtype, operation.op
    if operation != Scatter.rows(shape, node.values[1].shape, op, operation.type):
        raise NotModelled(
            f"a scatter into {node.result.type} by {operation}: there is a kernel for whole rows",
            fix="scatter rows of a reshaped tensor",
        )
    width, count = _row_elements(shape), node.values[1].type.elements
    if op == "add" and _adds_by_products(node):
        return RowSums(node, updates, indices, operands).run()
    is_assigned = op == "assign"
    op = _TRUTH_OPERATORS.get(op, op) if dtype == BOOL else op
    table_dtype = tiles.dtype_of(dtype) if is_assigned else _COMBINING_DTYPES.get(dtype, nl.float32)
    table = nl.ndarray((shape[0], width), dtype=table_dtype, buffer=nl.shared_hbm)
    _initialise(table, operands, shape[0] * width)
    if is_assigned:
        rows_of_updates = tiles.flat(updates, count, width)
        for start, index in _index_tiles(indices, count):
            _write_rows(
                table, index, rows_of_updates[start : start + index.shape[0] * index.shape[1]]
            )
        return table.reshape(shape)
    item_bytes = table.dtype.itemsize
    accessed_bytes = _TILES_OF_A_SUM * width * item_bytes
    for start, rows in tiles.pieces(count, P):
        index = tiles.load(tiles.strided(indices, [(1, rows), (1, 1)], start))
        for column, columns in _row_parts(width, item_bytes, accessed_bytes):
            part = table[:, column : column + columns]
            pattern = [(width, rows), (1, columns)]
            rows_tile = tiles.load(
                tiles.strided(updates, pattern, start * width + column), table_dtype
            )
            equal = _mark_equal(index, rows, is_long=shape[0] > _MOST_EXACT_ROWS)
            total = _combine(equal, rows_tile, rows, columns, op)
            before = rows_at(part, index, new((rows, columns), part.dtype))
            rows_tile = new((rows, columns), table_dtype)
            nisa.tensor_tensor(dst=rows_tile, data1=total, data2=before, op=getattr(nl, op))
            _write_rows(part, index, rows_tile)
    if table_dtype == tiles.dtype_of(dtype):
        return table.reshape(shape)
    return _narrow_table(table, shape, dtype)


def _adds_by_products(node: Node) -> bool:
    """True if a scatter's updates are added up by matrix products with their one-hot indices."""
    shape, updates = node.result.shape, node.values[0]
    count, width = node.values[1].type.elements, _row_elements(shape)
    is_exact = shape[0] <= _MOST_EXACT_ROWS
    return is_exact and are_products_faster(shape[0], count, width, updates.dtype)


def _narrow_table(table: Tensor, shape: Shape, dtype: str) -> Tensor:
    """A table in a narrower type: floating point is rounded, and integers keep their low bytes."""
    out = tiles.output(shape, dtype)
    for start, partitions, together in tiles.spread(prod(shape), _NARROWED_ELEMENTS):
        pattern = [(together, partitions), (1, together)]
        tile = tiles.load(tiles.strided(table, pattern, start))
        target = tiles.strided(out, pattern, start)
        tiles.store(target, integers.low_bytes(tile, dtype) if dtype in INTEGERS else tile)
    return out


_NARROWED_ELEMENTS: Final = 2048
"""Elements of a partition that are converted to a narrower type at once."""
_MOST_REGISTERS: Final = 4
"""Registers that hold row indices in turn; a transfer reads its register when it is issued."""
_MOST_EXACT_ROWS: Final = 2**24
"""Rows of a table whose indices float32 represents exactly."""
_COMBINING_DTYPES: Final = dict.fromkeys(INTEGERS, nl.int32) | {"uint32": nl.uint32}
"""The format in which rows are combined: 32-bit integers, else float32 for repeated additions."""
_TRUTH_OPERATORS: Final = {"add": "maximum", "multiply": "minimum"}
"""The operator that computes sums and products of truth values: any is true, all are true."""


def _combine(equal: Tensor, updates: Tensor, rows: int, width: int, op: str) -> Tensor:
    """A tile whose row i combines all updates with the index of update i by `op`."""
    if updates.dtype != nl.float32:
        return _integers_by_row(equal, updates, rows, width, op)
    if op == "add":
        return _sum_by_row(equal, updates, rows, width)
    return _extreme_by_row(equal, updates, rows, width, op)


def _row_elements(shape: Shape) -> int:
    """Elements of a row of a table."""
    return prod(shape[1:])


def _initialise(table: Tensor, operands: Sequence[Tensor], elements: int) -> None:
    """Initialise the table, before any update."""
    if operands:
        tiles.copy_run(table, 0, operands[0], 0, elements)
    else:
        tiles.fill(table, elements, 0.0)


def _mark_equal(index: Tensor, rows: int, *, is_long: bool) -> Tensor:
    """A tile [rows, rows]: 1 where two indices are equal; GpSimd compares those of long tables."""
    dtype = nl.int32 if is_long else nl.float32
    column = new((rows, 1), dtype)
    nisa.tensor_copy(dst=column, src=index.view(nl.int32) if is_long else index)
    index_rows = new((rows, rows), dtype)
    nisa.tensor_copy(dst=index_rows, src=column.broadcast(1, rows))
    marks = new((rows, rows))
    if is_long:
        words = new((rows, rows), dtype)  # a result of another type is compared in float32
        nisa.tensor_tensor(dst=words, data1=transposed(index_rows), data2=index_rows, op=nl.equal)
        nisa.tensor_copy(dst=marks, src=words)
    else:
        nisa.tensor_scalar(dst=marks, data=transposed(index_rows), op0=nl.equal, operand0=column)
    return marks


def _sum_by_row(equal: Tensor, updates: Tensor, rows: int, width: int) -> Tensor:
    """A tile whose row i is the sum of all updates with the index of update i."""
    total = new((rows, width))
    for start, length in tiles.pieces(width, BANK):
        sums = new((rows, length), nl.float32, nl.psum)
        nisa.nc_matmul(dst=sums, stationary=equal, moving=updates[:, start : start + length])
        nisa.tensor_copy(dst=total[:, start : start + length], src=sums)
    return total


def _extreme_by_row(equal: Tensor, updates: Tensor, rows: int, width: int, op: str) -> Tensor:
    """A tile whose row i combines all updates with the index of update i, column by column."""
    is_unlike = new((rows, rows), nl.uint8)
    nisa.tensor_scalar(dst=is_unlike, data=equal, op0=nl.equal, operand0=0.0)
    filler = new((rows, rows))
    nisa.memset(dst=filler, value=float(neutral(op, np.float32)))
    total = new((rows, width))
    for column in range(width):
        column_tile = new((rows, rows))
        nisa.tensor_copy(dst=column_tile, src=updates[:, column : column + 1].broadcast(1, rows))
        spread = transposed(column_tile)
        nisa.tensor_copy_predicated(dst=spread, src=filler, predicate=is_unlike)
        nisa.tensor_reduce(
            dst=total[:, column : column + 1], op=getattr(nl, op), data=spread, axis=1
        )
    return total


def _integers_by_row(equal: Tensor, updates: Tensor, rows: int, width: int, op: str) -> Tensor:
    """A tile whose row i combines all integer updates with the index of update i, modulo 2**32.

    GpSimd combines two integers exactly, so the first half of the updates is combined with the
    second until one column remains.
    """
    is_unlike = new((rows, rows), nl.uint8)
    nisa.tensor_scalar(dst=is_unlike, data=equal, op0=nl.equal, operand0=0.0)
    number = int(neutral(op, np.dtype(updates.dtype.name)))
    filler = new((rows, rows), updates.dtype)
    nisa.tensor_copy(dst=filler, src=integers.filled(number, (rows, rows), updates.dtype))
    total = new((rows, width), updates.dtype)
    for column in range(width):
        column_tile = new((rows, rows), updates.dtype)
        nisa.tensor_copy(dst=column_tile, src=updates[:, column : column + 1].broadcast(1, rows))
        combined = transposed(column_tile)
        nisa.tensor_copy_predicated(dst=combined, src=filler, predicate=is_unlike)
        while combined.shape[1] > 1:
            combined = _fold(combined, getattr(nl, op))
        nisa.tensor_copy(dst=total[:, column : column + 1], src=combined)
    return total


def _fold(tile: Tensor, op: Any) -> Tensor:
    """The first half of the columns combined with the second; an odd last column stays."""
    rows, count = tile.shape
    half = count // 2
    result = new((rows, count - half), tile.dtype)
    if count % 2:
        nisa.tensor_copy(dst=result[:, half:], src=tile[:, count - 1 :])
    nisa.tensor_tensor(
        dst=result[:, :half], data1=tile[:, :half], data2=tile[:, half : 2 * half], op=op
    )
    return result


def rows_at(table: Tensor, index: Tensor, tile: Tensor) -> Tensor:
    """Copy rows of `table` by index to `tile`; row by row on a chip without indirect DMA."""
    if current_core().core.features.indirect_dma:
        nisa.dma_copy(dst=tile, src=_select_rows(table, index))
        return tile
    registers = _registers(tile.shape[0])
    for row in range(tile.shape[0]):
        source = _row_at(table, index, row, registers)
        nisa.dma_copy(dst=tile[row : row + 1], src=source)
    return tile


def _select_rows(table: Tensor, index: Tensor) -> Tensor:
    """The rows of a table that indices choose; several columns of them need a dense table."""
    partitions, columns = index.shape
    if columns == 1:
        return table.vector_select(0, index)
    width = table.shape[1]
    return table.ap([[width, partitions * columns], [1, width]], vector_offset=index)


def _write_rows(table: Tensor, index: Tensor, tile: Tensor) -> None:
    """Write the rows of `tile` to rows of `table` by index."""
    if current_core().core.features.indirect_dma:
        nisa.dma_copy(dst=_select_rows(table, index), src=tile)
        return
    registers = _registers(tile.shape[0])
    for row in range(tile.shape[0]):
        target = _row_at(table, index, row, registers)
        nisa.dma_copy(dst=target, src=tile[row : row + 1])


def _registers(rows: int) -> list[Any]:
    """Registers that hold the indices of `rows` rows in turn."""
    return [nisa.register_alloc() for _ in range(min(rows, _MOST_REGISTERS))]


def _row_at(table: Tensor, index: Tensor, row: int, registers: list[Any]) -> Any:
    """A view of a row whose index lies in SBUF, and is loaded into a register."""
    register = registers[row % len(registers)]
    nisa.register_load(dst=register, src=index[row : row + 1])
    return table[nl.ds(register, 1)]
