"""Iteration spaces of computations from HBM to HBM, as matrices.

Elementwise computations may visit elements in any order. Neighbouring dimensions become one if the
elements of each tensor lie at an even stride over both. A long vector is cut into rows, and rows
are joined or cut until they fill the partitions and suit an instruction.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod
from typing import Any, Final

from trnsim.lower.emit.computing.leaves import NEAR_STRIDE, select_dims
from trnsim.lower.emit.places.tensor_place import TensorPlace, merge_axes
from trnsim.lower.emit.places.walk import MANY_TRANSFERS, Frame, axes_along, count_transfers
from trnsim.lower.kernels.short_rows import LONGEST_SHORT_ROW
from trnsim.lower.kernels.tiles import P

_FEW_COLUMNS: Final = 512
"""With fewer columns in a tile, the fixed cost of instructions dominates."""
_MANY_BLOCKS: Final = 16
"""With more blocks of short rows than this, their transfers outweigh those of a remainder."""

_Steps = tuple[int, ...]
_Axis = tuple[int, _Steps]
"""A length, and the stride of each tensor in elements, 0 for a tensor that repeats."""
_Space = tuple[list[_Axis], list[_Axis], _Steps]
"""Axes along the partitions, axes along the columns, and the offset of each tensor's first element.

The offsets are empty if all are 0.
"""


@dataclass(frozen=True, slots=True)
class MatrixPart:
    """A part of an iteration space as a matrix.

    Attributes:
        places: the place of each tensor, in the matrix's shape.
    """

    frame: Frame
    places: dict[Any, TensorPlace]


@dataclass(frozen=True, slots=True)
class RowsPart(MatrixPart):
    """A part of an iteration space as a matrix with several whole rows on each partition.

    Attributes:
        counted: the number of the frame's first column axes that count the rows of a partition.
    """

    counted: int


def matrix_parts(places: Mapping[Any, TensorPlace], piece: int) -> list[MatrixPart]:
    """The matrices that cover tensors of one shape in HBM; rows have at most `piece` elements."""
    shape, steps = _shape_and_steps(places)
    is_counted = any(tensor.is_generated for tensor in places.values())
    return [
        part
        for space in _spaces(merge_axes(shape, steps), piece)
        for part in _parts_of(space, places, is_counted=is_counted)
    ]


def row_parts(places: Mapping[Any, TensorPlace], outer: int, piece: int) -> list[RowsPart]:
    """The matrices that cover tensors of one shape in HBM, with several whole rows on a partition.

    A row has the dimensions from number `outer` on. Each partition has at least `piece` elements of
    a matrix, unless the tensors are too small.
    """
    shape, steps = _shape_and_steps(places)
    row = merge_axes(shape[outer:], steps[outer:])
    rows_of_piece = -(-piece // _count_elements(row))
    along = merge_axes(shape[:outer], steps[:outer])
    is_even = len(along) == 1
    spaces = _spread_axis(along[0], rows_of_piece) if is_even else _spaces(along, rows_of_piece)
    return [
        RowsPart(part.frame, part.places, len(columns))
        for rows, columns, first in spaces
        for part in _parts_of((rows, [*columns, *row], first), places)
    ]


def _shape_and_steps(places: Mapping[Any, TensorPlace]) -> tuple[tuple[int, ...], list[_Steps]]:
    """The shape that the tensors share, and for each dimension the stride of each tensor."""
    tensors = list(places.values())
    shape = tensors[0].shape
    return shape, [tuple(tensor.steps[dim][0] for tensor in tensors) for dim in range(len(shape))]


def _parts_of(
    space: _Space, places: Mapping[Any, TensorPlace], *, is_counted: bool = False
) -> Iterator[MatrixPart]:
    """The matrices of a space, one for each index of the axes that `_walked_axes` counts."""
    rows, columns, first = space
    outer = _walked_axes(rows, is_counted=is_counted)
    for index in product(*(range(length) for length, _ in rows[:outer])):
        offsets = [
            sum(i * step[at] for i, (_, step) in zip(index, rows, strict=False))
            + (first[at] if first else 0)
            for at in range(len(places))
        ]
        yield _matrix_part(places, rows[outer:], columns, offsets)


def is_near(part: MatrixPart, keys: Iterable[Any]) -> bool:
    """True if the elements of the tensors `keys` lie so near each other that transfers are fast.

    Elements that are repeated along columns are loaded once.
    """
    for place in (part.places[key] for key in keys):
        frame = part.frame
        last_axes = axes_along(place, frame.f_dims)[-1:]
        is_far = bool(last_axes) and last_axes[0][1][0] > NEAR_STRIDE
        moving = [dim for dim in frame.f_dims if any(place.steps[dim])]
        part_place, part_frame = place, frame
        if moving:
            part_place, part_frame = select_dims(place, frame, (*frame.p_dims, *moving))
        if not place.is_generated and (
            is_far or count_transfers(part_place, part_frame) > MANY_TRANSFERS
        ):
            return False
    return True


def _matrix_part(
    places: Mapping[Any, TensorPlace], rows: list[_Axis], columns: list[_Axis], offsets: list[int]
) -> MatrixPart:
    """The matrix over some axes, with the offset of each tensor's first element."""
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
                (tensor.offset[0] + offsets[at],),
            )
            for at, (key, tensor) in enumerate(places.items())
        },
    )


