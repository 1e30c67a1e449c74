"""Copies from HBM to HBM of elements at a stride, such as every second element of a row.

A transfer has a descriptor for each element that lies apart. Here whole runs are loaded, with the
elements between, and the engines copy the wanted ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod
from typing import Final

from trnsim.lower.emit.places.tensor_place import Step, TensorPlace
from trnsim.lower.kernels import tiles
from trnsim.lower.kernels.instructions import copied
from trnsim.lower.kernels.tiles import P, Tensor, new
from trnsim.nki import isa as nisa
from trnsim.program import current_core

Axis = tuple[int, Step]
"""A length, and the strides in elements (source, target)."""
Ends = tuple[TensorPlace, TensorPlace]
"""The source and the target of a copy, in HBM."""

_MOST_BYTES: Final = 64
"""Largest stride in bytes at which it takes less time to load the elements between too."""
_LEAST_S: Final = 12e-6
"""Two transfers and a copy between them take less than descriptors of at least this time."""
_LOADED_BYTES: Final = 8 * 1024
"""Maximum bytes of a partition in one transfer."""
_MOST_AXES: Final = 3
"""Most axes of a transfer in addition to its partitions and the elements between."""


@dataclass(frozen=True, slots=True)
class _Pick:
    """The wanted elements in the runs of a source.

    Attributes:
        step: distance from one wanted element to the next, in elements.
        before: elements of a run before the first wanted one.
    """

    step: int
    before: int


def is_picked(axes: list[Axis], itemsize: int) -> bool:
    """True if `copy_picked` takes less time than a transfer of single elements.

    `axes` are in the target's order.
    """
    if not axes or any(source == 1 for _, (source, _) in axes):
        return False
    step, target_step = axes[-1][1]
    is_near = target_step == 1 < step and step * itemsize <= _MOST_BYTES
    core, elements = current_core().core, prod(length for length, _ in axes)
    return is_near and elements * float(core.dma_descriptor_s) / core.dma_engines >= _LEAST_S


def copy_picked(place: TensorPlace, target: TensorPlace, axes: list[Axis]) -> None:
    """Copy elements from HBM to HBM by runs, from which engines pick the wanted ones.

    If the last runs would reach beyond the source, their elements are copied one by one.
    """
    ends, step = (place, target), axes[-1][1][0]
    last = place.offset[0] + sum((length - 1) * steps[0] for length, steps in axes)
    after = prod(place.storage.shape) - 1 - last
    before = max(step - 1 - after, 0)
    if before > place.offset[0]:
        (length, steps), *others = axes
        _copy_elements(_advance(ends, steps, length - 1), others)
        axes, before = [(length - 1, steps), *others], 0
    _copy_axes(ends, axes, _Pick(step, before))


def _advance(ends: Ends, steps: Step, count: int) -> Ends:
    """The source and the target, each advanced by `count` steps."""
    source, target = (
        replace(end, offset=(end.offset[0] + count * steps[side],)) for side, end in enumerate(ends)
    )
    return source, target


def _copy_elements(ends: Ends, axes: list[Axis]) -> None:
    """Copy axes by one transfer, element by element."""
    source, target = (
        tiles.strided(
            end.storage,
            [(steps[side], length) for length, steps in axes] or [(1, 1)],
            end.offset[0],
        )
        for side, end in enumerate(ends)
    )
    nisa.dma_copy(dst=target, src=source)


def _copy_axes(ends: Ends, axes: list[Axis], pick: _Pick) -> None:
    """Copy elements by transfers with as many partitions and as long runs as the axes have."""
    elements = prod(length for length, _ in axes)
    fitting = _LOADED_BYTES // (pick.step * ends[0].storage.dtype.itemsize)
    max_elements = max(min(elements // P, fitting), 1)
    inner: list[Axis] = []
    outer = list(axes)
    while outer and len(inner) < _MOST_AXES and prod(n for n, _ in inner) < max_elements:
        length, steps = outer.pop()
        piece = piece_length(length, max(max_elements // prod(n for n, _ in inner), 1))
        pieces, rest = divmod(length, piece)
        if rest:
            end = _advance(ends, steps, pieces * piece)
            _copy_axes(end, [*outer, (rest, steps), *inner], pick)
        inner.insert(0, (piece, steps))
        if pieces > 1:
            outer.append((pieces, tuple(piece * side for side in steps)))
            break
    _copy_rows(ends, outer, inner, pick)


def piece_length(length: int, max_elements: int) -> int:
    """Elements of a piece of an axis: at most `max_elements`.

    A divisor of the length if there is one above half of `max_elements`.
    """
    divisors = (
        n for n in range(min(max_elements, length), max_elements // 2, -1) if length % n == 0
    )
    return next(divisors, min(max_elements, length))


def _copy_rows(ends: Ends, outer: list[Axis], inner: list[Axis], pick: _Pick) -> None:
    """Copy rows of the axes `inner`; the longest axis of `outer` lies along the partitions."""
    *others, rows = sorted(outer, key=lambda axis: axis[0]) or [(1, (0, 0))]
    if others:
        (length, steps), *rest = others
        for number in range(length):
            _copy_rows(_advance(ends, steps, number), [*rest, rows], inner, pick)
        return
    count, steps = rows
    for first, partitions in tiles.pieces(count, P):
        source, target = _advance(ends, steps, first)
        start = source.offset[0] - pick.before
        tile = _load_picked(source.storage, start, (partitions, steps[0]), inner, pick)
        pattern = [(steps[1], partitions), *((step[1], length) for length, step in inner)]
        nisa.dma_copy(dst=tiles.strided(target.storage, pattern, target.offset[0]), src=tile)


def _load_picked(
    source: Tensor, start: int, rows: tuple[int, int], inner: list[Axis], pick: _Pick
) -> Tensor:
    """The wanted elements of rows of runs, [rows, lengths of the axes]."""
    partitions, step = rows
    lengths = [length for length, _ in inner]
    loaded = new((partitions, *lengths, pick.step), source.dtype)
    pattern = [(step, partitions), *((steps[0], length) for length, steps in inner)]
    nisa.dma_copy(dst=loaded, src=tiles.strided(source, [*pattern, (1, pick.step)], start))
    return copied(loaded[..., pick.before], source.dtype, new((partitions, *lengths), source.dtype))
