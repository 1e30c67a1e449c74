"""The iteration space of a fused kernel: rows and columns, as few axes as its tensors allow."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Final

from trnsim.graph import Value
from trnsim.graph.ops.layout import View
from trnsim.graph.ops.leaves import Iota
from trnsim.graph.types import Shape, dense
from trnsim.lower.fusion import Group
from trnsim.lower.kernels.tiles import P

PIECE: Final = 2048
"""Columns of a tile: long enough to hide the fixed cost of an instruction."""

_FEW_COLUMNS: Final = 512
"""Columns of a tile below which the fixed cost of its instructions shows."""

Strides = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Axis:
    """A dimension of the space.

    Attributes:
        length: how many steps it has.
        steps: for each tensor in HBM, by number, how many elements one step moves; 0 repeats.
    """

    length: int
    steps: dict[int, int]


@dataclass(frozen=True, slots=True)
class Space:
    """Rows, which are independent, times columns, over which reductions run.

    Attributes:
        rows: the outer axes; the last one is laid along the partitions.
        columns: the inner axes.
        offset: the element at which the space starts in every tensor.
    """

    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    offset: int = 0


def spaces(group: Group) -> list[Space]:
    """The space of a group; without reductions also that of what does not fill 128 rows."""
    strides = _strides(group)
    first_column = len(group.shape) - group.columns
    rows = _axes(range(first_column), group.shape, strides)
    nothing = Axis(1, dict.fromkeys(strides, 0))
    if group.columns:
        columns = _axes(range(first_column, len(group.shape)), group.shape, strides)
        return [Space(tuple(rows) or (nothing,), tuple(columns) or (nothing,))]
    if not rows:
        return [Space((nothing,), (nothing,))]
    if len(rows) == 1 and set(rows[0].steps.values()) <= {0, 1}:
        return _spread(rows[0])
    return [_split(rows)]


def _axes(dims: Iterable[int], shape: Shape, strides: dict[int, Strides]) -> list[Axis]:
    """The dimensions as axes: neighbours are one where every tensor steps through them evenly."""
    found: list[Axis] = []
    for dim in dims:
        length, steps = shape[dim], {n: s[dim] for n, s in strides.items()}
        if length == 1:
            continue
        last = found[-1] if found else None
        if last is not None and all(last.steps[n] == step * length for n, step in steps.items()):
            found[-1] = Axis(last.length * length, steps)
        else:
            found.append(Axis(length, steps))
    return found


def _spread(axis: Axis) -> list[Space]:
    """One long axis over 128 rows, and what remains in a row of its own.

    What fills more than one tile is cut into rows of a tile's width, so that each tile is one
    stretch of HBM.
    """
    rows, rest = axis.length // PIECE, axis.length % PIECE
    if rows <= P:
        return _over_lanes(axis, 0)
    found = [_rows(axis, rows, PIECE, 0)]
    return found + (_over_lanes(Axis(rest, axis.steps), rows * PIECE) if rest else [])


def _over_lanes(axis: Axis, offset: int) -> list[Space]:
    """An axis over 128 rows, and what remains in a row of its own."""
    columns, rest = axis.length // P, axis.length % P
    found = [_rows(axis, P, columns, offset)] if columns else []
    return found + ([_rows(axis, 1, rest, offset + P * columns)] if rest else [])


def _rows(axis: Axis, rows: int, columns: int, offset: int) -> Space:
    """Part of an axis as so many rows."""
    across = {n: step * columns for n, step in axis.steps.items()}
    return Space((Axis(rows, across),), (Axis(columns, axis.steps),), offset)


def _split(axes: list[Axis]) -> Space:
    """Rows and columns: as many last axes as make a good tile, part of the last if rows are few."""
    nothing = Axis(1, dict.fromkeys(axes[-1].steps, 0))
    columns, number = 1, len(axes)
    while columns < len(axes) - 1 and prod(a.length for a in axes[-columns - 1 :]) <= PIECE:
        columns += 1
    axes = _filled_up(axes, columns)
    columns += len(axes) - number
    rows, last = axes[:-columns], axes[-1]
    if last.length > PIECE and prod(axis.length for axis in rows) < P:
        inner = max(n for n in range(1, PIECE + 1) if last.length % n == 0)
        rows.append(Axis(last.length // inner, {n: s * inner for n, s in last.steps.items()}))
        axes = [*axes[:-1], Axis(inner, last.steps)]
    # The longest axis of rows fills the partitions best.
    rows.sort(key=lambda axis: axis.length)
    return Space(tuple(rows) or (nothing,), tuple(axes[-columns:]))


def _filled_up(axes: list[Axis], columns: int) -> list[Axis]:
    """The axes, part of the last one of the rows split off where that makes fewer tiles."""
    width = prod(axis.length for axis in axes[-columns:])
    place = len(axes) - columns - 1
    if place < 0 or width >= _FEW_COLUMNS:
        return axes
    row, others = axes[place], [axis.length for axis in axes[:place]]

    def tiles_with(inner: int) -> int:
        lengths = [*others, row.length // inner]
        return prod(lengths) // max(lengths) * -(-max(lengths) // P)

    divisors = [n for n in range(1, PIECE // width + 1) if row.length % n == 0]
    inner = min(divisors, key=tiles_with)
    if inner == 1:
        return axes
    outer = Axis(row.length // inner, {n: s * inner for n, s in row.steps.items()})
    return [*axes[:place], outer, Axis(inner, row.steps), *axes[place + 1 :]]


def _strides(group: Group) -> dict[int, Strides]:
    """Element strides over the group's shape of every tensor that it reads or writes in HBM."""
    made, rank = group.made, len(group.shape)
    found: dict[int, Strides] = {}
    for node in group.nodes:
        operation = node.operation
        if isinstance(operation, Iota):
            # A tensor whose element at place i holds i: its steps say what to count.
            found[node.result.number] = tuple(int(dim == operation.dim) for dim in range(rank))
        elif not isinstance(operation, View):
            reads = [value for value in node.values if value.number not in made]
            found.update({value.number: _of_space(value, group) for value in reads})
        elif node.values[0].number not in made:
            steps = operation.steps(node.values[0].shape)
            found[node.result.number] = (*steps, *(0,) * (rank - len(steps)))
    written = {-1 - value.number: _of_space(value, group) for value in group.outputs}
    return found | written


def first_elements(group: Group) -> dict[int, int]:
    """For each view of HBM, the element of its operand at which it begins."""
    return {
        node.result.number: node.operation.first(node.values[0].shape)
        for node in group.nodes
        if isinstance(node.operation, View)
    }


def _of_space(value: Value, group: Group) -> Strides:
    """The strides of a tensor that has the group's shape, or that of its rows."""
    steps = dense(value.shape)
    return steps if value.shape == group.shape else (*steps, *(0,) * group.columns)
