"""Loads of heads from HBM: several short heads by one transfer, a long head by several.

A queue takes longer to start a transfer than a short head takes to arrive.
"""

from __future__ import annotations

from itertools import product
from typing import Any, Final

from trnsim.lower.emit.attending.heads import head_of
from trnsim.lower.emit.places.tensor_place import SbufMatrix, TensorPlace
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.nki import language as nl

_TRANSFER_BYTES: Final = 4096
"""Most bytes of a partition in one transfer, or one block of rows if that has more."""

_NARROW_WIDTHS: Final = (32, 64)
"""Widths of heads of which several share the partitions, at starts that engines accept."""

Index = tuple[int, ...]


def lies_in_rows(place: TensorPlace, width: int) -> bool:
    """True if a head's rows lie in HBM, each contiguous."""
    return not place.is_on_chip and (width == 1 or place.steps[1] == (1,))


class Neighbours:
    """The heads of attention in groups that one transfer loads from HBM, and the loaded groups."""

    def __init__(self, heads: tuple[int, ...]) -> None:
        self._heads = list(product(*map(range, heads)))
        self._groups: dict[int, list[list[int]]] = {}
        self._loaded: dict[Any, TensorPlace] = {}
        self._transposed: dict[Any, Tensor] = {}

    def head_and_first_row(
        self, place: TensorPlace, index: Index, row: int = 0
    ) -> tuple[TensorPlace, int]:
        """A head's matrix, loaded with its neighbours, and the number of its first row.

        Only the part of a long head that contains `row` is loaded. A head that does not lie in rows
        in HBM, or has a last block of fewer rows, is not loaded: its place is returned.
        """
        matrix = head_of(place, index)
        length, width = matrix.shape
        if not lies_in_rows(matrix, width) or (length > P and length % P):
            return matrix, 0
        rows_per_transfer, first = _blocks_per_transfer(matrix) * P, 0
        if length <= rows_per_transfer:
            group = self._group(place, matrix)
        else:
            first = row // rows_per_transfer * rows_per_transfer
            rows = min(rows_per_transfer, length - first)
            matrix = matrix.sliced((rows, width), (first, 0), (1, 1))
            group = [matrix.offset[0]]
        return self._loaded_head(matrix, group), first

    def first_partition(self, place: TensorPlace, index: Index) -> int:
        """The first partition of a head's `columns`; -1 if it is not transposed with neighbours.

        As many transposed heads as fit lie one below the other on the partitions.
        """
        matrix = head_of(place, index)
        length, width = matrix.shape
        if not lies_in_rows(matrix, width) or (length > P and length % P):
            return -1
        if width not in _NARROW_WIDTHS or length > _blocks_per_transfer(matrix) * P:
            return -1
        return self._group(place, matrix).index(matrix.offset[0]) % (P // width) * width

    def columns(self, place: TensorPlace, index: Index) -> Tensor:
        """A head as [width, rows], transposed with its neighbours, at its `first_partition`."""
        matrix = head_of(place, index)
        rows, width = matrix.shape
        group, dtype = self._group(place, matrix), place.storage.dtype
        number, at = divmod(group.index(matrix.offset[0]), P // width)
        key = id(place.storage), tuple(group), number, matrix.shape, matrix.steps[0]
        if key not in self._transposed:
            first = number * (P // width)
            heads = min(P // width, len(group) - first)
            lines = self._loaded_head(matrix, group).storage.tile[:, :, :width]
            blocks = max(1, rows // P)
            transposed = new((heads * width, rows), dtype)
            for block, (start, count) in enumerate(tiles.pieces(rows, P)):
                begin = first * blocks + block
                data = lines[:, begin : begin + (heads - 1) * blocks + 1 : blocks]
                flipped = new((heads * width, count), dtype, nl.psum)
                nisa.nc_transpose(dst=flipped, data=data)
                copied(flipped, dtype, transposed[:, start : start + count])
            self._transposed[key] = transposed
        return self._transposed[key][at * width : (at + 1) * width]

    def _group(self, place: TensorPlace, matrix: TensorPlace) -> list[int]:
        """The evenly spaced offsets of the heads that one transfer loads, `matrix` among them."""
        if id(place) not in self._groups:
            most_heads = _blocks_per_transfer(matrix) // max(1, matrix.shape[0] // P)
            starts = sorted({head_of(place, index).offset[0] for index in self._heads})
            self._groups[id(place)] = _group_evenly(starts, most_heads)
        return next(group for group in self._groups[id(place)] if matrix.offset[0] in group)

    def _loaded_head(self, matrix: TensorPlace, group: list[int]) -> TensorPlace:
        """A head in SBUF, loaded with the heads at the offsets of its `group`, each group once.

        Values may be the first elements of the keys; then a group that was loaded for the wider
        keys serves the narrower values.
        """
        rows, width = matrix.shape
        key = id(matrix.storage), tuple(group), rows, matrix.steps[0]
        loaded = self._loaded.get(key)
        if loaded is None or loaded.shape[1] < width:
            loaded = self._loaded[key] = _load(matrix, group)
        first_row = group.index(matrix.offset[0]) * rows
        return TensorPlace(loaded.storage, (rows, width), loaded.steps, (first_row, 0))


def _blocks_per_transfer(matrix: TensorPlace) -> int:
    """The number of blocks of a head's rows that one transfer loads: at least 1."""
    return int(max(1, _TRANSFER_BYTES // (matrix.shape[1] * matrix.storage.dtype.itemsize)))


def _group_evenly(starts: list[int], max_starts: int) -> list[list[int]]:
    """Ascending offsets in groups of at most `max_starts`, evenly spaced in each group."""
    groups: list[list[int]] = []
    for start in starts:
        last = groups[-1] if groups else []
        is_even = len(last) < 2 or start - last[-1] == last[1] - last[0]  # noqa: PLR2004
        if last and len(last) < max_starts and is_even:
            last.append(start)
        else:
            groups.append([start])
    return groups


def _load(matrix: TensorPlace, group: list[int]) -> TensorPlace:
    """The heads at the offsets of `group`, each like `matrix` [rows, width], by one transfer.

    The result is a matrix in SBUF, [rows of all heads, width].
    """
    rows, width = matrix.shape
    block = min(rows, P)
    blocks, step = rows // block, matrix.steps[0][0]
    tile = new((block, len(group) * blocks, width), matrix.storage.dtype)
    space = group[1] - group[0] if len(group) > 1 else 0
    pattern = [(step, block), (space, len(group)), (step * block, blocks), (1, width)]
    source = tiles.strided(matrix.storage, pattern, group[0])
    nisa.dma_copy(dst=tile.reshape((block, len(group), blocks, width)), src=source)
    heads = SbufMatrix(tile, len(group) * rows, block)
    return TensorPlace(heads, (len(group) * rows, width), ((1, 0), (0, 1)), (0, 0))


def store_rows(matrices: list[TensorPlace], rows: Tensor) -> None:
    """Store `rows` [rows, heads, width] in the matrices of heads in HBM.

    Evenly spaced heads are stored by one transfer.
    """
    first, step = 0, matrices[0].steps[0][0]
    for group in _group_evenly([matrix.offset[0] for matrix in matrices], len(matrices)):
        space = group[1] - group[0] if len(group) > 1 else 0
        pattern = [(step, rows.shape[0]), (space, len(group)), (1, rows.shape[2])]
        target = tiles.strided(matrices[0].storage, pattern, group[0])
        nisa.dma_copy(dst=target, src=rows[:, first : first + len(group)])
        first += len(group)
