"""Copies from HBM to HBM that transpose short dimensions within each partition.

Transfers of short runs are bound by descriptors. Long runs are loaded instead, the engines put
their elements in order within each partition, and long runs are stored.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations, product
from math import prod
from typing import Final

from trnsim.graph.types import dense
from trnsim.isa import FREE_DIMENSIONS
from trnsim.lower.emit.places.picking import copy_picked, is_picked, piece_length
from trnsim.lower.emit.places.tensor_place import Step, TensorPlace, merge_axes
from trnsim.lower.emit.places.walk import SHORT_RUN_BYTES
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.program import current_core

Axis = tuple[int, Step]
"""A length, and the strides in elements (source, target)."""

_ROWS_FOR_RUNS: Final = 4
"""Most elements of a run for each row: an element of a row takes 1 ns, a run about 9 ns."""
_PIPELINED_ELEMENTS: Final = 4096
"""Elements of a partition in each tile: one tile is put in order while the next is loaded."""
_TILE_BYTES: Final = 32 * 1024
"""Maximum bytes of a partition that are put in order at once."""


def is_interleaved(place: TensorPlace) -> bool:
    """True if `try_copy_interleaved` would make the row-major copy of a tensor in HBM."""
    if place.is_on_chip or place.is_generated or place.is_pending:
        return False
    strides = [
        (step, dense_step)
        for (step,), dense_step in zip(place.steps, dense(place.shape), strict=True)
    ]
    axes, itemsize = merge_axes(place.shape, strides), place.storage.dtype.itemsize
    return is_picked(axes, itemsize) or _choose_cut(axes, itemsize) is not None


def try_copy_interleaved(place: TensorPlace, target: TensorPlace, axes: list[Axis]) -> bool:
    """Copy from HBM to HBM by long runs that engines put in order; False if that is not faster.

    Args:
        place: the source.
        target: the place of the copy.
        axes: the axes of both, in the target's order, evenly spaced neighbours joined.
    """
    if is_picked(axes, place.storage.dtype.itemsize):
        copy_picked(place, target, axes)
        return True
    cut = _choose_cut(axes, place.storage.dtype.itemsize)
    if cut is None:
        return False
    outer, inner, at, piece = cut
    length, steps = inner[at]
    count, rest = divmod(length, piece)
    source_step, target_step = (step * piece for step in steps)
    pieces = (count, (source_step, target_step))
    _copy_rows(place, target, [*outer, pieces], _with_length(inner, at, piece))
    if rest:
        source, end = place.offset[0] + count * source_step, target.offset[0] + count * target_step
        last = replace(place, offset=(source,)), replace(target, offset=(end,))
        _copy_rows(*last, outer, _with_length(inner, at, rest))
    return True


Cut = tuple[list[Axis], list[Axis], int, int]
"""Axes of the rows, axes within a row, the number of the axis that is cut, elements of a piece."""


def _choose_cut(axes: list[Axis], itemsize: int) -> Cut | None:
    """A cut of a copy into rows, each of which lies on a partition; None if that is not faster.

    None for long runs, which need no new order, and for few rows, which leave most partitions idle.
    A row has all axes from the source's contiguous one on if there are few of them. Otherwise it
    has the axes that make the shorter of the source's and the target's runs longest.
    """
    first = next((at for at, (_, (step, _)) in enumerate(axes) if step == 1), len(axes))
    if first == len(axes) or axes[-1][1][1] != 1:
        return None
    run, longest_run = min(axes[first][0], axes[-1][0]), SHORT_RUN_BYTES // itemsize
    if run >= longest_run:
        return None
    if 1 < len(axes) - first <= FREE_DIMENSIONS:
        cut = _cut_with_row_axes(axes, range(first, len(axes)), itemsize)
        return cut if cut is not None and _is_longer(axes, cut, run) else None
    if prod(length for length, _ in axes) < _MANY_ELEMENTS or len(axes) > _MOST_AXES:
        return None
    ends = {first, len(axes) - 1}
    other_axes = [at for at in range(len(axes)) if at not in ends]
    cuts = [
        _cut_with_row_axes(axes, sorted({*ends, *extra_axes}), itemsize)
        for count in range(FREE_DIMENSIONS - len(ends) + 1)
        for extra_axes in combinations(other_axes, count)
    ]
    longer_cuts = [cut for cut in cuts if cut is not None and _is_longer(axes, cut, run)]
    best_cut = max(longer_cuts, key=_cut_run_elements, default=None)
    if best_cut is None:
        return None
    elements = prod(length for length, _ in axes)
    ordered_s = 2 * _transfer_s(elements, _cut_run_elements(best_cut), itemsize)
    if first == len(axes) - 1:
        otherwise_s = _transfer_s(elements, run, itemsize)
    else:  # matrix by matrix, each loaded, transposed and stored
        matrices = elements // (axes[first][0] * axes[-1][0])
        otherwise_s = 2 * matrices * float(current_core().core.dma_issue_s)
    return best_cut if ordered_s < _CERTAIN_SHARE * otherwise_s else None


_MANY_ELEMENTS: Final = 1 << 14
"""Fewest elements for which all choices of axes are tried."""
_MOST_AXES: Final = 10
"""Most axes of which all choices are tried; importers of models make up to eight."""
_CERTAIN_SHARE: Final = 0.75
"""A time that is less than this share of another is surely less, though both are estimates."""


def _transfer_s(elements: int, run: int, itemsize: int) -> float:
    """The estimated time to transfer `elements` elements in runs of `run` elements."""
    core = current_core().core
    run_bytes = run * itemsize
    is_short = run_bytes <= core.dma_short_run_bytes
    rate = core.dma_short_run_bytes_per_s if is_short else core.dma_bytes_per_s
    run_s = max(float(core.dma_descriptor_s) / core.dma_engines, run_bytes / float(rate))
    return elements / run * run_s


def _cut_with_row_axes(axes: list[Axis], places: Sequence[int], itemsize: int) -> Cut | None:
    """The cut whose rows have the axes `places`; None if a row does not fit on a partition."""
    outer = [axis for at, axis in enumerate(axes) if at not in places]
    inner = [axes[at] for at in places]
    at = max(range(len(inner)), key=lambda number: inner[number][0])
    length = inner[at][0]
    others = prod(n for n, _ in inner) // length
    evenly = min(prod(n for n, _ in axes) // P, _PIPELINED_ELEMENTS) // others
    fitting = _TILE_BYTES // (itemsize * others)
    longest_run = SHORT_RUN_BYTES // itemsize
    piece = piece_length(length, min(max(evenly, longest_run), fitting))
    return (outer, inner, at, piece) if piece > 0 else None


def _is_longer(axes: list[Axis], cut: Cut, run: int) -> bool:
    """True if a cut has runs longer than `run`, and rows for most partitions."""
    rows = prod(n for n, _ in axes) // prod(n for n, _ in _row_axes(cut))
    return rows * _ROWS_FOR_RUNS >= run and _cut_run_elements(cut) > run


def _row_axes(cut: Cut) -> list[Axis]:
    """The axes within a row, the one that is cut with the length of a piece."""
    _, inner, at, piece = cut
    return _with_length(inner, at, piece)


def _cut_run_elements(cut: Cut) -> int:
    """Elements of a contiguous run of a cut, the shorter of those of the source and the target."""
    return _shortest_run(_row_axes(cut))


def _with_length(axes: list[Axis], at: int, length: int) -> list[Axis]:
    """The axes, with another length of axis number `at`."""
    return [*axes[:at], (length, axes[at][1]), *axes[at + 1 :]]


def _shortest_run(axes: list[Axis]) -> int:
    """Elements of a contiguous run, the shorter of those of the source and the target."""
    return min((_run_elements(axes, side) for side in (0, 1)), default=1)


def _run_elements(axes: list[Axis], side: int) -> int:
    """Elements of a contiguous run of the source (side 0) or the target (side 1)."""
    run = 1
    for length, steps in sorted(axes, key=lambda axis: axis[1][side]):
        if steps[side] != run:
            break
        run *= length
    return run


def _copy_rows(
    place: TensorPlace, target: TensorPlace, rows: list[Axis], inner: list[Axis]
) -> None:
    """Copy rows of the axes `inner`; the longest axis of `rows` lies along the partitions."""
    *others, (count, steps) = sorted(rows, key=lambda axis: axis[0]) or [(1, (0, 0))]
    starts: list[Step] = [
        tuple(
            first + sum(i * step[side] for i, (_, step) in zip(index, others, strict=True))
            for side, first in enumerate((*place.offset, *target.offset))
        )
        for index in product(*(range(length) for length, _ in others))
    ]
    together = max(P // count, 1)
    for at, number in tiles.pieces(len(starts), together):
        for begin, partitions in tiles.pieces(count, P):
            parts = [
                tuple(start[side] + begin * steps[side] for side in (0, 1))
                for start in starts[at : at + number]
            ]
            _copy_parts((place.storage, target.storage), parts, (partitions, steps), inner)


def _copy_parts(
    storages: tuple[Tensor, Tensor], parts: list[Step], rows: Axis, inner: list[Axis]
) -> None:
    """Copy parts, each rows that begin at (source, target), in one tile after the other."""
    order = sorted(range(len(inner)), key=lambda at: -inner[at][1][0])
    (source, target), (count, steps) = storages, rows
    loaded = new((len(parts) * count, *(inner[at][0] for at in order)), source.dtype)
    for number, part in enumerate(parts):
        pattern = [(steps[0], count), *((inner[at][1][0], inner[at][0]) for at in order)]
        lines = loaded[number * count : (number + 1) * count]
        nisa.dma_copy(dst=lines, src=tiles.strided(source, pattern, part[0]))
    dims = (order.index(at) + 1 for at in range(len(inner)))
    ordered = copied(loaded.permute((0, *dims)), source.dtype)
    for number, part in enumerate(parts):
        pattern = [(steps[1], count), *((step[1], length) for length, step in inner)]
        lines = ordered[number * count : (number + 1) * count]
        nisa.dma_copy(dst=tiles.strided(target, pattern, part[1]), src=lines)
