"""The order of few long rows: their parts, each on a partition, are searched and merged in pairs.

Two neighbouring runs A and B become one. Each partition finds its own elements of the merged run.
Of the first r elements, i come from A and r - i from B, where i is the number of elements ``A[n]``
that are not below ``B[r - 1 - n]``. This is true of all n below i and of no others, so a binary
search finds i.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Final

from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_LONGEST_ROW: Final = 8192
"""Most elements of a row whose runs, with the fillers between them, fit on a partition."""
_LEAST_PART: Final = 64
"""Fewest elements of a part; with fewer, a search takes less time than a merge."""
_LEAST_WORK: Final = 2**20
"""Least product of elements and results for which parts and merges are faster than a search."""
_MULTIPLE: Final = 8
"""The length of a part is a multiple of this, the number of elements that are found at once."""

Search = Callable[[Tensor, int], tuple[Tensor, Tensor]]
"""A function that gives values and indices of the largest elements of a tile, in order."""


def parts_to_merge(shape: tuple[int, int], k: int) -> int:
    """Parts of each row, a power of two, whose orders are merged; 1 if a search is faster."""
    rows, length = shape
    if length > _LONGEST_ROW or length * k < _LEAST_WORK or 2 * k < length:
        return 1  # few results of a row take fewer searches than the order of its parts
    most_parts = min(P // rows, length // _LEAST_PART)
    return int(2 ** (most_parts.bit_length() - 1)) if most_parts else 1


def merged_order(
    source: Tensor, start: int, shape: tuple[int, int], parts: int, search: Search
) -> Tensor:
    """Indices of the elements of rows from `start` on, the largest first, in HBM: [rows, columns].

    A row has the columns of all its parts, at least as many as it has elements. Equal elements keep
    their order.
    """
    rows, length = shape
    width = -(-length // (parts * _MULTIPLE)) * _MULTIPLE
    values, places = search(_load_parts(source, start, shape, parts, width), width)
    lines = _store_in_hbm(values), _store_in_hbm(_number_in_groups(places, parts))
    run = width
    while run < width * parts:
        values, indices = _merge_pairs(lines, width, run)
        lines = _store_in_hbm(values), _store_in_hbm(indices)
        run *= 2
    return tiles.flat(lines[1], rows, width * parts)


def _load_parts(
    source: Tensor, start: int, shape: tuple[int, int], parts: int, width: int
) -> Tensor:
    """The parts of rows on partitions, with finite elements; the lowest after a row's end."""
    rows, length = shape
    tile = new((rows * parts, width))
    full, last = divmod(length, width)
    if full < parts:
        nisa.memset(dst=tile, value=-tiles.LARGEST_FLOAT32)
    groups = [(0, rows, length // width)] if full == parts else [(r, 1, full) for r in range(rows)]
    for row, many, count in groups:
        view, place = [(width, many * count), (1, width)], (start + row) * length
        if count:
            target = tile[row * parts : row * parts + many * count]
            nisa.dma_copy(dst=target, src=tiles.strided(source, view, place))
        if last:
            end = row * parts + full
            rest = tiles.strided(source, [(last, 1), (1, last)], place + full * width)
            nisa.dma_copy(dst=tile[end : end + 1, :last], src=rest)
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=-tiles.LARGEST_FLOAT32)
    return tile


def _number_in_groups(columns: Tensor, copies: int) -> Tensor:
    """The columns of partitions, numbered within their group of `copies` (a power of two)."""
    width = columns.shape[1]
    numbers, result = new(columns.shape, nl.int32), new(columns.shape)
    nisa.iota(dst=numbers, pattern=[[0, width]], channel_multiplier=1)
    nisa.tensor_scalar(dst=numbers, data=numbers, op0=nl.bitwise_and, operand0=copies - 1)
    nisa.scalar_tensor_tensor(
        dst=result,
        data=numbers,
        op0=nl.multiply,
        operand0=float(width),
        op1=nl.add,
        operand1=columns,
    )
    return result


def _store_in_hbm(tile: Tensor) -> Tensor:
    lines = nl.ndarray(tuple(tile.shape), dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=lines, src=tile)
    return lines


def _merge_pairs(lines: tuple[Tensor, Tensor], width: int, run: int) -> tuple[Tensor, Tensor]:
    """Values and indices of merged pairs of runs; each partition gets `width` elements of a pair.

    A partition loads A, minus infinities, NaN, B and minus infinities, in this order, so that
    comparisons beyond the ends of A and B are right: none before the start of B chooses A.
    """
    partitions = lines[0].shape[0]
    values, indices = new((partitions, 6 * run)), new((partitions, 2 * run))
    nisa.memset(dst=values[:, run : 2 * run], value=-inf)
    nisa.memset(dst=values[:, 2 * run : 4 * run], value=nan)
    nisa.memset(dst=values[:, 5 * run :], value=-inf)
    pairs = _repeat_runs(lines[0], 2 * run // width, 2 * run)
    nisa.dma_copy(dst=values[:, :run], src=pairs[:, :run])
    nisa.dma_copy(dst=values[:, 4 * run : 5 * run], src=pairs[:, run:])
    nisa.dma_copy(dst=indices, src=_repeat_runs(lines[1], 2 * run // width, 2 * run))
    columns = new((partitions, width), nl.int32)
    nisa.iota(dst=columns, pattern=[[1, width]])
    rank = _number_in_groups(columns, 2 * run // width)
    from_a = new(rank.shape)
    nisa.memset(dst=from_a, value=0.0)
    step = 2 ** (run.bit_length() - 1)
    while step:
        candidate, beside = new(rank.shape), new(rank.shape)
        nisa.tensor_scalar(dst=candidate, data=from_a, op0=nl.add, operand0=step - 1.0)
        nisa.tensor_tensor(dst=beside, data1=rank, data2=candidate, op=nl.subtract)
        *_, is_before = _compare_at(values, candidate, beside, 4 * run - 1)
        nisa.scalar_tensor_tensor(
            dst=from_a,
            data=is_before,
            op0=nl.multiply,
            operand0=float(step),
            op1=nl.add,
            operand1=from_a,
        )
        step //= 2
    from_b = new(rank.shape)
    nisa.tensor_tensor(dst=from_b, data1=rank, data2=from_a, op=nl.subtract)
    a, b, is_a = _compare_at(values, from_a, from_b, 4 * run)
    largest = new(rank.shape)
    nisa.tensor_tensor(dst=largest, data1=a, data2=b, op=nl.maximum)
    return largest, _gather(indices, _chosen_columns(is_a, from_a, from_b, run))


def _repeat_runs(lines: Tensor, copies: int, columns: int) -> Tensor:
    """Each run of `columns` elements repeated `copies` times, [partitions, columns] in HBM."""
    partitions = lines.shape[0]
    out = nl.ndarray((partitions, columns), dtype=lines.dtype, buffer=nl.shared_hbm)
    groups = partitions // copies
    nisa.dma_copy(
        dst=tiles.strided(out, [(copies * columns, groups), (columns, copies), (1, columns)]),
        src=tiles.strided(lines, [(columns, groups), (0, copies), (1, columns)]),
    )
    return out


def _compare_at(
    values: Tensor, at_a: Tensor, at_b: Tensor, start_of_b: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Elements of A, elements of B, and a tile of 1 where the element of A comes first, else 0."""
    partitions, width = at_a.shape
    places = new((partitions, 2, width), nl.uint32)
    nisa.tensor_copy(dst=places[:, 0], src=at_a)
    nisa.tensor_scalar(dst=places[:, 1], data=at_b, op0=nl.add, operand0=float(start_of_b))
    both = _gather(values, places.reshape((partitions, 2 * width)))
    a, b = both[:, :width], both[:, width:]
    is_a = new((partitions, width))
    nisa.tensor_tensor(dst=is_a, data1=a, data2=b, op=nl.greater_equal)
    return a, b, is_a


def _chosen_columns(is_a: Tensor, at_a: Tensor, at_b: Tensor, start_of_b: int) -> Tensor:
    """The column of each chosen element in a tile with A, and B from `start_of_b` on."""
    places, result = new(at_a.shape), new(at_a.shape, nl.uint32)
    nisa.tensor_scalar(dst=places, data=at_b, op0=nl.add, operand0=float(start_of_b))
    mask = new(at_a.shape, nl.uint8)
    nisa.tensor_copy(dst=mask, src=is_a)
    nisa.tensor_copy_predicated(dst=places, src=at_a, predicate=mask)
    nisa.tensor_copy(dst=result, src=places)
    return result


def _gather(data: Tensor, places: Tensor) -> Tensor:
    result = new(places.shape, data.dtype)
    nisa.nc_n_gather(dst=result, data=data, indices=places)
    return result
