"""Matrix products on the Tensor Engine.

The contraction lies along the partitions on both sides, so a side whose contraction comes last in
HBM is transposed on the way in, block by block. A transfer brings several blocks, as each takes a
fixed time to be started. Operands stay in SBUF while they are used, as far as half of it goes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from math import ceil, prod
from typing import Any, Final

from trnsim.graph import Node
from trnsim.graph.ops.contraction import DotGeneral
from trnsim.graph.ops.reductions import Reduce
from trnsim.lower.kernels import integers, tiles
from trnsim.lower.kernels.tiles import BANK, P, Tensor, new, transposed
from trnsim.lower.rules import kernel
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_SIDE_BYTES: Final = 48 * 1024
"""Bytes of a partition for the stationary side, and as many for the moving one."""
_LOADED_BYTES: Final = 4 * 1024
"""Bytes of a partition that a transfer brings: 1 MiB, which all DMA engines share."""
_BANK_BYTES: Final = 2048
"""Bytes of a partition of a PSUM bank (trainium_inferentia2_arch.rst)."""
_FEWEST: Final = 64
"""Columns that pass in the time of fewer (trainium_inferentia2_arch.rst: ``max(N, 64)``)."""


@kernel(DotGeneral)
def dot_general(op: DotGeneral, node: Node, first: Tensor, second: Tensor) -> Tensor:
    """``[*B, M, K] x [*B, K, N]``, each side with its contraction last or last but one."""
    lhs, rhs = node.values
    batch = prod(lhs.shape[:-2])
    is_k_last = [
        dim == len(value.shape) - 1 for dim, value in zip(op.contracting, (lhs, rhs), strict=True)
    ]
    out = tiles.output(node.result.shape, node.result.dtype)
    M, N = node.result.shape[-2:]
    K = lhs.shape[op.contracting[0]]
    for index in range(batch):
        left = _Side(first, index * M * K, K, M, is_k_last=is_k_last[0])
        right = _Side(second, index * K * N, K, N, is_k_last=is_k_last[1])
        _multiply(out, index * M * N, left, right)
    return out


class _Side:
    """One matrix in HBM, read as tiles [K, columns]."""

    def __init__(
        self, tensor: Tensor, offset: int, K: int, length: int, *, is_k_last: bool
    ) -> None:
        self.tensor, self.offset, self.K, self.length = tensor, offset, K, length
        self.is_k_last = is_k_last

    @property
    def column_bytes(self) -> int:
        """Bytes of a partition of a column of all K."""
        return int(ceil(self.K / P) * self.tensor.dtype.itemsize)

    def block_columns(self, unit: int, most: int = _SIDE_BYTES) -> int:
        """How many columns of all K fit in bytes of a partition: a multiple of `unit`, or 0."""
        return most // self.column_bytes // unit * unit

    def tiles(self, start: int, length: int) -> Iterator[Tensor]:
        """Columns of the matrix as tiles of 128 rows of K, some of them loaded at once."""
        dtype = self.tensor.dtype
        most = max(_LOADED_BYTES // dtype.itemsize // (P if self.is_k_last else length), 1)
        for first, blocks in tiles.pieces(ceil(self.K / P), most):
            k = first * P
            rows = min(self.K - k, blocks * P)
            loaded = new((min(rows, P), blocks, length), dtype)
            fill = self._turn if self.is_k_last else self._bring
            fill(loaded, k, rows, start)
            for block, (_, height) in enumerate(tiles.pieces(rows, P)):
                yield loaded[:height, block]

    def _bring(self, loaded: Tensor, k: int, rows: int, start: int) -> None:
        """Rows of K as they lie in HBM: whole blocks by one transfer, the rest by another."""
        length = loaded.shape[2]
        for block, blocks, height in _blocks(rows):
            pattern = [(self.length, height), (P * self.length, blocks), (1, length)]
            place = self.offset + (k + block * P) * self.length + start
            source = tiles.strided(self.tensor, pattern, place)
            nisa.dma_copy(dst=loaded[:height, block : block + blocks], src=source)

    def _turn(self, loaded: Tensor, k: int, rows: int, start: int) -> None:
        """Lines [columns, K] of HBM, flipped block by block, as many at once as a bank holds."""
        dtype = loaded.dtype
        for first, count in tiles.pieces(loaded.shape[2], P):
            place = self.offset + (start + first) * self.K + k
            lines = tiles.load(tiles.strided(self.tensor, [(self.K, count), (1, rows)], place))
            for block, blocks, height in _blocks(rows, _BANK_BYTES // dtype.itemsize // count):
                flipped = new((height, blocks, count), dtype, nl.psum)
                for number in range(blocks):
                    at = (block + number) * P
                    nisa.nc_transpose(dst=flipped[:, number], data=lines[:, at : at + height])
                target = loaded[:height, block : block + blocks, first : first + count]
                nisa.tensor_copy(dst=target, src=flipped)


def _blocks(rows: int, most: int = P) -> Iterator[tuple[int, int, int]]:
    """Blocks of so many rows: the first one, how many of one height, and that height."""
    whole, rest = divmod(rows, P)
    yield from ((block, blocks, P) for block, blocks in tiles.pieces(whole, most))
    if rest:
        yield whole, 1, rest


def _multiply(out: Tensor, offset: int, left: _Side, right: _Side) -> None:
    """Blocks of the right side stay while those of the left side pass.

    Where K is so long that not even one block of each fits, both sides stream.
    """
    high = left.block_columns(P)
    room = _SIDE_BYTES
    if not right.is_k_last:  # what the left side leaves makes rows of the right one longer
        room += max(_SIDE_BYTES - left.length * left.column_bytes, 0)
    wide = right.block_columns(BANK, room) or right.block_columns(P, room)
    if not (wide and high):
        for (n, width), (m, height) in product(
            tiles.pieces(right.length, BANK), tiles.pieces(left.length, P)
        ):
            pairs = zip(left.tiles(m, height), right.tiles(n, width), strict=True)
            _store(out, offset + m * right.length + n, right.length, _sum(pairs, height, width))
        return
    if high >= left.length and _is_sooner_across(left, right, out):
        _multiply_across(out, offset, left, right, right.block_columns(P, room))
        return
    stationary: list[Tensor] = []
    for n, width in tiles.pieces(right.length, wide):
        moving = list(right.tiles(n, width))
        for m, height in tiles.pieces(left.length, high):
            if not stationary or high < left.length:
                stationary = list(left.tiles(m, height))
            for (row, rows), (column, columns) in product(
                tiles.pieces(height, P), tiles.pieces(width, BANK)
            ):
                resident = (
                    (a[:, row : row + rows], b[:, column : column + columns])
                    for a, b in zip(stationary, moving, strict=True)
                )
                place = offset + (m + row) * right.length + n + column
                _store(out, place, right.length, _sum(resident, rows, columns))


def _is_sooner_across(left: _Side, right: _Side, out: Tensor) -> bool:
    """Whether few rows that pass take the array less time than the columns of the other side.

    What comes out is turned, a block of 128 columns for each block of rows.
    """
    M, N = left.length, right.length
    if M > BANK or "float" not in out.dtype.name:
        return False
    rows, columns, blocks = (ceil(length / P) for length in (M, N, left.K))
    along = rows * blocks * max(N, _FEWEST)
    across = columns * blocks * max(M, _FEWEST) + columns * rows * P
    return across < along


def _multiply_across(out: Tensor, offset: int, left: _Side, right: _Side, wide: int) -> None:
    """Blocks of the right side stay in the array, and all rows of the left side pass."""
    M, N = left.length, right.length
    moving: list[Tensor] = []
    heights = list(tiles.pieces(M, P))
    for n, width in tiles.pieces(N, wide):
        stationary = list(right.tiles(n, width))
        moving = moving or list(left.tiles(0, M))
        lines = [new((rows, width), out.dtype) for _, rows in heights]
        for column, columns in tiles.pieces(width, P):
            pairs = (
                (b[:, column : column + columns], a)
                for a, b in zip(moving, stationary, strict=True)
            )
            across = new((columns, M), out.dtype)
            nisa.tensor_copy(dst=across, src=_sum(pairs, columns, M))
            for line, (m, rows) in zip(lines, heights, strict=True):
                flipped = new((rows, columns), out.dtype, nl.psum)
                nisa.nc_transpose(dst=flipped, data=across[:, m : m + rows])
                nisa.tensor_copy(dst=line[:, column : column + columns], src=flipped)
        for line, (m, rows) in zip(lines, heights, strict=True):
            place = offset + m * N + n
            tiles.store(tiles.strided(out, [(N, rows), (1, width)], place), line)


def _sum(pairs: Iterable[tuple[Tensor, Tensor]], rows: int, columns: int) -> Tensor:
    """The sum of ``a.T @ b`` over pairs, in PSUM."""
    sums = new((rows, columns), nl.float32, nl.psum)
    for stationary, moving in pairs:
        nisa.nc_matmul(dst=sums, stationary=stationary, moving=moving)
    return sums


def _store(out: Tensor, place: int, row: int, sums: Tensor) -> None:
    rows, columns = sums.shape
    tiles.store(tiles.strided(out, [(row, rows), (1, columns)], place), sums)


@kernel(Reduce)
def column_reduce(op: Reduce, node: Node, source: Tensor) -> Tensor:
    """Over dimensions before the last: sums are products with ones, extremes go by transposes."""
    shape, dims = node.values[0].shape, op.dims
    before, columns = prod(shape[: dims[0]]), prod(shape[dims[-1] + 1 :])
    rows = prod(shape[dims[0] : dims[-1] + 1])
    out = tiles.output(node.result.shape, node.result.dtype)
    reduce = _summed if op.op == "add" else _extreme
    width = BANK if reduce is _summed else P
    for number in range(before):
        for start, length in tiles.pieces(columns, width):
            first = number * rows * columns + start
            result = reduce(source, rows, columns, first, length, op.op)
            place = number * columns + start
            result = integers.wrapped(result, node.result.dtype)
            tiles.store(tiles.strided(out, [(0, 1), (1, length)], place), result)
    return out


def _summed(x: Tensor, rows: int, columns: int, first: int, length: int, op: str) -> Tensor:
    """[1, length]: ones.T @ x of the columns from element `first` on, accumulated in PSUM."""
    del op
    sums = new((1, length), nl.float32, nl.psum)
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first)
        block = tiles.load(view, None if "float" in x.dtype.name else nl.float32)
        ones = new((count, 1), block.dtype)
        nisa.memset(dst=ones, value=1.0)
        nisa.nc_matmul(dst=sums, stationary=ones, moving=block)
    return sums


def _extreme(x: Tensor, rows: int, columns: int, first: int, length: int, op: str) -> Tensor:
    """[1, length]: columns from element `first` on become rows, and each row is reduced."""
    alu = {"maximum": nl.maximum, "minimum": nl.minimum, "multiply": nl.multiply}[op]
    best: Any = None
    for row, count in tiles.pieces(rows, P):
        view = tiles.strided(x, [(columns, count), (1, length)], row * columns + first)
        block = tiles.load(view, nl.float32)
        part = new((length, 1))
        nisa.tensor_reduce(dst=part, op=alu, data=transposed(block), axis=1)
        if best is not None:
            nisa.tensor_tensor(dst=part, data1=best, data2=part, op=alu)
        best = part
    return transposed(best)
