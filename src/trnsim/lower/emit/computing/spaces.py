"""Iteration spaces of computations from HBM to HBM, as matrices.

Elementwise computations may visit elements in any order: neighbouring dimensions through which
every tensor steps evenly become one, a long vector is cut into rows, and rows are joined or cut
until they fill the partitions and suit an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from trnsim.lower.emit.computing.leaves import NEAR_STRIDE
from trnsim.lower.emit.places.tensor_place import TensorPlace, merge_axes
from trnsim.lower.emit.places.walk import MANY_TRANSFERS, Frame, axes_along, count_transfers
from trnsim.lower.kernels.tiles import P

_FEW_COLUMNS: Final = 512
"""Columns of a tile below which the fixed cost of instructions dominates."""

_Steps = tuple[int, ...]
_Axis = tuple[int, _Steps]
"""A length, and the stride in elements of each tensor; 0 repeats."""
_Space = tuple[list[_Axis], list[_Axis], int]
"""Axes along the partitions, axes along the columns, and the offset of the first element."""


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """A part of an iteration space as a matrix.

    Attributes:
        places: the place of each tensor, in the matrix's shape.
    """

    frame: Frame
    places: dict[Any, TensorPlace]


def matrix_parts(places: Mapping[Any, TensorPlace], piece: int) -> list[MatrixPart]:
    """The matrices that cover tensors of one shape in HBM, of rows of at most `piece` elements."""
    tensors = list(places.values())
    shape = tensors[0].shape
    steps = [tuple(tensor.steps[dim][0] for tensor in tensors) for dim in range(len(shape))]
    parts_: list[MatrixPart] = []
    for rows, columns, first in _spaces(merge_axes(shape, steps), piece):
        outer = _walked_axes(rows, is_counted=any(tensor.is_generated for tensor in tensors))
        for index in product(*(range(length) for length, _ in rows[:outer])):
            moved = [
                sum(i * step[at] for i, (_, step) in zip(index, rows, strict=False))
                + first * any(step[at] for _, step in (*rows, *columns))
                for at in range(len(tensors))
            ]
            parts_.append(_matrix_part(places, rows[outer:], columns, moved))
    return parts_


def is_near(part: MatrixPart, keys: Iterable[Any]) -> bool:
    """True if the elements of tensors lie so near each other that transfers are fast."""
    for place in (part.places[key] for key in keys):
        last = axes_along(place, part.frame.f_dims)[-1:]
        is_far = bool(last) and last[0][1][0] > NEAR_STRIDE
        if not place.is_generated and (
            is_far or count_transfers(place, part.frame) > MANY_TRANSFERS
        ):
            return False
    return True


def _matrix_part(
    places: Mapping[Any, TensorPlace], rows: list[_Axis], columns: list[_Axis], moved: list[int]
) -> MatrixPart:
    all_axes = [*rows, *columns]
    shape = tuple(length for length, _ in all_axes)
    frame = Frame(shape, tuple(range(len(rows))), tuple(range(len(rows), len(all_axes))))
    return MatrixPart(
        frame,
        {
            key: TensorPlace(
                tensor.storage,
                shape,
                tuple((step[at],) for _, step in all_axes),
                (tensor.offset[0] + moved[at],),
            )
            for at, (key, tensor) in enumerate(places.items())
        },
    )


def _walked_axes(rows: list[_Axis], *, is_counted: bool) -> int:
    """The count of outer axes of rows that are walked one by one.

    0 where all rows fit on the partitions, with a transfer for each of them.
    """
    if _size(rows) <= P and not is_counted:
        return 0
    return max(len(rows) - 1, 0)


def _spaces(along: list[_Axis], piece: int) -> Iterator[_Space]:
    """Spaces that cover all elements; elements that fill no 128 rows are a space of their own."""
    if not along:
        yield [], [], 0
    elif len(along) == 1 and set(along[0][1]) <= {0, 1}:
        yield from _spread_axis(along[0], piece)
    else:
        yield (*_split(along, piece), 0)


def _spread_axis(axis: _Axis, piece: int) -> Iterator[_Space]:
    """One long axis over 128 rows, or as many as divide it; the rest in a row of its own.

    An axis of more than one tile is cut into rows of a tile's width, so that each tile is one
    stretch of HBM.
    """
    length, step = axis
    rows, rest = divmod(length, piece)
    start = 0
    if rows > P:
        yield _rows(rows, piece, step, 0)
        start, length = rows * piece, rest
    even = (rows for rows in range(P, P - P // 8, -1) if length % rows == 0)
    rows = next(even, P) if length >= P else P
    columns, rest = divmod(length, rows)
    if columns:
        yield _rows(rows, columns, step, start)
    if rest:
        yield _rows(1, rest, step, start + rows * columns)


def _rows(rows: int, columns: int, step: _Steps, first: int) -> _Space:
    return [(rows, _scale_steps(step, columns))], [(columns, step)], first


def _scale_steps(step: _Steps, number: int) -> _Steps:
    return tuple(stride * number for stride in step)


def _split(along: list[_Axis], piece: int) -> tuple[list[_Axis], list[_Axis]]:
    """Rows and columns: as many last axes as suit a tile, part of the last one if rows are few."""
    columns, number = 1, len(along)
    while columns < len(along) - 1 and _size(along[-columns - 1 :]) <= piece:
        columns += 1
    along = _fill_rows(along, columns, piece)
    columns += len(along) - number
    rows, (length, step) = along[:-columns], along[-1]
    if length > piece and _size(rows) < P:
        inner = max(n for n in range(1, piece + 1) if length % n == 0)
        rows = [*rows, (length // inner, _scale_steps(step, inner))]
        along = [*along[:-1], (inner, step)]
    # The longest axis of rows fills the partitions best; others are walked one by one.
    return sorted(rows, key=lambda axis: axis[0]), along[-columns:]


def _size(along: Sequence[_Axis]) -> int:
    return prod(length for length, _ in along)


def _fill_rows(along: list[_Axis], columns: int, piece: int) -> list[_Axis]:
    """The axes, part of the last row axis split off where that makes fewer tiles."""
    width = _size(along[-columns:])
    place = len(along) - columns - 1
    if place < 0 or width >= _FEW_COLUMNS:
        return along
    length, step = along[place]
    others = [length for length, _ in along[:place]]

    def tiles_with(inner: int) -> int:
        lengths = [*others, length // inner]
        return prod(lengths) // max(lengths) * -(-max(lengths) // P)

    divisors = [n for n in range(1, piece // width + 1) if length % n == 0]
    inner = min(divisors, key=tiles_with)
    if inner == 1:
        return along
    outer = (length // inner, _scale_steps(step, inner))
    return [*along[:place], outer, (inner, step), *along[place + 1 :]]