def _walked_axes(rows: list[_Axis], *, is_counted: bool) -> int:
    """The number of outer row axes whose indices each have a matrix of their own.

    0 if all rows fit on the partitions. `is_counted` says that a tensor counts its elements; then
    the partitions of a matrix have one axis, as those of the instruction iota have one step.
    """
    if _count_elements(rows) <= P and not is_counted:
        return 0
    return max(len(rows) - 1, 0)


def _spaces(along: list[_Axis], piece: int) -> Iterator[_Space]:
    """Spaces that cover all elements; a remainder of less than 128 rows is a space of its own."""
    if not along:
        yield [], [], ()
        return
    if len(along) == 1 and set(along[0][1]) <= {0, 1}:
        yield from _spread_axis(along[0], piece)
        return
    rows, columns = _row_and_column_axes(along, piece)
    axis, *row = along
    if len(row) == len(rows) == 1 and _are_many_short_rows(rows[0][0], _count_elements(columns)):
        for spread_rows, counted, first in _spread_axis(axis, piece // row[0][0]):
            yield spread_rows, [*counted, *row], first
    else:
        yield rows, columns, ()


def _are_many_short_rows(rows: int, width: int) -> bool:
    """True for so many short rows that they fill 128 partitions, and a remainder stays."""
    return rows > _MANY_BLOCKS * P and width <= LONGEST_SHORT_ROW


def _spread_axis(axis: _Axis, piece: int) -> Iterator[_Space]:
    """The spaces of one long axis: 128 rows, or a few less that divide it, and one for the rest.

    An axis of more than one tile is first cut into rows of `piece` elements, so that each tile is
    one stretch of HBM.
    """
    length, step = axis
    rows, remainder = divmod(length, piece)
    start = 0
    if rows > P:
        yield _spread_rows(rows, piece, step, 0)
        start, length = rows * piece, remainder
    divisors = (rows for rows in range(P, P - P // 8, -1) if length % rows == 0)
    rows = next(divisors, P) if length >= P else P
    columns, remainder = divmod(length, rows)
    if columns:
        yield _spread_rows(rows, columns, step, start)
    if remainder:
        yield _spread_rows(1, remainder, step, start + rows * columns)


def _spread_rows(rows: int, columns: int, step: _Steps, first: int) -> _Space:
    """A stretch of an axis from element `first` on, as rows of `columns` elements."""
    return [(rows, _scale_steps(step, columns))], [(columns, step)], _scale_steps(step, first)


def _scale_steps(step: _Steps, number: int) -> _Steps:
    return tuple(stride * number for stride in step)


def _row_and_column_axes(axes: list[_Axis], piece: int) -> tuple[list[_Axis], list[_Axis]]:
    """Row axes and column axes; as many last axes as a tile of `piece` elements holds are columns.

    If the last axis is longer than a tile and rows are few, the columns are a part of it.
    """
    columns, number = 1, len(axes)
    while columns < len(axes) - 1 and _count_elements(axes[-columns - 1 :]) <= piece:
        columns += 1
    axes = _fill_rows(axes, columns, piece)
    columns += len(axes) - number
    rows, (length, step) = axes[:-columns], axes[-1]
    if length > piece and _count_elements(rows) < P:
        inner = max(n for n in range(1, piece + 1) if length % n == 0)
        rows = [*rows, (length // inner, _scale_steps(step, inner))]
        axes = [*axes[:-1], (inner, step)]
    # The longest row axis fills the partitions best; each element of the others is a matrix.
    return sorted(rows, key=lambda axis: axis[0]), axes[-columns:]


def _count_elements(along: Sequence[_Axis]) -> int:
    """The number of elements over some axes."""
    return prod(length for length, _ in along)


def _fill_rows(along: list[_Axis], columns: int, piece: int) -> list[_Axis]:
    """The axes, with a part of the last row axis moved to the columns if that makes fewer tiles."""
    width = _count_elements(along[-columns:])
    last_row_axis = len(along) - columns - 1
    if last_row_axis < 0 or width >= _FEW_COLUMNS:
        return along
    length, step = along[last_row_axis]
    others = [length for length, _ in along[:last_row_axis]]

    def tiles_with(inner: int) -> int:
        lengths = [*others, length // inner]
        return prod(lengths) // max(lengths) * -(-max(lengths) // P)

    divisors = [n for n in range(1, max(piece // width, 1) + 1) if length % n == 0]
    inner = min(divisors, key=tiles_with)
    if inner == 1:
        return along
    outer = (length // inner, _scale_steps(step, inner))
    return [*along[:last_row_axis], outer, (inner, step), *along[last_row_axis + 1 :]]
