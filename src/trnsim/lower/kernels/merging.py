"""The order of few long rows: parts on partitions of their own are searched, then merged in pairs.

Neighbouring runs A and B become one. Each partition seeks its own elements of the merged run: of
the first r of them, i come from A and r - i from B, where i is the number of elements ``A[n]``
that are not below ``B[r - 1 - n]``. This holds of all n below i and of no others, so that i is
found by halving.
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
"""Elements of a row whose runs, with what surrounds them, lie in a partition."""
_LEAST_PART: Final = 64
"""Elements of a part below which a search takes less than a merge."""
_LEAST_WORK: Final = 2**20
"""Elements times results from which searches of parts and merges are faster than a search."""
_MULTIPLE: Final = 8
"""A part has a multiple of the elements that are found at once."""
_LOWEST_FLOAT32: Final = -3.4028235e38

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

    A row has as many columns as all its parts, which are at least its elements. Equal elements are
    in order.
    """
    rows, length = shape
    width = -(-length // (parts * _MULTIPLE)) * _MULTIPLE
    values, places = search(_loaded_parts(source, start, shape, parts, width), width)
    lines = _stored(values), _stored(_numbered(places, parts))
    run = width
    while run < width * parts:
        values, indices = _merged(lines, width, run)
        lines = _stored(values), _stored(indices)
        run *= 2
    return tiles.flat(lines[1], rows, width * parts)


def _loaded_parts(
    source: Tensor, start: int, shape: tuple[int, int], parts: int, width: int
) -> Tensor:
    """The parts of rows on partitions, finite; after the end of a row they have the lowest."""
    rows, length = shape
    tile = new((rows * parts, width))
    full, last = divmod(length, width)
    if full < parts:
        nisa.memset(dst=tile, value=_LOWEST_FLOAT32)
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
    nisa.tensor_scalar(dst=tile, data=tile, op0=nl.maximum, operand0=_LOWEST_FLOAT32)
    return tile


def _numbered(columns: Tensor, copies: int) -> Tensor:
    """Columns of a partition as columns of the group of `copies` neighbours, a power of two."""
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


def _stored(tile: Tensor) -> Tensor:
    lines = nl.ndarray(tuple(tile.shape), dtype=tile.dtype, buffer=nl.shared_hbm)
    nisa.dma_copy(dst=lines, src=tile)
    return lines


def _merged(lines: tuple[Tensor, Tensor], width: int, run: int) -> tuple[Tensor, Tensor]:
    """Values and indices of merged pairs of runs: `width` neighbours of a pair on each partition.

    A partition has both runs of its pair: A and what is below all, then NaN, B, and what is below
    all, so that comparisons beyond the ends of A and B come out right: before B nothing is A's.
    """
    partitions = lines[0].shape[0]
    values, indices = new((partitions, 6 * run)), new((partitions, 2 * run))
    nisa.memset(dst=values[:, run : 2 * run], value=-inf)
    nisa.memset(dst=values[:, 2 * run : 4 * run], value=nan)
    nisa.memset(dst=values[:, 5 * run :], value=-inf)
    pairs = _repeated(lines[0], 2 * run // width, 2 * run)
    nisa.dma_copy(dst=values[:, :run], src=pairs[:, :run])
    nisa.dma_copy(dst=values[:, 4 * run : 5 * run], src=pairs[:, run:])
    nisa.dma_copy(dst=indices, src=_repeated(lines[1], 2 * run // width, 2 * run))
    columns = new((partitions, width), nl.int32)
    nisa.iota(dst=columns, pattern=[[1, width]])
    rank = _numbered(columns, 2 * run // width)
    from_a = new(rank.shape)
    nisa.memset(dst=from_a, value=0.0)
    step = 2 ** (run.bit_length() - 1)
    while step:
        candidate, beside = new(rank.shape), new(rank.shape)
        nisa.tensor_scalar(dst=candidate, data=from_a, op0=nl.add, operand0=step - 1.0)
        nisa.tensor_tensor(dst=beside, data1=rank, data2=candidate, op=nl.subtract)
        *_, is_before = _compared(values, candidate, beside, 4 * run - 1)
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
    a, b, is_a = _compared(values, from_a, from_b, 4 * run)
    largest = new(rank.shape)
    nisa.tensor_tensor(dst=largest, data1=a, data2=b, op=nl.maximum)
    return largest, _gathered(indices, _chosen(is_a, from_a, from_b, run))


def _repeated(lines: Tensor, copies: int, columns: int) -> Tensor:
    """Each run of `columns` elements so many times, [partitions, columns] in HBM."""
    partitions = lines.shape[0]
    out = nl.ndarray((partitions, columns), dtype=lines.dtype, buffer=nl.shared_hbm)
    groups = partitions // copies
    nisa.dma_copy(
        dst=tiles.strided(out, [(copies * columns, groups), (columns, copies), (1, columns)]),
        src=tiles.strided(lines, [(columns, groups), (0, copies), (1, columns)]),
    )
    return out


def _compared(
    values: Tensor, at_a: Tensor, at_b: Tensor, start_of_b: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Elements of A, elements of B, and 1 where that of A comes first, else 0."""
    partitions, width = at_a.shape
    places = new((partitions, 2, width), nl.uint32)
    nisa.tensor_copy(dst=places[:, 0], src=at_a)
    nisa.tensor_scalar(dst=places[:, 1], data=at_b, op0=nl.add, operand0=float(start_of_b))
    both = _gathered(values, places.reshape((partitions, 2 * width)))
    a, b = both[:, :width], both[:, width:]
    is_a = new((partitions, width))
    nisa.tensor_tensor(dst=is_a, data1=a, data2=b, op=nl.greater_equal)
    return a, b, is_a


def _chosen(is_a: Tensor, at_a: Tensor, at_b: Tensor, start_of_b: int) -> Tensor:
    """The place of each element where B lies right after A."""
    places, result = new(at_a.shape), new(at_a.shape, nl.uint32)
    nisa.tensor_scalar(dst=places, data=at_b, op0=nl.add, operand0=float(start_of_b))
    mask = new(at_a.shape, nl.uint8)
    nisa.tensor_copy(dst=mask, src=is_a)
    nisa.tensor_copy_predicated(dst=places, src=at_a, predicate=mask)
    nisa.tensor_copy(dst=result, src=places)
    return result


def _gathered(data: Tensor, places: Tensor) -> Tensor:
    result = new(places.shape, data.dtype)
    nisa.nc_n_gather(dst=result, data=data, indices=places)
    return result
