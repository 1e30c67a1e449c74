"""Row-wise kernels: running sums and products, and the indices of the largest elements.

Rows are independent, 128 of them on the partitions at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil, inf, isqrt
from typing import Final

import numpy as np

from trnsim.dtypes import Float32Array
from trnsim.errors import NotModelled, Unspecified
from trnsim.graph import Node
from trnsim.graph.ops.reductions import Scan, TopK, neutral
from trnsim.isa import Engine
from trnsim.isa.language.lanes import clock_hz
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.extremes import index_of_largest
from trnsim.lower.kernels.merging import merged_order, parts_to_merge
from trnsim.lower.kernels.short_rows import are_shared_partitions_faster
from trnsim.lower.kernels.sorting_network import columns_of, network_cycles, network_order
from trnsim.lower.kernels.tiles import LARGEST_FLOAT32, P, Tensor, new
from trnsim.lower.rules import kernel
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl
from trnsim.program import current_core

_SCAN_COLUMNS: Final = 2048
"""Most columns of a tile in one scan."""
_MAX8_ELEMENTS: Final = 16384
"""Maximum number of elements of a partition that max8 reads (nki.isa.max8)."""
_MAX8_RESULTS: Final = 8
"""Elements that max8 finds at once (nki.isa.max8)."""
_MOST_EXACT_COLUMNS: Final = 2**24
"""Most columns of a row whose indices float32 represents exactly."""
_LOWEST_FLOAT32: Final = -LARGEST_FLOAT32
"""The lowest value in a search: minus infinity marks elements that were found before."""


@kernel(Scan)
def scan(operation: Scan, node: Node, source: Tensor) -> Tensor:
    """Running results along each row, by the Vector Engine, piece by piece.

    Many short rows share partitions.
    """
    op, length = operation.op, node.result.shape[-1]
    out = tiles.output(node.result.shape, node.result.dtype)
    shape = node.result.type.elements // length, length
    if are_shared_partitions_faster(shape, source.dtype.itemsize, _columns_s(shape)):
        _scan_short_rows(op, shape, source, out)
        return out
    for start, rows in tiles.pieces(shape[0], P):
        carry: Tensor = float(neutral(op, np.float32))
        for column, columns in tiles.pieces(length, _SCAN_COLUMNS):
            pattern = [(length, rows), (1, columns)]
            place = start * length + column
            tile = tiles.load(tiles.strided(source, pattern, place))
            result = _scan_tile(op, tile, carry)
            carry = result[:, columns - 1 : columns]
            if op in _GROWING:
                result = integers.wrap(result, node.result.dtype)
            tiles.store(tiles.strided(out, pattern, place), result)
    return out


_GROWING: Final = ("add", "multiply")
"""Operations whose running results may leave the range of a short integer type."""


def _columns_s(shape: tuple[int, int]) -> float:
    """Seconds of a scan of short rows, whose instructions follow one another column by column.

    A last tile of fewer rows waits for its own transfer.
    """
    core = current_core().core
    together = [count for _, _, count in _shared_rows(shape)]
    cycles = sum(shape[1] * (2 * float(core.access_latency_cycles) + 2 * n) for n in together)
    waited_s = float(core.dma_start_s) if together[-1] < together[0] else 0.0
    return cycles / clock_hz(core, Engine.vector) + waited_s


def _shared_rows(shape: tuple[int, int]) -> Iterator[tuple[int, int, int]]:
    """(first row, partitions, rows of a partition) of each tile of short rows."""
    rows, length = shape
    return tiles.spread(rows, max(_SCAN_COLUMNS // length, 1))


def _scan_short_rows(op: str, shape: tuple[int, int], source: Tensor, out: Tensor) -> None:
    """Running results along short rows, several of them on a partition, column by column.

    A scan along a partition would carry an infinity from one row to the next.
    """
    length = shape[1]
    for start, partitions, together in _shared_rows(shape):
        pattern = [(together * length, partitions), (1, together * length)]
        tile = tiles.load(tiles.strided(source, pattern, start * length))
        result = new((partitions, together, length))
        data = tile.reshape(result.shape)
        nisa.tensor_copy(dst=result[:, :, :1], src=data[:, :, :1])
        for column in range(1, length):
            nisa.tensor_tensor(
                dst=result[:, :, column : column + 1],
                data1=result[:, :, column - 1 : column],
                data2=data[:, :, column : column + 1],
                op=getattr(nl, op),
            )
        stored = result.reshape((partitions, together * length))
        if op in _GROWING:
            stored = integers.wrap(stored, out.dtype.name)
        tiles.store(tiles.strided(out, pattern, start * length), stored)


def _scan_tile(op: str, tile: Tensor, carry: Tensor) -> Tensor:
    """Running results of a tile: sums by ``1 * carry + x``, others by ``(x <op> carry) + 0``."""
    result, constant = new(tile.shape), new(tile.shape)
    nisa.memset(dst=constant, value=1.0 if op == "add" else 0.0)
    data = (constant, tile) if op == "add" else (tile, constant)
    first = nl.multiply if op == "add" else getattr(nl, op)
    nisa.tensor_tensor_scan(
        dst=result, data0=data[0], data1=data[1], initial=carry, op0=first, op1=nl.add
    )
    return result


@kernel(TopK)
def top_k(op: TopK, node: Node, source: Tensor) -> Tensor:
    """Indices of the k largest elements of each row, eight at a time, or all by a network.

    A row that is too long for one search is searched in parts, and then the largest elements of the
    parts. If rows are few, each part lies on a partition of its own.

    Raises:
        NotModelled: for a row that is too long.
        Unspecified: for values that its instructions cannot put in order.
    """
    length, k = node.values[0].shape[-1], op.k
    if k == 1:
        return _store_largest(node, source)
    width = -(-min(k, _MAX8_ELEMENTS) // _MAX8_RESULTS) * _MAX8_RESULTS
    out = tiles.output(node.result.shape, node.result.dtype)
    is_too_long = ceil(length / _MAX8_ELEMENTS) * width > _MAX8_ELEMENTS < length
    shape = node.values[0].type.elements // length, length
    is_network = _takes_network(shape, k, is_search=not is_too_long)
    if current_core().has_values and "float" in source.dtype.name:
        _require_order(source.load().reshape(shape), is_network=is_network)
    if is_network:
        network_order(source, out, shape, k)
        return out
    if is_too_long:
        raise NotModelled(
            f"the {k} largest of {length} elements; a search reads {_MAX8_ELEMENTS} elements",
            fix="ask for fewer, or sort on the CPU",
        )
    for start, rows in tiles.pieces(node.values[0].type.elements // length, P):
        shape = rows, length
        merged_parts = parts_to_merge(shape, k)
        if merged_parts > 1:
            order = merged_order(source, start, shape, merged_parts, _find_largest)
            _store_first(out, start, order, (rows, k))
            continue
        parts = _parts_on_partitions(shape, width)
        if parts > 1:
            indices = _search_partitions(source, start, shape, parts, width)
        else:
            indices = _search_parts(source, start, shape, width)
        result = new((rows, k), nl.int32)
        nisa.tensor_copy(dst=result, src=indices.view(nl.int32)[:, :k])  # the same bits
        nisa.dma_copy(dst=tiles.strided(out, [(k, rows), (1, k)], start * k), src=result)
    return out


def _require_order(rows: Float32Array, *, is_network: bool) -> None:
    """Check that instructions can put the values of rows in order.

    A search marks the elements that it found by minus infinity, so that a minus infinity counts as
    the lowest finite number. A network multiplies, so that infinities of both signs do so.

    Raises:
        Unspecified: for NaN, or a row with an infinity and the finite number that it counts as.
    """
    if np.isnan(rows).any():
        raise Unspecified(
            "top_k: the operand holds NaN, whose order AWS does not document",
            fix="replace NaN first",
        )
    for sign in (-1, 1) if is_network else (-1,):
        is_infinite = (rows == sign * inf).any(axis=1)
        if (is_infinite & (rows == sign * LARGEST_FLOAT32).any(axis=1)).any():
            raise Unspecified(
                f"top_k: a row holds both {sign * inf} and {sign * LARGEST_FLOAT32}, which its "
                "instructions take for one another",
                fix="replace infinities first",
            )


def _takes_network(shape: tuple[int, int], k: int, *, is_search: bool) -> bool:
    """True if a network orders all elements sooner than a search finds the `k` largest.

    Also true if a search is impossible (`is_search` is false) and a network is possible.
    """
    rows, length = shape
    if not columns_of(length):
        return False
    if not is_search:
        return True
    if parts_to_merge((min(rows, P), length), k) > 1:
        return False
    # max8, nc_find_index8 and nc_match_replace8 each read all elements.
    cycles = ceil(rows / P) * ceil(k / _MAX8_RESULTS) * 3.0 * length
    return network_cycles(rows, length) < _CERTAIN_SHARE * cycles


_CERTAIN_SHARE: Final = 0.5
"""A time that is less than this share of another is surely less, though both are estimates."""


def _store_first(out: Tensor, start: int, order: Tensor, shape: tuple[int, int]) -> None:
    """Store the first columns of indices in HBM, whole numbers in float32, as results."""
    rows, k = shape
    tile = tiles.load(order[:, :k])
    result = new(shape, nl.int32)
    nisa.tensor_copy(dst=result, src=tile)
    nisa.dma_copy(dst=tiles.strided(out, [(k, rows), (1, k)], start * k), src=result)


def _store_largest(node: Node, source: Tensor) -> Tensor:
    """The index of the largest element of each row."""
    length = node.values[0].shape[-1]
    out = tiles.output(node.result.shape, node.result.dtype)
    for start, rows in tiles.pieces(node.values[0].type.elements // length, P):
        indices = index_of_largest(source, start, (rows, length))
        nisa.dma_copy(
            dst=tiles.strided(out, [(1, rows), (1, 1)], start), src=indices.view(nl.int32)
        )
    return out


def _search_parts(source: Tensor, start: int, shape: tuple[int, int], width: int) -> Tensor:
    """Indices of the `width` largest of each row from `start` on, searched part after part."""
    rows, length = shape
    parts = list(tiles.pieces(length, _MAX8_ELEMENTS))
    values = new((rows, len(parts) * width))
    indices = new(values.shape, nl.uint32)
    for number, (column, columns) in enumerate(parts):
        view = [(length, rows), (1, columns)]
        tile = _load_row(source, view, start * length + column)
        best, best_indices = _find_largest(tile, width)
        part_columns = slice(number * width, number * width + width)
        nisa.tensor_copy(dst=values[:, part_columns], src=best)
        _offset_indices(indices[:, part_columns], best_indices, column, columns)
    return _gather_largest(values, indices, width) if len(parts) > 1 else indices


def _parts_on_partitions(shape: tuple[int, int], width: int) -> int:
    """The number of parts of each row on partitions of their own; 1 if rows are not divided.

    The `width` largest of all parts are searched together, which takes as long as one part.
    """
    rows, length = shape
    max_parts = min(P // rows, isqrt(length // width), _MAX8_ELEMENTS // width - 1)
    divisors = (parts for parts in range(max_parts, max_parts // 2, -1) if length % parts == 0)
    parts = next(divisors, max_parts)
    return parts if parts > 1 and length // parts <= _MAX8_ELEMENTS else 1


def _search_partitions(
    source: Tensor, start: int, shape: tuple[int, int], parts: int, width: int
) -> Tensor:
    """Indices of the `width` largest of each row from `start` on, with its parts on partitions.

    Elements that remain after equal parts are compared with the largest of the parts.
    """
    rows, length = shape
    columns, rest = divmod(length, parts)
    tile = new((rows * parts, columns))
    for first, many in [(0, rows)] if rest == 0 else tiles.pieces(rows, 1):
        view = [(columns, many * parts), (1, columns)]
        place = (start + first) * length
        nisa.dma_copy(
            dst=tile[first * parts : (first + many) * parts],
            src=tiles.strided(source, view, place),
        )
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=_LOWEST_FLOAT32)
    values = new((rows, parts * width + rest))
    indices = new(values.shape, nl.uint32)
    for target, largest in zip((values, indices), _find_largest(tile, width), strict=True):
        lines = nl.ndarray((rows * parts, width), dtype=largest.dtype, buffer=nl.shared_hbm)
        nisa.dma_copy(dst=lines, src=largest)
        nisa.dma_copy(dst=target[:, : parts * width], src=tiles.flat(lines, rows, parts * width))
    offsets = new((rows, parts, width), nl.int32)
    nisa.iota(dst=offsets, pattern=[[columns, parts], [0, width]])
    part_indices = indices[:, : parts * width]
    flat_offsets = offsets.reshape((rows, parts * width)).view(nl.uint32)
    nisa.tensor_tensor(dst=part_indices, data1=part_indices, data2=flat_offsets, op=nl.add)
    if rest:
        view = [(length, rows), (1, rest)]
        loaded = tiles.load(
            tiles.strided(source, view, start * length + columns * parts), nl.float32
        )
        last = slice(parts * width, parts * width + rest)
        nisa.tensor_scalar(
            dst=values[:, last], data=loaded, op0=nl.maximum, operand0=_LOWEST_FLOAT32
        )
        nisa.iota(dst=indices[:, last].view(nl.int32), pattern=[[1, rest]], offset=columns * parts)
    return _gather_largest(values, indices, width)


def _gather_largest(values: Tensor, indices: Tensor, width: int) -> Tensor:
    """The entries of `indices` at the places of the `width` largest `values` of each row."""
    _, positions = _find_largest(values, width)
    result = new((values.shape[0], width), nl.uint32)
    nisa.nc_n_gather(dst=result, data=indices, indices=positions)
    return result


def _offset_indices(dst: Tensor, indices: Tensor, first: int, count: int) -> None:
    """Indices within `count` columns from `first` on, as indices of the row."""
    if first + count <= _MOST_EXACT_COLUMNS:
        nisa.tensor_scalar(dst=dst, data=indices, op0=nl.add, operand0=float(first))
    else:  # float32 would round them; GpSimd adds two integers exactly
        offset = integers.filled(first, tuple(indices.shape), indices.dtype)
        nisa.tensor_tensor(dst=dst, data1=indices, data2=offset, op=nl.add)


def _load_row(source: Tensor, view: list[tuple[int, int]], place: int) -> Tensor:
    """A part of each row, with finite elements, and at least eight columns."""
    (_, rows), (_, columns) = view
    tile = new((rows, max(columns, _MAX8_RESULTS)))
    if columns < _MAX8_RESULTS:
        nisa.memset(dst=tile, value=float("-inf"))
    loaded = tiles.load(tiles.strided(source, view, place), nl.float32)
    nisa.tensor_scalar(dst=tile[:, :columns], data=loaded, op0=nl.maximum, operand0=_LOWEST_FLOAT32)
    return tile


def _find_largest(tile: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest elements of each row and their indices; overwrites the tile."""
    rows = tile.shape[0]
    values, indices = new((rows, count)), new((rows, count), nl.uint32)
    for first in range(0, count, _MAX8_RESULTS):
        next_columns = slice(first, first + _MAX8_RESULTS)
        nisa.max8(dst=values[:, next_columns], src=tile)
        nisa.nc_find_index8(dst=indices[:, next_columns], data=tile, vals=values[:, next_columns])
        if first + _MAX8_RESULTS < count:
            nisa.nc_match_replace8(
                dst=tile, data=tile, vals=values[:, next_columns], imm=float("-inf")
            )
    return values, indices
