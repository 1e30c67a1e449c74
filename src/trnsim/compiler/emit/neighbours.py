"""Rows of heads in HBM, many to a transfer: short heads with their neighbours, long ones in parts.

A queue takes longer to start a transfer than a short head takes to come.
"""

from __future__ import annotations

from itertools import product
from typing import Final

from trnsim.compiler.emit.heads import head
from trnsim.compiler.emit.placed import Matrix, Placed
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa

_BYTES: Final = 8192
"""Bytes of a partition that one transfer brings or takes."""

Index = tuple[int, ...]


def lies_in_rows(placed: Placed, width: int) -> bool:
    """Whether a head's rows lie in HBM, each in one run."""
    return not placed.is_on_chip and (width == 1 or placed.steps[1] == (1,))


class Neighbours:
    """Heads by where they lie, and those that were brought."""

    def __init__(self, heads: tuple[int, ...]) -> None:
        self._heads = list(product(*map(range, heads)))
        self._groups: dict[int, list[list[int]]] = {}
        self._brought: dict[tuple[int, int], Placed] = {}

    def near(self, placed: Placed, index: Index, row: int = 0) -> tuple[Placed, int]:
        """A head's matrix from some row on, and that row.

        What does not lie in rows in HBM, or not in whole blocks of them, stays where it is.
        """
        found = head(placed, index)
        length, width = found.shape
        if not lies_in_rows(found, width) or (length > P and length % P):
            return found, 0
        most = max(1, _BYTES // (width * placed.storage.dtype.itemsize))
        if length <= most * P:
            group = self._group(placed, found.offset[0], most // max(1, length // P))
            first = 0
        else:
            first = row // (most * P) * most * P
            rows = min(most * P, length - first)
            found = found.sliced((rows, width), (first, 0), (1, 1))
            group = [found.offset[0]]
        return self._from(found, group), first

    def _group(self, placed: Placed, start: int, most: int) -> list[int]:
        """Where the heads begin that come with that one: evenly spaced, at most so many."""
        if id(placed) not in self._groups:
            starts = sorted({head(placed, one).offset[0] for one in self._heads})
            self._groups[id(placed)] = _evenly(starts, most)
        return next(group for group in self._groups[id(placed)] if start in group)

    def _from(self, found: Placed, group: list[int]) -> Placed:
        """A head of those that begin at some places, brought once."""
        rows, width = found.shape
        key = id(found.storage), group[0]
        if key not in self._brought:
            self._brought[key] = _load(found, group)
        whole = self._brought[key]
        place = group.index(found.offset[0]) * rows
        return Placed(whole.storage, (rows, width), whole.steps, (place, 0))


def _evenly(starts: list[int], most: int) -> list[list[int]]:
    """Numbers in groups of at most so many, evenly spaced."""
    found: list[list[int]] = []
    for start in starts:
        last = found[-1] if found else []
        is_even = len(last) < 2 or start - last[-1] == last[1] - last[0]  # noqa: PLR2004
        if last and len(last) < most and is_even:
            last.append(start)
        else:
            found.append([start])
    return found


def _load(found: Placed, group: list[int]) -> Placed:
    """Heads [rows, width] one after the other as blocks of rows, by one transfer."""
    rows, width = found.shape
    block = min(rows, P)
    blocks, step = rows // block, found.steps[0][0]
    tile = new((block, len(group) * blocks, width), found.storage.dtype)
    space = group[1] - group[0] if len(group) > 1 else 0
    pattern = [(step, block), (space, len(group)), (step * block, blocks), (1, width)]
    source = tiles.strided(found.storage, pattern, group[0])
    nisa.dma_copy(dst=tile.reshape((block, len(group), blocks, width)), src=source)
    matrix = Matrix(tile, len(group) * rows, block)
    return Placed(matrix, (len(group) * rows, width), ((1, 0), (0, 1)), (0, 0))


def store_rows(places: list[Placed], rows: Tensor) -> None:
    """Rows [rows, heads, width] to heads in HBM; evenly spaced ones by one transfer."""
    first, step = 0, places[0].steps[0][0]
    for group in _evenly([one.offset[0] for one in places], len(places)):
        space = group[1] - group[0] if len(group) > 1 else 0
        pattern = [(step, rows.shape[0]), (space, len(group)), (1, rows.shape[2])]
        target = tiles.strided(places[0].storage, pattern, group[0])
        nisa.dma_copy(dst=target, src=rows[:, first : first + len(group)])
        first += len(group)
